//! Finds a Python on this machine. The main type is [`Interpreter`].

use std::ffi::OsString;

use super::error::{ProvisionError, cause};
use super::interpreters::{answer, candidates};
use super::packages::PackageError;
use super::pip::ANSWER;

/// A Python that is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The program.
    pub program: OsString,
    /// Its version, `3.11.7`.
    pub version: String,
}

impl Interpreter {
    /// The machine's own, or the one of a version: `3.12` is `python3.12`, or `own` if that is one.
    pub(super) async fn find(own: &OsString, wanted: Option<&str>) -> Result<Self, PackageError> {
        let found = asked(own).await;
        let Some(wanted) = wanted else {
            return found.map_err(|cause| {
                ProvisionError::NoPython { python: own.to_string_lossy().into_owned(), cause }.into()
            });
        };
        if let Ok(own) = found
            && own.series() == wanted
        {
            return Ok(own);
        }
        for program in candidates(wanted) {
            if let Ok(found) = asked(&program.into_os_string()).await
                && found.series() == wanted
            {
                return Ok(found);
            }
        }
        Err(PackageError::NoInterpreter { wanted: wanted.into() })
    }

    /// `3.11`.
    #[must_use]
    pub fn series(&self) -> String {
        self.version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
    }
}

/// The interpreter itself, or why it does not answer.
async fn asked(program: &OsString) -> Result<Interpreter, String> {
    const ASK: &str = "import platform; print(platform.python_version())";
    let output = answer(program, ASK, ANSWER).await.map_err(|error| cause(&error))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !version.is_empty() {
        return Ok(Interpreter { program: program.clone(), version });
    }
    Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it says nothing").to_owned())
}
