//! Jobs in containers of a Docker-compatible engine. Its main type is [`Docker`].
//! This folder is the only code that names bollard; bollard's types stop here.

mod api;
mod connect;
mod container;
mod context;
mod gc;
mod image;
mod lifecycle;
mod presence;
mod userland;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

pub use gc::{Fate, GcItem};

use super::attach::EngineFeatures;
use super::cancel::to_its_end;
use super::job::{EngineError, JobEnd, JobEvent, JobSpec};
use crate::model::place::ImageFacts;
use crate::model::record::EngineInfo;

/// The label that holds the run's id.
pub const LABEL_RUN: &str = "ctk-matrix.run";
/// The label that holds the job's id.
pub const LABEL_JOB: &str = "ctk-matrix.job";
/// The label that holds the process that started the container: number, start ticks, boot id, PID namespace.
pub const LABEL_OWNER: &str = "ctk-matrix.owner";

/// A Docker-compatible engine on this machine.
#[derive(Debug, Clone)]
pub struct Docker {
    api: api::Api,
    about: Arc<About>,
    presence: Arc<presence::Presence>,
}

/// What is known of an engine.
#[derive(Debug)]
struct About {
    bench: PathBuf,
    info: EngineInfo,
    features: EngineFeatures,
    /// Whether the engine labels files for `SELinux`: then binds need `label=disable`.
    selinux: bool,
    /// Whether it is Podman behind Docker's API.
    podman: bool,
    notes: Vec<String>,
}

impl Docker {
    /// The engine at `DOCKER_HOST`, else that of the docker context, else at the usual sockets. `bench` is the host's `ctk-bench`.
    pub async fn connect(bench: PathBuf) -> Result<Self, EngineError> {
        connect::connect(connect::Wish::of_this_process()?, bench).await
    }

    /// The engine at an address, `unix:///run/docker.sock`.
    pub async fn connect_to(address: &str, bench: PathBuf) -> Result<Self, EngineError> {
        connect::connect(connect::Wish::address(address), bench).await
    }

    /// Its kind and versions.
    #[must_use]
    pub fn info(&self) -> &EngineInfo {
        &self.about.info
    }

    /// What it says of itself that decides how a GPU can be attached.
    #[must_use]
    pub fn features(&self) -> &EngineFeatures {
        &self.about.features
    }

    /// Remarks for the head of a report, one line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.about.notes
    }

    /// Runs a job in a container, which is gone when this returns. A `true` on `cancel` ends it within six seconds; a
    /// dropped future does so in the background.
    pub async fn run(
        &self,
        spec: &JobSpec,
        events: mpsc::UnboundedSender<JobEvent>,
        cancel: watch::Receiver<bool>,
    ) -> Result<JobEnd, EngineError> {
        let (docker, spec) = (self.clone(), spec.clone());
        to_its_end(cancel, |cancel| Box::pin(async move { lifecycle::run(&docker, &spec, &events, cancel).await }))
            .await
    }

    /// After a lost job: waits up to a minute until the engine answers again, and removes what it was left with. False
    /// if it does not come back.
    pub async fn returns(&self, cancel: &watch::Receiver<bool>) -> bool {
        self.presence.returns(&self.api, cancel).await
    }

    /// What an image on this machine is, read without starting it; none if it is not on this machine.
    pub async fn inspect_image(&self, reference: &str) -> Result<Option<ImageFacts>, EngineError> {
        image::inspect(self, reference).await
    }

    /// Removes the containers of runs that are no more, and says what it found. With `dry_run` nothing is removed.
    pub async fn gc(&self, dry_run: bool) -> Result<Vec<GcItem>, EngineError> {
        gc::collect(&self.api, dry_run).await
    }
}
