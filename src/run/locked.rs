//! Holding a run to `ctk.lock`, and making one. It is the part of [`Provisioner`] that knows [`Lock`].
//!
//! In a locked run the lock decides where a toolkit comes from: wheels are the locked ones whatever the catalogue has
//! learned since, and an image is named by its digest, wherever its tag has gone.

use super::provision::{Provisioner, SourceChoice, failure};
use crate::engine::Engine;
use crate::engine::docker::PullError;
use crate::model::lock::{Lock, LockedFile, LockedImage, LockedToolkit};
use crate::model::matrix::{Toolkit, ToolkitSource};
use crate::model::place::ImageFacts;
use crate::model::plan::Plan;
use crate::model::wire::Failure;
use crate::toolkit::Pin;

/// The name by which a locked image is asked for.
pub(super) fn by_digest(image: &LockedImage) -> String {
    match &image.index_digest {
        Some(digest) => format!("{}@{digest}", name(&image.reference)),
        None => image.reference.clone(),
    }
}

/// The name without tag and digest.
fn name(reference: &str) -> &str {
    let name = reference.split('@').next().unwrap_or(reference);
    match name.rsplit_once(':') {
        Some((head, tag)) if !tag.contains('/') => head,
        Some(_) | None => name,
    }
}

/// The images that toolkits and stacks run on beside their own, and whose they are: `toolkit 12.6`.
fn bases(plan: &Plan) -> impl Iterator<Item = (String, &String)> {
    let of_toolkits = plan.toolkits.iter().map(|toolkit| ("toolkit", &toolkit.name, toolkit.base.as_ref()));
    let of_stacks = plan.stacks.iter().map(|stack| ("stack", &stack.name, stack.base.as_ref()));
    of_toolkits.chain(of_stacks).filter_map(|(kind, name, base)| Some((format!("{kind} {name}"), base?)))
}

pub(super) fn pin(file: &LockedFile) -> Pin {
    let LockedFile { name, version, bytes, sha256 } = file.clone();
    Pin { name, version, bytes, sha256 }
}

fn locked_file(pin: &Pin) -> LockedFile {
    let Pin { name, version, bytes, sha256 } = pin.clone();
    LockedFile { name, version, bytes, sha256 }
}

fn locked_image(reference: &str, facts: &ImageFacts) -> LockedImage {
    let digest = |name: &String| name.split_once('@').map(|(_, digest)| digest.to_owned());
    LockedImage {
        reference: reference.into(),
        index_digest: facts.index_digest.clone().or_else(|| facts.digests.first().and_then(digest)),
        platform_digest: facts.platform_digest.clone(),
        image_id: Some(facts.id.clone()),
    }
}

impl Provisioner {
    /// What the lock holds of an entry; none where the run is not held to one. What the matrix and the lock disagree in
    /// is an error, in one line.
    pub(super) fn held(&self, toolkit: &Toolkit) -> Result<Option<&LockedToolkit>, String> {
        let Some(lock) = &self.lock else { return Ok(None) };
        let name = &toolkit.name;
        let held = lock.toolkits.get(name).ok_or_else(|| format!("toolkit {name}: it is not in ctk.lock"))?;
        if held.version() != toolkit.version {
            return Err(format!(
                "toolkit {name}: the matrix says version {}, ctk.lock holds {}",
                toolkit.version,
                held.version()
            ));
        }
        let wanted = match (&toolkit.source, self.source, held) {
            (ToolkitSource::Dir(_), _, LockedToolkit::Dir { .. })
            | (ToolkitSource::Unsaid, SourceChoice::Auto, LockedToolkit::Image { .. } | LockedToolkit::Wheels { .. })
            | (ToolkitSource::Unsaid, SourceChoice::Image, LockedToolkit::Image { .. })
            | (ToolkitSource::Unsaid, SourceChoice::Wheels, LockedToolkit::Wheels { .. }) => None,
            (ToolkitSource::Image(reference), _, LockedToolkit::Image { image, .. })
                if image.reference == *reference =>
            {
                None
            }
            (ToolkitSource::Image(reference), _, LockedToolkit::Image { image, .. }) => {
                return Err(format!(
                    "toolkit {name}: the matrix names image {reference}, ctk.lock holds {}",
                    image.reference
                ));
            }
            (ToolkitSource::Dir(_), ..) => Some("a folder"),
            (ToolkitSource::Image(_), ..) | (ToolkitSource::Unsaid, SourceChoice::Image, _) => Some("an image"),
            (ToolkitSource::Unsaid, SourceChoice::Wheels, _) => Some("wheels"),
            (ToolkitSource::Unsaid, SourceChoice::Auto, LockedToolkit::Dir { .. }) => Some("wheels or an image"),
        };
        match wanted {
            None => Ok(Some(held)),
            Some(wanted) => Err(format!(
                "toolkit {name}: this run wants it from {wanted}, ctk.lock holds it from {}",
                held.source()
            )),
        }
    }

    /// What a locked image is on this machine: by its digest, or by its id if it has none.
    pub(super) async fn look_locked(&self, image: &LockedImage) -> Result<Option<ImageFacts>, String> {
        let said = |failure: Failure| failure.reason;
        let digest = by_digest(image);
        if let Some(facts) = self.look(&digest).await.map_err(said)? {
            if image.index_digest.is_some() || image.image_id.as_ref() == Some(&facts.id) {
                return Ok(Some(facts));
            }
            return Err(format!(
                "image {} is here as {}, ctk.lock holds {}: it was built or loaded anew; bring the old one back, or say \
                 `ctk-matrix lock --update`",
                image.reference,
                facts.id,
                image.image_id.as_deref().unwrap_or("no id"),
            ));
        }
        Ok(None)
    }

    /// Everything in which this machine and this matrix are not what the lock holds, one line each, before anything is
    /// fetched or started.
    pub async fn drift(&self, plan: &Plan) -> Vec<String> {
        let mut drift = Vec::new();
        for toolkit in &plan.toolkits {
            match self.held(toolkit) {
                Err(line) => drift.push(line),
                Ok(Some(LockedToolkit::Image { image, .. })) => {
                    drift.extend(self.image_drift(&format!("toolkit {}", toolkit.name), image).await);
                }
                Ok(_) => {}
            }
        }
        for (owner, base) in bases(plan) {
            let Some(lock) = &self.lock else { break };
            match lock.bases.get(base) {
                None => drift.push(format!("{owner}: its base {base} is not in ctk.lock")),
                Some(image) => drift.extend(self.image_drift(&owner, image).await),
            }
        }
        drift
    }

    /// `owner` is whose image it is: `toolkit 12.6`.
    async fn image_drift(&self, owner: &str, image: &LockedImage) -> Option<String> {
        match self.look_locked(image).await {
            Ok(Some(_)) => None,
            Err(line) => Some(format!("{owner}: {line}")),
            // It will be pulled by its digest.
            Ok(None) if self.source == SourceChoice::Image && image.index_digest.is_some() => None,
            Ok(None) => {
                let there = self.look(&image.reference).await.ok().flatten();
                let found = there.as_ref().map(|facts| facts.digests.first().unwrap_or(&facts.id).clone());
                let found =
                    found.map_or_else(|| "is not on this machine".to_owned(), |found| format!("is here as {found}"));
                let by_digest = by_digest(image);
                Some(format!(
                    "{owner}: image {} {found}, ctk.lock holds {by_digest}: `docker pull {by_digest}`, or say \
                     --source image to have it pulled",
                    image.reference
                ))
            }
        }
    }

    /// What a matrix stands for here and now. Images are looked at where they are on the machine, and asked for in
    /// their registry otherwise; nothing is pulled.
    pub async fn lock(&self, plan: &Plan) -> Result<Lock, Failure> {
        let mut lock = Lock::empty();
        for toolkit in &plan.toolkits {
            let version = toolkit.version;
            let image = match &toolkit.source {
                ToolkitSource::Dir(_) => None,
                ToolkitSource::Image(reference) => Some(self.lock_image(std::slice::from_ref(reference)).await?),
                ToolkitSource::Unsaid if self.source == SourceChoice::Image => {
                    let references = self.references(version);
                    if references.is_empty() {
                        return Err(failure(format!(
                            "NVIDIA has published no image of {version}: say --source wheels"
                        )));
                    }
                    Some(self.lock_image(&references).await?)
                }
                ToolkitSource::Unsaid => self.default_image(toolkit, false).await?.and_then(|found| {
                    let source = found.source.image?;
                    Some(LockedImage {
                        reference: found.source.reference,
                        index_digest: source.index_digest,
                        platform_digest: source.platform_digest,
                        image_id: Some(source.id),
                    })
                }),
            };
            let entry = match (image, &toolkit.source) {
                (Some(image), _) => LockedToolkit::Image { version, image },
                (None, ToolkitSource::Dir(_)) => LockedToolkit::Dir { version },
                (None, _) => {
                    let wheels = super::provision::wheels(version)
                        .filter(|wheels| !wheels.pins.is_empty())
                        .ok_or_else(|| failure(format!("there are no wheels of toolkit {version}: name an image")))?;
                    LockedToolkit::Wheels { version, wheels: wheels.pins.iter().map(locked_file).collect() }
                }
            };
            lock.toolkits.insert(toolkit.name.clone(), entry);
        }
        for (_, base) in bases(plan) {
            if !lock.bases.contains_key(base) {
                lock.bases.insert(base.clone(), self.lock_image(std::slice::from_ref(base)).await?);
            }
        }
        Ok(lock)
    }

    /// The first of the images that is here, else the first that its registry has.
    async fn lock_image(&self, references: &[String]) -> Result<LockedImage, Failure> {
        for reference in references {
            if let Some(facts) = self.look(reference).await? {
                return Ok(locked_image(reference, &facts));
            }
        }
        let mut last = failure(format!("image {} needs a container engine: say --engine docker", references[0]));
        let Engine::Docker(docker) = &self.engine else { return Err(last) };
        for reference in references {
            match self.remote(docker, reference).await {
                Ok(remote) => {
                    return Ok(LockedImage {
                        reference: reference.clone(),
                        index_digest: Some(remote.index_digest),
                        platform_digest: remote.platform_digest,
                        image_id: remote.image_id,
                    });
                }
                Err(error @ PullError::NotFound { .. }) => last = failure(error.to_string()),
                Err(error) => return Err(failure(error.to_string())),
            }
        }
        Err(last)
    }
}
