//! From a [`Matrix`] to a [`Plan`]: [`expand`] is the one way in.
//!
//! The product of the axes, minus what a kernel has no artifact or source for, minus `exclude:`, plus `include:`; then
//! what `expect:` says of each cell, then `--select`. Nothing is dropped silently: what is no cell is in
//! [`Plan::excluded`] with its reason.

mod candidates;
mod claims;
mod error;
mod json;
mod select;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use self::candidates::{Candidate, Candidates};
pub use self::error::PlanError;
pub use self::json::to_json;
pub use self::select::{NotATerm, Selection, Term};
use super::arch::Arch;
use super::kernel::Kernel;
use super::matrix::{Expect, Expectation, Matrix, Toolkit};
use super::plan::{Cell, Excluded, Job, Plan};
use super::version::Version;

/// The plan of the cells of `matrix` that `selection` wants. `native` is the capability that `arch: native` stands for.
pub fn expand(matrix: &Matrix, selection: &Selection, native: Arch) -> Result<Plan, PlanError> {
    let all = Candidates::of(matrix, native)?;
    let among: Vec<Version> = all.toolkits.iter().map(|toolkit| toolkit.version).collect();
    let version = |candidate: &Candidate| all.toolkits[candidate.toolkit].version;
    // Rules that disagree are an error of the file, whatever is selected.
    let expectations = expectations(matrix, &all, &among)?;

    let filter = selection.filter(&among, native);
    if let Some(text) = filter.unmatched(all.list.iter().map(|one| (&one.axes, version(one)))) {
        return Err(PlanError::NothingSelected(text));
    }
    let mut drafts = Vec::new();
    let mut excluded = Vec::new();
    for (candidate, expectation) in all.list.iter().zip(expectations) {
        if !filter.matches(&candidate.axes, version(candidate)) {
            continue;
        }
        match &candidate.out {
            None => {
                let axes = candidate.axes.clone();
                let claimed = || claims::expectation(matrix, &axes, version(candidate), &among);
                let expectation = expectation.cloned().or_else(claimed);
                drafts.push((candidate, Cell { id: axes.id(), axes, expectation }));
            }
            Some(out) => {
                let (axes, reason, link) = (candidate.axes.clone(), out.reason.clone(), out.link.clone());
                excluded.push(Excluded { axes, reason, link });
            }
        }
    }
    unique_ids(&drafts, &all.toolkits)?;
    if drafts.is_empty() {
        return Err(no_cells(matrix, selection, &excluded));
    }
    let mut plan = assemble(matrix, &all.toolkits, drafts, excluded, native);
    plan.claims = claims::plan(matrix, &all, &among, &plan.cells)?;
    Ok(plan)
}

/// What `expect:` says of each candidate, in their order.
fn expectations<'m>(
    matrix: &'m Matrix,
    all: &Candidates,
    among: &[Version],
) -> Result<Vec<Option<&'m Expectation>>, PlanError> {
    let one = |candidate: &Candidate| {
        let version = all.toolkits[candidate.toolkit].version;
        let matching = |rule: &&Expect| rule.pattern.matches(&candidate.axes, version, among);
        let number = |rule: &Expect| 1 + matrix.expect.iter().take_while(|other| !std::ptr::eq(*other, rule)).count();
        let mut rules = matrix.expect.iter().filter(|_| candidate.out.is_none()).filter(matching);
        let Some(first) = rules.next() else { return Ok(None) };
        match rules.find(|rule| rule.expectation != first.expectation) {
            Some(second) => Err(PlanError::Conflict {
                origin: matrix.origin.clone(),
                id: candidate.axes.id(),
                first: number(first),
                second: number(second),
            }),
            None => Ok(Some(&first.expectation)),
        }
    };
    all.list.iter().map(one).collect()
}

fn unique_ids(drafts: &[(&Candidate, Cell)], toolkits: &[Toolkit]) -> Result<(), PlanError> {
    let mut seen: HashMap<&str, &Candidate> = HashMap::with_capacity(drafts.len());
    for (candidate, cell) in drafts {
        if let Some(first) = seen.insert(&cell.id, candidate) {
            let describe = |candidate: &Candidate| {
                let version = toolkits[candidate.toolkit].version;
                format!("toolkit {version} of entry {}", candidate.toolkit + 1)
            };
            let (first, second) = (describe(first), describe(candidate));
            return Err(PlanError::DuplicateId { id: cell.id.clone(), first, second });
        }
    }
    Ok(())
}

fn no_cells(matrix: &Matrix, selection: &Selection, excluded: &[Excluded]) -> PlanError {
    let mut reasons = Vec::new();
    for reason in excluded.iter().map(|excluded| excluded.reason.as_str()) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let reasons = reasons.join("; ");
    if *selection != Selection::default() {
        return PlanError::NothingSelected(if reasons.is_empty() {
            format!("{selection} together match no cell: each matches some, and none matches all")
        } else {
            format!("{selection} match only what is excluded: {reasons}")
        });
    }
    let why = if reasons.is_empty() { "an axis is empty".into() } else { format!("all are excluded: {reasons}") };
    PlanError::Empty { origin: matrix.origin.clone(), why }
}

/// Puts the cells into jobs, and keeps only the toolkits and kernels that they use.
fn assemble(
    matrix: &Matrix,
    toolkits: &[Toolkit],
    drafts: Vec<(&Candidate, Cell)>,
    excluded: Vec<Excluded>,
    native: Arch,
) -> Plan {
    let used: HashSet<(bool, usize)> =
        drafts.iter().flat_map(|(one, _)| [(true, one.toolkit), (false, one.kernel)]).collect();
    let used_stacks: HashSet<usize> = drafts.iter().filter_map(|(one, _)| one.stack).collect();
    let stack_places = places(matrix.stacks.len(), |index| used_stacks.contains(&index));
    let toolkit_places = places(toolkits.len(), |index| used.contains(&(true, index)));
    let kernel_places = places(matrix.kernels.len(), |index| used.contains(&(false, index)));

    let mut jobs: Vec<Job> = Vec::new();
    let mut cells = Vec::with_capacity(drafts.len());
    // Cells come sorted by toolkit and kernel, so that a job's cells follow one another.
    for (index, (candidate, cell)) in drafts.into_iter().enumerate() {
        let (toolkit, kernel) = (toolkit_places[candidate.toolkit], kernel_places[candidate.kernel]);
        let stack = candidate.stack.map(|stack| stack_places[stack]);
        match jobs.last_mut().filter(|job| (job.toolkit, job.kernel, job.stack) == (toolkit, kernel, stack)) {
            Some(job) => job.cells.push(index),
            None => jobs.push(Job { id: job_id(&cell), toolkit, kernel, stack, cells: vec![index] }),
        }
        cells.push(cell);
    }
    let kept = |flag, index: usize| used.contains(&(flag, index));
    let toolkits: Vec<Toolkit> =
        toolkits.iter().enumerate().filter(|(at, _)| kept(true, *at)).map(|(_, toolkit)| toolkit.clone()).collect();
    let kernels: Vec<Kernel> = matrix
        .kernels
        .iter()
        .enumerate()
        .filter(|(at, _)| kept(false, *at))
        .map(|(_, kernel)| kernel.clone())
        .collect();
    let stacks = matrix.stacks.iter().enumerate().filter(|(at, _)| used_stacks.contains(at));
    Plan {
        origin: matrix.origin.clone(),
        toolkits,
        kernels,
        stacks: stacks.map(|(_, stack)| stack.clone()).collect(),
        cells,
        jobs,
        excluded,
        claims: Vec::new(),
        measure: matrix.measure,
        limits: matrix.limits,
        native,
    }
}

fn job_id(cell: &Cell) -> String {
    let axes = &cell.axes;
    let stack = axes.stack.as_ref().map(|stack| format!("stack={stack},")).unwrap_or_default();
    format!("kernel={},{stack}toolkit={}", axes.kernel, axes.toolkit)
}

/// Where each index lands when only the used ones are kept.
fn places(count: usize, used: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut next = 0;
    let mut place = |index| {
        let here = next;
        next += usize::from(used(index));
        here
    };
    (0..count).map(&mut place).collect()
}
