//! The plan of a run: its cells, the jobs that carry them out, and what was left out and why.
//! Its main type is [`Plan`].

use serde::{Deserialize, Serialize};

use super::arch::Arch;
use super::axes::Axes;
use super::kernel::Kernel;
use super::matrix::{Expectation, Limits, Measure, Toolkit};
use super::stack::Stack;

/// Everything that a run will do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Where the matrix was read from.
    pub origin: String,
    /// The toolkits that at least one cell uses, in the order written.
    pub toolkits: Vec<Toolkit>,
    /// The kernels that at least one cell uses.
    pub kernels: Vec<Kernel>,
    /// The stacks that at least one cell uses.
    pub stacks: Vec<Stack>,
    /// The cells, in report order.
    pub cells: Vec<Cell>,
    /// The jobs, in the order in which they start.
    pub jobs: Vec<Job>,
    /// What was left out.
    pub excluded: Vec<Excluded>,
    /// What is claimed of the cells and of packages.
    pub claims: Vec<super::claim::PlannedClaim>,
    /// How often to launch.
    pub measure: Measure,
    /// What a job may use.
    pub limits: Limits,
    /// What `native` stood for, and whether a GPU said so.
    pub native: Arch,
}

/// One cell: it ends in exactly one record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The sorted `axis=value` pairs.
    pub id: String,
    /// Its coordinates.
    pub axes: Axes,
    /// What `expect:` says of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expectation: Option<Expectation>,
}

/// What one container does: all paths of one toolkit, kernel and stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// `kernel=vector_add,toolkit=12.6`, with `stack=` between them where there is one.
    pub id: String,
    /// Index into [`Plan::toolkits`].
    pub toolkit: usize,
    /// Index into [`Plan::kernels`].
    pub kernel: usize,
    /// Index into [`Plan::stacks`].
    pub stack: Option<usize>,
    /// Indices into [`Plan::cells`].
    pub cells: Vec<usize>,
}

/// A combination that is not a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// Its coordinates.
    pub axes: Axes,
    /// Why it is none.
    pub reason: String,
    /// Where to read more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link: Option<String>,
}
