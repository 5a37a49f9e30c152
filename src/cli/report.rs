//! `ctk-matrix report`: renders the report of one or several runs again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::args::{MatrixArguments, ReportArguments, ReportFormat};
use super::context;
use super::exit::{Code, Failure};
use crate::compat::judge::run_verdict;
use crate::compat::predict::fleet_of_artifact;
use crate::model::canary::Canary;
use crate::model::fleet::FleetEntry;
use crate::model::outcome::Outcome;
use crate::model::plan::Cell;
use crate::model::record::{Record, Report};
use crate::report::error::ReportError;
use crate::report::journal::ARTIFACTS;
use crate::report::merge::merge;
use crate::report::read::read_run;
use crate::report::summary::Summary;
use crate::report::terminal::Terminal;
use crate::report::{json, junit, markdown, terminal};

/// Prints the report. The exit code is that of a live run with these results.
pub(crate) fn report(arguments: &ReportArguments) -> Result<Code, Failure> {
    let fleet = match &arguments.fleet {
        None => Vec::new(),
        Some(file) => context::matrix(&MatrixArguments { matrix: Some(file.clone()), select: Vec::new() })?.fleet,
    };
    let read = |dir: &PathBuf| {
        let mut report = read_run(dir)?;
        if !fleet.is_empty() {
            ask_of_fleet(&mut report, dir, &fleet);
        }
        Ok(report)
    };
    let reports: Result<Vec<_>, ReportError> = arguments.dirs.iter().map(read).collect();
    let report = merge(reports.map_err(|error| failure(Code::Usage, error))?);
    let (summary, code) = summarise(&report);
    context::print(&match arguments.format {
        ReportFormat::Terminal => terminal_text(&summary),
        ReportFormat::Markdown => markdown::render(&summary),
        ReportFormat::Json => json::render(&report),
        ReportFormat::Junit => junit::render(&summary),
    })?;
    Ok(code)
}

/// What would load on each machine of the fleet, by the artifacts that the run kept. A cell without one keeps what the
/// run itself said of such machines.
fn ask_of_fleet(report: &mut Report, dir: &Path, fleet: &[FleetEntry]) {
    for cell in &mut report.cells {
        let Some(artifact) = &cell.artifact else { continue };
        let launches = cell.outcome != Outcome::Loaded;
        if let Ok(bytes) = std::fs::read(dir.join(ARTIFACTS).join(&artifact.sha256)) {
            cell.fleet = fleet_of_artifact(&bytes, launches, fleet);
        }
    }
}

/// The view model of a report, and the exit code that it stands for.
pub(crate) fn summarise(report: &Report) -> (Summary, Code) {
    let verdicts = verdicts(report);
    let expected = verdicts.is_empty()
        && report.cells.iter().all(|cell| cell.expected)
        && report.claims.iter().all(|claim| claim.expected);
    let code = if expected { Code::AsExpected } else { Code::NotAsExpected };
    (Summary::new(report, &verdicts), code)
}

/// What no single cell shows. In a merged report one cell may stand in several runs; it counts once here.
fn verdicts(report: &Report) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let records: Vec<Record> = report.cells.iter().filter(|cell| seen.insert(&cell.id)).cloned().collect();
    let planned = records.iter().map(|record| Cell {
        id: record.id.clone(),
        axes: record.axes.clone(),
        expectation: record.expectation.clone(),
    });
    let mut verdicts = run_verdict(&planned.collect::<Vec<_>>(), &records);
    for run in &report.runs {
        let complaint = run.canary.as_ref().and_then(Canary::complaint);
        let of = if report.runs.len() > 1 { format!("run {}: ", run.id) } else { String::new() };
        verdicts.extend(complaint.map(|complaint| format!("{of}{complaint}")));
    }
    verdicts
}

/// The report for stdout, as wide as the terminal.
pub(crate) fn terminal_text(summary: &Summary) -> String {
    let actions = std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| !value.is_empty());
    let terminal = Terminal { width: context::width(), colour: context::color(), runner: actions };
    terminal::render(summary, &terminal)
}

/// The failure for a report that could not be read or written.
pub(crate) fn failure(code: Code, error: ReportError) -> Failure {
    Failure::caused(code, "the report", error)
}
