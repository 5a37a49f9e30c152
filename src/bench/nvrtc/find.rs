//! Which libnvrtc is the toolkit's: by folder and soname, never by the loader's path, on which another version may
//! come first.

use std::path::PathBuf;

use crate::bench::loaded;
use crate::model::version::Version;

/// Folders below a toolkit's root, best first: installers' and images', NVIDIA's Python packages up to 12.x and from
/// 13 on, and distributions'.
const FOLDERS: [&str; 7] = [
    "lib64",
    "targets/x86_64-linux/lib",
    "lib",
    "nvidia/cuda_nvrtc/lib",
    "nvidia/cu13/lib",
    "nvidia/cu14/lib",
    "lib/x86_64-linux-gnu",
];

/// Where the library is, and its companion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) struct Found {
    /// libnvrtc.
    pub(super) library: PathBuf,
    /// libnvrtc-builtins, which NVRTC opens by name while it compiles.
    pub(super) builtins: Option<PathBuf>,
}

/// There is no such file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {soname} under {roots}")]
pub(in crate::bench) struct NotFound {
    soname: String,
    roots: String,
}

/// Looks below `roots` for the NVRTC of `version`.
pub(in crate::bench) fn find(roots: &[PathBuf], version: Version) -> Result<Found, NotFound> {
    let soname = soname(version.major);
    let folders = roots.iter().flat_map(|root| FOLDERS.iter().map(move |folder| root.join(folder)));
    for folder in folders {
        let library = folder.join(&soname);
        if library.is_file() {
            let builtins = Some(folder.join(format!("libnvrtc-builtins.so.{version}"))).filter(|path| path.is_file());
            return Ok(Found { library, builtins });
        }
    }
    Err(NotFound { soname, roots: loaded::list(roots) })
}

/// The name under which a major version's library is installed. 11's minor was frozen at 2.
fn soname(major: u16) -> String {
    if major == 11 { "libnvrtc.so.11.2".into() } else { format!("libnvrtc.so.{major}") }
}
