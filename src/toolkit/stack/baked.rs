//! Stacks that are baked into the image of their toolkit: what the build is told, and what it left in the image. An engine
//! builds; this machine's pip is asked only how it reaches its index. The main types are [`Recipe`] and [`Facts`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::super::diagnosis::{PipEnd, decisive};
use super::super::error::ProvisionError;
use super::super::lock::Lock;
use super::super::pip::Pip;
use super::super::pip_config::PipConfig;
use super::error::StackError;
use super::image::InImage;
use super::{LIBRARIES, ReadyStack, StackAsk, files, is_source, record, warnings};
use crate::model::download::PackageDownload;
use crate::model::locked_stack::requirements;
use crate::model::path::Family;
use crate::model::place::Place;
use crate::model::stack::{Built, BuiltImage, Package, StackRecord};
use crate::model::wire::hex;

/// The build, as one would do it by hand.
pub const DOCKERFILE: &str = include_str!("../../../docker/python.Dockerfile");

/// Where images of stacks are named.
const REPOSITORY: &str = "ctk-matrix/python";

/// Where the build leaves the environment, and what it is.
const ENVIRONMENT: &str = "/opt/ctk-matrix/python";
/// The file in the image that says what was made.
pub const FACTS: &str = "/opt/ctk-matrix/python/ctk-stack.json";
/// A hundred packages with all that they need are 200 KB; a failed build's log is 64 KB.
pub const FACTS_ROOM: usize = 4 << 20;

/// What an image is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The tag that it gets.
    pub tag: String,
    /// The hash of everything that goes in, but for the way to the package index.
    pub key: String,
    /// The files of the build's context.
    pub files: Vec<(String, Vec<u8>)>,
    /// Its arguments.
    pub arguments: BTreeMap<String, String>,
}

impl Recipe {
    /// How a stack of Python `version` is baked into the image that the toolkit is in. In a locked run the lock decides
    /// what goes in, and pip holds every file to its hash.
    pub fn of(ask: &StackAsk<'_>, version: &str, base_id: &str) -> Result<Self, StackError> {
        let (sources, wheels): (Vec<_>, Vec<_>) = ask.stack.packages.iter().cloned().partition(|one| is_source(one));
        let lines = |mut packages: Vec<String>| {
            packages.sort();
            packages.iter().flat_map(|package| [package.as_str(), "\n"]).collect::<String>()
        };
        let (wheels, sources) = match ask.locked {
            None => (lines(wheels), lines(sources)),
            Some(locked) if !sources.is_empty() && locked.sources.is_empty() => {
                return Err(StackError::Unlocked { package: sources.join(", "), python: version.into() });
            }
            Some(locked) => (requirements(&locked.packages), requirements(&locked.sources)),
        };
        let files = [("Dockerfile", DOCKERFILE.to_owned()), ("requirements.txt", wheels), ("sources.txt", sources)];
        let root = ask.toolkit.roots.first().map(|root| root.display().to_string());
        let arguments = BTreeMap::from([
            ("BASE".to_owned(), base_id.to_owned()),
            ("PYTHON".to_owned(), version.to_owned()),
            ("CUDA".to_owned(), root.unwrap_or_else(|| "/usr/local/cuda".into())),
            // A package that cannot be built costs its own path alone.
            ("KEEP_GOING".to_owned(), "yes".to_owned()),
        ]);
        let mut hash = Sha256::new();
        let arguments_said = arguments.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, text) in files.iter().map(|(name, text)| (*name, text.as_str())).chain(arguments_said) {
            // With its length, so that nothing passes for another's beginning.
            hash.update(format!("{name} {}\n{text}", text.len()));
        }
        let key = hex(&hash.finalize());
        let files = files.map(|(name, text)| (name.to_owned(), text.into_bytes())).into();
        Ok(Self { tag: format!("{REPOSITORY}:{}", &key[..16]), key, files, arguments })
    }

    /// Adds this machine's way to its package index, which is used in the build alone. Also gives what of it cannot be
    /// had there, each with the reason.
    pub async fn with_index(mut self, pip: &Pip) -> Result<(Self, Vec<String>), StackError> {
        let config = PipConfig::of(pip).await?;
        self.files.extend(config.files);
        self.arguments.extend(config.proxies);
        Ok((self, config.left_out))
    }
}

/// One run at a time builds an image; the others wait for it.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "held until it is dropped")] Lock);

impl Turn {
    /// Waits for this run's turn.
    pub async fn of(ask: &StackAsk<'_>, recipe: &Recipe) -> Result<Self, StackError> {
        let path = ask.cache.stacks().join(format!("image-{}.lock", &recipe.key[..16]));
        ask.turn(&path, 0, "another run builds its image, waiting for that").await.map(Self)
    }
}

/// Takes what the build will fetch from what may still be downloaded, and refuses where nobody knows how much that is.
pub fn afford(ask: &StackAsk<'_>) -> Result<(), StackError> {
    if ask.budget.is_none() {
        return Ok(());
    }
    let packages = ask.locked.iter().flat_map(|locked| locked.packages.iter().chain(&locked.sources));
    let download: PackageDownload = packages.map(|package| package.bytes).collect();
    match download.total().filter(|_| ask.locked.is_some()) {
        Some(bytes) => ask.spend(bytes),
        None => Err(StackError::Unbounded),
    }
}

/// What the build says of what it made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Facts {
    /// The interpreter's version, `3.13.5`.
    pub python: String,
    /// Its program.
    pub program: PathBuf,
    /// Every package.
    pub packages: Vec<Package>,
    /// What `pip check` said.
    pub check: String,
    /// What the toolkit lacks, where that kept packages from being built from source.
    lacks: Option<String>,
    /// The log of a build from source that failed.
    failed: Option<String>,
}

impl Facts {
    /// Reads the file that the build left.
    pub fn read(text: &[u8], image: &str) -> Result<Self, StackError> {
        serde_json::from_slice(text).map_err(|error| StackError::Image {
            base: image.into(),
            line: format!("{FACTS} in it is not what docker/python.Dockerfile writes ({error}): build it again"),
            detail: String::new(),
        })
    }

    /// Whether another try may bring what is missing.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.failed.is_none()
    }
}

/// The stack in the image that was built as `reference`.
#[must_use]
pub fn ready(ask: &StackAsk<'_>, image: &InImage, id: String, reference: String, facts: Facts) -> ReadyStack {
    let absent = LIBRARIES.into_iter().filter(|family| !ask.stack.names(*family));
    let mut absent: Vec<(Family, String)> =
        absent.map(|family| (family, format!("stack {} does not name {}", ask.stack.name, family.name()))).collect();
    let toolkit = &ask.toolkit.toolkit.name;
    let sources = || ask.stack.packages.iter().filter(|package| is_source(package)).cloned().collect::<Vec<_>>();
    let mut failed = Vec::new();
    if let Some(lacks) = &facts.lacks {
        let (package, toolkit, lacks) = (sources().join(", "), toolkit.clone(), lacks.clone());
        absent.push((Family::Pycuda, StackError::ToolkitLacks { package, toolkit, lacks }.to_string()));
    } else if let Some(log) = &facts.failed {
        let error = read_pip(&facts.python, &sources(), log, &image.reference);
        failed.push((Family::Pycuda, error.to_string(), error.detail().map(ToOwned::to_owned)));
    }
    let said = image.said(ask, &facts.program);
    let built = BuiltImage { reference: reference.clone(), id: id.clone() };
    let (sources, resolved): (Vec<_>, Vec<_>) =
        facts.packages.iter().cloned().partition(|package| is_source(&package.name));
    let built_here = (!sources.is_empty()).then(|| Built { toolkit: toolkit.clone(), packages: sources });
    ReadyStack {
        absent,
        failed,
        files: files(ask.stack, PathBuf::from(ENVIRONMENT).join("bin/python3"), Vec::new()),
        folders: Vec::new(),
        place: Some(Place::Image { id, reference }),
        record: StackRecord {
            python_version: facts.python,
            warnings: warnings::warnings(&ask.stack.packages, &facts.packages),
            resolved,
            built: built_here.into_iter().collect(),
            images: vec![crate::model::stack::StackImage { built: Some(built), ..said }],
            check: facts.check,
            ..record(ask.stack)
        },
    }
}

/// What a build that failed means: `text` is the engine's word, `log` what the build printed.
#[must_use]
pub fn failed(version: &str, packages: &[String], base: &str, text: &str, log: &str) -> StackError {
    let log = printed(log);
    let image = |line: &str, detail: String| StackError::Image { base: base.into(), line: line.into(), detail };
    if let Some(line) = log.lines().find_map(|line| line.strip_prefix("ctk-error: ")) {
        return image(line, String::new());
    }
    let full = [text, log.as_str()].iter().any(|said| said.to_lowercase().contains("no space left on device"));
    if full {
        return image("the engine's disk is full: `docker system prune` frees some", String::new());
    }
    // The engine's word on a step that failed repeats the whole step.
    if text.contains("returned a non-zero code") || text.is_empty() {
        return read_pip(version, packages, &log, base);
    }
    image(text.lines().next().unwrap_or(text), decisive(&log))
}

/// What pip said in the build.
fn read_pip(version: &str, packages: &[String], log: &str, base: &str) -> StackError {
    let python = format!("python{version}");
    // A full disk was told from this before.
    let error = StackError::of_pip(&python, version, packages, PipEnd::Code(1), log, ProvisionError::NoHome);
    match error {
        StackError::Provision(ProvisionError::Pip { line, detail, .. }) => {
            StackError::Image { base: base.into(), line, detail }
        }
        StackError::Provision(ProvisionError::Unreachable { detail }) => {
            let line = "pip cannot reach its package index from the build, which has this machine's network and proxies, \
                        and those of its pip settings that name nothing on this machine";
            StackError::Image { base: base.into(), line: line.into(), detail }
        }
        error => error,
    }
}

/// A build's log without the engine's own lines, which repeat the Dockerfile.
fn printed(log: &str) -> String {
    let own = |line: &&str| !["Step ", " ---> ", "Removing intermediate"].iter().any(|start| line.starts_with(start));
    log.lines().filter(own).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
