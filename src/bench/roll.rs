//! Which path the worker is at, and what its end means for that path. The main type is [`Roll`], a state machine
//! without a process, a clock or a file.
//!
//! Every worker either finishes a path or costs one, so the number of workers is bounded by the number of paths.

use super::signals;
use crate::model::outcome::{Code, Outcome, Stage};
use crate::model::record::{GpuMode, LoadedFile};
use crate::model::wire::{Failure, Frame, Hello, PathResult, Task};

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// It exited.
    Exit(i32),
    /// A signal ended it that was not ours.
    Signal(i32),
    /// It was killed because a path passed its deadline.
    Deadline {
        /// The deadline in milliseconds.
        after_ms: u64,
    },
    /// It could not be started.
    NotStarted(String),
}

/// The tasks, and how far they are.
#[derive(Debug)]
pub(super) struct Roll<'a> {
    tasks: &'a [Task],
    /// The first task without a result.
    next: usize,
    /// The stage that the worker last announced for it.
    stage: Option<Stage>,
    /// Whether this worker has finished a task.
    progressed: bool,
    /// Workers in a row that ended before they had a driver.
    early: u32,
    hello: bool,
    /// The libcuda of this container, once a worker has said it.
    driver: Option<LoadedFile>,
}

/// After so many workers in a row that ended before they had a driver, the remaining paths share the last one's fate:
/// with a deadline of minutes a path, a driver that hangs would otherwise hold the GPU for as long as there are paths.
const EARLY_ENDS: u32 = 2;

impl<'a> Roll<'a> {
    /// All tasks still to do.
    pub(super) fn new(tasks: &'a [Task]) -> Self {
        Self { tasks, next: 0, stage: None, progressed: false, early: 0, hello: false, driver: None }
    }

    /// The index of the first task without a result.
    pub(super) fn next(&self) -> usize {
        self.next
    }

    /// Whether every task has its result.
    #[must_use]
    pub(super) fn done(&self) -> bool {
        self.next == self.tasks.len()
    }

    /// Whether a worker has said what the container is.
    pub(super) fn greeted(&self) -> bool {
        self.hello
    }

    /// The stage that the worker last announced.
    pub(super) fn stage(&self) -> Option<Stage> {
        self.stage
    }

    /// The libcuda that a worker opened.
    pub(super) fn driver(&self) -> Option<&LoadedFile> {
        self.driver.as_ref()
    }

    /// A new worker starts at [`Roll::next`].
    pub(super) fn begin(&mut self) {
        self.stage = None;
        self.progressed = false;
    }

    /// Whether a worker's frame is one to pass on: it speaks of the task that is next.
    #[must_use]
    pub(super) fn accept(&mut self, frame: &Frame) -> bool {
        let current = self.tasks.get(self.next).map(|task| task.cell.as_str());
        match frame {
            Frame::Hello(hello) => {
                self.hello = true;
                self.driver.clone_from(&hello.driver);
                true
            }
            Frame::Stage { cell, stage } => {
                let ours = current == Some(cell);
                if ours {
                    self.stage = Some(*stage);
                }
                ours
            }
            Frame::Path(result) => {
                let ours = current == Some(&result.cell);
                if ours {
                    self.next += 1;
                    self.stage = None;
                    self.progressed = true;
                    self.early = 0;
                }
                ours
            }
            // Only the supervisor knows when nothing more will come.
            Frame::Final { .. } => false,
        }
    }

    /// The worker ended: the frames that say so. None where it owed nothing, or where it ended between two paths.
    #[must_use]
    pub(super) fn end(&mut self, end: &End) -> Vec<Frame> {
        let mut frames = Vec::new();
        // A worker that loses its context ends itself after it has reported; the next one goes on.
        if !self.done() && (self.stage.is_some() || !self.progressed || matches!(end, End::Deadline { .. })) {
            let stage = self.stage.unwrap_or(Stage::Start);
            let early = matches!(stage, Stage::Start | Stage::DriverInit);
            self.early = if early { self.early + 1 } else { 0 };
            let last = if self.early >= EARLY_ENDS { self.tasks.len() } else { self.next + 1 };
            for (at, task) in self.tasks[..last].iter().enumerate().skip(self.next) {
                let mut result = verdict(&task.cell, stage, end);
                result.loaded.driver.clone_from(&self.driver);
                if at > self.next {
                    let reason = result.reason.take().unwrap_or_default();
                    result.reason =
                        Some(format!("{reason}; {EARLY_ENDS} workers in a row ended so, none was started again"));
                }
                frames.push(Frame::Path(Box::new(result)));
            }
            self.next = last;
            self.stage = None;
        }
        if self.done() && !self.hello {
            self.hello = true;
            frames.insert(0, missing_hello(end));
        }
        frames
    }
}

/// No worker lived long enough to say what it sees.
fn missing_hello(end: &End) -> Frame {
    let result = verdict("", Stage::DriverInit, end);
    Frame::Hello(Box::new(Hello {
        bench: env!("CARGO_PKG_VERSION").into(),
        glibc: super::glibc::version(),
        gpu_mode: GpuMode::None,
        driver: None,
        gpu: None,
        failure: result.reason.map(|reason| Failure {
            stage: Stage::DriverInit,
            code: result.code,
            reason,
            detail: result.detail,
        }),
    }))
}

fn verdict(cell: &str, stage: Stage, end: &End) -> PathResult {
    let (outcome, code, reason) = match end {
        End::Exit(status) => (
            Outcome::Fail,
            Some(Code { name: "EXIT".into(), number: (*status).into() }),
            format!("the worker exited with status {status} at {stage}, without a result"),
        ),
        End::Signal(signal) => {
            let name = signals::name(*signal);
            let reason = format!("the worker died of {name} at {stage}");
            (Outcome::Crashed, Some(Code { name, number: (*signal).into() }), reason)
        }
        End::Deadline { after_ms } => {
            (Outcome::Timeout, None, format!("not done after {} s, at {stage}", seconds(*after_ms)))
        }
        End::NotStarted(why) => (Outcome::Fail, None, format!("the worker could not be started: {why}")),
    };
    PathResult { stage: Some(stage), code, reason: Some(reason), ..PathResult::new(cell, outcome) }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::arch::Arch;

    fn tasks(count: usize) -> Vec<Task> {
        let task = |at| Task { cell: format!("c{at}"), path: "driver-ptx".parse().unwrap(), arch: Arch::new(9, 0) };
        (0..count).map(task).collect()
    }

    fn stage(cell: &str, stage: Stage) -> Frame {
        Frame::Stage { cell: cell.into(), stage }
    }

    fn passed(cell: &str) -> Frame {
        Frame::Path(Box::new(PathResult::new(cell, Outcome::Pass)))
    }

    fn hello() -> Frame {
        Frame::Hello(Box::new(Hello {
            bench: String::new(),
            glibc: None,
            gpu_mode: GpuMode::None,
            driver: None,
            gpu: None,
            failure: None,
        }))
    }

    fn accept(roll: &mut Roll<'_>, frames: &[Frame]) {
        for frame in frames {
            assert!(roll.accept(frame), "{frame:?}");
        }
    }

    /// What the frames say of paths: cell, outcome, stage, code.
    fn ends(frames: &[Frame]) -> Vec<String> {
        let say = |frame: &Frame| match frame {
            Frame::Path(result) => {
                let stage = result.stage.map(|stage| stage.name()).unwrap_or_default();
                let code = result.code.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("{} {} {stage} {code}", result.cell, result.outcome)
            }
            Frame::Hello(hello) => format!("hello {}", hello.failure.as_ref().map_or("", |failure| &failure.reason)),
            other => format!("{other:?}"),
        };
        frames.iter().map(say).collect()
    }

    #[test]
    fn a_death_costs_the_path_at_its_last_stage_and_no_other() {
        let tasks = tasks(3);
        let mut roll = Roll::new(&tasks);
        roll.begin();
        accept(&mut roll, &[hello(), stage("c0", Stage::Build), passed("c0"), stage("c1", Stage::Build)]);
        accept(&mut roll, &[stage("c1", Stage::Load)]);
        assert_eq!(ends(&roll.end(&End::Signal(11))), ["c1 crashed load SIGSEGV (11)"]);
        roll.begin();
        accept(&mut roll, &[hello(), stage("c2", Stage::Steady)]);
        assert_eq!(ends(&roll.end(&End::Deadline { after_ms: 1500 })), ["c2 timeout steady "]);
        assert!(roll.done());
    }

    #[test]
    fn a_worker_that_ends_itself_after_a_report_costs_nothing() {
        let tasks = tasks(2);
        let mut roll = Roll::new(&tasks);
        roll.begin();
        accept(&mut roll, &[hello(), stage("c0", Stage::FirstLaunch), passed("c0")]);
        assert_eq!(ends(&roll.end(&End::Exit(3))), [""; 0]);
        assert_eq!((roll.next(), roll.done()), (1, false));
        roll.begin();
        assert_eq!(ends(&roll.end(&End::Exit(3))), ["c1 fail start EXIT (3)"]);
    }

    #[test]
    fn a_driver_that_kills_two_workers_in_a_row_is_not_asked_again() {
        let tasks = tasks(4);
        let mut roll = Roll::new(&tasks);
        for _ in 0..2 {
            roll.begin();
            let cell = tasks[roll.next()].cell.clone();
            accept(&mut roll, &[stage(&cell, Stage::DriverInit)]);
            let frames = roll.end(&End::Signal(6));
            if roll.done() {
                let crashed = |cell| format!("{cell} crashed driver-init SIGABRT (6)");
                let hello = "hello the worker died of SIGABRT at driver-init".to_owned();
                assert_eq!(ends(&frames), [hello, crashed("c1"), crashed("c2"), crashed("c3")]);
            } else {
                assert_eq!(ends(&frames), ["c0 crashed driver-init SIGABRT (6)"]);
            }
        }
        assert!(roll.done());
    }

    #[test]
    fn a_frame_that_speaks_of_another_path_is_not_passed_on() {
        let tasks = tasks(2);
        let mut roll = Roll::new(&tasks);
        roll.begin();
        assert!(!roll.accept(&passed("c1")));
        assert!(!roll.accept(&stage("c1", Stage::Load)));
        assert!(!roll.accept(&Frame::Final { count: 0 }));
        accept(&mut roll, &[passed("c0")]);
        assert!(!roll.accept(&passed("c0")));
    }
}
