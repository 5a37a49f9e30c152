//! The dispatcher without a runtime: inputs in, events and commands out.

use std::collections::BTreeMap;

use super::*;
use crate::engine::job::JobExit;
use crate::model::arch::Arch;
use crate::model::axes::Axes;
use crate::model::kernel::{Kernel, Launch};
use crate::model::matrix::{Limits, Measure, Toolkit, ToolkitSource};
use crate::model::outcome::{Outcome, Stage};
use crate::model::path::Family;
use crate::model::place::Place;
use crate::model::plan::{Cell, Job};
use crate::model::record::{GpuMode, Record, Source, SourceKind};
use crate::model::wire::{PathResult, encode};
use crate::run::names::PathNames;

const NONCE: &str = "0123456789abcdef0123456789abcdef";

fn toolkit(name: &str) -> Toolkit {
    Toolkit { name: name.into(), version: name.parse().unwrap(), source: ToolkitSource::Unsaid, base: None }
}

/// A plan of one nvrtc and one nvcc cell for each toolkit.
fn plan(toolkits: &[&str]) -> Arc<Plan> {
    let (mut cells, mut jobs) = (Vec::new(), Vec::new());
    for (index, name) in toolkits.iter().enumerate() {
        let mut of_job = Vec::new();
        for path in ["nvrtc-cubin", "nvcc-cubin"] {
            let axes = Axes {
                toolkit: (*name).into(),
                path: path.parse().unwrap(),
                kernel: "vector_add".into(),
                arch: Arch::WITHOUT_GPU,
                stack: None,
            };
            of_job.push(cells.len());
            cells.push(Cell { id: axes.id(), axes, expectation: None });
        }
        jobs.push(Job { id: format!("job {name}"), toolkit: index, kernel: 0, stack: None, cells: of_job });
    }
    let kernel = Kernel {
        name: "vector_add".into(),
        entry: "vectorAdd".into(),
        options: Vec::new(),
        source: None,
        prebuilt: BTreeMap::new(),
        launch: Some(Launch::VECTOR_ADD),
    };
    Arc::new(Plan {
        origin: "test".into(),
        toolkits: toolkits.iter().map(|name| toolkit(name)).collect(),
        kernels: vec![kernel],
        stacks: Vec::new(),
        cells,
        jobs,
        excluded: Vec::new(),
        claims: Vec::new(),
        measure: Measure::default(),
        limits: Limits::default(),
        native: Arch::WITHOUT_GPU,
    })
}

fn dispatcher(toolkits: &[&str], slots: usize) -> Dispatcher {
    let names = PathNames::default();
    let recorder = Recorder { run: "r".into(), gpu: GpuMode::None, contended: false, names };
    Dispatcher::new(plan(toolkits), recorder, slots)
}

fn provisioned(name: &str) -> Input {
    let provisioned = Provisioned {
        toolkit: toolkit(name),
        source: Source { kind: SourceKind::Wheels, reference: "w".into(), digest: None },
        place: Place::Userland,
        dir: None,
        roots: Vec::new(),
        hashes: BTreeMap::new(),
        absent: vec![(Family::Nvcc, "the wheels carry no nvcc".into())],
        notes: vec!["wheels, not NVIDIA's image".into()],
    };
    Input::Provisioned { toolkit: 0, result: Ok(Box::new(provisioned)) }
}

fn for_toolkit(index: usize, input: Input) -> Input {
    match input {
        Input::Provisioned { result, .. } => Input::Provisioned { toolkit: index, result },
        other => other,
    }
}

fn ended(job: usize, frames: &[Frame], exit: JobExit) -> Input {
    let stdout = frames.iter().map(|frame| encode(NONCE, frame)).collect::<String>().into_bytes();
    let end = Ok(JobEnd {
        exit,
        stdout,
        stdout_cut: false,
        stderr: String::new(),
        mapped: Vec::new(),
        notes: Vec::new(),
        start_ms: 0.0,
        run_ms: 0.0,
    });
    Input::Ended { job, report: Box::new(JobReport::bare(NONCE.into(), end, 1)) }
}

fn path(toolkit: &str, path: &str, outcome: Outcome) -> Frame {
    let cell = format!("arch=7.5,kernel=vector_add,path={path},toolkit={toolkit}");
    Frame::Path(Box::new(PathResult::new(&cell, outcome)))
}

fn commands(reaction: &Reaction) -> Vec<String> {
    let name = |command: &Command| match command {
        Command::Provision(toolkit) => format!("provision {toolkit}"),
        Command::Start { job, .. } => format!("start {job}"),
    };
    reaction.commands.iter().map(name).collect()
}

fn records(reaction: &Reaction) -> Vec<&Record> {
    let record = |event: &'_ RunEvent| matches!(event, RunEvent::CellFinished(_));
    let finished = reaction.events.iter().filter(|event| record(event));
    finished.map(|event| if let RunEvent::CellFinished(record) = event { &**record } else { unreachable!() }).collect()
}

fn outcomes(reaction: &Reaction) -> Vec<(Outcome, bool)> {
    records(reaction).into_iter().map(|record| (record.outcome, record.expected)).collect()
}

fn notes(reaction: &Reaction) -> usize {
    reaction.events.iter().filter(|event| matches!(event, RunEvent::Note(_))).count()
}

#[test]
fn a_job_starts_when_its_toolkit_is_there_and_a_slot_is_free() {
    let mut dispatcher = dispatcher(&["12.0", "12.4", "12.6"], 1);
    assert_eq!(commands(&dispatcher.start()), ["provision 0", "provision 1"]);
    assert_eq!(commands(&dispatcher.handle(for_toolkit(1, provisioned("12.4")))), ["start 1", "provision 2"]);
    assert_eq!(commands(&dispatcher.handle(for_toolkit(0, provisioned("12.0")))), [""; 0], "the slot is taken");
    assert_eq!(commands(&dispatcher.handle(ended(1, &[], JobExit::Code(0)))), ["start 0"]);
}

#[test]
fn a_run_ends_when_every_cell_has_its_record_and_a_remark_is_made_once() {
    let mut dispatcher = dispatcher(&["12.0", "12.4"], 2);
    let _ = dispatcher.start();
    assert_eq!(notes(&dispatcher.handle(for_toolkit(0, provisioned("12.0")))), 1);
    assert_eq!(notes(&dispatcher.handle(for_toolkit(1, provisioned("12.4")))), 0);
    for (job, name) in ["12.0", "12.4"].into_iter().enumerate() {
        assert!(!dispatcher.is_done());
        let built = path(name, "nvrtc-cubin", Outcome::Built);
        let skipped = path(name, "nvcc-cubin", Outcome::Skip);
        let reaction = dispatcher.handle(ended(job, &[built, skipped, Frame::Final { count: 2 }], JobExit::Code(0)));
        assert_eq!(outcomes(&reaction), [(Outcome::Built, true), (Outcome::Skip, true)]);
        assert_eq!(records(&reaction)[1].reason.as_deref(), Some("the wheels carry no nvcc"));
        assert_eq!(matches!(reaction.events.last(), Some(RunEvent::Finished)), dispatcher.is_done());
    }
    assert!(dispatcher.is_done());
}

#[test]
fn a_frame_that_is_left_out_leaves_its_cell_truncated() {
    let mut dispatcher = dispatcher(&["12.0"], 1);
    let _ = dispatcher.start();
    let _ = dispatcher.handle(provisioned("12.0"));
    let frames = [path("12.0", "nvrtc-cubin", Outcome::Built), Frame::Final { count: 2 }];
    let reaction = dispatcher.handle(ended(0, &frames, JobExit::Code(0)));
    assert_eq!(outcomes(&reaction), [(Outcome::Built, true), (Outcome::Truncated, false)]);
}

#[test]
fn a_toolkit_that_does_not_come_fails_its_own_cells_and_no_others() {
    let mut dispatcher = dispatcher(&["12.0", "12.4"], 1);
    let _ = dispatcher.start();
    let failure = Failure { stage: Stage::Provision, code: None, reason: "no network".into(), detail: None };
    let reaction = dispatcher.handle(Input::Provisioned { toolkit: 0, result: Err(failure) });
    assert_eq!(outcomes(&reaction), [(Outcome::Fail, false), (Outcome::Fail, false)]);
    assert_eq!(records(&reaction)[0].stage, Some(Stage::Provision));
    assert_eq!(commands(&dispatcher.handle(for_toolkit(1, provisioned("12.4")))), ["start 1"]);
}

#[test]
fn an_interruption_starts_nothing_more_and_waits_for_what_runs() {
    let mut dispatcher = dispatcher(&["12.0", "12.4"], 1);
    let _ = dispatcher.start();
    let _ = dispatcher.handle(for_toolkit(0, provisioned("12.0")));
    let reaction = dispatcher.handle(Input::Cancel);
    assert_eq!(outcomes(&reaction), [(Outcome::NotRun, false), (Outcome::NotRun, false)]);
    assert!(!dispatcher.is_done());
    assert_eq!(commands(&dispatcher.handle(for_toolkit(1, provisioned("12.4")))), [""; 0]);
    let in_flight = [Frame::Stage { cell: dispatcher.plan.cells[0].id.clone(), stage: Stage::Build }];
    let reaction = dispatcher.handle(ended(0, &in_flight, JobExit::Cancelled));
    assert_eq!(outcomes(&reaction), [(Outcome::Cancelled, false), (Outcome::NotRun, false)]);
    assert!(dispatcher.is_done());
}

#[test]
fn stages_are_shown_while_a_job_runs() {
    let mut dispatcher = dispatcher(&["12.0"], 1);
    let _ = dispatcher.start();
    let _ = dispatcher.handle(provisioned("12.0"));
    let _ = dispatcher.handle(Input::Started { job: 0, nonce: NONCE.into() });
    let bytes = encode(NONCE, &Frame::Stage { cell: "c".into(), stage: Stage::Build }).into_bytes();
    let reaction = dispatcher.handle(Input::Output { job: 0, bytes });
    assert!(matches!(&reaction.events[..], [RunEvent::JobStage { stage: Stage::Build, .. }]), "{:?}", reaction.events);
}
