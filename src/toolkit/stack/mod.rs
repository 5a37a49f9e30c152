//! From a stack of Python packages to an environment that is there: through the machine's own pip into the cache,
//! complete or not at all. The entry point is [`provide`]; its answer is a [`ReadyStack`].
//!
//! An environment is a virtual one: a link to the interpreter, `pyvenv.cfg`, and the packages. What has to be built from
//! source against the cell's toolkit (`PyCUDA`) lies in a folder of its own, so that its failure costs its own path alone.

pub mod baked;
mod entry;
mod error;
mod image;
mod install;
mod python;
pub(super) mod report;
mod resolve;
mod warnings;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::error::StackError;
pub use self::image::InImage;
use self::image::Target;
use self::install::{Installer, Made};
use self::python::Interpreter;
pub use self::resolve::{LockAsk, LockPlace, installed, lock};
use super::cache::Cache;
use super::lock::{Lock, Tried, open};
use super::pip::Pip;
use crate::model::event::StackStep;
use crate::model::locked_stack::LockedPackages;
use crate::model::path::Family;
use crate::model::place::{Place, Provisioned};
use crate::model::stack::{Built, NOT_TESTED, Package, Python, Stack, StackFiles, StackRecord, normalised};

/// Distributions without wheels, which are built against the cell's toolkit.
const FROM_SOURCE: [&str; 1] = ["pycuda"];

/// Where a container sees the environment, and what was built from source.
pub const INSIDE: &str = "/ctk/stack";
const INSIDE_BUILT: &str = "/ctk/stack-built";

/// What [`provide`] is asked to do, and whom it tells.
pub struct StackAsk<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// The cell's toolkit.
    pub toolkit: &'a Provisioned,
    /// Where environments are made.
    pub cache: &'a Cache,
    /// How packages are fetched.
    pub pip: &'a Pip,
    /// Whether a container is to see it: then every user must be able to read it.
    pub by_everyone: bool,
    /// What the run is held to.
    pub locked: Option<&'a LockedPackages>,
    /// What may still be downloaded; none if there is no limit. It is taken from as far as sizes are known.
    pub budget: Option<&'a AtomicU64>,
    /// Told how far the packages are, where some are fetched.
    pub progress: &'a (dyn Fn(StackStep) + Send + Sync),
    /// What is known of the image that the cell's jobs run on; none where they run on the host's user space.
    pub image: Option<&'a InImage>,
    /// Told what is worth a line.
    pub note: &'a (dyn Fn(String) + Send + Sync),
}

impl StackAsk<'_> {
    /// The lock on what one run at a time makes. Says `busy` if another run has it, and waits for that.
    async fn turn(&self, path: &Path, needed: u64, busy: &str) -> Result<Lock, StackError> {
        self.cache.make()?;
        let failed = |error: io::Error| StackError::from(self.cache.error(path, needed, &error));
        match open(path).and_then(Lock::attempt).map_err(failed)? {
            Tried::Held(lock) => Ok(lock),
            Tried::Busy(file) => {
                (self.note)(format!("stack {}: {busy}", self.stack.name));
                Lock::wait(file).await.map_err(failed)
            }
        }
    }

    /// Takes the bytes from what may still be downloaded.
    fn spend(&self, bytes: u64) -> Result<(), StackError> {
        let Some(budget) = self.budget else { return Ok(()) };
        match budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)) {
            Ok(_) => Ok(()),
            Err(left) => Err(StackError::TooMuch { bytes, left }),
        }
    }
}

/// A stack that jobs can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyStack {
    /// What was asked and what was resolved.
    pub record: StackRecord,
    /// What a job is told, with the host's paths.
    pub files: StackFiles,
    /// Folders of the host, and where a container sees them.
    pub folders: Vec<(PathBuf, PathBuf)>,
    /// The place to run in instead of the toolkit's own: the image that was built for this stack.
    pub place: Option<Place>,
    /// Libraries that the stack does not name: that they are not there is foreseen.
    pub absent: Vec<(Family, String)>,
    /// Libraries that the stack names and that could not be had: one line, and the decisive ones.
    pub failed: Vec<(Family, String, Option<String>)>,
}

/// Puts a stack on this machine, or says why not. Dropping the future ends pip and leaves nothing behind.
pub async fn provide(ask: &StackAsk<'_>) -> Result<ReadyStack, StackError> {
    match (&ask.stack.python, ask.image) {
        (Python::Host, None) => host(ask).await,
        (Python::Host, Some(image)) => image::host(ask, image),
        (Python::Version(version), None) => {
            let interpreter = Interpreter::of_version(version).await?;
            let binds = if ask.by_everyone { interpreter.binds()? } else { Vec::new() };
            made(ask, version, Some(&interpreter), None, binds).await
        }
        (Python::Version(version), Some(image)) => {
            let python = image.python(version)?;
            let reader = Interpreter::of_version(version).await.ok();
            let target = Target { image, python, reader: reader.as_ref() };
            made(ask, version, None, Some(target), Vec::new()).await
        }
    }
}

const LIBRARIES: [Family; 4] = [Family::CudaCore, Family::Cupy, Family::Numba, Family::Pycuda];

/// The machine's own Python, with what it has.
async fn host(ask: &StackAsk<'_>) -> Result<ReadyStack, StackError> {
    let interpreter = Interpreter::of_host().await?;
    let binds = if ask.by_everyone { interpreter.binds()? } else { Vec::new() };
    let check = install::check(ask.pip, Some(&interpreter.executable), &std::env::temp_dir()).await;
    let has = Stack {
        packages: interpreter.packages.iter().map(|package| package.name.clone()).collect(),
        ..ask.stack.clone()
    };
    let absent = LIBRARIES.into_iter().filter(|family| !has.names(*family));
    let absent =
        absent.map(|family| (family, format!("the machine's Python {} has no {}", interpreter.version, family.name())));
    Ok(ReadyStack {
        absent: absent.collect(),
        failed: Vec::new(),
        files: files(ask.stack, interpreter.executable.clone(), Vec::new()),
        folders: binds.into_iter().map(|folder| (folder.clone(), folder)).collect(),
        place: None,
        record: StackRecord {
            python_version: interpreter.version.clone(),
            warnings: warnings::warnings(&[], &interpreter.packages),
            resolved: interpreter.packages,
            check,
            ..record(ask.stack)
        },
    })
}

/// An environment of the packages that are named, for an interpreter of this machine or for an image's.
async fn made(
    ask: &StackAsk<'_>,
    version: &str,
    interpreter: Option<&Interpreter>,
    image: Option<Target<'_>>,
    binds: Vec<PathBuf>,
) -> Result<ReadyStack, StackError> {
    let (sources, wheels): (Vec<String>, Vec<String>) =
        ask.stack.packages.iter().cloned().partition(|package| is_source(package));
    let installer = Installer { ask, version, interpreter, image };
    let Made { folder, packages, check } = installer.wheels(&wheels).await?;

    let mut folders: Vec<_> = binds.into_iter().map(|folder| (folder.clone(), folder)).collect();
    folders.push((folder.clone(), INSIDE.into()));
    let (mut further, mut failed, mut built, mut unbuilt) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    if let Some(Target { image, .. }) = image.filter(|_| !sources.is_empty()) {
        let (names, reference) = (sources.join(", "), &image.reference);
        let cure = "docker/python.Dockerfile bakes it into an image with a toolkit";
        let why = format!("{names} is built from source, and not for the Python of image {reference}: {cure}");
        unbuilt.push((Family::Pycuda, format!("{NOT_TESTED}{why}")));
    } else if !sources.is_empty() {
        match installer.sources(&sources, &packages).await {
            Ok(Made { folder, packages, .. }) => {
                folders.push((folder.clone(), INSIDE_BUILT.into()));
                further.push(folder);
                built.push(Built { toolkit: ask.toolkit.toolkit.name.clone(), packages });
            }
            // As with nvcc: some toolkits do not carry it, and that is known beforehand.
            Err(error @ StackError::ToolkitLacks { .. }) => unbuilt.push((Family::Pycuda, error.to_string())),
            Err(error) => {
                let detail = error.detail().map(ToOwned::to_owned);
                failed.push((Family::Pycuda, error.to_string(), detail));
            }
        }
    }
    let all: Vec<Package> = packages.iter().chain(built.iter().flat_map(|built| &built.packages)).cloned().collect();
    let absent = LIBRARIES.into_iter().filter(|family| !ask.stack.names(*family));
    let absent = absent.map(|family| (family, format!("stack {} does not name {}", ask.stack.name, family.name())));
    let absent = absent.chain(unbuilt);
    Ok(ReadyStack {
        absent: absent.collect(),
        failed,
        files: files(ask.stack, folder.join("bin/python3"), further),
        folders,
        place: None,
        record: StackRecord {
            python_version: interpreter.map_or_else(|| version.to_owned(), |found| found.version.clone()),
            images: image.map(|target| target.image.said(ask, &target.python.program)).into_iter().collect(),
            warnings: warnings::warnings(&ask.stack.packages, &all),
            resolved: packages,
            built,
            check,
            ..record(ask.stack)
        },
    })
}

/// Whether a package is built against the cell's toolkit.
fn is_source(package: &str) -> bool {
    FROM_SOURCE.contains(&normalised(package).as_str())
}

/// Whether an unlocked run would find the wheels of a stack in the cache. No network is needed to tell.
pub async fn is_cached(stack: &Stack, cache: &Cache) -> bool {
    let Python::Version(version) = &stack.python else { return true };
    // Where its environment lies depends on what is in the image.
    if stack.base.is_some() {
        return false;
    }
    let wheels: Vec<String> = stack.packages.iter().filter(|package| !is_source(package)).cloned().collect();
    let Ok(interpreter) = Interpreter::of_version(version).await else { return false };
    install::wheels_entry(cache, version, install::key(&interpreter), None, &wheels).complete().is_some()
}

/// Where a virtual environment has its packages.
fn site_packages(version: &str) -> PathBuf {
    Path::new("lib").join(format!("python{version}")).join("site-packages")
}

fn files(stack: &Stack, python: PathBuf, folders: Vec<PathBuf>) -> StackFiles {
    StackFiles { name: stack.name.clone(), python, folders }
}

fn record(stack: &Stack) -> StackRecord {
    StackRecord {
        name: stack.name.clone(),
        python: stack.python.to_string(),
        python_version: String::new(),
        asked: stack.packages.clone(),
        resolved: Vec::new(),
        built: Vec::new(),
        images: Vec::new(),
        check: String::new(),
        warnings: Vec::new(),
    }
}
