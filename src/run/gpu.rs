//! Whether there is a GPU, and how it reaches a job. Its main type is [`GpuSetup`].
//!
//! The host is asked first, by `ctk-bench probe` as a child process. Then each kind of place (the host's user space,
//! each image) is probed with the attach modes in their order until one shows the GPU inside: that a container starts
//! says nothing about its GPU.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, watch};

use super::harvest::Harvest;
use super::nonce;
use crate::engine::Engine;
use crate::engine::attach::{Attach, EngineFeatures, GpuChoice, candidates};
use crate::engine::host_gpu::HostGpu;
use crate::engine::job::{BenchTask, EngineError, JobExit, JobSpec};
use crate::model::matrix::Limits;
use crate::model::place::{Place, Provisioned};
use crate::model::record::{Gpu, GpuMode};
use crate::model::wire::{GpuWish, Hello};

/// Opening the driver takes a second on a host without persistence mode, and some more with many GPUs.
const PROBE_DEADLINE: Duration = Duration::from_mins(1);

/// Whether there is a GPU to use.
#[derive(Debug, Clone)]
pub enum GpuSetup {
    /// Nothing is launched.
    None,
    /// This one.
    Present(Arc<PresentGpu>),
}

/// A GPU that the host's driver showed.
#[derive(Debug)]
pub struct PresentGpu {
    /// What the driver said of it.
    pub gpu: Gpu,
    /// Whose driver it is.
    pub mode: GpuMode,
    choice: GpuChoice,
    host: HostGpu,
    /// What was found for each place.
    verified: Mutex<HashMap<String, Result<Attach, EngineError>>>,
    unreachable: AtomicBool,
}

/// What a search for the GPU is about.
#[derive(Debug, Clone)]
pub struct Search<'a> {
    /// The engine of the run.
    pub engine: &'a Engine,
    /// Child processes, by which the host is asked.
    pub host: &'a Engine,
    /// `--gpu`.
    pub choice: GpuChoice,
    /// `--device`, by index or UUID.
    pub device: Option<&'a str>,
    /// The run's id.
    pub run: &'a str,
    /// Environment that every job gets.
    pub env: &'a BTreeMap<String, String>,
    /// True ends it.
    pub cancel: &'a watch::Receiver<bool>,
}

/// There is no GPU to use, though there should be. The text names every mode that was tried, and the cure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoGpu(pub String);

impl GpuSetup {
    /// Looks for the GPU. Gives a remark where there is none and none is needed.
    pub async fn find(search: &Search<'_>) -> Result<(Self, Option<String>), NoGpu> {
        if search.choice == GpuChoice::None {
            return Ok((Self::None, None));
        }
        if search.engine.without_userland().is_some() {
            let text = "the engine is on another machine, whose GPU is not looked for: run ctk-matrix there to launch";
            return match search.choice {
                GpuChoice::Auto => Ok((Self::None, Some(text.into()))),
                _ => Err(NoGpu(format!("{text}, or say --gpu none"))),
            };
        }
        let host = HostGpu::detect(None);
        if search.choice == GpuChoice::Auto && !host.present() {
            return Ok((Self::None, None));
        }
        let ways = candidates(GpuChoice::Devices, &Place::Userland, &EngineFeatures::default(), &host, search.device);
        let mut tried = Vec::new();
        if ways.is_empty() {
            tried.push("on the host: there is no libcuda.so.1".to_owned());
        }
        let found = first_that_shows(search.host, &Place::Userland, ways, "on the host", search, &mut tried).await;
        let found = match found {
            Some((_, hello)) => Some(hello),
            // A host may keep its driver where only its container toolkit finds it.
            None if host.kernel_driver && matches!(search.engine, Engine::Docker(_)) => {
                let features = search.engine.features();
                let ways = candidates(search.choice, &Place::Userland, &features, &host, search.device);
                let shown = first_that_shows(search.engine, &Place::Userland, ways, "", search, &mut tried).await;
                shown.map(|(_, hello)| hello)
            }
            None => None,
        };
        let Some((gpu, mode)) = found.and_then(|hello| Some((hello.gpu?, hello.gpu_mode))) else {
            return no_gpu(search.choice, &host, &tried);
        };
        let (choice, verified) = (search.choice, Mutex::default());
        let unreachable = AtomicBool::new(false);
        Ok((Self::Present(Arc::new(PresentGpu { gpu, mode, choice, host, verified, unreachable })), None))
    }

    /// The way for the GPU to reach a job on this toolkit, found once for each place.
    pub async fn attach(&self, search: &Search<'_>, provisioned: &Provisioned) -> Result<Attach, EngineError> {
        match self {
            Self::None => Ok(Attach::None),
            Self::Present(present) => present.attach(search, &provisioned.place).await,
        }
    }

    /// The same for the host's user space, before anything is fetched for a run that cannot be.
    pub async fn attach_userland(&self, search: &Search<'_>) -> Result<Attach, EngineError> {
        match self {
            Self::None => Ok(Attach::None),
            Self::Present(present) => present.attach(search, &Place::Userland).await,
        }
    }

    /// What a job is to use.
    #[must_use]
    pub fn wish(&self) -> GpuWish {
        match self {
            Self::None => GpuWish::None,
            Self::Present(present) => GpuWish::Device(present.gpu.uuid.clone()),
        }
    }

    /// The GPU, if there is one.
    #[must_use]
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            Self::None => None,
            Self::Present(present) => Some(&present.gpu),
        }
    }

    /// Whose driver it is.
    #[must_use]
    pub fn mode(&self) -> GpuMode {
        match self {
            Self::None => GpuMode::None,
            Self::Present(present) => present.mode,
        }
    }

    /// Whether the GPU could not be brought into some place.
    #[must_use]
    pub fn unreachable(&self) -> bool {
        match self {
            Self::None => false,
            Self::Present(present) => present.unreachable.load(Ordering::Relaxed),
        }
    }
}

impl PresentGpu {
    async fn attach(&self, search: &Search<'_>, place: &Place) -> Result<Attach, EngineError> {
        let key = match place {
            Place::Userland => "userland".to_owned(),
            Place::Image { id, .. } => id.clone(),
        };
        // Held while probing, so that jobs on one place wait for one probe.
        let mut verified = self.verified.lock().await;
        if let Some(known) = verified.get(&key) {
            return known.clone();
        }
        let features = search.engine.features();
        let uuid = Some(self.gpu.uuid.as_str());
        let choice = match search.engine {
            // A child process has the host's devices whatever the mode.
            Engine::Process(_) => GpuChoice::Devices,
            Engine::Docker(_) => self.choice,
        };
        let ways = candidates(choice, place, &features, &self.host, uuid);
        let mut tried = Vec::new();
        if ways.is_empty() {
            tried.push(format!("{}: this engine and host do not offer it", choice.name()));
        }
        let device = Search { device: uuid, ..search.clone() };
        let found = first_that_shows(search.engine, place, ways, "", &device, &mut tried).await;
        let result = match found {
            Some((attach, _)) => Ok(attach),
            None if *search.cancel.borrow() => Err(EngineError::Setup("interrupted".into())),
            None => {
                self.unreachable.store(true, Ordering::Relaxed);
                let place = match place {
                    Place::Userland => "the host's user space".to_owned(),
                    Place::Image { reference, .. } => format!("image {reference}"),
                };
                let text = format!(
                    "no attach mode brings {} into a container on {place}; tried {}",
                    self.gpu.name,
                    tried.join("; ")
                );
                Err(EngineError::Start { text })
            }
        };
        verified.insert(key, result.clone());
        result
    }
}

fn no_gpu(choice: GpuChoice, host: &HostGpu, tried: &[String]) -> Result<(GpuSetup, Option<String>), NoGpu> {
    let tried = if tried.is_empty() { "nothing to try".to_owned() } else { tried.join("; ") };
    match choice {
        GpuChoice::Auto if !host.kernel_driver => {
            let note = format!("a libcuda is installed, and there is no GPU behind it ({tried}): nothing is launched");
            Ok((GpuSetup::None, Some(note)))
        }
        GpuChoice::Auto => Err(NoGpu(format!(
            "this host has NVIDIA's kernel driver, and its GPU cannot be used: {tried}\n\
             Mend that, or say --gpu none to build and inspect without it"
        ))),
        GpuChoice::None => Ok((GpuSetup::None, None)),
        GpuChoice::Required | GpuChoice::Request | GpuChoice::Runtime | GpuChoice::Cdi | GpuChoice::Devices => {
            Err(NoGpu(format!("--gpu {} needs a GPU, and none can be used: {tried}", choice.name())))
        }
    }
}

/// The first way by which a program inside sees a GPU. What each other one came to is added to `tried`.
async fn first_that_shows(
    engine: &Engine,
    place: &Place,
    ways: Vec<Attach>,
    label: &str,
    search: &Search<'_>,
    tried: &mut Vec<String>,
) -> Option<(Attach, Hello)> {
    for attach in ways {
        if *search.cancel.borrow() {
            return None;
        }
        let label = if label.is_empty() { attach.name() } else { label };
        match probe(engine, place, attach.clone(), search).await {
            Ok(hello) if hello.gpu.is_some() && hello.failure.is_none() => return Some((attach, hello)),
            Ok(hello) => tried.push(format!("{label}: {}", why(&hello))),
            Err(text) => tried.push(format!("{label}: {text}")),
        }
    }
    None
}

fn why(hello: &Hello) -> String {
    match &hello.failure {
        None => "it started, and shows no GPU".into(),
        Some(failure) => match &failure.code {
            Some(code) => format!("it started, and {} ({code})", failure.reason),
            None => format!("it started, and {}", failure.reason),
        },
    }
}

async fn probe(engine: &Engine, place: &Place, attach: Attach, search: &Search<'_>) -> Result<Hello, String> {
    let nonce = nonce::random();
    let spec = JobSpec {
        run: search.run.into(),
        job: "probe".into(),
        place: place.clone(),
        task: BenchTask::Probe { nonce, device: search.device.map(Into::into) },
        attach,
        limits: Limits::default(),
        deadline: PROBE_DEADLINE,
        env: search.env.clone(),
    };
    let (events, _unread) = mpsc::unbounded_channel();
    let end = engine.run(&spec, events, search.cancel.clone()).await.map_err(|error| one_line(&error.to_string()))?;
    Harvest::read(end.output).hello.ok_or_else(|| {
        let how = match end.exit {
            JobExit::Code(number) => format!("ended with exit status {number}"),
            JobExit::Signal(number) => format!("ended with {}", crate::compat::codes::signal(number).name),
            JobExit::Oom { .. } => "was killed for its memory".into(),
            JobExit::Timeout => format!("did not answer within {} s", PROBE_DEADLINE.as_secs()),
            JobExit::Cancelled => "was interrupted".into(),
        };
        let said = end.stderr.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
        format!("the probe {how}{said}")
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
