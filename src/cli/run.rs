//! `ctk-matrix run`: the main job, from the command line to the exit code.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::args::{EngineArgument, RunArguments, SourceArgument};
use super::context;
use super::exit::{Code, Failure};
use super::report::{failure, summarise, terminal_text};
use super::signals::Signals;
use super::{elf, host};
use crate::engine::attach::GpuChoice;
use crate::engine::{Engine, EngineChoice};
use crate::model::arch::Arch;
use crate::model::claim::ClaimResult;
use crate::model::event::RunEvent;
use crate::model::matrix::{Toolkit, ToolkitSource};
use crate::model::plan::Plan;
use crate::model::record::{Record, Run};
use crate::model::stack::StackRecord;
use crate::report::claims;
use crate::report::error::ReportError;
use crate::report::journal::{Journal, write_reports};
use crate::report::progress::{Progress, ProgressMode};
use crate::report::read;
use crate::run::claims::ClaimRunner;
use crate::run::gpu::{GpuSetup, Search};
use crate::run::names::PathNames;
use crate::run::provision::{Provisioner, SourceChoice};
use crate::run::recorder::Recorder;
use crate::run::runner::{RunEnd, Runner};
use crate::run::worker::Worker;
use crate::toolkit::packages::Packages;
use crate::toolkit::{Cache, Pip};

/// Environment of this program that jobs get: how the test suite tells its driver what to be.
const HANDED_ON: &str = "CTK_FAKE_";

/// Carries out the matrix and reports.
pub(crate) fn run(arguments: RunArguments) -> Result<Code, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::caused(Code::Engine, "cannot start the runtime", error))?;
    runtime.block_on(carry_out(arguments))
}

async fn carry_out(arguments: RunArguments) -> Result<Code, Failure> {
    let choice: GpuChoice =
        arguments.gpu.parse().map_err(|error| Failure::new(Code::Usage, format!("--gpu: {error}")))?;
    let matrix = context::matrix(&arguments.matrix)?;
    let signals =
        Signals::listen().map_err(|error| Failure::caused(Code::Engine, "cannot listen for signals", error))?;
    let cancel = signals.cancelled();
    let bench = context::bench(arguments.bench.as_deref())?;
    let engine_failure = |error| Failure::new(Code::Engine, error);
    let engine = Engine::connect(engine_choice(arguments.engine), bench.clone()).await.map_err(engine_failure)?;
    let processes = Engine::connect(EngineChoice::Process, bench.clone()).await.map_err(engine_failure)?;
    let env = handed_on();
    let id = host::run_id();
    let device = arguments.device.clone().or_else(host::visible_device);
    let search = Search {
        engine: &engine,
        host: &processes,
        choice,
        device: device.as_deref(),
        run: &id,
        env: &env,
        cancel: &cancel,
    };
    let found = GpuSetup::find(&search).await;
    if let Some(code) = signals.code() {
        return Ok(code);
    }
    let (gpu, note) = found.map_err(|error| Failure::new(Code::Engine, error))?;
    let native = gpu.gpu().map_or(Arch::WITHOUT_GPU, |gpu| gpu.cc);
    let plan = Arc::new(context::plan(&matrix, &arguments.matrix, native)?);
    let source = source_choice(arguments.source);
    if uses_userland(&plan, &engine, source)
        && let Err(error) = gpu.attach_userland(&search).await
    {
        return signals.code().map_or_else(|| Err(engine_failure(error)), Ok);
    }

    let cache = Cache::locate().map_err(|error| Failure::new(Code::Engine, error))?;
    let names = context::path_names(Some(cache.root()));
    let slots = slots(arguments.jobs, &gpu);
    let mut notes: Vec<String> = note.into_iter().chain(engine.notes().iter().cloned()).collect();
    notes.dedup();
    let mut run = Run {
        id: id.clone(),
        started: host::now(),
        finished: None,
        command: names.translate_text(&host::command_line(), &[]),
        version: env!("CARGO_PKG_VERSION").into(),
        jobs: slots,
        gpu_mode: gpu.mode(),
        engine: engine.info(),
        attach: "none".into(),
        host: host::host(),
        gpu: gpu.gpu().cloned(),
        matrix: names.translate_text(&plan.origin, &[]),
        notes,
        stacks: Vec::new(),
    };
    let dir = arguments.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(host::folder_name()));
    let mut journal = Journal::create(&dir, &run, &plan.cells, &plan.excluded).map_err(|error| {
        failure(if matches!(error, ReportError::Occupied { .. }) { Code::Usage } else { Code::Report }, error)
    })?;

    journal.claims(&plan.claims).map_err(|error| failure(Code::Report, error))?;
    let contended = slots > 1 && plan.jobs.len() > 1;
    let claims = ClaimRunner {
        packages: Packages { cache: cache.clone(), pip: Pip::default() },
        limit: Duration::from_millis(plan.limits.timeout_ms),
    };
    let provisioner = Provisioner {
        cache: cache.clone(),
        pip: Pip::default(),
        source,
        engine: engine.clone(),
        bench_glibc: elf::glibc_floor(&bench),
    };
    let recorder = Recorder { run: id.clone(), gpu: gpu.mode(), contended, names: names.clone() };
    let worker = Worker {
        plan: Arc::clone(&plan),
        engine,
        host: processes,
        gpu,
        choice,
        run: id,
        env,
        cache,
        pip: Pip::default(),
    };
    let mut watcher = Watcher::new(journal, &arguments, &mut run, names);
    watcher.announce(&provisioner, &plan).await;
    let runner = Runner { worker: Arc::new(worker), provisioner: Arc::new(provisioner), recorder, slots };
    let end = watcher.watch(runner, claims, &plan, &signals, cancel).await;
    watcher.finish(&end, &signals, &plan)
}

/// Listens to a run: keeps what it tells, and shows it.
struct Watcher<'a> {
    journal: Option<Journal>,
    /// The first thing that could not be written. The run is ended, and what is known is printed all the same.
    broken: Option<ReportError>,
    progress: Progress,
    quiet: bool,
    run: &'a mut Run,
    records: Vec<Record>,
    claims: Vec<ClaimResult>,
    names: PathNames,
}

impl<'a> Watcher<'a> {
    fn new(journal: Journal, arguments: &RunArguments, run: &'a mut Run, names: PathNames) -> Self {
        let mode = if arguments.quiet {
            ProgressMode::Quiet
        } else if std::io::stderr().is_terminal() {
            ProgressMode::Bars
        } else {
            ProgressMode::Lines
        };
        let (progress, quiet) = (Progress::new(mode), arguments.quiet);
        let (records, claims) = (Vec::new(), Vec::new());
        Self { journal: Some(journal), broken: None, progress, quiet, run, records, claims, names }
    }

    /// Says what will be fetched, before anything is.
    async fn announce(&mut self, provisioner: &Provisioner, plan: &Plan) {
        let downloads = provisioner.downloads(&plan.toolkits).await;
        if !downloads.is_empty() {
            let total = crate::model::units::bytes(downloads.iter().map(|(_, bytes)| bytes).sum());
            let each: Vec<String> = downloads
                .iter()
                .map(|(name, bytes)| format!("{name} {}", crate::model::units::bytes(*bytes)))
                .collect();
            let note = format!("to download: {total} of NVIDIA's wheels ({})", each.join(", "));
            self.progress.event(&RunEvent::Note(note));
        }
        for note in self.run.notes.clone() {
            self.progress.event(&RunEvent::Note(note));
        }
    }

    async fn watch(
        &mut self,
        runner: Runner,
        claims: ClaimRunner,
        plan: &Arc<Plan>,
        signals: &Signals,
        cancel: watch::Receiver<bool>,
    ) -> RunEnd {
        let (tell, mut told) = mpsc::unbounded_channel();
        let plan = Arc::clone(plan);
        let task = tokio::spawn(async move {
            let end = runner.run(tell.clone(), cancel.clone()).await;
            // After the cells, whose timings an installing pip would disturb.
            claims.run(&plan.claims, &tell, cancel).await;
            end
        });
        while let Some(mut event) = told.recv().await {
            if let RunEvent::ClaimFinished(result) = &mut event {
                self.shorten(result);
            }
            self.progress.event(&event);
            if self.broken.is_none()
                && let Err(error) = self.keep(&event)
            {
                self.broken = Some(error);
                signals.cancel();
            }
            match event {
                RunEvent::CellFinished(record) => self.records.push(*record),
                RunEvent::ClaimFinished(claim) => self.claims.push(*claim),
                _ => {}
            }
        }
        // A panic of the runner leaves its cells without records, which the report shows as not run.
        task.await.unwrap_or_default()
    }

    /// Paths in what is said of a claim, as reports show them.
    fn shorten(&self, result: &mut ClaimResult) {
        let texts = result.evidence.iter_mut().chain(&mut result.detail).chain([&mut result.reason]);
        let tried = result.boundary.iter_mut().flat_map(|boundary| &mut boundary.tried).map(|tried| &mut tried.saw);
        for text in texts.chain(tried) {
            *text = self.names.translate_text(text, &[]);
        }
    }

    fn keep(&mut self, event: &RunEvent) -> Result<(), ReportError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        match event {
            RunEvent::Note(note) => {
                if !self.run.notes.contains(note) {
                    self.run.notes.push(note.clone());
                }
                Ok(())
            }
            RunEvent::JobNoise { job, line } => journal.log(job, line),
            RunEvent::Artifact { bytes, .. } => journal.artifact(bytes).map(drop),
            RunEvent::CellFinished(record) => journal.record(record),
            RunEvent::ClaimFinished(result) => journal.claim(result),
            RunEvent::Stack(stack) => {
                self.keep_stack(stack);
                Ok(())
            }
            RunEvent::Started { .. }
            | RunEvent::Provision { .. }
            | RunEvent::JobStarted { .. }
            | RunEvent::JobStage { .. }
            | RunEvent::JobFinished { .. }
            | RunEvent::ClaimStep { .. }
            | RunEvent::Cancelling
            | RunEvent::Finished => Ok(()),
        }
    }

    /// One record for each stack, though it is built against each toolkit.
    fn keep_stack(&mut self, stack: &StackRecord) {
        match self.run.stacks.iter_mut().find(|known| known.name == stack.name) {
            Some(known) => {
                let new = stack.built.iter().filter(|built| !known.built.contains(built)).cloned().collect::<Vec<_>>();
                known.built.extend(new);
                let new =
                    stack.warnings.iter().filter(|text| !known.warnings.contains(text)).cloned().collect::<Vec<_>>();
                known.warnings.extend(new);
            }
            None => self.run.stacks.push(stack.clone()),
        }
    }

    fn finish(mut self, end: &RunEnd, signals: &Signals, plan: &Plan) -> Result<Code, Failure> {
        self.run.finished = Some(host::now());
        if let Some(gpu) = &end.gpu {
            self.run.gpu = Some(gpu.clone());
        }
        if !end.attach.is_empty() {
            self.run.attach = end.attach.iter().cloned().collect::<Vec<_>>().join("+");
        }
        self.progress.finish();
        let dir = self.journal.as_ref().map(|journal| journal.dir().to_owned()).unwrap_or_default();
        let closed = match (self.broken.take(), self.journal.take()) {
            (None, Some(journal)) => journal.close(self.run),
            (Some(error), _) => Err(error),
            (None, None) => unreachable!("the journal is taken here alone"),
        };
        let (report, broken) = match closed {
            Ok(report) => (report, None),
            Err(error) => {
                let (records, excluded) = (std::mem::take(&mut self.records), plan.excluded.clone());
                let mut report = read::assemble(self.run.clone(), &plan.cells, records, excluded, Vec::new());
                report.claims = claims::results(&plan.claims, &self.claims, &report);
                (report, Some(error))
            }
        };
        let (summary, code) = summarise(&report);
        let broken = broken.or_else(|| write_reports(&dir, &report, &summary).err());
        context::print(&terminal_text(&summary))?;
        if let Some(error) = broken {
            return Err(failure(Code::Report, error));
        }
        if !self.quiet {
            eprintln!("the report is in {}", dir.display());
        }
        Ok(match signals.code() {
            Some(interrupted) => interrupted,
            None if end.gpu_unreachable => Code::Engine,
            None => code,
        })
    }
}

fn engine_choice(argument: EngineArgument) -> EngineChoice {
    match argument {
        EngineArgument::Auto => EngineChoice::Auto,
        EngineArgument::Docker => EngineChoice::Docker,
        EngineArgument::Process => EngineChoice::Process,
    }
}

fn source_choice(argument: SourceArgument) -> SourceChoice {
    match argument {
        SourceArgument::Auto => SourceChoice::Auto,
        SourceArgument::Image => SourceChoice::Image,
        SourceArgument::Wheels => SourceChoice::Wheels,
    }
}

/// Whether some job is sure to run on the host's user space. With `--source auto` an image may be found.
fn uses_userland(plan: &Plan, engine: &Engine, source: SourceChoice) -> bool {
    let sure = |toolkit: &Toolkit| match toolkit.source {
        ToolkitSource::Dir(_) => true,
        ToolkitSource::Unsaid => source == SourceChoice::Wheels,
        ToolkitSource::Image(_) => false,
    };
    matches!(engine, Engine::Process(_)) || plan.toolkits.iter().any(|toolkit| toolkit.base.is_none() && sure(toolkit))
}

fn handed_on() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(HANDED_ON))
        .collect()
}

/// One measurement at a time with a GPU; without one, a job for each processor.
fn slots(asked: Option<u16>, gpu: &GpuSetup) -> usize {
    match asked {
        Some(asked) => usize::from(asked),
        None if gpu.gpu().is_some() => 1,
        None => std::thread::available_parallelism().map_or(1, Into::into),
    }
}
