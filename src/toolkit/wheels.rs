//! A toolkit from NVIDIA's Python packages, unpacked into the cache: complete or not at all.
//! The main types are [`Wheels`] (what the catalogue knows of a version) and [`Pin`] (one wheel).

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::entry::{Entry, MANIFEST, MANIFEST_SCHEMA, Manifest};
use super::error::ProvisionError;
use super::lock::{self, Lock, Tried};
use super::pip::Pip;
use super::staging::Staging;
use super::tree;
use crate::compat::catalogue::{ToolkitFacts, WheelPin};
use crate::model::event::ProvisionStep;
use crate::model::matrix::Toolkit;
use crate::model::path::Family;
use crate::model::place::{Place, Provisioned};
use crate::model::record::{Source, SourceKind};
use crate::model::version::Version;

/// The processor that the pinned wheels are for.
const PROCESSOR: &str = "x86_64";

/// Disk used while wheels are unpacked, as a multiple of their size: the files themselves and what is in them. Measured:
/// 23.4 MB hold 62.6 MB for 12.0 (together 3.7 times), 192 MB hold 493 MB for 13.0 (3.6 times).
pub(crate) const UNPACKED: u64 = 4;

/// One wheel, pinned to its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// `nvidia-cuda-nvrtc-cu12`.
    pub name: String,
    /// `12.6.85`.
    pub version: String,
    /// The wheel's size.
    pub bytes: u64,
    /// The SHA-256 of its bytes.
    pub sha256: String,
}

impl Pin {
    /// `nvidia-cuda-nvrtc-cu12==12.6.85`.
    pub(crate) fn requirement(&self) -> String {
        format!("{}=={}", self.name, self.version)
    }

    /// The line of a requirements file.
    pub(crate) fn requirement_line(&self) -> String {
        format!("{} --hash=sha256:{}", self.requirement(), self.sha256)
    }
}

/// What the catalogue knows of the wheels of one toolkit version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wheels {
    /// The toolkit's version.
    pub version: Version,
    /// The wheels.
    pub pins: Vec<Pin>,
    /// Whether nvcc is in them.
    pub nvcc: bool,
    /// The file name of the library that must be in them: `libnvrtc.so.12`.
    pub nvrtc: String,
}

impl Wheels {
    /// The size of the wheels.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pins.iter().map(|pin| pin.bytes).sum()
    }

    /// Bytes to fetch: 0 if the cache has them.
    #[must_use]
    pub fn download_size(&self, cache: &Cache) -> u64 {
        if self.is_cached(cache) { 0 } else { self.bytes() }
    }

    /// Whether the cache has them, complete.
    #[must_use]
    pub fn is_cached(&self, cache: &Cache) -> bool {
        Entry::new(cache, self).complete(self).is_some()
    }
}

impl From<&ToolkitFacts> for Wheels {
    /// What the catalogue pins.
    fn from(facts: &ToolkitFacts) -> Self {
        let pin = |pin: &WheelPin| Pin {
            name: pin.package.clone(),
            version: pin.version.clone(),
            bytes: pin.bytes,
            sha256: pin.sha256.clone(),
        };
        Self {
            version: facts.version,
            pins: facts.wheels().into_iter().map(pin).collect(),
            nvcc: facts.wheels_carry_nvcc(),
            nvrtc: facts.nvrtc.soname.clone(),
        }
    }
}

/// One line of `ctk-matrix toolkit list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The toolkit's version.
    pub version: Version,
    /// Whether the cache has it.
    pub cached: bool,
    /// The size of its wheels, cached or not.
    pub bytes: u64,
    /// Whether nvcc is in them.
    pub nvcc: bool,
}

/// What could be had from wheels, and what is there already.
#[must_use]
pub fn listed(cache: &Cache, all: &[Wheels]) -> Vec<Listed> {
    let line = |wheels: &Wheels| Listed {
        version: wheels.version,
        cached: wheels.is_cached(cache),
        bytes: wheels.bytes(),
        nvcc: wheels.nvcc,
    };
    all.iter().map(line).collect()
}

/// Puts a toolkit's wheels into the cache, unless they are there, and says where.
///
/// A complete entry is used without a lock and without writing. Else one run makes it, in a staging folder that is
/// renamed at the end, and others wait for it.
pub(crate) async fn provision_wheels(
    toolkit: &Toolkit,
    wheels: &Wheels,
    cache: &Cache,
    pip: &Pip,
    progress: &(dyn Fn(ProvisionStep) + Send + Sync),
    note: &(dyn Fn(String) + Send + Sync),
) -> Result<Provisioned, ProvisionError> {
    let entry = Entry::new(cache, wheels);
    if let Some(manifest) = entry.complete(wheels) {
        return Ok(provisioned(toolkit, wheels, &entry, &manifest));
    }
    if wheels.pins.is_empty() {
        return Err(ProvisionError::NoPins { version: wheels.version });
    }
    if std::env::consts::ARCH != PROCESSOR {
        return Err(ProvisionError::OtherProcessor { arch: std::env::consts::ARCH.into() });
    }
    cache.make()?;
    let locked = |error: std::io::Error| cache.error(&entry.lock, wheels.bytes(), &error);
    let _lock = match lock::open(&entry.lock).and_then(Lock::attempt).map_err(locked)? {
        Tried::Held(lock) => lock,
        Tried::Busy(file) => {
            note(format!("toolkit {}: another run downloads it, waiting for that", wheels.version));
            Lock::wait(file).await.map_err(locked)?
        }
    };
    let manifest = match entry.complete(wheels) {
        Some(manifest) => manifest,
        None => make(wheels, &entry, cache, pip, progress).await?,
    };
    Ok(provisioned(toolkit, wheels, &entry, &manifest))
}

/// Makes the entry. The caller holds its lock.
async fn make(
    wheels: &Wheels,
    entry: &Entry,
    cache: &Cache,
    pip: &Pip,
    progress: &(dyn Fn(ProvisionStep) + Send + Sync),
) -> Result<Manifest, ProvisionError> {
    let total = wheels.bytes();
    let needed = UNPACKED * total;
    progress(ProvisionStep::Started { bytes: Some(total) });
    let staging = Staging::create(cache).map_err(|error| cache.error(&cache.staging(), needed, &error))?;
    let failed = |error: std::io::Error| cache.error(staging.path(), needed, &error);
    let lines: Vec<_> = wheels.pins.iter().map(Pin::requirement_line).collect();
    fs::create_dir(staging.path().join("tmp")).map_err(failed)?;
    fs::write(staging.path().join("requirements.txt"), lines.join("\n") + "\n").map_err(failed)?;

    // Unpacking makes more of the bytes, and removing the wheels makes less: the bar stops at the wheels' size.
    let most = std::sync::atomic::AtomicU64::new(0);
    let tick = |size: u64| {
        let done = size.min(total);
        if most.fetch_max(done, std::sync::atomic::Ordering::Relaxed) < done {
            progress(ProvisionStep::Progress { done });
        }
    };
    let full = ProvisionError::DiskFull { folder: cache.root().into(), needed };
    pip.install(staging.path(), &wheels.pins, &tick, full).await?;

    let made = staging.path().join("tree");
    let tree = made.clone();
    let walked = tokio::task::spawn_blocking(move || tree::finish(&tree))
        .await
        .unwrap_or_else(|error| Err(std::io::Error::other(error.to_string())))
        .map_err(failed)?;
    let mut wanted = vec![wheels.nvrtc.as_str()];
    wanted.extend(wheels.nvcc.then_some("nvcc"));
    for name in wanted {
        if !walked.files.keys().any(|path| Path::new(path).file_name().is_some_and(|file| file == name)) {
            return Err(ProvisionError::Incomplete { version: wheels.version, file: name.into() });
        }
    }
    let manifest = Manifest {
        schema: MANIFEST_SCHEMA,
        version: wheels.version,
        pins: wheels.pins.clone(),
        bytes: walked.bytes,
        files: walked.files,
    };
    place(&manifest, &made, entry, wheels, &staging).map_err(failed)?;
    Ok(manifest)
}

/// Writes the manifest and moves the tree to its place; what lies there is not complete and goes.
fn place(manifest: &Manifest, made: &Path, entry: &Entry, wheels: &Wheels, staging: &Staging) -> std::io::Result<()> {
    let path = made.join(MANIFEST);
    fs::write(&path, serde_json::to_vec_pretty(manifest)?)?;
    fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    if fs::symlink_metadata(&entry.folder).is_ok() {
        fs::rename(&entry.folder, staging.path().join("replaced"))?;
    }
    fs::rename(made, &entry.folder).or_else(|error| {
        // Where the file system knows no locks, another run may have been first.
        if entry.complete(wheels).is_some() { Ok(()) } else { Err(error) }
    })
}

fn provisioned(toolkit: &Toolkit, wheels: &Wheels, entry: &Entry, manifest: &Manifest) -> Provisioned {
    let mut absent = Vec::new();
    if !wheels.nvcc {
        let reason =
            format!("NVIDIA's {}.x wheels carry no nvcc: name a `dir` or a -devel- image", wheels.version.major);
        absent.push((Family::Nvcc, reason));
    }
    let requirements: Vec<_> = wheels.pins.iter().map(Pin::requirement).collect();
    Provisioned {
        toolkit: toolkit.clone(),
        source: Source { kind: SourceKind::Wheels, reference: requirements.join(" "), digest: None, image: None },
        place: Place::Userland,
        dir: Some(entry.folder.clone()),
        roots: roots(wheels, manifest).into_iter().map(|root| entry.folder.join(root)).collect(),
        hashes: manifest.files.iter().map(|(path, facts)| (entry.folder.join(path), facts.sha256.clone())).collect(),
        absent,
        notes: vec!["wheels, not NVIDIA's image".into()],
    }
}

/// The folders that are laid out as a toolkit is: `nvidia/cu13`, or one for each 12.x wheel, NVRTC's first.
fn roots(wheels: &Wheels, manifest: &Manifest) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = Vec::new();
    for path in manifest.files.keys() {
        let root: PathBuf = Path::new(path).components().take(2).collect();
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    let holds = |root: &PathBuf| {
        let library = |path: &String| Path::new(path).starts_with(root) && path.ends_with(&wheels.nvrtc);
        manifest.files.keys().any(library)
    };
    roots.sort_by_key(|root| !holds(root));
    roots
}
