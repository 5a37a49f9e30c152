//! From a toolkit entry to a toolkit that jobs can use: an image that is on the machine, wheels, or a folder.
//! Its main type is [`Provisioner`].

use tokio::sync::watch;

use super::images::Images;
use super::locked::by_digest;
use crate::compat::catalogue;
use crate::engine::Engine;
use crate::model::event::ProvisionStep;
use crate::model::lock::{Lock, LockedImage, LockedToolkit};
use crate::model::matrix::{Toolkit, ToolkitSource};
use crate::model::outcome::Stage;
use crate::model::place::{ImageFacts, Provisioned};
use crate::model::version::Version;
use crate::model::wire::Failure;
use crate::toolkit::image;
use crate::toolkit::{Ask, Cache, Pip, Wheels, provision};

/// `--source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceChoice {
    /// The nvidia/cuda image if it is on this machine, else wheels.
    Auto,
    /// The nvidia/cuda image.
    Image,
    /// NVIDIA's Python packages.
    Wheels,
}

/// Puts toolkits on this machine.
#[derive(Debug)]
pub struct Provisioner {
    /// Where wheels are unpacked.
    pub cache: Cache,
    /// How they are fetched.
    pub pip: Pip,
    /// Where a toolkit comes from that does not say it.
    pub source: SourceChoice,
    /// What containers run on, and whose images are looked at.
    pub engine: Engine,
    /// Which images toolkits come from, and what is known of them.
    pub images: Images,
    /// What the run is held to.
    pub lock: Option<Lock>,
    /// The newest GLIBC version that `ctk-bench` asks for; none if it could not be read.
    pub bench_glibc: Option<Version>,
}

/// What the catalogue knows of a version's wheels.
#[must_use]
pub fn wheels(version: Version) -> Option<Wheels> {
    catalogue::facts(version).map(Wheels::from)
}

impl Provisioner {
    /// Puts a toolkit on this machine, or says why not.
    pub async fn provide(
        &self,
        toolkit: &Toolkit,
        progress: &(dyn Fn(ProvisionStep) + Send + Sync),
        note: &(dyn Fn(String) + Send + Sync),
        cancel: watch::Receiver<bool>,
    ) -> Result<Provisioned, Failure> {
        let held = self.held(toolkit).map_err(failure)?;
        if let Some(LockedToolkit::Image { image, .. }) = held {
            let facts = self.locked_image(image, progress, note, cancel).await?;
            return self.in_image(toolkit, &image.reference, &facts);
        }
        match &toolkit.source {
            ToolkitSource::Image(reference) => {
                self.needs_docker(reference)?;
                let facts = self.image(reference, progress, note, cancel).await?;
                return self.in_image(toolkit, reference, &facts);
            }
            ToolkitSource::Unsaid if held.is_none() && self.source != SourceChoice::Wheels => {
                if let Some(found) = self.default_image(toolkit, false).await? {
                    return Ok(found);
                }
                if self.source == SourceChoice::Image {
                    return self.pulled_default(toolkit, progress, note, cancel).await;
                }
            }
            ToolkitSource::Unsaid | ToolkitSource::Dir(_) => {}
        }
        if toolkit.base.is_none()
            && let Some(why) = self.engine.without_userland()
        {
            return Err(failure(why));
        }
        let wheels = self.wheels(toolkit);
        let (cache, pip) = (&self.cache, &self.pip);
        let ask = Ask { toolkit, wheels: wheels.as_ref(), cache, pip, progress, note, cancel: cancel.clone() };
        let provisioned = provision(ask).await.map_err(|error| {
            let detail = error.detail().map(ToOwned::to_owned);
            Failure { detail, ..failure(error.to_string()) }
        })?;
        match &toolkit.base {
            None => Ok(provisioned),
            Some(base) => {
                self.needs_docker(base)?;
                let locked = self.lock.as_ref().and_then(|lock| lock.bases.get(base));
                let facts = match locked {
                    Some(locked) => self.locked_image(locked, progress, note, cancel).await?,
                    None => self.image(base, progress, note, cancel).await?,
                };
                self.fits(base, facts.glibc.as_deref())?;
                image::on_base(provisioned, &facts, base).map_err(|error| failure(error.to_string()))
            }
        }
    }

    /// An image that the run is held to, pulled by its digest if it is not here and images are wanted.
    pub(super) async fn locked_image(
        &self,
        image: &LockedImage,
        progress: &(dyn Fn(ProvisionStep) + Send + Sync),
        note: &(dyn Fn(String) + Send + Sync),
        cancel: watch::Receiver<bool>,
    ) -> Result<ImageFacts, Failure> {
        self.needs_docker(&image.reference)?;
        match self.look_locked(image).await.map_err(failure)? {
            Some(facts) => Ok(facts),
            None => self.image(&by_digest(image), progress, note, cancel).await,
        }
    }
}

pub(super) fn failure(reason: String) -> Failure {
    Failure { stage: Stage::Provision, code: None, reason, detail: None }
}
