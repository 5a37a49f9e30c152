//! A toolkit that is a folder laid out as `/usr/local/cuda` is. The main function is `provisioned`; it holds what lies
//! there against the version that the entry claims.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use serde::Deserialize;

use super::error::cause;
use crate::model::matrix::Toolkit;
use crate::model::place::{Place, Provisioned};
use crate::model::record::{Source, SourceKind};
use crate::model::version::Version;

/// Where libraries lie in a toolkit folder: NVIDIA's installers, wheels of 13.x and conda, the cross-compiling layout.
const LIBRARY_FOLDERS: [&str; 3] = ["lib64", "lib", "targets/x86_64-linux/lib"];

/// Why a folder is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirError {
    /// It cannot be looked at.
    #[error("the toolkit folder `{}` cannot be used ({cause}): correct `dir` in the matrix", dir.display())]
    Unusable {
        /// The folder as the matrix has it.
        dir: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// It is no toolkit.
    #[error(
        "`{}` holds neither bin/nvcc nor libnvrtc below lib64 or lib: name a folder laid out as /usr/local/cuda is",
        dir.display()
    )]
    NoToolkit {
        /// The folder as the matrix has it.
        dir: PathBuf,
    },
    /// It is another toolkit.
    #[error(
        "`{}` holds toolkit {found} ({by}), and its entry says {claimed}: correct `version` or `dir` in the matrix",
        dir.display()
    )]
    OtherVersion {
        /// The folder as the matrix has it.
        dir: PathBuf,
        /// The entry's version.
        claimed: Version,
        /// The version found.
        found: Version,
        /// The file that says so.
        by: String,
    },
}

/// Checks the folder and says what is in it. `dir` is absolute: the caller resolves it against the matrix file's folder.
pub(crate) fn provisioned(toolkit: &Toolkit, dir: &Path) -> Result<Provisioned, super::ProvisionError> {
    let unusable = |cause: String| DirError::Unusable { dir: dir.into(), cause };
    if !dir.is_absolute() {
        return Err(unusable("the path is not absolute".into()).into());
    }
    // `/usr/local/cuda` is a link, often by way of /etc/alternatives; a bind mount is made of what it means.
    let root = fs::canonicalize(dir).map_err(|error| unusable(cause(&error)))?;
    fs::read_dir(&root).map_err(|error| unusable(cause(&error)))?;
    let libraries = libraries(&root);
    let nvrtc = libraries.iter().find(|path| file_name(path).starts_with("libnvrtc.so."));
    let nvcc = Some(root.join("bin/nvcc")).filter(|path| path.is_file());
    if nvrtc.is_none() && nvcc.is_none() {
        return Err(DirError::NoToolkit { dir: dir.into() }.into());
    }
    let mut notes = Vec::new();
    match version(&root, &libraries) {
        Some((found, by)) if found != toolkit.version => {
            return Err(DirError::OtherVersion { dir: dir.into(), claimed: toolkit.version, found, by }.into());
        }
        Some(_) => {}
        None => notes.push(format!("{}: nothing in `{}` says which version it is", toolkit.name, dir.display())),
    }
    for (what, path) in [("libnvrtc", nvrtc), ("bin/nvcc", nvcc.as_ref())] {
        match path.map(|path| (path, fs::canonicalize(path))) {
            None => notes.push(format!("{}: `{}` holds no {what}", toolkit.name, dir.display())),
            Some((_, Ok(target))) if target.starts_with(&root) => {}
            Some((path, _)) => notes.push(format!(
                "{}: `{}` is a link that leads out of the folder, where a container may not find it",
                toolkit.name,
                path.display()
            )),
        }
    }
    Ok(Provisioned {
        toolkit: toolkit.clone(),
        source: Source { kind: SourceKind::Dir, reference: dir.display().to_string(), digest: None, image: None },
        place: Place::Userland,
        dir: Some(root.clone()),
        roots: vec![root],
        hashes: std::collections::BTreeMap::new(),
        absent: Vec::new(),
        notes,
    })
}

/// The NVRTC libraries that can be opened: a dangling link is none.
fn libraries(root: &Path) -> Vec<PathBuf> {
    let folders = LIBRARY_FOLDERS.iter().filter_map(|folder| fs::read_dir(root.join(folder)).ok());
    let mut found: Vec<PathBuf> = folders.flat_map(|entries| entries.flatten().map(|entry| entry.path())).collect();
    found.retain(|path| file_name(path).starts_with("libnvrtc") && path.is_file());
    found.sort();
    found
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

#[derive(Deserialize)]
struct VersionFile {
    cuda: Component,
}

#[derive(Deserialize)]
struct Component {
    version: String,
}

/// The toolkit's version and what says so: `version.json`, else a library's file name.
fn version(root: &Path, libraries: &[PathBuf]) -> Option<(Version, String)> {
    let said = fs::read(root.join("version.json")).ok();
    let said: Option<VersionFile> = said.and_then(|text| serde_json::from_slice(&text).ok());
    if let Some(version) = said.and_then(|said| major_minor(&said.cuda.version)) {
        return Some((version, "version.json".into()));
    }
    // `libnvrtc-builtins.so.12.4` always has both numbers, `libnvrtc.so.12` only where the full name is there.
    libraries.iter().find_map(|path| {
        let name = file_name(path);
        let numbers = name.strip_prefix("libnvrtc-builtins.so.").or_else(|| name.strip_prefix("libnvrtc.so."))?;
        Some((major_minor(numbers)?, name.to_owned()))
    })
}

/// The first two numbers of `12.4.131`.
pub(super) fn major_minor(text: &str) -> Option<Version> {
    let (major, rest) = text.split_once('.')?;
    Version::from_str(&format!("{major}.{}", rest.split('.').next()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::matrix::ToolkitSource;
    use crate::toolkit::ProvisionError;

    struct Scene {
        scratch: tempfile::TempDir,
    }

    impl Scene {
        fn with(files: &[(&str, &str)]) -> Self {
            let scene = Self { scratch: tempfile::tempdir().unwrap() };
            for (path, text) in files {
                let path = scene.dir().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            scene
        }

        fn dir(&self) -> PathBuf {
            fs::canonicalize(self.scratch.path()).unwrap().join("cuda-12.4")
        }

        fn look(dir: &Path) -> Result<Provisioned, ProvisionError> {
            let source = ToolkitSource::Dir(dir.into());
            provisioned(&Toolkit { name: "t".into(), version: Version::new(12, 4), source, base: None }, dir)
        }

        fn error(&self) -> String {
            Self::look(&self.dir()).unwrap_err().to_string().replace(&self.dir().display().to_string(), "DIR")
        }
    }

    #[test]
    fn a_link_to_the_folder_is_followed_and_what_is_missing_is_said() {
        let scene = Scene::with(&[("bin/nvcc", ""), ("version.json", r#"{"cuda": {"version": "12.4.131"}}"#)]);
        let link = scene.dir().with_file_name("cuda");
        std::os::unix::fs::symlink("cuda-12.4", &link).unwrap();
        let found = Scene::look(&link).unwrap();
        assert_eq!((found.dir, found.roots), (Some(scene.dir()), vec![scene.dir()]));
        assert_eq!(found.absent, []);
        assert_eq!(found.notes, [format!("t: `{}` holds no libnvrtc", link.display())]);
        assert_eq!(found.source.reference, link.display().to_string());
    }

    #[test]
    fn another_version_is_refused_by_what_says_so() {
        let scene = Scene::with(&[("bin/nvcc", ""), ("version.json", r#"{"cuda": {"version": "12.6.85"}}"#)]);
        assert_eq!(
            scene.error(),
            "`DIR` holds toolkit 12.6 (version.json), and its entry says 12.4: correct `version` or `dir` in the matrix"
        );
        for (library, by) in
            [("libnvrtc-builtins.so.12.5", true), ("libnvrtc.so.12.5.82", true), ("libnvrtc.so.12", false)]
        {
            let scene = Scene::with(&[("bin/nvcc", ""), (&format!("lib64/{library}"), "")]);
            let refused = Scene::look(&scene.dir()).is_err_and(|error| error.to_string().contains(library));
            assert_eq!(refused, by, "{library}");
        }
    }

    #[test]
    fn a_folder_that_is_no_toolkit_or_is_not_there_is_refused() {
        let scene = Scene::with(&[("lib64/libcudart.so.12", "")]);
        std::os::unix::fs::symlink("nowhere", scene.dir().join("lib64/libnvrtc.so.12")).unwrap();
        assert_eq!(
            scene.error(),
            "`DIR` holds neither bin/nvcc nor libnvrtc below lib64 or lib: name a folder laid out as /usr/local/cuda is"
        );
        fs::remove_dir_all(scene.dir()).unwrap();
        assert_eq!(
            scene.error(),
            "the toolkit folder `DIR` cannot be used (no such file or directory): correct `dir` in the matrix"
        );
        fs::write(scene.dir(), "").unwrap();
        assert!(scene.error().contains("(not a directory)"));
        assert!(Scene::look(Path::new("cuda")).unwrap_err().to_string().contains("not absolute"));
    }

    #[test]
    fn a_compiler_that_lies_elsewhere_is_noted() {
        let scene = Scene::with(&[("lib64/libnvrtc.so.12", ""), ("lib64/libnvrtc-builtins.so.12.4", "")]);
        fs::create_dir(scene.dir().join("bin")).unwrap();
        fs::write(scene.scratch.path().join("nvcc"), "").unwrap();
        std::os::unix::fs::symlink("../../nvcc", scene.dir().join("bin/nvcc")).unwrap();
        let notes = Scene::look(&scene.dir()).unwrap().notes;
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("bin/nvcc` is a link that leads out of the folder"), "{notes:?}");
    }
}
