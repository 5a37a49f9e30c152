//! What has to be said of single cells: how they ended, what it means, what to do. Its main types are [`Finding`] and,
//! where a reason is all there is to say, [`Group`]. Cells that say the same thing are one finding.

use super::cellset::CellSet;
use super::mark::{Tone, sentence};
use super::places::Places;
use super::predictions;
use crate::model::axes::Axes;
use crate::model::outcome::Outcome;
use crate::model::record::{Bits, Record, Report};

/// How one or more cells ended, and everything that explains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How it is to be taken.
    pub tone: Tone,
    /// `fail at load: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)`.
    pub what: String,
    /// `nvrtc-ptx, nvcc-ptx on 13.5`.
    pub cells: String,
    /// How many cells these are.
    pub count: usize,
    /// A label and a text each, in order: reason, bits, meaning, cure.
    pub facts: Vec<(&'static str, String)>,
    /// The raw text behind it, of the first of the cells.
    pub detail: Option<String>,
    /// The command that runs them again.
    pub again: String,
}

/// Cells or combinations that share a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// `nvcc-ptx, nvcc-cubin on 12.0, 12.6`.
    pub cells: String,
    /// How many these are.
    pub count: usize,
    /// Why.
    pub reason: String,
    /// Where to read more.
    pub link: Option<String>,
}

pub(super) fn unexpected(report: &Report, places: &Places) -> Vec<Finding> {
    findings(report, places, |tone| matches!(tone, Tone::Bad | Tone::Unfinished))
}

pub(super) fn expected_failures(report: &Report, places: &Places) -> Vec<Finding> {
    findings(report, places, |tone| tone == Tone::Foretold)
}

fn findings(report: &Report, places: &Places, wanted: impl Fn(Tone) -> bool) -> Vec<Finding> {
    let mut groups: Vec<(&str, Vec<&Record>)> = Vec::new();
    for (index, record) in report.cells.iter().enumerate() {
        if !wanted(Tone::of(record)) {
            continue;
        }
        let place = places.of(index);
        match groups.iter_mut().find(|(known, group)| *known == place && alike(group[0], record)) {
            Some((_, group)) => group.push(record),
            None => groups.push((place, vec![record])),
        }
    }
    let set = CellSet::new(report);
    // The worst first: what is broken before what merely did not come to its end.
    groups.sort_by_key(|(_, group)| Tone::of(group[0]) == Tone::Unfinished);
    groups.into_iter().map(|(place, group)| finding(set, place, &group)).collect()
}

fn finding(set: CellSet, place: &str, group: &[&Record]) -> Finding {
    let first = group[0];
    let axes: Vec<&Axes> = group.iter().map(|record| &record.axes).collect();
    Finding {
        tone: Tone::of(first),
        what: sentence(first.outcome, first.stage, first.code.as_ref()),
        cells: format!("{}{}", set.words(&axes), Places::suffix(place)),
        count: group.len(),
        facts: facts(first),
        detail: first.detail.clone().filter(|detail| !detail.trim().is_empty()),
        again: set.again(&axes),
    }
}

/// Whether two records are one finding. Their raw texts may differ: paths and times in them do.
fn alike(a: &Record, b: &Record) -> bool {
    a.outcome == b.outcome
        && a.stage == b.stage
        && a.code == b.code
        && a.reason == b.reason
        && a.bits == b.bits
        && a.predicted == b.predicted
        && a.explanation == b.explanation
        && a.expectation == b.expectation
}

/// What explains how a cell ended, as labelled texts.
pub(super) fn facts(record: &Record) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let mut say =
        |label, text: Option<String>| facts.extend(text.filter(|text| !text.is_empty()).map(|text| (label, text)));
    say("reason", record.reason.clone());
    say("bits", record.bits.as_ref().filter(|bits| bits.mismatches > 0).map(bits_words));
    if let Some(expectation) = &record.expectation {
        let code = expectation.code.as_ref().map_or(String::new(), |code| format!(": {code}"));
        let what = format!("{}{code}", sentence(expectation.outcome, expectation.stage, None));
        say("expected", Some(format!("{what}, because {}", expectation.reason)));
    }
    if let Some(predicted) = record.predicted.as_ref().filter(|_| Tone::of(record) == Tone::Bad) {
        let holds = match predicted.agrees {
            Some(true) => ": that held",
            Some(false) => ": that did NOT hold",
            None => "",
        };
        say("predicted", Some(format!("{}{holds}", predictions::words(predicted))));
    }
    if let Some(explanation) = &record.explanation {
        say("means", Some(explanation.what.clone()));
        say("why", Some(explanation.why.clone()));
        say("cure", Some(explanation.remedy.clone()));
        say("known from", Some(explanation.source.clone()));
    }
    facts
}

fn bits_words(bits: &Bits) -> String {
    let first = bits.first.as_ref().map_or(String::new(), |first| {
        format!("; the first at index {}: got {}, want {}", first.index, first.got, first.want)
    });
    format!("{} of {} elements differ{first}", bits.mismatches, bits.checked)
}

pub(super) fn skips(report: &Report) -> Vec<Group> {
    let skipped = report.cells.iter().filter(|record| Tone::of(record) == Tone::Skipped);
    groups(report, skipped.map(|record| (&record.axes, record.reason.as_deref().unwrap_or("no reason given"), None)))
}

pub(super) fn exclusions(report: &Report) -> Vec<Group> {
    let excluded = report.excluded.iter();
    groups(report, excluded.map(|excluded| (&excluded.axes, excluded.reason.as_str(), excluded.link.as_deref())))
}

fn groups<'a>(report: &Report, cells: impl Iterator<Item = (&'a Axes, &'a str, Option<&'a str>)>) -> Vec<Group> {
    let mut groups: Vec<(&str, Option<&str>, Vec<&Axes>)> = Vec::new();
    for (axes, reason, link) in cells {
        match groups.iter_mut().find(|(known, same, _)| *known == reason && *same == link) {
            Some((_, _, group)) => group.push(axes),
            None => groups.push((reason, link, vec![axes])),
        }
    }
    let set = CellSet::new(report);
    groups
        .into_iter()
        .map(|(reason, link, group)| Group {
            cells: set.words(&group),
            count: group.len(),
            reason: reason.into(),
            link: link.map(Into::into),
        })
        .collect()
}

pub(super) fn superseded(report: &Report) -> Vec<String> {
    let set = CellSet::new(report);
    let line = |old: &Record| {
        let how = sentence(old.outcome, old.stage, old.code.as_ref());
        let newer = report.cells.iter().find(|record| record.id == old.id && record.outcome != Outcome::NotRun);
        let newer = newer.map_or(String::new(), |record| {
            let how = sentence(record.outcome, record.stage, record.code.as_ref());
            format!("; run {} counts: {how}", record.run)
        });
        format!("{} in run {}: {how}{newer}", set.words(&[&old.axes]), old.run)
    };
    report.superseded.iter().map(line).collect()
}
