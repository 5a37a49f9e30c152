//! The plan of a run: its cells, the jobs that carry them out, and what was left out and why.
//! Its main type is [`Plan`].

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::arch::Arch;
use super::axes::Axes;
use super::fleet::FleetEntry;
use super::kernel::Kernel;
use super::matrix::{Expectation, Limits, Measure, Toolkit};
use super::stack::Stack;
use super::wire::hex;

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
    /// Machines that are not here, of which the rules are asked.
    pub fleet: Vec<FleetEntry>,
    /// How often to launch.
    pub measure: Measure,
    /// What a job may use.
    pub limits: Limits,
    /// What `native` stood for, and whether a GPU said so.
    pub native: Arch,
}

impl Plan {
    /// The same plan without the cells of these ids, and without jobs, toolkits and kernels that are then not needed.
    #[must_use]
    pub fn without(&self, done: &HashSet<&str>) -> Self {
        let mut rest = Self { toolkits: Vec::new(), cells: Vec::new(), jobs: Vec::new(), ..self.clone() };
        let mut toolkits: HashMap<usize, usize> = HashMap::new();
        for job in &self.jobs {
            let left: Vec<&Cell> = job
                .cells
                .iter()
                .map(|cell| &self.cells[*cell])
                .filter(|cell| !done.contains(cell.id.as_str()))
                .collect();
            if left.is_empty() {
                continue;
            }
            let toolkit = *toolkits.entry(job.toolkit).or_insert_with(|| {
                rest.toolkits.push(self.toolkits[job.toolkit].clone());
                rest.toolkits.len() - 1
            });
            let cells = (rest.cells.len()..rest.cells.len() + left.len()).collect();
            rest.cells.extend(left.into_iter().cloned());
            rest.jobs.push(Job { id: job.id.clone(), toolkit, kernel: job.kernel, stack: job.stack, cells });
        }
        rest
    }

    /// Everything that decides what a cell's record says, beside its coordinates: name and value, so that two plans
    /// with the same cells can be told apart, and it can be said how.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<String, String> {
        let json = |value: Result<String, serde_json::Error>| value.unwrap_or_default();
        let mut settings = BTreeMap::new();
        settings.insert("measure".to_owned(), json(serde_json::to_string(&self.measure)));
        settings.insert("limits".to_owned(), json(serde_json::to_string(&self.limits)));
        for toolkit in &self.toolkits {
            settings.insert(format!("toolkit {}", toolkit.name), json(serde_json::to_string(toolkit)));
        }
        for kernel in &self.kernels {
            let digest = hex(&Sha256::digest(json(serde_json::to_string(kernel)).as_bytes()));
            settings.insert(format!("kernel {}", kernel.name), format!("sha256 {}", &digest[..16]));
        }
        for stack in &self.stacks {
            settings.insert(format!("stack {}", stack.name), json(serde_json::to_string(stack)));
        }
        settings
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::axes::Axes;
    use crate::model::matrix::ToolkitSource;
    use crate::model::stack::Python;

    fn plan() -> Plan {
        let (mut cells, mut jobs, mut toolkits) = (Vec::new(), Vec::new(), Vec::new());
        for (index, name) in ["12.0", "12.6", "13.0"].into_iter().enumerate() {
            let version = name.parse().unwrap();
            toolkits.push(Toolkit { name: name.into(), version, source: ToolkitSource::Unsaid, base: None });
            for path in ["nvrtc-ptx", "nvrtc-cubin"] {
                let (toolkit, path) = (name.into(), path.parse().unwrap());
                let axes = Axes { toolkit, path, kernel: "k".into(), arch: Arch::WITHOUT_GPU, stack: None };
                cells.push(Cell { id: axes.id(), axes, expectation: None });
            }
            let cells = vec![2 * index, 2 * index + 1];
            jobs.push(Job { id: name.into(), toolkit: index, kernel: 0, stack: None, cells });
        }
        let (measure, limits) = (Measure::default(), Limits::default());
        let (origin, native) = ("test".into(), Arch::WITHOUT_GPU);
        let (kernels, excluded, claims) = (Vec::new(), Vec::new(), Vec::new());
        let (fleet, stacks) = (Vec::new(), Vec::new());
        Plan { origin, toolkits, kernels, stacks, cells, jobs, excluded, claims, fleet, measure, limits, native }
    }

    #[test]
    fn what_is_done_is_left_out_with_the_jobs_and_toolkits_that_only_it_needed() {
        let whole = plan();
        let done: HashSet<&str> = [0, 1, 3].iter().map(|at: &usize| whole.cells[*at].id.as_str()).collect();
        let rest = whole.without(&done);
        assert_eq!(rest.toolkits.iter().map(|toolkit| toolkit.name.as_str()).collect::<Vec<_>>(), ["12.6", "13.0"]);
        assert_eq!(rest.cells, [whole.cells[2].clone(), whole.cells[4].clone(), whole.cells[5].clone()]);
        let jobs: Vec<_> = rest.jobs.iter().map(|job| (job.id.as_str(), job.toolkit, job.cells.clone())).collect();
        assert_eq!(jobs, [("12.6", 0, vec![0]), ("13.0", 1, vec![1, 2])]);
        assert_eq!(whole.without(&HashSet::new()), whole);
    }

    #[test]
    fn another_source_limit_or_stack_is_another_setting() {
        let (mut one, mut other) = (plan(), plan());
        let stack =
            |pin: &str| Stack { name: "s".into(), python: Python::Host, packages: vec![pin.into()], base: None };
        one.stacks.push(stack("numpy==2.4.6"));
        other.stacks.push(stack("numpy==2.5.0"));
        other.toolkits[1].source = ToolkitSource::Dir("/usr/local/cuda".into());
        other.limits.pids = 3;
        let (one, other) = (one.settings(), other.settings());
        let differ: Vec<_> = one.iter().filter(|(name, value)| other[*name] != **value).map(|(name, _)| name).collect();
        assert_eq!(differ, ["limits", "stack s", "toolkit 12.6"]);
    }
}
