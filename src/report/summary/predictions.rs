//! What the rules said beforehand, against what happened. Its main type is [`Predictions`].

use super::cellset::CellSet;
use super::findings::Finding;
use super::mark::{Tone, sentence};
use super::places::Places;
use crate::compat::predict::find;
use crate::model::axes::Axes;
use crate::model::record::{Predicted, Record, Report};

/// How many predictions held, and those that did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Predictions {
    /// Cells that ended as predicted.
    pub agree: usize,
    /// Cells that did not.
    pub disagree: usize,
    /// Cells whose end says nothing of the rules.
    pub untested: usize,
    /// Those that did not, grouped where rule and end are the same.
    pub findings: Vec<Finding>,
}

impl Predictions {
    /// None where nothing was predicted.
    pub(super) fn new(report: &Report, places: &Places) -> Option<Self> {
        let count = |wanted| {
            let predicted = report.cells.iter().filter_map(|record| record.predicted.as_ref());
            predicted.filter(|predicted| predicted.agrees == wanted).count()
        };
        let (agree, disagree) = (count(Some(true)), count(Some(false)));
        if agree + disagree == 0 {
            return None;
        }
        Some(Self {
            agree,
            disagree,
            untested: report.cells.len() - agree - disagree,
            findings: findings(report, places),
        })
    }

    /// What nobody may overlook, where there is such a thing.
    pub(super) fn alarm(&self) -> Option<String> {
        let tested = self.agree + self.disagree;
        (self.disagree > 0).then(|| {
            format!(
                "PREDICTED OTHERWISE: {} of {tested} cells did not end as the rules said. Either something is wrong \
                 here, or a rule is.",
                self.disagree
            )
        })
    }

    /// `Predictions: 12 of 14 cells ended as the rules said, 2 did not.`
    pub(super) fn line(&self) -> String {
        let tested = self.agree + self.disagree;
        let wrong = match self.disagree {
            0 => String::new(),
            count => format!(", {count} DID NOT"),
        };
        let untested = match self.untested {
            0 => String::new(),
            count => format!("; {count} more say nothing of the rules"),
        };
        format!("Predictions: {} of {tested} cells ended as the rules said{wrong}{untested}.", self.agree)
    }
}

fn findings(report: &Report, places: &Places) -> Vec<Finding> {
    let mut groups: Vec<(&str, &Predicted, Vec<&Record>)> = Vec::new();
    for (index, record) in report.cells.iter().enumerate() {
        let Some(predicted) = record.predicted.as_ref().filter(|predicted| predicted.agrees == Some(false)) else {
            continue;
        };
        let place = places.of(index);
        let alike =
            |first: &Record| (first.outcome, first.stage, &first.code) == (record.outcome, record.stage, &record.code);
        match groups.iter_mut().find(|(known, said, group)| *known == place && *said == predicted && alike(group[0])) {
            Some((_, _, group)) => group.push(record),
            None => groups.push((place, predicted, vec![record])),
        }
    }
    let set = CellSet::new(report);
    let finding = |(place, predicted, group): (&str, &Predicted, Vec<&Record>)| {
        let first = group[0];
        let axes: Vec<&Axes> = group.iter().map(|record| &record.axes).collect();
        let observed = sentence(first.outcome, first.stage, first.code.as_ref());
        let mut facts = vec![("predicted", words(predicted)), ("observed", observed.clone())];
        if let Some(rule) = find(&predicted.rule) {
            facts.push(("the rule", rule.says.into()));
            facts.push(("known from", format!("{} ({})", rule.source, rule.date)));
        }
        facts.extend(first.reason.clone().map(|reason| ("reason", reason)));
        Finding {
            tone: Tone::Bad,
            what: format!("predicted {}, observed {observed}", words(predicted)),
            cells: format!("{}{}", set.words(&axes), Places::suffix(place)),
            count: group.len(),
            facts,
            detail: None,
            again: set.again(&axes),
        }
    };
    groups.into_iter().map(finding).collect()
}

/// `fail at load: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222), by rule ptx-isa`.
pub(super) fn words(predicted: &Predicted) -> String {
    let said = sentence(predicted.outcome, predicted.stage, predicted.code.as_ref());
    format!("{said}, by rule {}", predicted.rule)
}
