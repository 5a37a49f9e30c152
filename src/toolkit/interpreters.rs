//! Where the Pythons of this machine lie: the system's, those in `PATH`, and those that pyenv and uv manage, whether they
//! are switched on here or not. The main functions are [`candidates`], [`series`], which run nothing, and [`answer`].

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;

/// Programs that may be a Python of this version, `3.12`, the likeliest first. The distribution's own comes first because
/// containers see it without a bind. A shim in `PATH` may stand for a Python that is not switched on, so each has to be
/// asked.
pub(super) fn candidates(version: &str) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = named(&path, version).collect();
    found.extend(env::split_paths(&path).map(|folder| folder.join("python3")));
    found.retain(|program| program.is_file());
    found.extend(managed(&Managers::here(), version));
    let mut seen = Vec::new();
    found.retain(|program| {
        !seen.contains(program) && {
            seen.push(program.clone());
            true
        }
    });
    found
}

/// The versions, `3.12`, of the Pythons that are here by their own name, oldest first. What only a `python3` is, is not
/// among them.
pub(super) fn series() -> Vec<String> {
    series_in(&env::var_os("PATH").unwrap_or_default(), &Managers::here())
}

fn series_in(path: &OsStr, managers: &Managers) -> Vec<String> {
    let here = |version: &String| {
        named(path, version).any(|program| program.is_file()) || !managed(managers, version).is_empty()
    };
    (8..=19).map(|minor| format!("3.{minor}")).filter(here).collect()
}

/// Where a Python of this version would be by its own name: the system's folders, then those of `path`.
fn named(path: &OsStr, version: &str) -> impl Iterator<Item = PathBuf> {
    let name = format!("python{version}");
    let system = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from).into_iter();
    system.chain(env::split_paths(path)).map(move |folder| folder.join(&name))
}

/// What an interpreter says to a question that it has at once. One in a folder of a network, or a shim that asks back, may
/// say nothing for ever.
pub(super) async fn answer(program: &OsStr, question: &str, limit: Duration) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(["-I", "-c", question]).stdin(Stdio::null()).kill_on_drop(true);
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {limit:?}"));
    tokio::time::timeout(limit, command.output()).await.map_err(late)?
}

/// Where pyenv and uv keep their Pythons.
struct Managers {
    pyenv: Option<PathBuf>,
    uv: Option<PathBuf>,
}

impl Managers {
    fn here() -> Self {
        let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = named("HOME");
        let below = |folder: &str| home.as_ref().map(|home| home.join(folder));
        let data = named("XDG_DATA_HOME").or_else(|| below(".local/share"));
        Self {
            pyenv: named("PYENV_ROOT").or_else(|| below(".pyenv")).map(|root| root.join("versions")),
            uv: named("UV_PYTHON_INSTALL_DIR").or_else(|| data.map(|data| data.join("uv/python"))),
        }
    }
}

/// The managed Pythons of a version, newest first: `versions/3.12.1`, `cpython-3.12.1-linux-x86_64-gnu`.
fn managed(managers: &Managers, version: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (folder, before) in [(&managers.pyenv, ""), (&managers.uv, "cpython-")] {
        let entries = folder.as_ref().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let patch = name.to_str().and_then(|name| patch(name.strip_prefix(before)?, version));
            let program = entry.path().join("bin").join(format!("python{version}"));
            if let Some(patch) = patch.filter(|_| program.is_file()) {
                found.push((patch, program));
            }
        }
    }
    found.sort();
    found.into_iter().rev().map(|(_, program)| program).collect()
}

/// The patch number of a folder's name, if it is of this version: 1 of `3.12.1-linux-x86_64-gnu`. Pre-releases and
/// free-threaded builds are others.
fn patch(name: &str, version: &str) -> Option<u32> {
    let number = name.split('-').next()?.strip_prefix(version)?.strip_prefix('.')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn an_interpreter_that_does_not_answer_is_not_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        let program = scratch.path().join("python3");
        fs::write(&program, "#!/bin/sh\nexec sleep 20\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let asked = Instant::now();
        let said = answer(program.as_os_str(), "", Duration::from_millis(200)).await.unwrap_err();
        assert_eq!(said.to_string(), "no answer within 200ms");
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    }

    #[test]
    fn what_path_names_is_among_the_versions_that_are_here() {
        let scratch = tempfile::tempdir().unwrap();
        let managers = Managers { pyenv: None, uv: None };
        let before = series_in(OsStr::new(""), &managers);
        assert!(!before.contains(&"3.19".to_owned()), "{before:?}");
        fs::write(scratch.path().join("python3.19"), "").unwrap();
        assert_eq!(series_in(scratch.path().as_os_str(), &managers), [before, vec!["3.19".into()]].concat());
    }

    #[test]
    fn managed_pythons_are_found_newest_first_and_others_are_not() {
        let scratch = tempfile::tempdir().unwrap();
        let managers = Managers { pyenv: Some(scratch.path().join("p")), uv: Some(scratch.path().join("u")) };
        let put = |folder: &str, program: &str| {
            let bin = scratch.path().join(folder).join("bin");
            fs::create_dir_all(&bin).unwrap();
            fs::write(bin.join(program), "").unwrap();
        };
        put("p/3.12.1", "python3.12");
        put("p/3.12.10", "python3.12");
        put("p/3.13.0t", "python3.13");
        put("p/3.1.2", "python3.1");
        put("p/3.12.4", "pypy");
        put("u/cpython-3.12.7-linux-x86_64-gnu", "python3.12");
        put("u/pypy-3.12.9-linux-x86_64-gnu", "python3.12");
        let names = |version| -> Vec<String> {
            let at = |program: &PathBuf| {
                program.strip_prefix(scratch.path()).unwrap().components().nth(1).unwrap().as_os_str().to_owned()
            };
            managed(&managers, version).iter().map(|program| at(program).into_string().unwrap()).collect()
        };
        assert_eq!(names("3.12"), ["3.12.10", "cpython-3.12.7-linux-x86_64-gnu", "3.12.1"]);
        assert_eq!((names("3.13"), names("3.1")), (Vec::new(), vec!["3.1.2".to_owned()]));
    }
}
