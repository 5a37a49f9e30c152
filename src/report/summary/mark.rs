//! What stands for a cell in a grid: a glyph and words, so that it reads without colour. Its main type is [`Mark`].

use std::fmt;

use crate::model::outcome::{Outcome, Stage};
use crate::model::record::{GpuMode, Predicted, Record};

/// How a cell's end is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As far as it can get.
    Good,
    /// Failed as `expect:` said.
    Foretold,
    /// Cannot run here, as foreseen.
    Skipped,
    /// Not a cell at all.
    Left,
    /// Not as expected.
    Bad,
    /// Did not run to its end.
    Unfinished,
}

impl Tone {
    /// Every tone.
    pub const ALL: [Self; 6] = [Self::Good, Self::Foretold, Self::Skipped, Self::Left, Self::Bad, Self::Unfinished];

    /// How the end of `record` is to be taken.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        match record.outcome {
            Outcome::Cancelled | Outcome::NotRun => Self::Unfinished,
            _ if !record.expected => Self::Bad,
            Outcome::Pass | Outcome::Built | Outcome::Loaded => Self::Good,
            Outcome::Skip => Self::Skipped,
            Outcome::ExpectedFail
            | Outcome::WrongResult
            | Outcome::Fail
            | Outcome::UnexpectedPass
            | Outcome::Timeout
            | Outcome::Crashed
            | Outcome::Oom
            | Outcome::Truncated
            | Outcome::Infra => Self::Foretold,
        }
    }

    /// One character of one column.
    #[must_use]
    pub const fn glyph(self) -> char {
        match self {
            Self::Good => '✓',
            Self::Foretold => '◇',
            Self::Skipped => '○',
            Self::Left => '·',
            Self::Bad => '✗',
            Self::Unfinished => '∅',
        }
    }
}

/// A glyph and words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// How it is to be taken.
    pub tone: Tone,
    /// The outcome, and for a failure the number of its code, or else its stage: `fail 222`, `timeout build`.
    pub words: String,
}

impl Mark {
    /// The mark of a record. `mode` is that of its run: what the test driver ran is no pass on a GPU.
    #[must_use]
    pub fn of(record: &Record, mode: GpuMode) -> Self {
        let mut words = record.outcome.name().to_owned();
        match record.outcome {
            Outcome::Fail | Outcome::ExpectedFail | Outcome::Timeout | Outcome::Crashed | Outcome::Oom => {
                match (&record.code, record.stage) {
                    (Some(code), _) => words = format!("{words} {}", code.number),
                    (None, Some(stage)) => words = format!("{words} {stage}"),
                    (None, None) => {}
                }
            }
            Outcome::Pass | Outcome::UnexpectedPass | Outcome::Loaded if mode == GpuMode::Fake => {
                words.push_str(" (fake)");
            }
            Outcome::Pass
            | Outcome::UnexpectedPass
            | Outcome::Loaded
            | Outcome::WrongResult
            | Outcome::Built
            | Outcome::Skip
            | Outcome::Truncated
            | Outcome::Infra
            | Outcome::Cancelled
            | Outcome::NotRun => {}
        }
        Self { tone: Tone::of(record), words }
    }

    /// The mark of what the rules say of a machine that is not here.
    #[must_use]
    pub fn predicted(predicted: &Predicted) -> Self {
        let tone = match predicted.outcome {
            Outcome::Pass | Outcome::Loaded | Outcome::Built => Tone::Good,
            Outcome::Skip => Tone::Skipped,
            _ => Tone::Foretold,
        };
        let words = match (&predicted.code, predicted.stage) {
            (Some(code), _) => format!("{} {}", predicted.outcome, code.number),
            (None, Some(stage)) => format!("{} {stage}", predicted.outcome),
            (None, None) => predicted.outcome.to_string(),
        };
        Self { tone, words }
    }

    /// The mark of a combination that is not a cell.
    #[must_use]
    pub fn excluded() -> Self {
        Self { tone: Tone::Left, words: "excluded".into() }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tone.glyph(), self.words)
    }
}

/// How a record ended, in words for a sentence: `fail at load: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)`.
pub(super) fn sentence(outcome: Outcome, stage: Option<Stage>, code: Option<&crate::model::outcome::Code>) -> String {
    let mut text = outcome.name().to_owned();
    if let Some(stage) = stage {
        text = format!("{text} at {stage}");
    }
    if let Some(code) = code {
        text = format!("{text}: {code}");
    }
    text
}
