//! Carries out one job: writes its request, gives it to the engine, and tries again where the engine, not the job, was
//! at fault. Its main type is [`Worker`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::{Mutex, OnceCell, mpsc, watch};

use super::dispatcher::{Input, JobReport};
use super::gpu::{GpuSetup, Search};
use super::provision::{Provisioner, failure};
use super::{nonce, requirement};
use crate::compat::predict::Measured;
use crate::engine::Engine;
use crate::engine::attach::{Attach, GpuChoice};
use crate::engine::job::{BenchTask, EngineError, JobEvent, JobSpec};
use crate::model::canary::Canary;
use crate::model::event::StackStep;
use crate::model::locked_stack::{LockedPackages, LockedStack};
use crate::model::place::{Place, Provisioned};
use crate::model::plan::Plan;
use crate::model::stack::{NOT_TESTED, Python, Stack};
use crate::model::wire::{Failure, GpuWish, HostLaunches, Request, Task, ToolkitFiles, WIRE};
use crate::toolkit::stack::baked::Facts;
use crate::toolkit::stack::{self, ReadyStack, StackAsk};
use crate::toolkit::{Cache, Pip};

/// Time for a container to start and end, beside its paths' own deadlines.
const SLACK: Duration = Duration::from_mins(1);

/// How often a job is started when the engine is lost in the middle of it.
const ATTEMPTS: u32 = 2;

/// Carries out the jobs of one run.
#[derive(Debug)]
pub struct Worker {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Where jobs run.
    pub engine: Engine,
    /// Child processes, by which the host is asked.
    pub host: Engine,
    /// The GPU, and how it is to reach the job.
    pub gpu: GpuSetup,
    /// `--gpu`.
    pub choice: GpuChoice,
    /// The run's id.
    pub run: String,
    /// Environment that every job gets.
    pub env: BTreeMap<String, String>,
    /// How the canary ended, once a job came as far as a GPU.
    pub canary: OnceCell<Canary>,
    /// What was measured of toolkits that the catalogue does not know, by name.
    pub measured: Mutex<BTreeMap<String, Option<Measured>>>,
    /// The images that stacks were baked into, with what is in them, by the hash of what each is made from.
    pub baked: Mutex<BTreeMap<String, (String, Facts)>>,
    /// How it looks at images.
    pub provisioner: Arc<Provisioner>,
    /// Where stacks of Python packages are made.
    pub cache: Cache,
    /// How their packages are fetched.
    pub pip: Pip,
    /// What stacks are held to; none in a run without `--locked`.
    pub locked: Option<BTreeMap<String, LockedStack>>,
    /// What may still be downloaded; none if there is no limit.
    pub budget: Option<Arc<AtomicU64>>,
}

impl Worker {
    /// Carries out a job and reports its end. Always reports: an engine's failure is data.
    pub async fn carry_out(
        &self,
        job: usize,
        provisioned: &Provisioned,
        tell: &mpsc::UnboundedSender<Input>,
        cancel: &watch::Receiver<bool>,
    ) -> JobReport {
        let nonce = nonce::random();
        let mut attempts = 0;
        let placed = match self.on_base(job, provisioned, cancel).await {
            Ok(placed) => placed,
            Err(failure) => {
                return JobReport { interrupted: *cancel.borrow(), ..JobReport::unplaced(failure) };
            }
        };
        let provisioned = placed.as_ref().unwrap_or(provisioned);
        let search = Search {
            engine: &self.engine,
            host: &self.host,
            choice: self.choice,
            device: None,
            run: &self.run,
            env: &self.env,
            cancel,
        };
        let attach = match self.gpu.attach(&search, provisioned).await {
            Ok(attach) => attach,
            Err(error) => return JobReport::bare(Err(error), attempts),
        };
        let image = provisioned.source.image.as_ref();
        if let (Some(require), Some(gpu)) = (image.and_then(|image| image.require_cuda.as_ref()), self.gpu.gpu()) {
            let (name, docker) = (&provisioned.toolkit.name, self.engine.info().version);
            let _ = tell.send(Input::Note(requirement::remark(name, require, gpu, &attach, docker.as_deref())));
        }
        if attach != Attach::None {
            // Jobs that start side by side wait for it.
            self.canary.get_or_init(|| self.let_canary_out(provisioned, &attach, cancel)).await;
        }
        let measured = self.measured(provisioned, tell, cancel).await;
        let stack = self.stack(job, provisioned, tell, cancel.clone()).await;
        let interrupted = *cancel.borrow();
        let name = match (&attach, &self.engine) {
            (Attach::None, _) => None,
            // A child process sees the GPU as the host does.
            (_, Engine::Process(_)) => Some("host".to_owned()),
            (attach, Engine::Docker(_)) => Some(attach.name().to_owned()),
        };
        loop {
            attempts += 1;
            let spec = self.spec(job, provisioned, &nonce, attach.clone(), stack.as_ref());
            let end = self.run_once(job, &spec, &nonce, tell, cancel).await;
            // After the last attempt it is waited for too, so that nothing is left in it.
            let lost = matches!(end, Err(EngineError::Lost(_))) && !*cancel.borrow();
            if lost && self.engine.returns(cancel).await && attempts < ATTEMPTS {
                let _ = tell.send(Input::Note(format!("{}: the engine was lost, and tried once more", spec.job)));
                continue;
            }
            return JobReport { end, attach: name, measured, attempts, stack, unplaced: None, interrupted };
        }
    }

    /// The Python packages of a job that has use for them.
    async fn stack(
        &self,
        job: usize,
        provisioned: &Provisioned,
        tell: &mpsc::UnboundedSender<Input>,
        mut cancel: watch::Receiver<bool>,
    ) -> Option<Result<ReadyStack, Failure>> {
        let planned = &self.plan.jobs[job];
        let used = planned.cells.iter().any(|cell| self.plan.cells[*cell].axes.path.family.is_python());
        let stack = &self.plan.stacks[planned.stack.filter(|_| used)?];
        let note = |text| drop(tell.send(Input::Note(text)));
        let by_everyone = matches!(self.engine, Engine::Docker(_));
        if let (Some(base), false) = (&stack.base, by_everyone) {
            let why = "child processes have no images: say --engine docker";
            return Some(Err(failure(format!("{NOT_TESTED}stack {} runs on image {base}, and {why}", stack.name))));
        }
        let image = match self.in_image(stack, provisioned).await {
            Ok(image) => image,
            Err(failure) => return Some(Err(failure)),
        };
        let image = image.as_ref();
        let step = |step| drop(tell.send(Input::Stack { stack: stack.name.clone(), step }));
        let locked = match self.locked(stack, &provisioned.place) {
            Ok(locked) => locked,
            Err(reason) => return Some(Err(failure(format!("stack {}: {reason}", stack.name)))),
        };
        let ask = StackAsk {
            stack,
            toolkit: provisioned,
            cache: &self.cache,
            pip: &self.pip,
            by_everyone,
            locked,
            image,
            budget: self.budget.as_deref(),
            progress: &step,
            note: &note,
        };
        if let (Python::Version(version), Some(image), None) = (&stack.python, image, &provisioned.dir) {
            let made = self.baked(&ask, version, image, &cancel).await;
            warn(&made, &note);
            return Some(made);
        }
        let made = tokio::select! {
            biased;
            Ok(_) = cancel.wait_for(|cancelled| *cancelled) => Err(failure("interrupted".into())),
            made = stack::provide(&ask) => made.map_err(|error| {
                let detail = error.detail().map(ToOwned::to_owned);
                Failure { detail, ..failure(format!("stack {}: {error}", stack.name)) }
            }),
        };
        step(StackStep::Ended);
        warn(&made, &note);
        Some(made)
    }

    /// What a stack is held to here. What is installed for a Python already was held against the lock before the run.
    fn locked(&self, stack: &Stack, place: &Place) -> Result<Option<&LockedPackages>, String> {
        let Some(locked) = self.locked.as_ref().filter(|_| stack.python != Python::Host) else { return Ok(None) };
        let held = locked.get(&stack.name).ok_or("it is not in ctk.lock")?;
        held.at(matches!(place, Place::Image { .. })).map(Some)
    }

    async fn run_once(
        &self,
        job: usize,
        spec: &JobSpec,
        nonce: &str,
        tell: &mpsc::UnboundedSender<Input>,
        cancel: &watch::Receiver<bool>,
    ) -> Result<crate::engine::job::JobEnd, EngineError> {
        let (events, mut happened) = mpsc::unbounded_channel();
        let relay = async {
            while let Some(event) = happened.recv().await {
                let input = match event {
                    JobEvent::Started => Input::Started { job, nonce: nonce.into() },
                    JobEvent::Output(bytes) => Input::Output { job, bytes },
                };
                // The receiver outlives every job.
                let _ = tell.send(input);
            }
        };
        let (end, ()) = tokio::join!(self.engine.run(spec, events, cancel.clone()), relay);
        end
    }

    fn spec(
        &self,
        job: usize,
        provisioned: &Provisioned,
        nonce: &str,
        attach: Attach,
        stack: Option<&Result<ReadyStack, Failure>>,
    ) -> JobSpec {
        let plan = &self.plan;
        let planned = &plan.jobs[job];
        let tasks: Vec<Task> = planned
            .cells
            .iter()
            .map(|cell| &plan.cells[*cell])
            // What its packages are not there for has its record already.
            .filter(|cell| match stack {
                Some(Ok(ready)) => ready.failed.iter().all(|(failed, ..)| *failed != cell.axes.path.family),
                Some(Err(_)) | None => !cell.axes.path.family.is_python(),
            })
            .map(|cell| Task { cell: cell.id.clone(), path: cell.axes.path, arch: cell.axes.arch })
            .collect();
        let stack = stack.and_then(|stack| stack.as_ref().ok());
        let path_timeout = Duration::from_millis(plan.limits.timeout_ms);
        let paths = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
        let request = Request {
            wire: WIRE,
            nonce: nonce.into(),
            gpu: if attach == Attach::None { GpuWish::None } else { self.gpu.wish() },
            toolkit: ToolkitFiles {
                version: provisioned.toolkit.version,
                roots: provisioned.roots.clone(),
                hashes: provisioned.hashes.clone(),
            },
            kernel: plan.kernels[planned.kernel].clone(),
            tasks,
            measure: plan.measure,
            launches: HostLaunches::default(),
            path_timeout_ms: plan.limits.timeout_ms,
            work: std::path::PathBuf::new(),
            stack: stack.map(|ready| ready.files.clone()),
        };
        let folders = stack.map(|ready| ready.folders.clone()).unwrap_or_default();
        let place = stack.and_then(|ready| ready.place.as_ref()).unwrap_or(&provisioned.place);
        JobSpec {
            run: self.run.clone(),
            job: planned.id.clone(),
            place: place.clone(),
            task: BenchTask::Run { request: Box::new(request), toolkit_dir: provisioned.dir.clone(), folders },
            attach,
            limits: plan.limits,
            deadline: path_timeout.saturating_mul(paths).saturating_add(SLACK),
            env: self.env.clone(),
        }
    }
}

/// Tells what is odd about a stack's packages, wherever they were put.
fn warn(made: &Result<ReadyStack, Failure>, note: &impl Fn(String)) {
    let records = made.iter().map(|ready| &ready.record);
    for (name, warning) in records.flat_map(|record| record.warnings.iter().map(|warning| (&record.name, warning))) {
        note(format!("stack {name}: {warning}"));
    }
}
