//! Which cells a claim speaks of. Its main function is [`plan`]; a claim that speaks of no cell is an error of the file.

use super::candidates::Candidates;
use super::error::PlanError;
use crate::model::axes::Axes;
use crate::model::claim::{Claim, ClaimTest, PlannedClaim};
use crate::model::matrix::{ArchChoice, Expectation, Matrix, Pattern};
use crate::model::outcome::Outcome;
use crate::model::plan::Cell;
use crate::model::version::Version;

/// The claims of `matrix` with their cells among `cells`, which are those that are selected.
pub(super) fn plan(
    matrix: &Matrix,
    all: &Candidates,
    among: &[Version],
    cells: &[Cell],
) -> Result<Vec<PlannedClaim>, PlanError> {
    let mut planned = Vec::with_capacity(matrix.claims.len());
    let mut without = Vec::new();
    for claim in &matrix.claims {
        let mut one = PlannedClaim { says: claim.says.clone(), cells: Vec::new(), observe: None, packages: None };
        match &claim.test {
            ClaimTest::Packages(test) => one.packages = Some(test.clone()),
            ClaimTest::Cells { pattern, observe } => {
                one.observe = Some(observe.clone());
                if !names_a_cell(matrix, all, among, pattern) {
                    without.push(format!("line {}: `{}`", claim.line, claim.says));
                }
                let version = |axes: &Axes| all.toolkits.iter().find(|it| it.name == axes.toolkit).map(|it| it.version);
                let covers = |cell: &&Cell| {
                    version(&cell.axes).is_some_and(|version| pattern.matches(&cell.axes, version, among))
                };
                one.cells = cells.iter().filter(covers).map(|cell| cell.id.clone()).collect();
            }
        }
        planned.push(one);
    }
    if without.is_empty() {
        return Ok(planned);
    }
    Err(PlanError::ClaimWithoutCell { origin: matrix.origin.clone(), claims: without.join(", ") })
}

/// What a claim that speaks of a failure makes to be expected of a cell, so that it need not be said twice.
pub(super) fn expectation(matrix: &Matrix, axes: &Axes, version: Version, among: &[Version]) -> Option<Expectation> {
    let expectation = |claim: &Claim| {
        let ClaimTest::Cells { pattern, observe } = &claim.test else { return None };
        let failure = !matches!(observe.outcome, Outcome::Pass | Outcome::Built | Outcome::Loaded);
        (failure && pattern.matches(axes, version, among)).then(|| Expectation {
            outcome: observe.outcome,
            stage: observe.stage,
            code: observe.code.clone(),
            reason: format!("the note claims: {}", claim.says),
        })
    };
    matrix.claims.iter().find_map(expectation)
}

/// Whether there is such a cell, selected or not. Where the GPU decides what is built for, a claim about another
/// capability than this machine's is sound.
fn names_a_cell(matrix: &Matrix, all: &Candidates, among: &[Version], pattern: &Pattern) -> bool {
    let mut pattern = pattern.clone();
    if matrix.arch == ArchChoice::Native {
        pattern.arch.clear();
    }
    all.list
        .iter()
        .filter(|candidate| candidate.out.is_none())
        .any(|candidate| pattern.matches(&candidate.axes, all.toolkits[candidate.toolkit].version, among))
}
