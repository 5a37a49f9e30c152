//! Where a stack's jobs run: on the image that it names, or in an image that is built for it out of the toolkit's own. It
//! is the part of [`Worker`] that asks the engine about images; what is made of them is [`crate::toolkit::stack`]'s.

use tokio::sync::watch;

use super::provision::failure;
use super::worker::Worker;
use crate::engine::Engine;
use crate::engine::docker::{BuildAsk, BuildError, Docker};
use crate::model::place::{Place, Provisioned};
use crate::model::stack::{Python, Stack};
use crate::model::wire::Failure;
use crate::toolkit::image;
use crate::toolkit::stack::baked::{self, FACTS, FACTS_ROOM, Facts, Recipe, Turn};
use crate::toolkit::stack::{InImage, ReadyStack, StackAsk, StackError};

/// A build that says nothing for so long is ended: one source file takes a compiler minutes on a busy machine, and pip
/// says nothing while it fetches half a gigabyte.
const SILENCE: std::time::Duration = std::time::Duration::from_mins(15);

impl Worker {
    /// The toolkit on the image that the job's stack names; none where the job runs where the toolkit is.
    pub(super) async fn on_base(
        &self,
        job: usize,
        provisioned: &Provisioned,
        cancel: &watch::Receiver<bool>,
    ) -> Result<Option<Provisioned>, Failure> {
        let stack = self.plan.jobs[job].stack.map(|stack| &self.plan.stacks[stack]);
        let Some((stack, base)) = stack.and_then(|stack| Some((stack, stack.base.as_ref()?))) else { return Ok(None) };
        // The toolkit's own paths do without the image; the libraries are left out, with that reason.
        if let Engine::Process(_) = self.engine {
            return Ok(None);
        }
        match &provisioned.place {
            Place::Image { reference, .. } if reference == base => return Ok(None),
            Place::Image { reference, .. } => {
                return Err(failure(format!(
                    "toolkit {} came from image {reference}, and stack {} runs on image {base}: say --source wheels, or \
                     leave `base` out",
                    provisioned.toolkit.name, stack.name
                )));
            }
            Place::Userland => {}
        }
        let locked = self.provisioner.lock.as_ref().and_then(|lock| lock.bases.get(base));
        let facts = match locked {
            Some(locked) => self.provisioner.locked_image(locked, &drop, &drop, cancel.clone()).await?,
            None => self.provisioner.image(base, &drop, &drop, cancel.clone()).await?,
        };
        self.provisioner.fits(base, facts.glibc.as_deref())?;
        let placed = image::on_base(provisioned.clone(), &facts, base).map_err(|error| failure(error.to_string()))?;
        Ok(Some(placed))
    }

    /// What is known of the image that a job with this stack runs on; none where it runs on the host's user space.
    pub(super) async fn in_image(&self, stack: &Stack, provisioned: &Provisioned) -> Result<Option<InImage>, Failure> {
        let (Place::Image { id, reference }, Engine::Docker(docker)) = (&provisioned.place, &self.engine) else {
            return Ok(None);
        };
        // By its id: its tag may lead elsewhere by now.
        let facts = self.provisioner.look(id).await?;
        let found = InImage {
            id: id.clone(),
            reference: reference.clone(),
            glibc: facts.and_then(|facts| facts.glibc),
            ..InImage::default()
        };
        let said = |error: crate::engine::job::EngineError| failure(error.to_string());
        match &stack.python {
            // It will be built, and the build finds the Python, or puts it there.
            Python::Version(_) if provisioned.dir.is_none() => Ok(Some(found)),
            Python::Version(version) => {
                let pythons = docker.pythons(id, reference, Some(version)).await.map_err(said)?;
                Ok(Some(InImage { pythons, ..found }))
            }
            Python::Host => {
                let pythons = docker.pythons(id, reference, None).await.map_err(said)?;
                let facts = docker.read_file(id, reference, FACTS, FACTS_ROOM).await.map_err(said)?;
                Ok(Some(InImage { pythons, facts, ..found }))
            }
        }
    }

    /// A stack in an image of its own, made from the toolkit's unless it is there.
    pub(super) async fn baked(
        &self,
        ask: &StackAsk<'_>,
        version: &str,
        image: &InImage,
        cancel: &watch::Receiver<bool>,
    ) -> Result<ReadyStack, Failure> {
        let Engine::Docker(docker) = &self.engine else {
            return Err(failure(format!("image {} needs a container engine: say --engine docker", image.reference)));
        };
        let name = &ask.stack.name;
        let said = |error| said(name, &error);
        let recipe = Recipe::of(ask, version, &image.id).map_err(said)?;
        let _turn = unless(cancel, Turn::of(ask, &recipe)).await?.map_err(said)?;
        // What one job of this run found or built holds for the others, though a source package be missing in it: to try
        // that again would cost its minutes for every job.
        let known = self.baked.lock().await.get(&recipe.key).cloned();
        let (id, facts) = match known {
            Some(known) => known,
            None => self.bake(docker, ask, version, image, &recipe, cancel).await?,
        };
        self.baked.lock().await.insert(recipe.key, (id.clone(), facts.clone()));
        Ok(baked::ready(ask, image, id, recipe.tag, facts))
    }

    /// The image that is there, or a new one.
    async fn bake(
        &self,
        docker: &Docker,
        ask: &StackAsk<'_>,
        version: &str,
        image: &InImage,
        recipe: &Recipe,
        cancel: &watch::Receiver<bool>,
    ) -> Result<(String, Facts), Failure> {
        let name = &ask.stack.name;
        let said = |error| said(name, &error);
        let there = docker.built(&recipe.tag, &recipe.key).await.map_err(|error| failure(error.to_string()))?;
        if let Some(id) = there {
            let facts = facts(docker, &id, &recipe.tag).await.map_err(said)?;
            // What could not be built may be built now: a network that failed is no reason for ever.
            if facts.is_final() {
                return Ok((id, facts));
            }
        }
        baked::afford(ask).map_err(said)?;
        let (tag, packages) = (&recipe.tag, ask.stack.packages.join(", "));
        (ask.note)(format!("stack {name}: building image {tag} from {} with {packages}", image.reference));
        let (recipe, left_out) = unless(cancel, recipe.clone().with_index(ask.pip)).await?.map_err(said)?;
        for setting in left_out {
            (ask.note)(format!("stack {name}: the build has not what pip has here: {setting}"));
        }
        let line = |line: &str| {
            // What the Dockerfile says itself, and what takes pip minutes.
            let told = line.strip_prefix("ctk: ").or_else(|| {
                let line = line.trim_start();
                (line.starts_with("Building wheel for ") && line.ends_with(": started")).then_some(line)
            });
            if let Some(told) = told {
                (ask.note)(format!("stack {name}: {told}"));
            }
        };
        let Recipe { tag, key, files, arguments } = &recipe;
        let build = BuildAsk { tag, key, files, arguments, silence: SILENCE, line: &line, note: ask.note };
        let failed =
            |text: &str, log: &str| said(baked::failed(version, &ask.stack.packages, &image.reference, text, log));
        let id = docker.build(&build, cancel.clone()).await.map_err(|error| match &error {
            BuildError::Cancelled => failure("interrupted".into()),
            BuildError::Failed { text, log } => failed(text, log),
            BuildError::Idle { log, .. } => failed(&error.to_string(), log),
        })?;
        let facts = facts(docker, &id, tag).await.map_err(said)?;
        Ok((id, facts))
    }
}

/// The failure of a stack.
fn said(name: &str, error: &StackError) -> Failure {
    let detail = error.detail().map(ToOwned::to_owned);
    Failure { detail, ..failure(format!("stack {name}: {error}")) }
}

/// What the build left in its image.
async fn facts(docker: &Docker, id: &str, tag: &str) -> Result<Facts, StackError> {
    let unread = |line: String| StackError::Image { base: tag.into(), line, detail: String::new() };
    let text = docker.read_file(id, tag, FACTS, FACTS_ROOM).await.map_err(|error| unread(error.to_string()))?;
    Facts::read(&text.ok_or_else(|| unread(format!("there is no {FACTS} in it: `docker image rm {tag}`")))?, tag)
}

/// Does something unless the run is interrupted before it is done.
async fn unless<T>(cancel: &watch::Receiver<bool>, work: impl Future<Output = T>) -> Result<T, Failure> {
    let mut cancel = cancel.clone();
    tokio::select! {
        biased;
        Ok(_) = cancel.wait_for(|cancelled| *cancelled) => Err(failure("interrupted".into())),
        done = work => Ok(done),
    }
}
