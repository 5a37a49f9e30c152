//! Where a job runs: a Docker-compatible engine or a child process, behind one type.
//! Its main types are [`Engine`], [`job::JobSpec`] (what is to run) and [`job::JobEnd`] (what came of it).

pub mod attach;
mod cancel;
mod cdi;
mod cgroup;
pub mod docker;
mod handover;
pub mod host_gpu;
pub mod job;
pub mod leftovers;
pub mod output;
mod owner;
pub mod process;

use std::path::PathBuf;
use std::str::FromStr;

use tokio::sync::{mpsc, watch};

use attach::EngineFeatures;
use job::{EngineError, JobEnd, JobEvent, JobSpec};

use crate::model::record::EngineInfo;

/// `--engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// Docker, and child processes only where there is no Docker at all.
    #[default]
    Auto,
    /// Containers.
    Docker,
    /// Child processes.
    Process,
}

impl EngineChoice {
    /// Every choice, in the order in which help lists them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Docker, Self::Process];

    /// The word used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Docker => "docker",
            Self::Process => "process",
        }
    }
}

/// The text is not an [`EngineChoice`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an engine: one of auto, docker, process")]
pub struct NotAnEngine(pub String);

impl FromStr for EngineChoice {
    type Err = NotAnEngine;

    fn from_str(text: &str) -> Result<Self, NotAnEngine> {
        Self::ALL.into_iter().find(|choice| choice.name() == text).ok_or_else(|| NotAnEngine(text.into()))
    }
}

/// What runs jobs.
#[derive(Debug, Clone)]
pub enum Engine {
    /// Containers.
    Docker(docker::Docker),
    /// Child processes.
    Process(process::Process),
}

impl Engine {
    /// The engine of choice. `bench` is the host's `ctk-bench`, which must be there and must be allowed to run.
    /// Only an absent daemon lets `auto` fall to child processes: one that refuses is an error with its cure.
    pub async fn connect(choice: EngineChoice, bench: PathBuf) -> Result<Self, EngineError> {
        match choice {
            EngineChoice::Docker => Ok(Self::Docker(docker::Docker::connect(bench).await?)),
            EngineChoice::Process => Ok(Self::Process(process::Process::new(&bench)?)),
            EngineChoice::Auto => match docker::Docker::connect(bench.clone()).await {
                Ok(docker) => Ok(Self::Docker(docker)),
                Err(EngineError::Absent(why)) => Ok(Self::Process(process::Process::instead_of_docker(&bench, &why)?)),
                Err(error) => Err(error),
            },
        }
    }

    /// Its kind and versions.
    #[must_use]
    pub fn info(&self) -> EngineInfo {
        match self {
            Self::Docker(docker) => docker.info().clone(),
            Self::Process(process) => process.info(),
        }
    }

    /// What it says of itself that decides how a GPU can be attached.
    #[must_use]
    pub fn features(&self) -> EngineFeatures {
        match self {
            Self::Docker(docker) => docker.features().clone(),
            Self::Process(_) => EngineFeatures::default(),
        }
    }

    /// Why the host's user space cannot be had, if the engine does not see this machine's files.
    #[must_use]
    pub fn without_userland(&self) -> Option<String> {
        match self {
            Self::Docker(docker) => docker.without_userland(),
            Self::Process(_) => None,
        }
    }

    /// Remarks for the head of a report, one line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        match self {
            Self::Docker(docker) => docker.notes(),
            Self::Process(process) => process.notes(),
        }
    }

    /// Runs a job to its end. Nothing of it is left when this returns. A `true` on `cancel` ends it within six seconds.
    pub async fn run(
        &self,
        spec: &JobSpec,
        events: mpsc::UnboundedSender<JobEvent>,
        cancel: watch::Receiver<bool>,
    ) -> Result<JobEnd, EngineError> {
        match self {
            Self::Docker(docker) => docker.run(spec, events, cancel).await,
            Self::Process(process) => process.run(spec, events, cancel).await,
        }
    }

    /// After a lost job: whether the engine answers again, within a minute. What it was left with is removed then.
    pub async fn returns(&self, cancel: &watch::Receiver<bool>) -> bool {
        match self {
            Self::Docker(docker) => docker.returns(cancel).await,
            // A process that hangs in the kernel will hang there again.
            Self::Process(_) => false,
        }
    }
}
