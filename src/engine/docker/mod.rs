//! Jobs in containers of a Docker-compatible engine. Its main type is [`Docker`].
//! This folder is the only code that names bollard; bollard's types stop here.

mod api;
mod build;
mod connect;
mod container;
mod context;
mod credentials;
mod fault;
mod gc;
mod image;
mod lifecycle;
mod presence;
mod pull;
mod python;
mod reach;
mod registry;
mod upload;
mod userland;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

pub use build::{BuildAsk, BuildError};
pub use fault::PullError;
pub use gc::{Fate, GcImage, GcItem};
pub use pull::{Pace, PullAsk};
pub use registry::Remote;

use super::attach::EngineFeatures;
use super::cancel::to_its_end;
use super::job::{EngineError, JobEnd, JobEvent, JobSpec};
use crate::model::place::{ImageFacts, ImagePython};
use crate::model::record::EngineInfo;

/// The label that holds the run's id.
pub const LABEL_RUN: &str = "ctk-matrix.run";
/// The label that holds the job's id.
pub const LABEL_JOB: &str = "ctk-matrix.job";
/// The label that holds the process that started the container: number, start ticks, boot id, PID namespace.
pub const LABEL_OWNER: &str = "ctk-matrix.owner";
/// The label of an image that was built for a stack of Python packages: the hash of what it was made from.
pub const LABEL_PYTHON: &str = "ctk-matrix.python";
/// The label of such an image that holds the process that built it. It is not [`LABEL_OWNER`]: a container has the labels
/// of its image, and a user's own container is not to be taken for one of a run.
const LABEL_BUILDER: &str = "ctk-matrix.builder";
/// The label of layers that only such a build needs: the build's own name.
const LABEL_STAGE: &str = "ctk-matrix.stage";

/// A Docker-compatible engine, on this machine or on another.
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
    /// The address of an engine that does not see this machine's files: what a job needs is uploaded to it.
    remote: Option<String>,
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

    /// Turns it into an engine whose jobs are handed their files by upload.
    fn becomes_remote(&mut self, address: &str) {
        if let Some(about) = Arc::get_mut(&mut self.about) {
            about.remote = Some(address.to_owned());
            about.notes.push(format!(
                "the engine at {address} does not see this machine's files: ctk-bench and what it needs are uploaded"
            ));
        }
    }

    /// Why the host's user space cannot be had, if the engine does not see this machine's files.
    #[must_use]
    pub fn without_userland(&self) -> Option<String> {
        self.about.remote.as_ref().map(|address| {
            format!(
                "the engine at {address} does not see this machine's files, so wheels and folders need an image to be \
                 uploaded into: say --source image, or name a `base:`"
            )
        })
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

    /// The interpreters of an image, by its id: the one of the release `wanted` where it is there, else all that there
    /// are. Without a wish it is the one that `python3` means.
    pub async fn pythons(
        &self,
        id: &str,
        reference: &str,
        wanted: Option<&str>,
    ) -> Result<Vec<ImagePython>, EngineError> {
        python::pythons(&self.api, id, reference, wanted).await
    }

    /// A file out of an image, by its id; none if it is not there, or is not a whole file of at most `room` bytes.
    pub async fn read_file(
        &self,
        id: &str,
        reference: &str,
        path: &str,
        room: usize,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        image::file(&self.api, id, reference, path, room).await
    }

    /// The id of the image that was built with this tag from what this hash is of; none if there is none.
    pub async fn built(&self, tag: &str, key: &str) -> Result<Option<String>, EngineError> {
        build::existing(&self.api, tag, key).await.map_err(api::Failure::into_error)
    }

    /// Builds an image and gives its id. A `true` on `cancel` ends it within six seconds.
    pub async fn build(&self, ask: &BuildAsk<'_>, cancel: watch::Receiver<bool>) -> Result<String, BuildError> {
        build::build(&self.api, ask, cancel).await
    }

    /// How many images were built for stacks of Python packages, and their sizes together.
    pub async fn built_images(&self) -> Result<(usize, u64), EngineError> {
        let found = self.api.images(LABEL_PYTHON, false).await.map_err(api::Failure::into_error)?;
        Ok((found.len(), found.iter().map(|image| image.bytes).sum()))
    }

    /// Removes what builds have left whose program is no more, and says what it found. With `dry_run` nothing is removed.
    pub async fn sweep_builds(&self, dry_run: bool) -> Result<Vec<GcImage>, EngineError> {
        build::collect(&self.api, dry_run).await.map_err(api::Failure::into_error)
    }

    /// What an image's registry says of it, before anything is pulled.
    pub async fn look_up(&self, reference: &str) -> Result<Remote, PullError> {
        registry::look_up(self, reference).await
    }

    /// Pulls an image. Dropping the future ends the pull.
    pub async fn pull(&self, ask: &PullAsk<'_>) -> Result<(), PullError> {
        pull::pull(self, ask).await
    }

    /// The id of what a reference stands for now; none if it is not on this machine.
    pub async fn image_id(&self, reference: &str) -> Result<Option<String>, EngineError> {
        let found = self.api.image(reference).await.map_err(api::Failure::into_error)?;
        Ok(found.and_then(|image| image.id))
    }

    /// Where the engine keeps its images, if it says so.
    pub async fn data_root(&self) -> Option<PathBuf> {
        let system = self.api.system().await.ok()?;
        system.docker_root_dir.filter(|folder| !folder.is_empty()).map(PathBuf::from)
    }

    /// Removes the containers of runs that are no more, and says what it found. With `dry_run` nothing is removed.
    pub async fn gc(&self, dry_run: bool) -> Result<Vec<GcItem>, EngineError> {
        gc::collect(&self.api, dry_run).await
    }
}
