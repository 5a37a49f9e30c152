//! Shows on stderr what a run is doing. Its main type is [`Progress`]; this is the only file that knows indicatif.
//!
//! On a terminal: a bar for each download, a line for each running job with its path and stage, and a bar for the
//! whole. Elsewhere: plain lines, at most a few a second. What is shown is made safe first, as in the reports.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::gate::Gate;
use super::text::{clipped, defused};
use crate::model::event::{ProvisionStep, RunEvent, StackStep};
use crate::model::record::Record;
use crate::model::units;

/// Characters of a text in a line.
const TEXT: usize = 300;
/// How often a spinner turns.
const TICK: Duration = Duration::from_millis(120);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    /// Bars and spinners, for a terminal; where stderr is none, plain lines all the same, so that nothing is lost.
    Bars,
    /// Plain lines.
    Lines,
    /// Nothing at all.
    Quiet,
}

/// Shows the events of a run.
#[derive(Debug)]
#[must_use]
pub struct Progress(View);

#[derive(Debug)]
enum View {
    Quiet,
    Lines(Gate),
    Bars(Board),
}

impl Progress {
    /// Nothing is shown before the first event.
    pub fn new(mode: ProgressMode) -> Self {
        Self(match mode {
            ProgressMode::Quiet => View::Quiet,
            ProgressMode::Bars if !ProgressDrawTarget::stderr().is_hidden() => {
                View::Bars(Board::new(ProgressDrawTarget::stderr()))
            }
            ProgressMode::Bars | ProgressMode::Lines => View::Lines(Gate::new(Instant::now())),
        })
    }

    /// Shows an event.
    pub fn event(&mut self, event: &RunEvent) {
        match &mut self.0 {
            View::Quiet => {}
            View::Lines(gate) => {
                let Some(line) = line(event) else { return };
                let lines = if always(event) { vec![line] } else { gate.pass(line, Instant::now()) };
                for line in lines {
                    say(&line);
                }
            }
            View::Bars(board) => board.event(event),
        }
    }

    /// Takes away what moves. What was said in lines stays.
    pub fn finish(self) {
        match self.0 {
            View::Quiet => {}
            View::Lines(mut gate) => gate.rest().as_deref().map_or((), say),
            View::Bars(board) => board.clear(),
        }
    }
}

/// A closed stderr is no reason to end a run.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Whether an event is shown even in a burst: what tells of the whole run.
fn always(event: &RunEvent) -> bool {
    matches!(event, RunEvent::Started { .. } | RunEvent::Note(_) | RunEvent::Cancelling)
}

/// The plain line for an event, where it is worth one.
fn line(event: &RunEvent) -> Option<String> {
    let line = match event {
        RunEvent::Started { cells, jobs } => {
            let plural = |count: &usize| if *count == 1 { "" } else { "s" };
            format!("{cells} cell{} in {jobs} job{}", plural(cells), plural(jobs))
        }
        RunEvent::Note(note) => clipped(note, TEXT),
        RunEvent::Provision { toolkit, step } => {
            let toolkit = clipped(toolkit, TEXT);
            match step {
                ProvisionStep::Started { bytes: Some(bytes) } => {
                    format!("toolkit {toolkit}: fetching {}", units::bytes(*bytes))
                }
                ProvisionStep::Started { bytes: None } => format!("toolkit {toolkit}: preparing"),
                ProvisionStep::Progress { .. } => return None,
                ProvisionStep::Finished => format!("toolkit {toolkit}: ready"),
                ProvisionStep::Failed(reason) => format!("toolkit {toolkit}: failed: {}", clipped(reason, TEXT)),
            }
        }
        RunEvent::StackStep { stack, step: StackStep::Started(download) } => {
            format!("stack {}: {download}", clipped(stack, TEXT))
        }
        RunEvent::JobStarted { job } => format!("{}: started", clipped(job, TEXT)),
        RunEvent::JobFinished { job } => format!("{}: ended", clipped(job, TEXT)),
        RunEvent::CellFinished(record) => return unexpected(record),
        RunEvent::ClaimStep { says, step } => format!("claim: {}: {}", clipped(says, TEXT), clipped(step, TEXT)),
        RunEvent::ClaimFinished(claim) => format!("claim: {}: {}", clipped(&claim.says, TEXT), claim.verdict.name()),
        RunEvent::Cancelling => "interrupted: ending what runs".into(),
        RunEvent::Stack(_)
        | RunEvent::StackStep { step: StackStep::Progress { .. } | StackStep::Ended, .. }
        | RunEvent::JobStage { .. }
        | RunEvent::JobNoise { .. }
        | RunEvent::Artifact { .. }
        | RunEvent::Finished => {
            return None;
        }
    };
    Some(defused(&line))
}

/// The line for a cell that is not as expected.
fn unexpected(record: &Record) -> Option<String> {
    if record.expected {
        return None;
    }
    let stage = record.stage.map_or(String::new(), |stage| format!(" at {stage}"));
    let code = record.code.as_ref().map_or(String::new(), |code| format!(", {code}"));
    let reason = record.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    let line = format!("not as expected: {}: {}{stage}{code}{reason}", record.id, record.outcome);
    Some(defused(&clipped(&line, TEXT)))
}

/// Bars and spinners.
#[derive(Debug)]
struct Board {
    all: MultiProgress,
    whole: ProgressBar,
    downloads: HashMap<String, ProgressBar>,
    jobs: HashMap<String, ProgressBar>,
}

impl Board {
    fn new(target: ProgressDrawTarget) -> Self {
        let all = MultiProgress::with_draw_target(target);
        // Not drawn until the number of cells is known.
        let whole = ProgressBar::hidden();
        Self { all, whole, downloads: HashMap::new(), jobs: HashMap::new() }
    }

    fn event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started { cells, .. } => {
                let bar = ProgressBar::new(*cells as u64)
                    .with_style(style("cells    [{bar:30}] {pos}/{len}  {elapsed}  {msg}"));
                self.whole = self.all.add(bar);
                self.whole.enable_steady_tick(TICK);
            }
            RunEvent::Provision { toolkit, step } => self.provision(toolkit, step),
            RunEvent::StackStep { stack, step } => {
                let name = format!("stack {stack}");
                match step {
                    StackStep::Started(download) => {
                        self.print(line(event));
                        self.download(&name, download.total());
                    }
                    StackStep::Progress { done } => self.fetched(&name, *done),
                    StackStep::Ended => self.remove(&name, |board| &mut board.downloads),
                }
            }
            RunEvent::JobStarted { job } => {
                let bar = ProgressBar::no_length()
                    .with_style(style("{spinner} {prefix}  {msg}  {elapsed}"))
                    .with_message("starting");
                let bar = self.add(job, bar);
                bar.enable_steady_tick(TICK);
                self.jobs.insert(job.clone(), bar);
            }
            RunEvent::JobStage { job, cell, stage } => {
                if let Some(bar) = self.jobs.get(job) {
                    bar.set_message(format!("{}: {stage}", clipped(path(cell), TEXT)));
                }
            }
            RunEvent::JobFinished { job } => self.remove(job, |board| &mut board.jobs),
            RunEvent::CellFinished(record) => {
                self.whole.inc(1);
                self.print(unexpected(record));
            }
            RunEvent::Note(_) | RunEvent::ClaimFinished(_) => self.print(line(event)),
            RunEvent::ClaimStep { step, .. } => self.whole.set_message(format!("claims: {}", clipped(step, TEXT))),
            RunEvent::Cancelling => self.whole.set_message("interrupted: ending what runs"),
            RunEvent::Stack(_) | RunEvent::JobNoise { .. } | RunEvent::Artifact { .. } | RunEvent::Finished => {}
        }
    }

    fn provision(&mut self, toolkit: &str, step: &ProvisionStep) {
        let name = format!("toolkit {toolkit}");
        match step {
            ProvisionStep::Started { bytes } => self.download(&name, *bytes),
            ProvisionStep::Progress { done } => self.fetched(&name, *done),
            ProvisionStep::Finished => self.remove(&name, |board| &mut board.downloads),
            ProvisionStep::Failed(_) => {
                self.remove(&name, |board| &mut board.downloads);
                let event = RunEvent::Provision { toolkit: toolkit.into(), step: step.clone() };
                self.print(line(&event));
            }
        }
    }

    /// A bar for what is being fetched, in the place of one that it has already.
    fn download(&mut self, name: &str, bytes: Option<u64>) {
        let bar = match bytes {
            Some(bytes) => ProgressBar::new(bytes).with_style(style(
                "{prefix}  [{bar:30}] {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}",
            )),
            None => ProgressBar::no_length().with_style(style("{spinner} {prefix}  {decimal_bytes}  {elapsed}")),
        };
        self.remove(name, |board| &mut board.downloads);
        let bar = self.add(name, bar);
        bar.enable_steady_tick(TICK);
        self.downloads.insert(name.into(), bar);
    }

    fn fetched(&self, name: &str, done: u64) {
        if let Some(bar) = self.downloads.get(name) {
            bar.set_position(done);
        }
    }

    /// Adds a bar that has its style already: it is drawn at once.
    fn add(&self, name: &str, bar: ProgressBar) -> ProgressBar {
        let bar = bar.with_prefix(clipped(name, TEXT));
        // The bar of the whole stays below the others.
        if self.whole.is_hidden() { self.all.add(bar) } else { self.all.insert_before(&self.whole, bar) }
    }

    fn remove(&mut self, name: &str, map: impl Fn(&mut Self) -> &mut HashMap<String, ProgressBar>) {
        if let Some(bar) = map(self).remove(name) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }

    fn print(&self, line: Option<String>) {
        if let Some(line) = line {
            let _ = self.all.println(line);
        }
    }

    fn clear(self) {
        for bar in self.downloads.values().chain(self.jobs.values()).chain([&self.whole]) {
            bar.finish_and_clear();
        }
        let _ = self.all.clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()).progress_chars("=> ")
}

/// The path in a cell's id.
fn path(cell: &str) -> &str {
    cell.split(',').find_map(|pair| pair.strip_prefix("path=")).unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::outcome::Stage;

    const CELL: &str = "arch=9.0,kernel=vector_add,path=nvrtc-cubin,toolkit=12.6";

    fn board() -> Board {
        let mut board = Board::new(ProgressDrawTarget::hidden());
        board.event(&RunEvent::Started { cells: 2, jobs: 1 });
        board
    }

    fn provision(step: ProvisionStep) -> RunEvent {
        RunEvent::Provision { toolkit: "12.6".into(), step }
    }

    fn stack(step: StackStep) -> RunEvent {
        RunEvent::StackStep { stack: "s".into(), step }
    }

    #[test]
    fn a_job_shows_its_path_and_stage_until_it_ends() {
        let mut board = board();
        let job = || "kernel=vector_add,toolkit=12.6".to_owned();
        board.event(&RunEvent::JobStarted { job: job() });
        assert_eq!(board.jobs[&job()].message(), "starting");
        board.event(&RunEvent::JobStage { job: job(), cell: CELL.into(), stage: Stage::Load });
        assert_eq!(board.jobs[&job()].message(), "nvrtc-cubin: load");
        board.event(&RunEvent::JobFinished { job: job() });
        assert!(board.jobs.is_empty());
    }

    #[test]
    fn a_download_moves_and_goes() {
        let mut board = board();
        board.event(&provision(ProvisionStep::Progress { done: 1 }));
        board.event(&provision(ProvisionStep::Started { bytes: Some(100) }));
        board.event(&provision(ProvisionStep::Progress { done: 40 }));
        let bar = &board.downloads["toolkit 12.6"];
        assert_eq!((bar.position(), bar.length()), (40, Some(100)));
        board.event(&provision(ProvisionStep::Failed("no network".into())));
        assert!(board.downloads.is_empty());
        board.event(&stack(StackStep::Started([Some(100)].into_iter().collect())));
        board.event(&stack(StackStep::Progress { done: 40 }));
        let bar = &board.downloads["stack s"];
        assert_eq!((bar.position(), bar.length()), (40, Some(100)));
        // Packages that are built from source come after the others.
        board.event(&stack(StackStep::Started([None].into_iter().collect())));
        assert_eq!((board.downloads.len(), board.downloads["stack s"].length()), (1, None));
        board.event(&stack(StackStep::Ended));
        assert!(board.downloads.is_empty());
    }

    #[test]
    fn plain_lines_tell_what_starts_ends_and_fails_and_no_more() {
        let events = [
            RunEvent::Started { cells: 7, jobs: 1 },
            provision(ProvisionStep::Started { bytes: Some(12_700_000) }),
            provision(ProvisionStep::Progress { done: 1 }),
            provision(ProvisionStep::Failed("::error::\u{1b}[31mno\nnetwork ##[x]".into())),
            stack(StackStep::Started([Some(212_000_000)].into_iter().collect())),
            stack(StackStep::Progress { done: 1 }),
            stack(StackStep::Ended),
            RunEvent::JobStarted { job: "toolkit=12.6".into() },
            RunEvent::JobStage { job: "toolkit=12.6".into(), cell: CELL.into(), stage: Stage::Build },
            RunEvent::JobNoise { job: "toolkit=12.6".into(), text: "noise".into() },
            RunEvent::Note("::add-mask::x".into()),
            RunEvent::Finished,
        ];
        let lines: Vec<String> = events.iter().filter_map(line).collect();
        assert_eq!(
            lines,
            [
                "7 cells in 1 job",
                "toolkit 12.6: fetching 12.7 MB",
                "toolkit 12.6: failed: ::error::\\u{1b}[31mno\\nnetwork ##\\[x]",
                "stack s: 1 package, 212 MB to fetch (less what pip has cached)",
                "toolkit=12.6: started",
                "\\::add-mask::x",
            ]
        );
    }
}
