//! What will be done: the matrix after validation, every toolkit a resolved entry and every kernel read.
//! Its main type is [`Matrix`]; [`super::spec`] makes it from what the user wrote.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::arch::Arch;
use super::axes::Axes;
use super::fleet::FleetEntry;
use super::kernel::Kernel;
use super::outcome::{Outcome, Stage};
use super::path::PathPattern;
use super::selector::Selector;
use super::stack::Stack;
use super::version::Version;

/// A validated matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Where it was read from, as reports show it: a path, or `built-in`.
    pub origin: String,
    /// The toolkits, in the order written.
    pub toolkits: Vec<Toolkit>,
    /// The paths, in report order.
    pub paths: Vec<PathPattern>,
    /// The kernels, in the order written.
    pub kernels: Vec<Kernel>,
    /// What to build for.
    pub arch: ArchChoice,
    /// Sets of Python packages, in the order written. With any, every cell has one.
    pub stacks: Vec<Stack>,
    /// Cells that are left out, each with its reason.
    pub exclude: Vec<Exclude>,
    /// Cells that are added after `exclude`.
    pub include: Vec<Include>,
    /// What is expected to happen instead of a pass.
    pub expect: Vec<Expect>,
    /// What a note claims of all that.
    pub claims: Vec<super::claim::Claim>,
    /// Machines that are not here, of which the rules are asked.
    pub fleet: Vec<FleetEntry>,
    /// How often to launch.
    pub measure: Measure,
    /// What a job may use.
    pub limits: Limits,
}

/// One toolkit entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolkit {
    /// The name on the `toolkit` axis: by default the version.
    pub name: String,
    /// The toolkit's version.
    pub version: Version,
    /// Where it is to come from.
    pub source: ToolkitSource,
    /// An image to use as the userland of a toolkit that comes from wheels or a folder.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub base: Option<String>,
}

/// Where a toolkit is to come from, as its entry says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolkitSource {
    /// Not said: `--source` decides.
    Unsaid,
    /// A folder laid out as `/usr/local/cuda` is.
    Dir(PathBuf),
    /// An image, by reference.
    Image(String),
}

/// `arch:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchChoice {
    /// The GPU's own, or [`Arch::WITHOUT_GPU`].
    Native,
    /// These.
    List(Vec<Arch>),
}

/// A pattern over the axes. An axis that is not named matches everything; within an axis, one match is enough.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pattern {
    /// Toolkits, by version set or by an entry's name.
    pub toolkit: Vec<ToolkitPattern>,
    /// Paths or families.
    pub path: Vec<PathPattern>,
    /// Kernel names.
    pub kernel: Vec<String>,
    /// Compute capabilities.
    pub arch: Vec<Arch>,
    /// Stack names.
    pub stack: Vec<String>,
}

/// One value on the toolkit axis of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolkitPattern {
    /// An entry's name, where it is not simply a version.
    Name(String),
    /// A set of versions.
    Versions(Selector),
}

impl Pattern {
    /// Whether the pattern covers `axes`. `version` is the version of the cell's toolkit, `among` all versions of the
    /// matrix, for `oldest` and `newest`.
    #[must_use]
    pub fn matches(&self, axes: &Axes, version: Version, among: &[Version]) -> bool {
        let toolkit = self.toolkit.is_empty()
            || self.toolkit.iter().any(|pattern| match pattern {
                ToolkitPattern::Name(name) => *name == axes.toolkit,
                ToolkitPattern::Versions(selector) => selector.matches(version, among),
            });
        toolkit
            && (self.path.is_empty() || self.path.iter().any(|pattern| pattern.matches(axes.path)))
            && (self.kernel.is_empty() || self.kernel.contains(&axes.kernel))
            && (self.arch.is_empty() || self.arch.contains(&axes.arch))
            && (self.stack.is_empty() || axes.stack.as_ref().is_some_and(|stack| self.stack.contains(stack)))
    }
}

/// An `exclude:` rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Exclude {
    /// The cells.
    pub pattern: Pattern,
    /// Why they are left out.
    pub reason: String,
    /// Where to read more.
    pub link: Option<String>,
}

/// An `include:` rule: cells beyond the product. What it does not name comes from the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Include {
    /// The toolkit entry, one of [`Matrix::toolkits`] or a further one.
    pub toolkit: Toolkit,
    /// The paths.
    pub path: PathPattern,
    /// The kernel's name; every kernel if not said.
    pub kernel: Option<String>,
    /// The compute capability; the matrix's own if not said.
    pub arch: Option<Arch>,
}

/// An `expect:` rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Expect {
    /// The cells.
    pub pattern: Pattern,
    /// What must happen.
    pub expectation: Expectation,
}

/// What must happen to a cell for the run to count as expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// The outcome as the cell itself has it: `fail`, not `expected-fail`.
    pub outcome: Outcome,
    /// The stage at which it must fail.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stage: Option<Stage>,
    /// The name of the code that it must fail with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// Why.
    pub reason: String,
}

/// `measure:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// Launches before the timed ones.
    pub warmup: u32,
    /// Timed launches.
    pub timed: u32,
    /// How many paths share a process.
    #[serde(default, skip_serializing_if = "Processes::are_shared")]
    pub process: Processes,
}

impl Default for Measure {
    /// The lesson's numbers.
    fn default() -> Self {
        Self { warmup: 3, timed: 10, process: Processes::Shared }
    }
}

/// How many paths of a job share a worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Processes {
    /// All that one process can carry out, on one set of buffers.
    #[default]
    Shared,
    /// One for each path, so that the time from its start to the first verified result is each path's own.
    Each,
}

impl Processes {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Shared, Self::Each];

    /// As it is written in a matrix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Each => "each",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
    const fn are_shared(&self) -> bool {
        matches!(self, Self::Shared)
    }
}

impl std::str::FromStr for Processes {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|each| each.name() == text).ok_or(())
    }
}

/// `limits:`, for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The deadline of one path, in milliseconds.
    pub timeout_ms: u64,
    /// Memory, in bytes.
    pub memory: u64,
    /// Processes and threads.
    pub pids: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout_ms: 120_000, memory: 8 << 30, pids: 256 }
    }
}
