//! The one view of a report that all renderers for people read. Its main type is [`Summary`].
//!
//! It holds what is to be said, in order, as the data has it: each renderer makes the texts safe for its own medium,
//! and none decides what to say.

mod caches;
mod cellset;
mod claims;
mod closing;
mod compilers;
mod differences;
mod findings;
mod grid;
mod headline;
mod mark;
mod package_test;
mod places;
mod predictions;
mod speed;
mod stacks;
mod suites;
mod tables;

pub use claims::ClaimView;
pub use closing::Verdict;
pub use findings::{Finding, Group};
pub use grid::Grid;
pub use headline::Headline;
pub use mark::{Mark, Tone};
pub use predictions::Predictions;
pub use speed::{SPEED_COLUMNS, SpeedTable};
pub use stacks::{StackView, Told};
pub use suites::{Case, Status, Suite, Trouble};
pub use tables::{ARTIFACT_COLUMNS, ArtifactTable, TIMING_COLUMNS, TimingTable};

use crate::model::outcome::Outcome;
use crate::model::record::{GpuMode, Report};
use places::Places;

/// What a report says.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// What ran, where, on what.
    pub headline: Headline,
    /// What came of the note's claims.
    pub claims: Vec<ClaimView>,
    /// What became of the stacks of Python packages.
    pub stacks: Vec<StackView>,
    /// One compatibility grid for each kernel, architecture, stack and GPU.
    pub grids: Vec<Grid>,
    /// The same for each machine that is not here, by what the rules say of it.
    pub fleet: Vec<Grid>,
    /// One table for each toolkit of which something was timed on a GPU or could not get there.
    pub timings: Vec<TimingTable>,
    /// One table for each toolkit whose paths had a process each: how they compare.
    pub speeds: Vec<SpeedTable>,
    /// One table for each toolkit of which artifacts were made and nothing was launched.
    pub artifacts: Vec<ArtifactTable>,
    /// What each column means, one sentence each.
    pub legend: Vec<String>,
    /// What the rules said beforehand, against what happened; none where they said nothing.
    pub predictions: Option<Predictions>,
    /// Cells that did not end as expected, grouped where they say the same thing.
    pub unexpected: Vec<Finding>,
    /// Cells that failed as `expect:` said.
    pub expected_failures: Vec<Finding>,
    /// Foreseen skips, by reason.
    pub skips: Vec<Group>,
    /// Combinations that are not cells, by reason.
    pub exclusions: Vec<Group>,
    /// Earlier attempts that a newer run replaced.
    pub superseded: Vec<String>,
    /// How many cells ended how, in the outcomes' own order, without zeros.
    pub counts: Vec<(Outcome, usize)>,
    /// Whether all of that is as expected.
    pub verdict: Verdict,
    /// Which output was bit-identical, one line for each kernel.
    pub closing: Vec<String>,
    /// Every cell once more, by toolkit, for test views.
    pub suites: Vec<Suite>,
}

impl Summary {
    /// What `report` says. `verdicts` are the reasons for which the run as a whole is not as expected, beyond those
    /// of single cells; they come from the rules.
    #[must_use]
    pub fn new(report: &Report, verdicts: &[String]) -> Self {
        let places = Places::new(report);
        let (timings, artifacts) = tables::tables(report, &places);
        let verdict = Verdict::new(report, verdicts);
        let predictions = Predictions::new(report, &places);
        let mut headline = Headline::new(report);
        headline.alarms.extend(predictions.as_ref().and_then(Predictions::alarm));
        let mut closing = closing::bit_identity(report);
        closing.extend(predictions.as_ref().map(Predictions::line));
        let stacks = stacks::views(report);
        closing.extend(stacks::count(&stacks));
        Self {
            headline,
            claims: claims::views(report),
            stacks,
            grids: grid::grids(report, &places),
            fleet: grid::fleet(report, &places),
            legend: closing::legend(report, !timings.is_empty(), !artifacts.is_empty()),
            timings,
            speeds: speed::tables(report, &places),
            artifacts,
            unexpected: findings::unexpected(report, &places),
            expected_failures: findings::expected_failures(report, &places),
            skips: findings::skips(report),
            exclusions: findings::exclusions(report),
            superseded: findings::superseded(report),
            counts: closing::counts(report),
            suites: suites::suites(report, &places, &verdict),
            verdict,
            closing: closing.into_iter().chain(claims::count(report)).collect(),
            predictions,
        }
    }
}

/// How the run that made a record launched; `none` for a run that the report does not hold.
fn mode_of(report: &Report, run: &str) -> GpuMode {
    report.runs.iter().find(|candidate| candidate.id == run).map_or(GpuMode::None, |run| run.gpu_mode)
}
