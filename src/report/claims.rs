//! What came of a note's claims, from what a run planned and what it recorded. Its main functions are [`results`], for
//! one run, and `merged`.

use crate::compat::claims::judge;
use crate::model::claim::{ClaimResult, ClaimVerdict, PlannedClaim};
use crate::model::record::{GpuMode, Record, Report, Run};

/// What came of each planned claim. Those about cells are decided by the records of `report`, those about packages by
/// `tested`, of which the last of each counts.
#[must_use]
pub fn results(planned: &[PlannedClaim], tested: &[ClaimResult], report: &Report) -> Vec<ClaimResult> {
    let one = |claim: &PlannedClaim| {
        if claim.observe.is_some() {
            return by_cells(claim, &report.cells, &report.runs);
        }
        let found = tested.iter().rev().find(|result| result.says == claim.says && result.packages == claim.packages);
        found.cloned().unwrap_or_else(|| ClaimResult {
            says: claim.says.clone(),
            verdict: ClaimVerdict::NotTested,
            expected: false,
            cells: Vec::new(),
            observe: None,
            packages: claim.packages.clone(),
            reason: "the run ended before this claim was put to the test".into(),
            evidence: Vec::new(),
            detail: None,
            boundary: None,
        })
    };
    planned.iter().map(one).collect()
}

fn by_cells(claim: &PlannedClaim, records: &[Record], runs: &[Run]) -> ClaimResult {
    let mode = |record: &Record| runs.iter().find(|run| run.id == record.run).map_or(GpuMode::None, |run| run.gpu_mode);
    judge(claim, records, &mode)
}

/// The claims of several reports: of one about cells, all cells of `report` decide; of one about packages that several
/// runs tested, one that does not hold counts before one that does, and either before one that was not tested.
pub(super) fn merged(all: Vec<ClaimResult>, report: &Report) -> Vec<ClaimResult> {
    let mut merged: Vec<ClaimResult> = Vec::new();
    for claim in all {
        let same = |known: &&mut ClaimResult| {
            known.says == claim.says && known.observe == claim.observe && known.packages == claim.packages
        };
        match merged.iter_mut().find(same) {
            Some(known) if claim.observe.is_some() => {
                let fresh: Vec<String> = claim.cells.into_iter().filter(|cell| !known.cells.contains(cell)).collect();
                known.cells.extend(fresh);
            }
            Some(known) if weight(claim.verdict) >= weight(known.verdict) => *known = claim,
            Some(_) => {}
            None => merged.push(claim),
        }
    }
    let again = |claim: ClaimResult| {
        if claim.observe.is_none() {
            return claim;
        }
        let planned = PlannedClaim { says: claim.says, cells: claim.cells, observe: claim.observe, packages: None };
        by_cells(&planned, &report.cells, &report.runs)
    };
    merged.into_iter().map(again).collect()
}

const fn weight(verdict: ClaimVerdict) -> u8 {
    match verdict {
        ClaimVerdict::NotTested => 0,
        ClaimVerdict::Holds => 1,
        ClaimVerdict::DoesNotHold => 2,
    }
}
