//! Toolkits that are in images: looked for on the machine, pulled where the user asked for images, read once a run.
//! Its main type is [`Images`]; the rest is the part of [`Provisioner`] that deals with them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::{Mutex, watch};

use super::provision::{Provisioner, SourceChoice, failure, wheels};
use crate::compat::catalogue;
use crate::engine::Engine;
use crate::engine::docker::{Docker, Pace, PullAsk, PullError, Remote};
use crate::model::event::ProvisionStep;
use crate::model::lock::LockedToolkit;
use crate::model::matrix::{Toolkit, ToolkitSource};
use crate::model::place::{ImageFacts, Provisioned};
use crate::model::version::Version;
use crate::model::wire::Failure;
use crate::toolkit::{Wheels, image};

/// NVIDIA's repository on Docker Hub.
pub const NVIDIA: &str = "nvidia/cuda";

/// Where images come from, and what is known of them.
#[derive(Debug)]
pub struct Images {
    /// [`NVIDIA`], or a mirror of it.
    pub repository: String,
    /// How patiently they are pulled.
    pub pace: Pace,
    /// What may still be downloaded of what has a size that is not known beforehand; none if there is no limit.
    left: Option<Arc<AtomicU64>>,
    /// What a reference stood for when it was first looked at. It stands for that until the run ends, wherever its tag
    /// moves meanwhile.
    known: Mutex<HashMap<String, ImageFacts>>,
    /// What registries said.
    remotes: Mutex<HashMap<String, Remote>>,
}

impl Images {
    /// Images of this repository.
    #[must_use]
    pub fn of(repository: String) -> Self {
        let (known, remotes) = (Mutex::default(), Mutex::default());
        Self { repository, pace: Pace::default(), left: None, known, remotes }
    }

    /// Holds pulls whose size is not known beforehand to this many bytes together.
    pub fn allow(&mut self, bytes: u64) {
        self.left = Some(Arc::new(AtomicU64::new(bytes)));
    }

    /// The same limit, for packages whose size is known when pip has chosen them.
    #[must_use]
    pub fn left(&self) -> Option<Arc<AtomicU64>> {
        self.left.clone()
    }
}

/// What a run would fetch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Downloads {
    /// Wheels, by toolkit, in bytes.
    pub wheels: Vec<(String, u64)>,
    /// Images.
    pub images: Vec<ImageDownload>,
}

/// An image that would be pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageDownload {
    /// The toolkit entry.
    pub toolkit: String,
    /// The image.
    pub reference: String,
    /// Bytes to download; none if nobody tells.
    pub bytes: Option<u64>,
}

impl Downloads {
    /// The bytes that are known of.
    #[must_use]
    pub fn known(&self) -> u64 {
        let wheels: u64 = self.wheels.iter().map(|(_, bytes)| bytes).sum();
        wheels + self.images.iter().filter_map(|image| image.bytes).sum::<u64>()
    }
}

impl Provisioner {
    /// What would be fetched: wheels that are not in the cache, and images that are not on the machine.
    pub async fn downloads(&self, toolkits: &[Toolkit]) -> Downloads {
        let mut downloads = Downloads::default();
        for toolkit in toolkits {
            let Ok(held) = self.held(toolkit) else { continue };
            let (references, wheels) = match (&toolkit.source, held) {
                (ToolkitSource::Dir(_), _) => (Vec::new(), None),
                (_, Some(LockedToolkit::Image { image, .. })) => (vec![super::locked::by_digest(image)], None),
                (ToolkitSource::Image(reference), _) => (vec![reference.clone()], None),
                (ToolkitSource::Unsaid, held) => {
                    let from_wheels = held.is_some() || self.source == SourceChoice::Wheels;
                    let references = if from_wheels { Vec::new() } else { self.references(toolkit.version) };
                    (references, self.wheels(toolkit))
                }
            };
            let pulled = references.into_iter().chain(toolkit.base.clone());
            let image = if self.source == SourceChoice::Image {
                self.to_pull(pulled.collect()).await
            } else {
                // An image that is here takes the place of wheels.
                match self.default_image(toolkit, held.is_some()).await {
                    Ok(Some(_)) | Err(_) => continue,
                    Ok(None) => None,
                }
            };
            if let Some((reference, bytes)) = image {
                downloads.images.push(ImageDownload { toolkit: toolkit.name.clone(), reference, bytes });
            } else if self.source != SourceChoice::Image
                && (toolkit.base.is_some() || self.engine.without_userland().is_none())
                && let Some(bytes) = wheels.map(|wheels| wheels.download_size(&self.cache)).filter(|bytes| *bytes > 0)
            {
                downloads.wheels.push((toolkit.name.clone(), bytes));
            }
        }
        downloads
    }

    /// The first of the images that exists, and its size, if none of them is on the machine.
    async fn to_pull(&self, references: Vec<String>) -> Option<(String, Option<u64>)> {
        let Engine::Docker(docker) = &self.engine else { return None };
        for reference in &references {
            if docker.image_id(reference).await.ok()?.is_some() {
                return None;
            }
        }
        for reference in references {
            match self.remote(docker, &reference).await {
                Ok(remote) => return Some((reference, remote.bytes)),
                Err(PullError::NotFound { .. }) => {}
                // The pull itself will tell, with its tries.
                Err(_) => return Some((reference, None)),
            }
        }
        None
    }

    pub(super) async fn remote(&self, docker: &Docker, reference: &str) -> Result<Remote, PullError> {
        if let Some(known) = self.images.remotes.lock().await.get(reference) {
            return Ok(known.clone());
        }
        let remote = docker.look_up(reference).await?;
        self.images.remotes.lock().await.insert(reference.into(), remote.clone());
        Ok(remote)
    }

    pub(super) fn references(&self, version: Version) -> Vec<String> {
        let full = catalogue::facts(version).and_then(|facts| facts.image.value.as_deref());
        full.map(|full| image::default_references(&self.images.repository, full)).unwrap_or_default()
    }

    /// The nvidia/cuda image of this version that is on the machine; none also where wheels are to be used.
    pub(super) async fn default_image(&self, toolkit: &Toolkit, wheels: bool) -> Result<Option<Provisioned>, Failure> {
        let unsaid = toolkit.source == ToolkitSource::Unsaid;
        if !unsaid || wheels || self.source == SourceChoice::Wheels {
            return Ok(None);
        }
        for reference in self.references(toolkit.version) {
            if let Some(facts) = self.look(&reference).await? {
                return self.in_image(toolkit, &reference, &facts).map(Some);
            }
        }
        Ok(None)
    }

    /// NVIDIA's image of this version, pulled.
    pub(super) async fn pulled_default(
        &self,
        toolkit: &Toolkit,
        progress: &(dyn Fn(ProvisionStep) + Send + Sync),
        note: &(dyn Fn(String) + Send + Sync),
        cancel: watch::Receiver<bool>,
    ) -> Result<Provisioned, Failure> {
        let references = self.references(toolkit.version);
        let mut last = failure(format!(
            "NVIDIA has published no image of {}: say --source wheels, or name an `image`",
            toolkit.version
        ));
        for reference in &references {
            match self.pulled(reference, progress, note, cancel.clone()).await {
                Ok(facts) => return self.in_image(toolkit, reference, &facts),
                // Another base system may still have it.
                Err((PullError::NotFound { .. }, failure)) => last = failure,
                Err((_, failure)) => return Err(failure),
            }
        }
        Err(last)
    }

    /// An image by name, pulled if it is not here and images are wanted.
    pub(super) async fn image(
        &self,
        reference: &str,
        progress: &(dyn Fn(ProvisionStep) + Send + Sync),
        note: &(dyn Fn(String) + Send + Sync),
        cancel: watch::Receiver<bool>,
    ) -> Result<ImageFacts, Failure> {
        if let Some(facts) = self.look(reference).await? {
            return Ok(facts);
        }
        if self.source != SourceChoice::Image {
            return Err(failure(format!(
                "image {reference} is not on this machine: say --source image to have it pulled, or `docker pull {reference}`"
            )));
        }
        self.pulled(reference, progress, note, cancel).await.map_err(|(_, failure)| failure)
    }

    async fn pulled(
        &self,
        reference: &str,
        progress: &(dyn Fn(ProvisionStep) + Send + Sync),
        note: &(dyn Fn(String) + Send + Sync),
        mut cancel: watch::Receiver<bool>,
    ) -> Result<ImageFacts, (PullError, Failure)> {
        let said = |error: PullError| {
            let failure = failure(error.to_string());
            (error, failure)
        };
        let other = |text: String| said(PullError::Other { reference: reference.into(), text });
        let docker = self.docker(reference).map_err(|failure| other(failure.reason))?;
        // What is refused for good is refused before a pull; whatever else is wrong, the pull has its tries.
        let remote = match self.remote(docker, reference).await {
            Ok(remote) => Some(remote),
            Err(error @ (PullError::NotFound { .. } | PullError::Denied { .. } | PullError::Platform { .. })) => {
                return Err(said(error));
            }
            Err(_) => None,
        };
        let bytes = remote.as_ref().and_then(|remote| remote.bytes);
        let budget = self.images.left.as_deref().filter(|_| bytes.is_none());
        let ask = PullAsk { reference, bytes, budget, pace: self.images.pace, progress, note };
        tokio::select! {
            biased;
            Ok(_) = cancel.wait_for(|cancelled| *cancelled) => return Err(other("interrupted".into())),
            pulled = docker.pull(&ask) => pulled.map_err(said)?,
        }
        let facts = self.look(reference).await.map_err(|failure| other(failure.reason))?;
        facts.ok_or_else(|| other("the engine pulled it, and does not have it".into()))
    }

    /// What an image on this machine is; none if it is not here. Read once for each reference in a run.
    pub(super) async fn look(&self, reference: &str) -> Result<Option<ImageFacts>, Failure> {
        let docker = match &self.engine {
            Engine::Docker(docker) => docker,
            // Without containers, wheels are what there is.
            Engine::Process(_) => return Ok(None),
        };
        // Held while reading, so that two entries with one reference get one answer.
        let mut known = self.images.known.lock().await;
        if let Some(facts) = known.get(reference) {
            return Ok(Some(facts.clone()));
        }
        let found = docker.inspect_image(reference).await.map_err(|error| failure(error.to_string()))?;
        let Some(mut facts) = found else { return Ok(None) };
        if let Some(remote) = self.images.remotes.lock().await.get(reference) {
            // The tag may have moved between the question and the pull: then only what the engine holds is true.
            let same = facts.digests.iter().any(|digest| digest.ends_with(&remote.index_digest));
            facts.index_digest = same.then(|| remote.index_digest.clone());
            facts.platform_digest = remote.platform_digest.clone().filter(|_| same);
        }
        known.insert(reference.into(), facts.clone());
        Ok(Some(facts))
    }

    fn docker(&self, reference: &str) -> Result<&Docker, Failure> {
        match &self.engine {
            Engine::Docker(docker) => Ok(docker),
            Engine::Process(_) => {
                Err(failure(format!("image {reference} needs a container engine: say --engine docker")))
            }
        }
    }

    /// Refuses an image for child processes.
    pub(super) fn needs_docker(&self, reference: &str) -> Result<(), Failure> {
        self.docker(reference).map(drop)
    }

    /// The toolkit of an entry in an image that will do.
    pub(super) fn in_image(
        &self,
        toolkit: &Toolkit,
        reference: &str,
        facts: &ImageFacts,
    ) -> Result<Provisioned, Failure> {
        let provisioned = image::provisioned(toolkit, facts, reference).map_err(|error| failure(error.to_string()))?;
        self.fits(reference, facts.glibc.as_deref())?;
        Ok(provisioned)
    }

    /// Whether `ctk-bench` can start on the image's C library.
    pub(super) fn fits(&self, reference: &str, glibc: Option<&str>) -> Result<(), Failure> {
        let Some(glibc) = glibc else {
            return Err(failure(format!(
                "image {reference} has no glibc, which ctk-bench and NVIDIA's libraries need"
            )));
        };
        match (self.bench_glibc, glibc.parse::<Version>()) {
            (Some(needed), Ok(found)) if needed > found => Err(failure(format!(
                "ctk-bench needs glibc {needed} and image {reference} has {found}: \
                 `scripts/bench-glibc-2.17.sh` builds one that needs 2.17, then name it with --bench"
            ))),
            _ => Ok(()),
        }
    }

    /// References that stand for another image than when the run looked at them, one remark for each.
    pub async fn moved(&self) -> Vec<String> {
        let Engine::Docker(docker) = &self.engine else { return Vec::new() };
        let known = self.images.known.lock().await;
        let mut moved = Vec::new();
        for (reference, facts) in known.iter() {
            if let Ok(Some(id)) = docker.image_id(reference).await
                && id != facts.id
            {
                moved.push(format!(
                    "the tag {reference} moved during the run: its containers were created from {}, it now stands for {id}",
                    facts.id
                ));
            }
        }
        moved.sort();
        moved
    }

    /// The wheels of an entry: the lock's where it holds some, else the catalogue's.
    pub(super) fn wheels(&self, toolkit: &Toolkit) -> Option<Wheels> {
        let known = wheels(toolkit.version)?;
        match self.held(toolkit) {
            Ok(Some(LockedToolkit::Wheels { wheels, .. })) => {
                let pins = wheels.iter().map(super::locked::pin).collect();
                Some(Wheels { pins, ..known })
            }
            Ok(_) | Err(_) => Some(known),
        }
    }
}
