//! Every cell as a test case, by toolkit, for the test views of CI systems. Its main type is [`Suite`].

use super::closing::Verdict;
use super::findings::facts;
use super::mark::{Tone, sentence};
use super::mode_of;
use super::places::Places;
use crate::model::outcome::Outcome;
use crate::model::record::{GpuMode, Record, Report};

/// The cells of one toolkit.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// The toolkit, and what else tells it apart.
    pub name: String,
    /// Its cells.
    pub cases: Vec<Case>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The cell's id.
    pub name: String,
    /// Building, loading and the first launch, in seconds; none if nothing was timed.
    pub seconds: Option<f64>,
    /// How it counts.
    pub status: Status,
}

/// How a cell counts in a test view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// As expected.
    Pass,
    /// A foreseen skip, with its reason.
    Skipped(String),
    /// The cell is not as expected.
    Failure(Trouble),
    /// What ran the cell is not as expected, so that of the cell itself nothing is known.
    Error(Trouble),
}

/// What to say of a cell that does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The outcome's name.
    pub kind: String,
    /// One line.
    pub message: String,
    /// Labelled texts.
    pub facts: Vec<(&'static str, String)>,
    /// The raw text behind it.
    pub detail: Option<String>,
}

pub(super) fn suites(report: &Report, places: &Places, verdict: &Verdict) -> Vec<Suite> {
    let mut suites: Vec<Suite> = Vec::new();
    for (index, record) in report.cells.iter().enumerate() {
        let fake = if mode_of(report, &record.run) == GpuMode::Fake { " (TEST DRIVER, NOT A GPU)" } else { "" };
        let name = format!("toolkit {}{fake}{}", record.axes.toolkit, Places::suffix(places.of(index)));
        let at = suites.iter().position(|suite| suite.name == name).unwrap_or_else(|| {
            suites.push(Suite { name, cases: Vec::new() });
            suites.len() - 1
        });
        suites[at].cases.push(Case { name: record.id.clone(), seconds: seconds(record), status: status(record) });
    }
    suites.extend(super::claims::suite(report));
    // A run can be worth nothing though each of its cells is as expected; that must not look green.
    let cases: Vec<Case> = verdict
        .reasons
        .iter()
        .map(|reason| Case {
            name: reason.clone(),
            seconds: None,
            status: Status::Failure(Trouble {
                kind: "run".into(),
                message: reason.clone(),
                facts: Vec::new(),
                detail: None,
            }),
        })
        .collect();
    if !cases.is_empty() {
        suites.push(Suite { name: "the run as a whole".into(), cases });
    }
    suites
}

fn status(record: &Record) -> Status {
    if record.expected {
        return match Tone::of(record) {
            Tone::Skipped => Status::Skipped(record.reason.clone().unwrap_or_default()),
            Tone::Unfinished => Status::Error(trouble(record)),
            Tone::Good | Tone::Foretold | Tone::Left | Tone::Bad => Status::Pass,
        };
    }
    match record.outcome {
        Outcome::Timeout
        | Outcome::Crashed
        | Outcome::Oom
        | Outcome::Truncated
        | Outcome::Infra
        | Outcome::Cancelled
        | Outcome::NotRun => Status::Error(trouble(record)),
        Outcome::Pass
        | Outcome::Built
        | Outcome::Loaded
        | Outcome::ExpectedFail
        | Outcome::Skip
        | Outcome::WrongResult
        | Outcome::Fail
        | Outcome::UnexpectedPass => Status::Failure(trouble(record)),
    }
}

fn trouble(record: &Record) -> Trouble {
    let how = sentence(record.outcome, record.stage, record.code.as_ref());
    let message = record.reason.as_ref().map_or_else(|| how.clone(), |reason| format!("{how}: {reason}"));
    Trouble {
        kind: record.outcome.name().into(),
        message,
        facts: facts(record),
        detail: record.detail.clone().filter(|detail| !detail.trim().is_empty()),
    }
}

fn seconds(record: &Record) -> Option<f64> {
    let timings = &record.timings;
    let parts: Vec<f64> = [timings.build_ms, timings.load_ms, timings.first_ms].into_iter().flatten().collect();
    let total = parts.iter().sum::<f64>() / 1000.0;
    (!parts.is_empty() && total.is_finite() && total >= 0.0).then_some(total)
}
