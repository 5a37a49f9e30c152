//! `ctk-matrix run`: the main job, from the command line to the exit code.

use std::collections::{BTreeMap, HashMap};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OnceCell, mpsc, watch};

use super::args::{EngineArgument, ExpectArgument, RunArguments, SourceArgument};
use super::context;
use super::exit::{Code, Failure};
use super::foresight::{Foreseen, of_fleet_alone};
use super::report::{failure, summarise, terminal_text};
use super::resume::{Begun, Resumed};
use super::signals::Signals;
use super::{announce, elf, host, lock};
use crate::compat::predict::Predictor;
use crate::compat::predict::machine::{Jit, Machine};
use crate::engine::attach::GpuChoice;
use crate::engine::{Engine, EngineChoice};
use crate::model::arch::Arch;
use crate::model::claim::ClaimResult;
use crate::model::event::RunEvent;
use crate::model::matrix::{Matrix, Toolkit, ToolkitSource};
use crate::model::plan::{Job, Plan};
use crate::model::record::{Record, Run};
use crate::model::stack::StackRecord;
use crate::report::claims;
use crate::report::error::ReportError;
use crate::report::journal::{Journal, write_reports};
use crate::report::progress::{Progress, ProgressMode};
use crate::report::read;
use crate::run::claims::ClaimRunner;
use crate::run::gpu::{GpuSetup, Search};
use crate::run::images::Images;
use crate::run::names::PathNames;
use crate::run::provision::{Provisioner, SourceChoice};
use crate::run::recorder::{Foresight, Recorder};
use crate::run::runner::{RunEnd, Runner};
use crate::run::worker::Worker;
use crate::toolkit::packages::Packages;
use crate::toolkit::{Cache, Pip};

/// Environment of this program that jobs get: how the test suite tells its driver what to be.
const HANDED_ON: &str = "CTK_FAKE_";

/// More of it: what tells the driver which part of an artifact to take.
const HANDED_ON_TOO: [&str; 4] = ["CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT", "CUDA_FORCE_JIT", "CUDA_DISABLE_JIT"];

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
    let resumed = arguments.resume.as_deref().map(Resumed::open).transpose()?;
    let id = resumed.as_ref().map_or_else(host::run_id, |resumed| resumed.id().to_owned());
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
    let mut plan = context::plan(&matrix, &arguments.matrix, native)?;
    let rules = foresight(&matrix, &mut plan, &gpu, arguments.expect);
    let plan = Arc::new(plan);
    // What is carried out; the report is of the whole.
    let rest = resumed.as_ref().map_or_else(|| Arc::clone(&plan), |resumed| Arc::new(plan.without(&resumed.done())));
    let source = source_choice(arguments.images.source);
    let userland = uses_userland(&rest, &engine, source);
    if userland && let Some(why) = engine.without_userland() {
        return Err(Failure::new(Code::Engine, why));
    }
    if userland && let Err(error) = gpu.attach_userland(&search).await {
        return signals.code().map_or_else(|| Err(engine_failure(error)), Ok);
    }

    let cache = Cache::locate().map_err(|error| Failure::new(Code::Engine, error))?;
    let names = context::path_names(Some(cache.root()));
    let slots = slots(arguments.jobs, &gpu);
    let notes = remarks(note, &engine, &env);
    let mut run = head(&id, slots, &gpu, &engine, &plan, &names, notes);
    let lock = if arguments.locked { Some(lock::read(arguments.matrix.matrix.as_deref())?) } else { None };
    let mut provisioner = Provisioner {
        cache: cache.clone(),
        pip: Pip::default(),
        source,
        engine: engine.clone(),
        images: Images::of(arguments.images.image_repository.clone()),
        lock,
        bench_glibc: elf::glibc_floor(&bench),
    };
    let locked = provisioner.lock.as_ref().map(|lock| lock.stacks.clone());
    lock::hold(&provisioner, &plan).await?;
    let lines = announce::announce(&mut provisioner, &rest, arguments.max_download).await?;
    if let Some(code) = signals.code() {
        return Ok(code);
    }
    let (mut journal, begun) = match resumed {
        Some(resumed) => resumed.begin(&plan, &mut run)?,
        None => (create(&arguments, &run, &plan)?, Begun::default()),
    };
    journal.claims(&plan.claims).map_err(|error| failure(Code::Report, error))?;

    let contended = slots > 1 && rest.jobs.len() > 1;
    let claims = ClaimRunner {
        packages: Packages { cache: cache.clone(), pip: Pip::default() },
        limit: Duration::from_millis(plan.limits.timeout_ms),
    };
    let recorder = Recorder { run: id.clone(), gpu: gpu.mode(), contended, names: names.clone(), rules };
    let provisioner = Arc::new(provisioner);
    let worker = Worker {
        plan: Arc::clone(&rest),
        provisioner: Arc::clone(&provisioner),
        engine,
        host: processes,
        gpu,
        choice,
        run: id,
        env,
        canary: OnceCell::new(),
        measured: Mutex::default(),
        baked: Mutex::default(),
        cache,
        pip: Pip::default(),
        locked,
        budget: provisioner.images.left(),
    };
    let mut watcher = Watcher::new(journal, begun, &arguments, &mut run, names);
    watcher.announce(&lines);
    let runner = Runner { worker: Arc::new(worker), provisioner, recorder, slots };
    let end = watcher.watch(runner, claims, &plan, &signals, cancel).await;
    watcher.finish(&end, &signals, &plan)
}

/// What is to be said of the run before its first cell.
fn remarks(note: Option<String>, engine: &Engine, env: &BTreeMap<String, String>) -> Vec<String> {
    let jit = env.iter().filter(|(name, _)| HANDED_ON_TOO.contains(&name.as_str()));
    let jit = jit.map(|(name, value)| format!("{name}={value} is set, and handed on to every job"));
    let mut notes: Vec<String> = note.into_iter().chain(engine.notes().iter().cloned()).chain(jit).collect();
    notes.dedup();
    notes
}

/// What is known of the run before its first cell.
fn head(
    id: &str,
    slots: usize,
    gpu: &GpuSetup,
    engine: &Engine,
    plan: &Plan,
    names: &PathNames,
    notes: Vec<String>,
) -> Run {
    Run {
        id: id.to_owned(),
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
        canary: None,
        matrix: names.translate_text(&plan.origin, &[]),
        notes,
        stacks: Vec::new(),
    }
}

/// The folder of a run that is not resumed.
fn create(arguments: &RunArguments, run: &Run, plan: &Plan) -> Result<Journal, Failure> {
    let dir = arguments.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(host::folder_name()));
    let mut journal = Journal::create(&dir, run, &plan.cells, &plan.excluded).map_err(|error| {
        failure(if matches!(error, ReportError::Occupied { .. }) { Code::Usage } else { Code::Report }, error)
    })?;
    journal.settle(plan.settings()).map_err(|error| failure(Code::Report, error))?;
    Ok(journal)
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
    /// How often cells were tried before this run was resumed.
    attempts: HashMap<String, u32>,
    claims: Vec<ClaimResult>,
    names: PathNames,
}

impl<'a> Watcher<'a> {
    fn new(journal: Journal, begun: Begun, arguments: &RunArguments, run: &'a mut Run, names: PathNames) -> Self {
        let mode = if arguments.quiet {
            ProgressMode::Quiet
        } else if std::io::stderr().is_terminal() {
            ProgressMode::Bars
        } else {
            ProgressMode::Lines
        };
        let (progress, quiet) = (Progress::new(mode), arguments.quiet);
        let Begun { kept: records, attempts } = begun;
        let claims = Vec::new();
        Self { journal: Some(journal), broken: None, progress, quiet, run, records, attempts, claims, names }
    }

    /// Says what will be fetched, before anything is.
    fn announce(&mut self, lines: &[String]) {
        for note in lines {
            self.progress.event(&RunEvent::Note(note.clone()));
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
            if let RunEvent::CellFinished(record) = &mut event {
                record.attempts += self.attempts.get(&record.id).copied().unwrap_or_default();
            }
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
            RunEvent::JobNoise { job, text } => journal.log(job, text),
            RunEvent::Artifact { bytes, .. } => journal.artifact(bytes).map(drop),
            RunEvent::CellFinished(record) => journal.record(record),
            RunEvent::ClaimFinished(result) => journal.claim(result),
            RunEvent::Stack(stack) => {
                self.keep_stack(stack);
                Ok(())
            }
            RunEvent::Started { .. }
            | RunEvent::Provision { .. }
            | RunEvent::StackStep { .. }
            | RunEvent::JobStarted { .. }
            | RunEvent::JobStage { .. }
            | RunEvent::JobFinished { .. }
            | RunEvent::ClaimStep { .. }
            | RunEvent::Cancelling
            | RunEvent::Finished => Ok(()),
        }
    }

    /// One record for each environment of a stack, though it is built against each toolkit.
    fn keep_stack(&mut self, stack: &StackRecord) {
        match self.run.stacks.iter_mut().find(|known| known.is_environment_of(stack)) {
            Some(known) => {
                let new = stack.built.iter().filter(|built| !known.built.contains(built)).cloned().collect::<Vec<_>>();
                known.built.extend(new);
                let new =
                    stack.warnings.iter().filter(|text| !known.warnings.contains(text)).cloned().collect::<Vec<_>>();
                known.warnings.extend(new);
                let new = stack.images.iter().filter(|image| !known.images.contains(image)).cloned();
                let new = new.collect::<Vec<_>>();
                known.images.extend(new);
            }
            None => self.run.stacks.push(stack.clone()),
        }
    }

    fn finish(mut self, end: &RunEnd, signals: &Signals, plan: &Plan) -> Result<Code, Failure> {
        self.run.finished = Some(host::now());
        if let Some(gpu) = &end.gpu {
            self.run.gpu = Some(gpu.clone());
        }
        self.run.canary.clone_from(&end.canary);
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

/// The rules for this run. What they foresee becomes an expectation where that was asked for, and for cells that only
/// the fleet asked for.
fn foresight(matrix: &Matrix, plan: &mut Plan, gpu: &GpuSetup, expect: ExpectArgument) -> Foresight {
    let predictor = Arc::new(Predictor::new(&plan.kernels));
    let jit = Jit::of_environment(|name| std::env::var(name).ok());
    let machine = gpu.gpu().map(|gpu| Machine { jit, ..Machine::of_gpu(gpu) });
    let foreseen = Foreseen::of(plan, &predictor, machine.as_ref());
    match expect {
        ExpectArgument::Predicted => foreseen.adopt(plan, |_| true),
        ExpectArgument::Success => foreseen.adopt(plan, of_fleet_alone(matrix, plan.native)),
    }
    Foresight { predictor, machine, fleet: plan.fleet.clone() }
}

pub(super) fn engine_choice(argument: EngineArgument) -> EngineChoice {
    match argument {
        EngineArgument::Auto => EngineChoice::Auto,
        EngineArgument::Docker => EngineChoice::Docker,
        EngineArgument::Process => EngineChoice::Process,
    }
}

pub(super) fn source_choice(argument: SourceArgument) -> SourceChoice {
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
    let own_place = |job: &Job| {
        let toolkit = &plan.toolkits[job.toolkit];
        let base = job.stack.and_then(|stack| plan.stacks[stack].base.as_ref());
        toolkit.base.is_none() && base.is_none() && sure(toolkit)
    };
    matches!(engine, Engine::Process(_)) || plan.jobs.iter().any(own_place)
}

/// Environment of this program that jobs get.
pub(crate) fn handed_on() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(HANDED_ON) || HANDED_ON_TOO.contains(&name.as_str()))
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
