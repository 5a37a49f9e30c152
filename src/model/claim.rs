//! What a note claims, and what came of it. Its main types are [`Claim`] (as the matrix has it), [`PlannedClaim`] (with
//! the cells that it speaks of) and [`ClaimResult`] (as `report.json` has it).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::arch::Arch;
use super::matrix::Pattern;
use super::outcome::{Outcome, Stage};

/// A sentence, and how it is put to the test.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The sentence.
    pub says: String,
    /// The line of the matrix file on which it stands.
    pub line: usize,
    /// How it is put to the test.
    pub test: ClaimTest,
}

/// How a claim is put to the test.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimTest {
    /// By cells of the matrix.
    Cells {
        /// The cells.
        pattern: Pattern,
        /// What must be observed of each of them.
        observe: Observe,
    },
    /// By Python packages, without a cell and without a GPU.
    Packages(PackageTest),
}

/// What must be observed of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observe {
    /// The outcome, as the cell itself has it.
    pub outcome: Outcome,
    /// The stage at which it must fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The name of the code that it must fail with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Text that its reason or its detail must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl fmt::Display for Observe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.outcome)?;
        if let Some(stage) = self.stage {
            write!(f, " at {stage}")?;
        }
        if let Some(code) = &self.code {
            write!(f, " with {code}")?;
        }
        if let Some(text) = &self.text {
            write!(f, " saying `{text}`")?;
        }
        Ok(())
    }
}

/// Something that a Python and its packages do or do not do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageTest {
    /// The Python, `3.12`; that of the machine if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// What is asked of pip, as requirements.
    pub packages: Vec<String>,
    /// What is done with them.
    pub action: PackageAction,
    /// Text with which it must fail; it must succeed if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails_with: Option<String>,
    /// Where the action is tried over the versions of one package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<BoundaryAsk>,
}

/// What is done with packages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageAction {
    /// pip chooses versions, and installs nothing. The choice must meet these requirements.
    Resolve(Vec<String>),
    /// They are installed into a throw-away environment, and this module is imported there.
    Import(String),
    /// The same, and Numba compiles a kernel for this compute capability; that needs no GPU.
    CompileNumba(Arch),
}

impl fmt::Display for PackageAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(_) => write!(f, "resolve"),
            Self::Import(module) => write!(f, "import {module}"),
            Self::CompileNumba(arch) => write!(f, "numba.cuda.compile for compute capability {arch}"),
        }
    }
}

/// A search for the version of one package at which a test turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundaryAsk {
    /// The package.
    pub package: String,
    /// Which of its versions are looked at, `>=2.0`; empty for all.
    pub range: String,
    /// The claimed last version that is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good: Option<String>,
    /// The claimed first version that is bad.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_bad: Option<String>,
}

/// A claim with the cells that it speaks of: how `run.json` keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedClaim {
    /// The sentence.
    pub says: String,
    /// The ids of its cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<String>,
    /// What must be observed of each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observe: Option<Observe>,
    /// What is to be done with packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<PackageTest>,
}

/// What came of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// All that it speaks of was observed.
    Holds,
    /// Something else was observed.
    DoesNotHold,
    /// Nothing was observed that speaks for or against it, or not all that it speaks of.
    NotTested,
}

impl ClaimVerdict {
    /// The word used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does-not-hold",
            Self::NotTested => "not-tested",
        }
    }
}

/// A claim, what came of it, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The sentence.
    pub says: String,
    /// What came of it.
    pub verdict: ClaimVerdict,
    /// Whether that leaves the run as expected: a claim that does not hold does not, nor does one that could not be
    /// tested because something broke.
    pub expected: bool,
    /// The ids of its cells.
    pub cells: Vec<String>,
    /// What had to be observed of each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observe: Option<Observe>,
    /// What was done with packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<PackageTest>,
    /// One line: why.
    pub reason: String,
    /// What was seen, one line each: the cells that decide, the resolver's choice, the versions tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The raw text behind it: the resolver's decisive lines, an exception.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The version at which it turns, where one was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<Boundary>,
}

/// The version of a package at which a test turns, as far as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Boundary {
    /// The package.
    pub package: String,
    /// The Python that the versions were tried with, `3.11.7`.
    pub python: String,
    /// The good version next to the boundary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good: Option<String>,
    /// The bad version next to the boundary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_bad: Option<String>,
    /// The newest version that this Python can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<String>,
    /// Versions that exist and have no wheel for this Python.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_wheel: Vec<String>,
    /// Each version that was tried, in order of trial.
    pub tried: Vec<Tried>,
}

/// One version that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// The version.
    pub version: String,
    /// What it is.
    pub verdict: TrialVerdict,
    /// What was seen, in one line.
    pub saw: String,
}

/// What a version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialVerdict {
    /// The test succeeds.
    Good,
    /// It fails as the claim says.
    Bad,
    /// It fails in another way, so that nothing can be told.
    Untestable,
}
