//! Exit codes and the errors that lead to them. Its main types are [`Code`] and [`Failure`].

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// What the process ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Every cell came out as expected.
    AsExpected,
    /// Some cell did not, or the run as a whole proves nothing.
    NotAsExpected,
    /// The command line is wrong.
    Usage,
    /// `matrix.yaml` is wrong, or it and this machine are not what `ctk.lock` holds.
    Matrix,
    /// The selection and the exclusions leave no cell.
    NothingSelected,
    /// The engine or the GPU is missing, or refuses, though it is needed.
    Engine,
    /// The report could not be written.
    Report,
    /// SIGINT.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl Code {
    /// The number, as documented in the README.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::AsExpected => 0,
            Self::NotAsExpected => 1,
            Self::Usage => 2,
            Self::Matrix => 3,
            Self::NothingSelected => 4,
            Self::Engine => 5,
            Self::Report => 110,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    text: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure that is said in one text.
    pub fn new(code: Code, text: impl fmt::Display) -> Self {
        Self { code, text: text.to_string(), source: None }
    }

    /// A failure with an error behind it.
    pub fn caused(code: Code, text: impl fmt::Display, source: impl Error + Send + Sync + 'static) -> Self {
        Self { code, text: text.to_string(), source: Some(Box::new(source)) }
    }

    /// The exit code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Prints the failure and its causes to stderr, once.
    pub fn print(&self) {
        let out = format!("error: {self}\n");
        // Nobody is left to tell if stderr is closed.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), out.as_bytes());
    }
}

/// The failure, and its causes each on a line of its own.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_end())?;
        let mut cause = self.source.as_deref().map(|source| source as &dyn Error);
        while let Some(error) = cause {
            write!(f, "\n  caused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
