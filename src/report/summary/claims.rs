//! What came of a note's claims, as all renderers show it. Its main type is [`ClaimView`].

use std::collections::HashMap;
use std::str::FromStr as _;

use pep440_rs::Version;

use super::cellset::CellSet;
use super::mark::Tone;
use super::package_test;
use super::suites::{Case, Status, Suite, Trouble};
use crate::model::axes::Axes;
use crate::model::claim::{ClaimResult, ClaimVerdict};
use crate::model::record::{GpuMode, Report};

/// Lines of evidence that are shown of one claim; `report.json` has all.
const EVIDENCE: usize = 12;

/// One claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimView {
    /// How it is to be taken.
    pub tone: Tone,
    /// `holds`, `does not hold`, `not tested`; with a mark where the test driver launched.
    pub verdict: String,
    /// The sentence.
    pub says: String,
    /// How it was put to the test, where the sentence of the verdict does not say it.
    pub test: Option<String>,
    /// Why.
    pub reason: String,
    /// What was seen, line by line.
    pub evidence: Vec<String>,
    /// The raw text behind it, where it does not hold or could not be tested.
    pub detail: Option<String>,
}

pub(super) fn views(report: &Report) -> Vec<ClaimView> {
    report.claims.iter().map(|claim| view(report, claim)).collect()
}

fn view(report: &Report, claim: &ClaimResult) -> ClaimView {
    let fake = !claim.cells.is_empty() && report.runs.iter().any(|run| run.gpu_mode == GpuMode::Fake);
    let tone = tone(claim);
    ClaimView {
        tone,
        verdict: format!("{}{}", words(claim.verdict), if fake { " (fake)" } else { "" }),
        says: claim.says.clone(),
        test: claim.packages.as_ref().map(package_test::words),
        reason: claim.reason.clone(),
        evidence: evidence(report, claim),
        detail: claim.detail.clone().filter(|_| !claim.expected),
    }
}

/// What was seen. Cells that ended alike share a line, and versions that were tried stand in their order, and not in
/// that of the search.
fn evidence(report: &Report, claim: &ClaimResult) -> Vec<String> {
    let set = CellSet::new(report);
    let axes: HashMap<&str, &Axes> = match claim.observe {
        Some(_) => report.cells.iter().map(|record| (record.id.as_str(), &record.axes)).collect(),
        None => HashMap::new(),
    };
    let mut groups: Vec<(&str, Vec<&Axes>)> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    let tried = claim.boundary.as_ref().map_or(&[][..], |boundary| &boundary.tried);
    let (versions, rest) = claim.evidence.split_at(tried.len().min(claim.evidence.len()));
    let mut versions: Vec<_> = tried.iter().map(|tried| Version::from_str(&tried.version).ok()).zip(versions).collect();
    versions.sort_by(|(a, _), (b, _)| a.cmp(b));
    for line in versions.into_iter().map(|(_, line)| line).chain(rest) {
        match line.split_once(": ").and_then(|(id, ended)| Some((ended, *axes.get(id)?))) {
            Some((ended, axes)) => match groups.iter_mut().find(|(known, _)| *known == ended) {
                Some((_, all)) => all.push(axes),
                None => groups.push((ended, vec![axes])),
            },
            None => lines.push(line.clone()),
        }
    }
    let mut all: Vec<String> = groups.iter().map(|(ended, axes)| format!("{}: {ended}", set.words(axes))).collect();
    all.append(&mut lines);
    let more = all.len().saturating_sub(EVIDENCE);
    if more > 0 {
        all.truncate(EVIDENCE);
        all.push(format!("… ({more} more lines in report.json)"));
    }
    all
}

fn tone(claim: &ClaimResult) -> Tone {
    match claim.verdict {
        ClaimVerdict::Holds => Tone::Good,
        ClaimVerdict::DoesNotHold => Tone::Bad,
        ClaimVerdict::NotTested if claim.expected => Tone::Skipped,
        ClaimVerdict::NotTested => Tone::Unfinished,
    }
}

const fn words(verdict: ClaimVerdict) -> &'static str {
    match verdict {
        ClaimVerdict::Holds => "holds",
        ClaimVerdict::DoesNotHold => "does not hold",
        ClaimVerdict::NotTested => "not tested here",
    }
}

/// `Of 4 claims, 2 hold, 1 does not, 1 was not tested here.`
pub(super) fn count(report: &Report) -> Option<String> {
    let claims = &report.claims;
    let of = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let all = claims.len();
    let part = |count: usize, one: &str, many: &str| {
        (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
    };
    let parts: Vec<String> = [
        part(of(ClaimVerdict::Holds), "holds", "hold"),
        part(of(ClaimVerdict::DoesNotHold), "does not hold", "do not hold"),
        part(of(ClaimVerdict::NotTested), "was not tested here", "were not tested here"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (all > 0).then(|| format!("Of {all} claim{}, {}.", if all == 1 { "" } else { "s" }, parts.join(", ")))
}

/// What of the claims is not as it should be, in a few words.
pub(super) fn unexpected(report: &Report) -> Option<String> {
    let of = |verdict| report.claims.iter().filter(|claim| !claim.expected && claim.verdict == verdict).count();
    let against = match of(ClaimVerdict::DoesNotHold) {
        0 => None,
        1 => Some("1 claim does not hold".to_owned()),
        count => Some(format!("{count} claims do not hold")),
    };
    let untold = match of(ClaimVerdict::NotTested) {
        0 => None,
        1 => Some("1 claim could not be tested".to_owned()),
        count => Some(format!("{count} claims could not be tested")),
    };
    let parts: Vec<String> = against.into_iter().chain(untold).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The claims as test cases.
pub(super) fn suite(report: &Report) -> Option<Suite> {
    let case = |claim: &ClaimResult| {
        let trouble = || Trouble {
            kind: claim.verdict.name().into(),
            message: claim.reason.clone(),
            facts: evidence(report, claim).into_iter().map(|line| ("evidence", line)).collect(),
            detail: claim.detail.clone(),
        };
        let status = match tone(claim) {
            Tone::Bad => Status::Failure(trouble()),
            Tone::Unfinished => Status::Error(trouble()),
            Tone::Skipped => Status::Skipped(claim.reason.clone()),
            Tone::Good | Tone::Foretold | Tone::Left => Status::Pass,
        };
        Case { name: claim.says.clone(), seconds: None, status }
    };
    let cases: Vec<Case> = report.claims.iter().map(case).collect();
    (!cases.is_empty()).then(|| Suite { name: "claims".into(), cases })
}
