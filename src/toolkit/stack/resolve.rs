//! What packages become when pip is asked, before anything of them is fetched: for an environment that is about to be
//! made, and for `ctk.lock`. The main types are [`Resolver`] and [`LockAsk`], whose entry point is [`lock`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::super::cache::Cache;
use super::super::diagnosis::PipEnd;
use super::super::error::ProvisionError;
use super::super::pip::{Pip, StackOrder, StackWork};
use super::super::staging::Staging;
use super::error::StackError;
use super::install::{NEEDED, environment, lines};
use super::python::Interpreter;
use super::{is_source, report};
use crate::model::locked_stack::{LockedPackage, LockedPackages};
use crate::model::stack::{Python, Stack, normalised};
use crate::model::version::Version;

/// The oldest glibc that wheels name by its number; older ones have names of their own.
const OLDEST_GLIBC: u32 = 17;

/// The metadata of a source package is made by its own build, for which pip makes an environment first: measured 43 s for
/// `PyCUDA`, during which nothing may be written for a while.
const METADATA: Duration = Duration::from_mins(5);

/// The program by which pip only chooses.
const PROGRAM: &str = include_str!("resolve.py");

/// Asks pip what packages become for one Python.
pub(super) struct Resolver<'a> {
    pub(super) cache: &'a Cache,
    pub(super) pip: &'a Pip,
    /// `3.11`.
    pub(super) version: &'a str,
}

impl Resolver<'_> {
    /// What comes as wheels for the environment `target`; with a `platform`, for a Python that is not on this machine,
    /// whose packages' conditions `target` reads.
    pub(super) async fn wheels(
        &self,
        staging: &Staging,
        target: Option<&Path>,
        platform: &[OsString],
        packages: &[String],
    ) -> Result<Vec<LockedPackage>, StackError> {
        let mut arguments: Vec<OsString> = vec!["--only-binary=:all:".into()];
        if !platform.is_empty() {
            arguments.extend(platform.iter().cloned());
            arguments.extend(["--target".into(), staging.path().join("nothing").into()]);
        }
        self.choose(staging, target, arguments, Duration::ZERO, packages).await
    }

    /// What is built from source on top of `base`, and what comes along.
    async fn sources(
        &self,
        staging: &Staging,
        interpreter: &Interpreter,
        packages: &[String],
        base: &[LockedPackage],
    ) -> Result<Vec<LockedPackage>, StackError> {
        let constraints = staging.path().join("constraints.txt");
        let pinned: Vec<String> = base.iter().map(LockedPackage::requirement).collect();
        fs::write(&constraints, lines(&pinned)).map_err(|error| self.failed(staging, &error))?;
        // A wheel that was built here once would be taken for the package itself.
        let arguments = ["--no-cache-dir".into(), "--constraint".into(), constraints.into()];
        self.choose(staging, Some(&interpreter.executable), arguments.into(), METADATA, packages).await
    }

    async fn choose(
        &self,
        staging: &Staging,
        target: Option<&Path>,
        arguments: Vec<OsString>,
        silence: Duration,
        packages: &[String],
    ) -> Result<Vec<LockedPackage>, StackError> {
        if packages.is_empty() {
            return Ok(Vec::new());
        }
        let folder = staging.path();
        let failed = |error: io::Error| self.failed(staging, &error);
        fs::write(folder.join("resolve.py"), PROGRAM).map_err(failed)?;
        let requirements = folder.join("asked.txt");
        fs::write(&requirements, lines(packages)).map_err(failed)?;
        fs::create_dir_all(folder.join("tmp")).map_err(failed)?;
        let what = StackWork::Choose { arguments, requirements: &requirements };
        let order = StackOrder { target, env: Vec::new(), silence, what };
        let (end, output) = self.pip.stack(&order, folder, &|_| ()).await?;
        if end != PipEnd::Code(0) {
            let full = ProvisionError::DiskFull { folder: self.cache.root().into(), needed: NEEDED };
            let program = self.pip.program();
            return Err(StackError::of_pip(&program, self.version, packages, end, &output.joined(), full));
        }
        // Without the file nobody told a size.
        let sizes: BTreeMap<String, u64> = fs::read(folder.join("sizes.json"))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let chosen = report::read(&folder.join("report.json")).map_err(failed)?;
        Ok(chosen.into_iter().map(|installed| installed.locked(&sizes)).collect())
    }

    fn failed(&self, staging: &Staging, error: &io::Error) -> StackError {
        self.cache.error(staging.path(), NEEDED, error).into()
    }
}

/// pip's options for a Python `version` that is not on this machine, on a C library no newer than 2.`glibc`; where that is
/// not known, on the oldest. `read` says whether an interpreter of the same release reads the packages' conditions.
pub(super) fn platform(version: &str, glibc: Option<u32>, read: bool) -> Vec<OsString> {
    let arch = std::env::consts::ARCH;
    let mut options: Vec<OsString> = ["--implementation", "cp", "--python-version", version].map(OsString::from).into();
    if !read {
        // pip holds the Pythons that a package takes against the one that it runs in. Tags still say which fit.
        options.push("--ignore-requires-python".into());
    }
    for glibc in (OLDEST_GLIBC..=glibc.unwrap_or(OLDEST_GLIBC)).rev() {
        options.extend(["--platform".into(), format!("manylinux_2_{glibc}_{arch}").into()]);
    }
    for name in ["manylinux2014", "linux"] {
        options.extend(["--platform".into(), format!("{name}_{arch}").into()]);
    }
    options
}

/// What [`lock`] is asked to do, and whom it tells.
pub struct LockAsk<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// Where its packages will be used.
    pub place: LockPlace,
    /// Below which pip works.
    pub cache: &'a Cache,
    /// How pip is run.
    pub pip: &'a Pip,
    /// Told what is worth a line.
    pub note: &'a (dyn Fn(String) + Send + Sync),
}

/// Whose Python a stack is locked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockPlace {
    /// The machine's.
    Machine,
    /// That of images whose C library is at least this one; none if it is not known.
    Image {
        /// `2.36`.
        glibc: Option<Version>,
    },
}

/// What a stack stands for here and now, for `ctk.lock`. Nothing is installed, and only what pip cannot judge otherwise is
/// fetched: source packages, and wheels whose index tells neither their metadata nor their hash.
pub async fn lock(ask: &LockAsk<'_>) -> Result<LockedPackages, StackError> {
    let Python::Version(version) = &ask.stack.python else { return installed().await };
    let (sources, wheels): (Vec<String>, Vec<String>) =
        ask.stack.packages.iter().cloned().partition(|package| is_source(package));
    ask.cache.make()?;
    let resolver = Resolver { cache: ask.cache, pip: ask.pip, version };
    let staging = || Staging::create(ask.cache).map_err(|error| ask.cache.error(&ask.cache.staging(), NEEDED, &error));
    let (interpreter, packages) = match ask.place {
        LockPlace::Machine => {
            let interpreter = Interpreter::of_version(version).await?;
            let staging = staging()?;
            let tree = staging.path().join("tree");
            environment(&tree, &interpreter).map_err(|error| resolver.failed(&staging, &error))?;
            let chosen = resolver.wheels(&staging, Some(&tree.join("bin/python3")), &[], &wheels).await?;
            (Some(interpreter), chosen)
        }
        LockPlace::Image { glibc } => {
            let reader = Interpreter::of_version(version).await.ok();
            let platform = platform(version, glibc.map(|glibc| glibc.minor.into()), reader.is_some());
            let target = reader.as_ref().map(|reader| reader.executable.as_path());
            let chosen = resolver.wheels(&staging()?, target, &platform, &wheels).await?;
            (reader, chosen)
        }
    };
    let sources = match interpreter {
        _ if sources.is_empty() => Vec::new(),
        Some(interpreter) => resolver.sources(&staging()?, &interpreter, &sources, &packages).await?,
        None => {
            (ask.note)(format!(
                "stack {}: {} is not locked: it is built from source, and there is no Python {version} on this machine to \
                 ask what comes along",
                ask.stack.name,
                sources.join(", ")
            ));
            Vec::new()
        }
    };
    let unpinned = packages.iter().chain(&sources).find(|package| package.sha256.is_none());
    match unpinned {
        Some(package) => Err(StackError::NoHash { requirement: package.requirement() }),
        None => Ok(LockedPackages { python: version.clone(), packages, sources }),
    }
}

/// What is installed for the machine's own Python.
pub async fn installed() -> Result<LockedPackages, StackError> {
    let found = Interpreter::of_host().await?;
    let python = found.release();
    let package = |package: crate::model::stack::Package| LockedPackage {
        name: normalised(&package.name),
        version: package.version,
        bytes: None,
        sha256: None,
    };
    let packages = found.packages.into_iter().map(package).collect();
    Ok(LockedPackages { python, packages, sources: Vec::new() })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn wheels_for_another_python_are_no_newer_than_its_c_library() {
        let arch = std::env::consts::ARCH;
        let text = |options: Vec<OsString>| options.join(OsStr::new(" ")).into_string().unwrap();
        assert_eq!(
            text(platform("3.13", Some(18), false)),
            format!(
                "--implementation cp --python-version 3.13 --ignore-requires-python --platform manylinux_2_18_{arch} \
                 --platform manylinux_2_17_{arch} --platform manylinux2014_{arch} --platform linux_{arch}"
            )
        );
        assert_eq!(
            text(platform("3.13", None, true)),
            format!(
                "--implementation cp --python-version 3.13 --platform manylinux_2_17_{arch} --platform \
                 manylinux2014_{arch} --platform linux_{arch}"
            )
        );
    }
}
