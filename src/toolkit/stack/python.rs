//! The interpreters of this machine. Its main type is [`Interpreter`]: found by version, asked for what it is, and held
//! against what a container's user may read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::interpreters::{answer, candidates, series};
use super::super::pip::ANSWER;
use super::error::StackError;
use crate::model::stack::Package;

/// What an interpreter says of itself. Distributions are those that it finds without the user's own folder.
const ASK: &str = "\
import json, os, sys, sysconfig
from importlib import metadata
found = {}
for d in metadata.distributions():
    name = d.metadata['Name']
    if name and name.lower() not in found:
        found[name.lower()] = {'name': name, 'version': d.version, 'requires': list(d.requires or [])}
print(json.dumps({'version': '.'.join(map(str, sys.version_info[:3])), 'executable': sys.executable,
    'prefix': sys.prefix, 'base_prefix': sys.base_prefix, 'stdlib': sysconfig.get_path('stdlib'),
    'packages': [found[key] for key in sorted(found)]}))";

/// What an engine's userland binds of the host anyway.
const BOUND: [&str; 6] = ["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin"];

/// An interpreter, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Interpreter {
    /// `3.11.2`.
    pub(crate) version: String,
    /// Its program.
    pub(crate) executable: PathBuf,
    /// Where its packages lie.
    pub(crate) prefix: PathBuf,
    /// Where it was installed; another folder for a virtual environment.
    pub(crate) base_prefix: PathBuf,
    /// Its own library.
    pub(crate) stdlib: PathBuf,
    /// What is installed for it.
    pub(crate) packages: Vec<Package>,
}

impl Interpreter {
    /// Asks the interpreter behind `program`; none where there is no such program, it is no Python 3,
    /// or it does not answer.
    pub(crate) async fn ask(program: &Path) -> Option<Self> {
        let output = answer(program.as_os_str(), ASK, ANSWER).await.ok().filter(|output| output.status.success())?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// An interpreter of this version: the distribution's own first, because containers see it without a bind.
    pub(crate) async fn of_version(version: &str) -> Result<Self, StackError> {
        for program in candidates(version) {
            if let Some(found) = Self::ask(&program).await
                && found.release() == version
            {
                return Ok(found);
            }
        }
        // A shim by that name may stand for a Python that is not there.
        let mut others = series();
        others.retain(|other| other != version);
        if let Some(found) = Self::ask(Path::new("python3")).await
            && !others.contains(&found.release())
        {
            others.push(found.release());
        }
        Err(StackError::NoPython { wanted: version.into(), others })
    }

    /// The machine's `python3`.
    pub(crate) async fn of_host() -> Result<Self, StackError> {
        Self::ask(Path::new("python3")).await.ok_or(StackError::NoHostPython)
    }

    /// `3.11` of `3.11.2`.
    pub(crate) fn release(&self) -> String {
        self.version.rsplit_once('.').map_or(self.version.as_str(), |(release, _)| release).into()
    }

    /// The folders that a container needs beside the host's `/usr`, each readable by every user.
    pub(crate) fn binds(&self) -> Result<Vec<PathBuf>, StackError> {
        let mut binds: Vec<PathBuf> = Vec::new();
        for folder in [&self.base_prefix, &self.prefix] {
            let known = BOUND.iter().any(|bound| folder.starts_with(bound)) || binds.contains(folder);
            if !known {
                binds.push(folder.clone());
            }
        }
        if binds.is_empty() {
            return Ok(binds);
        }
        // The folders above do not matter: a bind leads past them.
        let program = fs::canonicalize(&self.executable).unwrap_or_else(|_| self.executable.clone());
        let by_all =
            |path: &Path, bits: u32| fs::metadata(path).is_ok_and(|facts| facts.permissions().mode() & bits == bits);
        if !by_all(&program, 0o005) || !by_all(&self.stdlib, 0o005) || !by_all(&self.stdlib.join("os.py"), 0o004) {
            return Err(StackError::Unreadable { prefix: self.base_prefix.clone() });
        }
        Ok(binds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_machines_python_says_what_it_is() {
        let found = Interpreter::of_host().await.unwrap();
        assert!(found.version.starts_with("3.") && found.executable.is_absolute(), "{found:?}");
        let again = Interpreter::of_version(&found.release()).await.unwrap();
        assert_eq!(again.release(), found.release());
    }

    #[tokio::test]
    async fn a_version_that_is_not_here_is_named_with_those_that_are() {
        let error = Interpreter::of_version("3.99").await.unwrap_err().to_string();
        assert!(error.starts_with("there is no Python 3.99 on this machine (there is 3."), "{error}");
    }

    #[test]
    fn a_prefix_that_only_its_owner_reads_is_refused_with_the_cure() {
        let scratch = tempfile::tempdir().unwrap();
        let prefix = scratch.path().to_owned();
        fs::create_dir_all(prefix.join("lib")).unwrap();
        for file in ["python3", "lib/os.py"] {
            fs::write(prefix.join(file), "").unwrap();
            fs::set_permissions(prefix.join(file), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(prefix.join("lib"), fs::Permissions::from_mode(0o755)).unwrap();
        let found = Interpreter {
            version: "3.11.2".into(),
            executable: prefix.join("python3"),
            prefix: prefix.clone(),
            base_prefix: prefix.clone(),
            stdlib: prefix.join("lib"),
            packages: Vec::new(),
        };
        assert_eq!(found.binds(), Ok(vec![prefix.clone()]));
        fs::set_permissions(prefix.join("lib"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(
            found.binds().unwrap_err().to_string(),
            format!(
                "the Python in {0} cannot be read by a container's user: `chmod -R a+rX {0}`, use a Python in /usr, or \
                 say --engine process",
                prefix.display()
            )
        );
    }
}
