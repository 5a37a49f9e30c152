//! The dispatcher without a runtime: inputs in, events and commands out.

use std::collections::BTreeMap;

use super::*;
use crate::engine::output::Output;
use crate::model::arch::Arch;
use crate::model::axes::Axes;
use crate::model::kernel::{Kernel, Launch};
use crate::model::matrix::{Limits, Measure, Toolkit, ToolkitSource};
use crate::model::outcome::{Outcome, Stage};
use crate::model::path::{Family, Form};
use crate::model::place::Place;
use crate::model::plan::{Cell, Job};
use crate::model::record::{Artifact, GpuMode, Record, Source, SourceKind};
use crate::model::stack::{NOT_TESTED, StackFiles, StackRecord};
use crate::model::wire::{PathResult, encode};
use crate::run::names::PathNames;
use crate::run::recorder::Foresight;

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
        fleet: Vec::new(),
        measure: Measure::default(),
        limits: Limits::default(),
        native: Arch::WITHOUT_GPU,
    })
}

fn dispatcher(toolkits: &[&str], slots: usize) -> Dispatcher {
    let names = PathNames::default();
    let recorder =
        Recorder { run: "r".into(), gpu: GpuMode::None, contended: false, names, rules: Foresight::default() };
    Dispatcher::new(plan(toolkits), recorder, slots)
}

fn provisioned(name: &str) -> Input {
    let provisioned = Provisioned {
        toolkit: toolkit(name),
        source: Source { kind: SourceKind::Wheels, reference: "w".into(), digest: None, image: None },
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
    let end = Ok(JobEnd {
        exit,
        output: Output { frames: frames.to_vec(), ..Output::default() },
        stderr: String::new(),
        mapped: Vec::new(),
        notes: Vec::new(),
        start_ms: 0.0,
        run_ms: 0.0,
    });
    Input::Ended { job, report: Box::new(JobReport::bare(end, 1)) }
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

/// A dispatcher whose one job, a Rust path and three Python libraries, is at work.
fn with_a_stack() -> Dispatcher {
    let mut plan = Arc::unwrap_or_clone(plan(&["12.6"]));
    let axes = |path: &str| Axes { path: path.parse().unwrap(), stack: Some("s".into()), ..plan.cells[0].axes.clone() };
    let cells = ["nvrtc-cubin", "cuda-core", "cupy", "pycuda"].map(|path| {
        let axes = axes(path);
        Cell { id: axes.id(), axes, expectation: None }
    });
    plan.jobs[0].cells = (0..cells.len()).collect();
    plan.cells = cells.into();
    let mut dispatcher = dispatcher(&["12.6"], 1);
    dispatcher.plan = Arc::new(plan);
    let _ = dispatcher.start();
    let _ = dispatcher.handle(provisioned("12.6"));
    dispatcher
}

/// The end of that job: its packages, and a frame for each path that came to one.
fn ended_with(stack: Result<ReadyStack, Failure>, paths: &[(&str, Outcome, Option<&str>)]) -> Input {
    let frame = |(path, outcome, reason): &(&str, Outcome, Option<&str>)| {
        let cell = format!("arch=7.5,kernel=vector_add,path={path},stack=s,toolkit=12.6");
        let mut result = PathResult { reason: reason.map(Into::into), ..PathResult::new(&cell, *outcome) };
        if *outcome == Outcome::Built {
            (result.artifact, result.artifact_base64) = (Some(artifact()), Some("YWJj".into()));
        }
        Frame::Path(Box::new(result))
    };
    let mut frames: Vec<Frame> = paths.iter().map(frame).collect();
    frames.push(Frame::Final { count: paths.len() });
    match ended(0, &frames, JobExit::Code(0)) {
        Input::Ended { job, report } => {
            Input::Ended { job, report: Box::new(JobReport { stack: Some(stack), ..*report }) }
        }
        other => other,
    }
}

/// The bytes `abc`, as if they were an artifact.
fn artifact() -> Artifact {
    Artifact {
        kind: Form::Ptx,
        bytes: 3,
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".into(),
        producer: "stand-in".into(),
        ptx_isa: None,
        archs: vec!["compute_75".into()],
        registers: None,
        spill_bytes: None,
        shared_bytes: None,
    }
}

fn ready() -> ReadyStack {
    ReadyStack {
        record: StackRecord {
            name: "s".into(),
            python: "3.11".into(),
            python_version: "3.11.7".into(),
            asked: Vec::new(),
            resolved: Vec::new(),
            built: Vec::new(),
            images: Vec::new(),
            check: String::new(),
            warnings: Vec::new(),
        },
        files: StackFiles { name: "s".into(), python: "python3".into(), folders: Vec::new() },
        folders: Vec::new(),
        place: None,
        absent: Vec::new(),
        failed: Vec::new(),
    }
}

/// Whether the stack came, as the run is told.
fn told_of_the_stack(reaction: &Reaction) -> bool {
    reaction.events.iter().any(|event| matches!(event, RunEvent::Stack(_)))
}

/// Whether the records leave the run as expected: what its exit code is made of.
fn is_green(dispatcher: &Dispatcher, reaction: &Reaction) -> bool {
    let records: Vec<Record> = records(reaction).into_iter().cloned().collect();
    records.iter().all(|record| record.expected)
        && crate::compat::judge::run_verdict(&dispatcher.plan.cells, &records).is_empty()
}

const BUILT: (&str, Outcome, Option<&str>) = ("nvrtc-cubin", Outcome::Built, None);

#[test]
fn a_stack_that_does_not_come_fails_its_libraries_and_not_the_rust_paths() {
    let mut dispatcher = with_a_stack();
    let detail = Some("ERROR: No matching distribution".to_owned());
    let failure =
        Failure { stage: Stage::Provision, code: None, reason: "stack s: there is no numpy 9".into(), detail };
    let reaction = dispatcher.handle(ended_with(Err(failure.clone()), &[BUILT]));
    let fail = (Outcome::Fail, false);
    assert_eq!(outcomes(&reaction), [(Outcome::Built, true), fail, fail, fail]);
    for record in &records(&reaction)[1..] {
        assert_eq!((record.stage, record.reason.as_ref()), (Some(Stage::Provision), Some(&failure.reason)));
        assert_eq!(record.detail, failure.detail);
    }
    assert!(!told_of_the_stack(&reaction) && !is_green(&dispatcher, &reaction) && dispatcher.is_done());
}

#[test]
fn packages_that_an_interruption_kept_away_are_no_failure_and_are_tried_again() {
    let mut dispatcher = with_a_stack();
    let failure = Failure { stage: Stage::Provision, code: None, reason: "interrupted".into(), detail: None };
    let Input::Ended { job, report } = ended_with(Err(failure), &[BUILT]) else { unreachable!() };
    let report = Box::new(JobReport { interrupted: true, ..*report });
    let reaction = dispatcher.handle(Input::Ended { job, report });
    let left: Vec<Outcome> = outcomes(&reaction)[1..].iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(left, [Outcome::NotRun; 3]);
    let reason = records(&reaction)[1].reason.as_deref();
    assert_eq!(reason, Some("interrupted before its packages were there"));
}

#[test]
fn a_source_package_that_was_not_built_costs_its_own_library_alone() {
    let mut dispatcher = with_a_stack();
    let line = "pycuda cannot be built from source: a.c:2:1: error: x";
    let failed = vec![(Family::Pycuda, line.to_owned(), Some("a.c:2:1: error: x".to_owned()))];
    let done = [BUILT, ("cuda-core", Outcome::Built, None), ("cupy", Outcome::Built, None)];
    let reaction = dispatcher.handle(ended_with(Ok(ReadyStack { failed, ..ready() }), &done));
    let built = (Outcome::Built, true);
    assert_eq!(outcomes(&reaction), [built, built, built, (Outcome::Fail, false)]);
    let record = records(&reaction)[3];
    assert_eq!((record.stage, record.reason.as_deref()), (Some(Stage::Provision), Some(line)));
    assert_eq!(record.detail.as_deref(), Some("a.c:2:1: error: x"));
    assert!(told_of_the_stack(&reaction) && !is_green(&dispatcher, &reaction));
}

#[test]
fn a_skip_is_foreseen_by_the_stack_or_by_our_own_words_and_by_nothing_else() {
    let untested = format!("{NOT_TESTED}PyCUDA opens libcuda when it is imported");
    let absent = vec![(Family::Cupy, "stack s does not name cupy".to_owned())];
    let skips = [
        BUILT,
        ("cuda-core", Outcome::Built, None),
        ("cupy", Outcome::Skip, Some("CuPy is not installed in this stack")),
        ("pycuda", Outcome::Skip, Some(untested.as_str())),
    ];
    let (built, skip) = ((Outcome::Built, true), (Outcome::Skip, true));
    let mut dispatcher = with_a_stack();
    let reaction = dispatcher.handle(ended_with(Ok(ReadyStack { absent, ..ready() }), &skips));
    assert_eq!(outcomes(&reaction), [built, built, skip, skip]);
    let reasons: Vec<_> = records(&reaction).iter().map(|record| record.reason.clone().unwrap_or_default()).collect();
    assert_eq!(reasons[2..], ["stack s does not name cupy", untested.as_str()]);
    assert!(is_green(&dispatcher, &reaction));
    // A library that the stack names, and that is not there all the same.
    let mut dispatcher = with_a_stack();
    let reaction = dispatcher.handle(ended_with(Ok(ready()), &skips));
    assert_eq!(outcomes(&reaction), [built, built, (Outcome::Skip, false), skip]);
    assert!(!is_green(&dispatcher, &reaction));
    // These words are the Python program's: a compiler of the toolkit that says them is not believed.
    let mut dispatcher = with_a_stack();
    let skips = [("nvrtc-cubin", Outcome::Skip, Some(untested.as_str())), skips[1], skips[2], skips[3]];
    let reaction = dispatcher.handle(ended_with(Ok(ready()), &skips));
    assert_eq!(outcomes(&reaction)[0], (Outcome::Skip, false));
}
