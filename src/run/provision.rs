//! From a toolkit entry to a toolkit that jobs can use: an image that is on the machine, wheels, or a folder.
//! Its main type is [`Provisioner`].

use tokio::sync::watch;

use crate::compat::catalogue;
use crate::engine::Engine;
use crate::model::event::ProvisionStep;
use crate::model::matrix::{Toolkit, ToolkitSource};
use crate::model::outcome::Stage;
use crate::model::place::Provisioned;
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

/// Base systems of the nvidia/cuda images, in the order in which they are looked for.
const IMAGE_SYSTEMS: [&str; 4] = ["ubuntu22.04", "ubuntu24.04", "ubuntu20.04", "rockylinux8"];

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
        match &toolkit.source {
            ToolkitSource::Image(reference) => return self.image(toolkit, reference).await,
            ToolkitSource::Unsaid if self.source != SourceChoice::Wheels => {
                if let Some(found) = self.default_image(toolkit).await? {
                    return Ok(found);
                }
            }
            ToolkitSource::Unsaid | ToolkitSource::Dir(_) => {}
        }
        let wheels = wheels(toolkit.version);
        let (cache, pip) = (&self.cache, &self.pip);
        let ask = Ask { toolkit, wheels: wheels.as_ref(), cache, pip, progress, note, cancel };
        let provisioned = provision(ask).await.map_err(|error| {
            let detail = error.detail().map(ToOwned::to_owned);
            Failure { detail, ..failure(error.to_string()) }
        })?;
        match &toolkit.base {
            None => Ok(provisioned),
            Some(base) => {
                let facts = self.inspect(base).await?;
                self.fits(base, facts.glibc.as_deref())?;
                image::on_base(provisioned, &facts, base).map_err(|error| failure(error.to_string()))
            }
        }
    }

    /// What would be fetched, in bytes by toolkit: those that come from wheels and are not in the cache.
    pub async fn downloads(&self, toolkits: &[Toolkit]) -> Vec<(String, u64)> {
        let mut downloads = Vec::new();
        for toolkit in toolkits {
            let bytes = match toolkit.source {
                ToolkitSource::Unsaid => wheels(toolkit.version).map_or(0, |wheels| wheels.download_size(&self.cache)),
                ToolkitSource::Dir(_) | ToolkitSource::Image(_) => 0,
            };
            if bytes > 0 && !matches!(self.default_image(toolkit).await, Ok(Some(_)) | Err(_)) {
                downloads.push((toolkit.name.clone(), bytes));
            }
        }
        downloads
    }

    /// The nvidia/cuda image of this version, if one is on the machine.
    async fn default_image(&self, toolkit: &Toolkit) -> Result<Option<Provisioned>, Failure> {
        let tag = catalogue::facts(toolkit.version).and_then(|facts| facts.image.value.as_deref());
        let references: Vec<String> = tag
            .iter()
            .flat_map(|full| IMAGE_SYSTEMS.map(|system| format!("nvidia/cuda:{full}-devel-{system}")))
            .collect();
        if let Engine::Docker(docker) = &self.engine {
            for reference in &references {
                let found = docker.inspect_image(reference).await.map_err(|error| failure(error.to_string()))?;
                if let Some(facts) = found {
                    self.fits(reference, facts.glibc.as_deref())?;
                    let provisioned = image::provisioned(toolkit, &facts, reference);
                    return provisioned.map(Some).map_err(|error| failure(error.to_string()));
                }
            }
        }
        match (self.source, references.first()) {
            (SourceChoice::Image, Some(reference)) => Err(failure(format!(
                "no nvidia/cuda image of {} is on this machine: `docker pull {reference}`",
                toolkit.version
            ))),
            (SourceChoice::Image, None) => Err(failure(format!(
                "NVIDIA has published no image of {}: say --source wheels, or name an `image`",
                toolkit.version
            ))),
            (SourceChoice::Auto | SourceChoice::Wheels, _) => Ok(None),
        }
    }

    async fn image(&self, toolkit: &Toolkit, reference: &str) -> Result<Provisioned, Failure> {
        let facts = self.inspect(reference).await?;
        self.fits(reference, facts.glibc.as_deref())?;
        image::provisioned(toolkit, &facts, reference).map_err(|error| failure(error.to_string()))
    }

    async fn inspect(&self, reference: &str) -> Result<crate::model::place::ImageFacts, Failure> {
        let Engine::Docker(docker) = &self.engine else {
            return Err(failure(format!("image {reference} needs a container engine: say --engine docker")));
        };
        let found = docker.inspect_image(reference).await.map_err(|error| failure(error.to_string()))?;
        found.ok_or_else(|| failure(format!("image {reference} is not on this machine: `docker pull {reference}`")))
    }

    /// Whether `ctk-bench` can start on the image's C library.
    fn fits(&self, reference: &str, glibc: Option<&str>) -> Result<(), Failure> {
        let Some(glibc) = glibc else {
            return Err(failure(format!(
                "image {reference} has no glibc, which ctk-bench and NVIDIA's libraries need"
            )));
        };
        match (self.bench_glibc, glibc.parse::<Version>()) {
            (Some(needed), Ok(found)) if needed > found => Err(failure(format!(
                "ctk-bench needs glibc {needed} and image {reference} has {found}: \
                 `cargo zigbuild --release --bin ctk-bench --target x86_64-unknown-linux-gnu.2.17`, \
                 then name the result with --bench"
            ))),
            _ => Ok(()),
        }
    }
}

fn failure(reason: String) -> Failure {
    Failure { stage: Stage::Provision, code: None, reason, detail: None }
}
