//! Makes environments with pip, each in a staging folder that is renamed at the end. The main type is [`Installer`].

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::cache::Cache;
use super::super::diagnosis::PipEnd;
use super::super::error::ProvisionError;
use super::super::pip::{Pip, StackOrder, StackWork};
use super::super::staging::Staging;
use super::super::tree;
use super::entry::StackEntry;
use super::error::StackError;
use super::image::Target;
use super::python::Interpreter;
use super::report::{self, Installed};
use super::resolve::Resolver;
use super::{StackAsk, site_packages};
use crate::model::download::PackageDownload;
use crate::model::event::StackStep;
use crate::model::locked_stack::{LockedPackage, all_hashed, requirements};
use crate::model::stack::{Package, normalised};

/// Disk for an environment whose size nobody knows beforehand. Measured: CuPy 13.6, cuda.core, numba-cuda and NumPy take
/// 584 MB, and their wheels, which pip keeps meanwhile, 200 MB.
pub(super) const NEEDED: u64 = 1 << 30;

/// One source file of `PyCUDA` takes its compiler 20 s on a core of its own, and minutes on a busy machine.
const COMPILE: Duration = Duration::from_mins(15);

/// Makes the environments of one stack.
pub(super) struct Installer<'a> {
    pub(super) ask: &'a StackAsk<'a>,
    /// `3.11`.
    pub(super) version: &'a str,
    /// None where the Python is an image's.
    pub(super) interpreter: Option<&'a Interpreter>,
    /// The image's Python, where it is one.
    pub(super) image: Option<Target<'a>>,
}

/// An environment that is there.
pub(super) struct Made {
    pub(super) folder: PathBuf,
    pub(super) packages: Vec<Package>,
    pub(super) check: String,
}

impl Installer<'_> {
    /// The environment of what comes as wheels.
    pub(super) async fn wheels(&self, packages: &[String]) -> Result<Made, StackError> {
        let locked = self.ask.locked.map(|locked| locked.packages.as_slice());
        let python = match self.image {
            Some(target) => target.key(),
            None => self.interpreter.map(key).unwrap_or_default(),
        };
        let entry = wheels_entry(self.ask.cache, self.version, python, locked, packages);
        self.ready(&entry, packages, |staging| self.make_wheels(&entry, staging, packages)).await
    }

    /// What is built from source against the toolkit, to go on top of the wheels.
    pub(super) async fn sources(&self, packages: &[String], base: &[Package]) -> Result<Made, StackError> {
        let toolkit = BuildToolkit::of(self.ask, &packages.join(", "))?;
        let python = self.interpreter.map(|found| format!("{} {}", found.version, found.executable.display()));
        let mut parts = vec!["sources".to_owned(), python.unwrap_or_default(), toolkit.root.display().to_string()];
        parts.push(self.ask.toolkit.source.reference.clone());
        if let Some(locked) = self.ask.locked {
            if locked.sources.is_empty() {
                let (package, python) = (packages.join(", "), self.version.to_owned());
                return Err(StackError::Unlocked { package, python });
            }
            parts.push(requirements(&locked.sources));
        }
        parts.extend(sorted(packages));
        parts.extend(base.iter().map(|package| format!("{}=={}", package.name, package.version)));
        let entry = StackEntry::new(self.ask.cache, &format!("py{}-built", self.version), &parts);
        self.ready(&entry, packages, |staging| self.make_sources(&entry, staging, packages, base, &toolkit)).await
    }

    /// A complete entry is used without a lock and without writing. Else one run makes it, and others wait for it.
    async fn ready<F: Future<Output = Result<Made, StackError>>>(
        &self,
        entry: &StackEntry,
        packages: &[String],
        make: impl FnOnce(Staging) -> F,
    ) -> Result<Made, StackError> {
        let known = || {
            let manifest = entry.complete()?;
            Some(Made { folder: entry.folder.clone(), packages: manifest.packages, check: manifest.check })
        };
        if let Some(made) = known() {
            return Ok(made);
        }
        let (cache, name) = (self.ask.cache, &self.ask.stack.name);
        let _lock = self.ask.turn(&entry.lock, NEEDED, "another run installs it, waiting for that").await?;
        if let Some(made) = known() {
            return Ok(made);
        }
        (self.ask.note)(format!("stack {name}: installing {} for Python {}", packages.join(", "), self.version));
        let staging = Staging::create(cache).map_err(|error| cache.error(&cache.staging(), NEEDED, &error))?;
        make(staging).await
    }

    async fn make_wheels(&self, entry: &StackEntry, staging: Staging, packages: &[String]) -> Result<Made, StackError> {
        let tree = staging.path().join("tree");
        let failed = |error: io::Error| self.ask.cache.error(staging.path(), NEEDED, &error);
        let site = tree.join(site_packages(self.version));
        fs::create_dir_all(&site).map_err(failed)?;
        let (environment, platform) = match (self.interpreter, self.image) {
            (Some(interpreter), _) => {
                environment(&tree, interpreter).map_err(failed)?;
                (Some(tree.join("bin/python3")), Vec::new())
            }
            (None, Some(target)) => {
                target.environment(&tree).map_err(failed)?;
                (None, target.platform())
            }
            (None, None) => (None, Vec::new()),
        };
        // For an image's Python, pip reads the packages' conditions by one of this machine of the same release.
        let reader = self.image.and_then(|target| target.reader).map(|reader| reader.executable.as_path());
        let target = environment.as_deref().or(reader);
        let chosen = if let Some(locked) = self.ask.locked {
            locked.packages.clone()
        } else {
            let resolver = Resolver { cache: self.ask.cache, pip: self.ask.pip, version: self.version };
            resolver.wheels(&staging, target, &platform, packages).await?
        };
        let mut arguments: Vec<OsString> = vec!["--only-binary=:all:".into()];
        if !platform.is_empty() {
            arguments.extend(platform);
            arguments.extend(["--target".into(), site.into()]);
        }
        let order = StackOrder { target, env: Vec::new(), silence: Duration::ZERO, what: StackWork::Check };
        let found = self.install_chosen(&staging, order, arguments, &chosen).await?;
        let check = match &environment {
            Some(python) => check(self.ask.pip, Some(python), staging.path()).await,
            None => self.image.map(|target| target.unchecked()).unwrap_or_default(),
        };
        self.finish(entry, &staging, found, check).await
    }

    async fn make_sources(
        &self,
        entry: &StackEntry,
        staging: Staging,
        packages: &[String],
        base: &[Package],
        toolkit: &BuildToolkit,
    ) -> Result<Made, StackError> {
        let failed = |error: io::Error| self.ask.cache.error(staging.path(), NEEDED, &error);
        let home = staging.path().join("home");
        fs::create_dir_all(&home).map_err(failed)?;
        // What PyCUDA's own build reads; cuRAND is not among what the toolkit must have.
        fs::write(home.join(".aksetup-defaults.py"), toolkit.settings()).map_err(failed)?;
        if let Some(own) = self.ask.pip.home() {
            lend_access(Path::new(&own), &home).map_err(failed)?;
        }
        let mut path = OsString::from(toolkit.root.join("bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()));
        let mut env = vec![
            ("HOME".into(), home.into()),
            ("CUDA_ROOT".into(), toolkit.root.clone().into()),
            ("PATH".into(), path),
            // A wheel that another toolkit's build left there would be taken for this one's.
            ("PIP_NO_CACHE_DIR".into(), "1".into()),
        ];
        // The index that the user's own settings name is still the one to ask.
        env.extend(self.ask.pip.settings_folder().map(|folder| ("XDG_CONFIG_HOME".into(), folder)));
        let mut arguments: Vec<OsString> = vec!["--target".into(), staging.path().join("tree").into()];
        let interpreter = self.interpreter.map(|found| found.executable.clone());
        let order = StackOrder { target: interpreter.as_deref(), env, silence: COMPILE, what: StackWork::Check };
        let found = if let Some(locked) = self.ask.locked {
            self.install_chosen(&staging, order, arguments, &locked.sources).await?
        } else {
            // To ask first would cost a second build of the metadata, which takes longer than what there is to fetch.
            let pinned: Vec<String> =
                base.iter().map(|package| format!("{}=={}", normalised(&package.name), package.version)).collect();
            let constraints = staging.path().join("constraints.txt");
            fs::write(&constraints, lines(&pinned)).map_err(failed)?;
            arguments.extend(["--constraint".into(), constraints.into()]);
            self.install(&staging, order, arguments, &lines(packages), packages, &|_| ()).await?
        };
        self.finish(entry, &staging, found, String::new()).await
    }

    /// Installs exactly these packages, after saying how much that is to fetch.
    async fn install_chosen(
        &self,
        staging: &Staging,
        order: StackOrder<'_>,
        mut arguments: Vec<OsString>,
        chosen: &[LockedPackage],
    ) -> Result<Vec<Package>, StackError> {
        let download: PackageDownload = chosen.iter().map(|package| package.bytes).collect();
        self.ask.spend(download.bytes)?;
        (self.ask.progress)(StackStep::Started(download));
        // Unpacking makes more of the bytes: the bar stops at the size of what is fetched.
        let (most, total) = (AtomicU64::new(0), download.total().unwrap_or(u64::MAX));
        let tick = |size: u64| {
            let done = size.min(total);
            if most.fetch_max(done, Ordering::Relaxed) < done {
                (self.ask.progress)(StackStep::Progress { done });
            }
        };
        arguments.push("--no-deps".into());
        if all_hashed(chosen) {
            arguments.push("--require-hashes".into());
        }
        let names: Vec<String> = chosen.iter().map(LockedPackage::requirement).collect();
        let found = self.install(staging, order, arguments, &requirements(chosen), &names, &tick).await;
        found.map_err(|error| match error {
            StackError::Provision(ProvisionError::HashMismatch { requirement, detail })
                if self.ask.locked.is_some() =>
            {
                StackError::NotLocked { requirement, detail }
            }
            other => other,
        })
    }

    /// Runs pip, and reads its report.
    async fn install(
        &self,
        staging: &Staging,
        order: StackOrder<'_>,
        arguments: Vec<OsString>,
        requirements: &str,
        packages: &[String],
        tick: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Vec<Package>, StackError> {
        let failed = |error: io::Error| self.ask.cache.error(staging.path(), NEEDED, &error);
        let file = staging.path().join("requirements.txt");
        fs::write(&file, requirements).map_err(failed)?;
        fs::create_dir_all(staging.path().join("tmp")).map_err(failed)?;
        let order = StackOrder { what: StackWork::Install { arguments, requirements: &file }, ..order };
        let (end, output) = self.ask.pip.stack(&order, staging.path(), tick).await?;
        if end != PipEnd::Code(0) {
            let full = ProvisionError::DiskFull { folder: self.ask.cache.root().into(), needed: NEEDED };
            let program = self.ask.pip.program();
            return Err(StackError::of_pip(&program, self.version, packages, end, &output.joined(), full));
        }
        let installed = report::read(&staging.path().join("report.json")).map_err(failed)?;
        Ok(installed.into_iter().map(Installed::package).collect())
    }

    async fn finish(
        &self,
        entry: &StackEntry,
        staging: &Staging,
        packages: Vec<Package>,
        check: String,
    ) -> Result<Made, StackError> {
        let failed = |error: io::Error| self.ask.cache.error(staging.path(), NEEDED, &error);
        let tree = staging.path().join("tree");
        let walked = tree.clone();
        let walked = tokio::task::spawn_blocking(move || tree::finish(&walked))
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error.to_string())))
            .map_err(failed)?;
        let manifest = entry.place(&tree, packages, check, walked.files, staging).map_err(failed)?;
        Ok(Made { folder: entry.folder.clone(), packages: manifest.packages, check: manifest.check })
    }
}

/// What of an interpreter of this machine decides how an environment for it is made.
pub(super) fn key(interpreter: &Interpreter) -> String {
    format!("{} {}", interpreter.version, interpreter.executable.display())
}

/// Where the wheels of `packages` lie for a Python, by the [`key`] of an interpreter or of an image's.
pub(super) fn wheels_entry(
    cache: &Cache,
    version: &str,
    python: String,
    locked: Option<&[LockedPackage]>,
    packages: &[String],
) -> StackEntry {
    let mut parts = vec!["wheels".to_owned(), python, locked.map(requirements).unwrap_or_default()];
    parts.extend(sorted(packages));
    StackEntry::new(cache, &format!("py{version}"), &parts)
}

/// What `pip check` says for an interpreter, in one line.
pub(super) async fn check(pip: &Pip, target: Option<&Path>, staging: &Path) -> String {
    let order = StackOrder { target, env: Vec::new(), silence: Duration::ZERO, what: StackWork::Check };
    match pip.stack(&order, staging, &|_| ()).await {
        Ok((PipEnd::Code(0), output)) => output.stdout.trim().into(),
        Ok((PipEnd::Code(1), output)) if output.stderr.trim().is_empty() || !output.stdout.trim().is_empty() => {
            output.stdout.trim().lines().collect::<Vec<_>>().join("; ")
        }
        Ok((_, output)) => {
            format!("not asked: {}", output.joined().trim().lines().last().unwrap_or("pip said nothing"))
        }
        Err(error) => format!("not asked: {error}"),
    }
}

/// A virtual environment without a pip of its own: where the interpreter is, and a link to it.
pub(super) fn environment(tree: &Path, interpreter: &Interpreter) -> io::Result<()> {
    let program = fs::canonicalize(&interpreter.executable)?;
    let home = program.parent().unwrap_or(Path::new("/")).display();
    let settings = format!("home = {home}\ninclude-system-site-packages = false\nversion = {}\n", interpreter.version);
    fs::create_dir_all(tree.join("bin"))?;
    fs::write(tree.join("pyvenv.cfg"), settings)?;
    symlink(&program, tree.join("bin/python3"))
}

/// Lets a pip whose home is `home` reach what the user's own reaches. They are links, because they hold passwords, and not
/// variables: a pip with `PIP_CONFIG_FILE` leaves out the user's other settings.
fn lend_access(own: &Path, home: &Path) -> io::Result<()> {
    for file in [".netrc", "_netrc", ".pip/pip.conf"] {
        let (from, to) = (own.join(file), home.join(file));
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap_or(home))?;
            symlink(std::path::absolute(&from)?, to)?;
        }
    }
    Ok(())
}

fn sorted(packages: &[String]) -> Vec<String> {
    let mut packages = packages.to_vec();
    packages.sort();
    packages
}

pub(super) fn lines(packages: &[String]) -> String {
    packages.iter().flat_map(|package| [package.as_str(), "\n"]).collect()
}

/// The toolkit that a source package is built against.
struct BuildToolkit {
    root: PathBuf,
    libraries: Vec<PathBuf>,
}

impl BuildToolkit {
    fn of(ask: &StackAsk<'_>, package: &str) -> Result<Self, StackError> {
        let toolkit = ask.toolkit.toolkit.name.clone();
        let lacks = |lacks: &str| StackError::ToolkitLacks {
            package: package.into(),
            toolkit: toolkit.clone(),
            lacks: lacks.into(),
        };
        let roots = || ask.toolkit.roots.iter().cloned();
        let Some(root) = roots().find(|root| root.join("include/cudaProfiler.h").is_file()) else {
            return Err(lacks("include/cudaProfiler.h"));
        };
        let folders = ["lib64/stubs", "lib/stubs", "lib64", "lib"].map(|folder| root.join(folder));
        // The driver is linked by its unversioned name.
        if !folders.iter().any(|folder| folder.join("libcuda.so").is_file()) {
            return Err(lacks("link-time libcuda (lib64/stubs/libcuda.so)"));
        }
        let libraries = folders.into_iter().filter(|folder| folder.is_dir()).collect();
        Ok(Self { root, libraries })
    }

    /// The file that PyCUDA's build takes its settings from.
    fn settings(&self) -> String {
        let quoted = |path: &Path| format!("{:?}", path.display().to_string());
        let libraries: Vec<_> = self.libraries.iter().map(|folder| quoted(folder)).collect();
        let libraries = libraries.join(", ");
        format!(
            "CUDA_ROOT = {root}\nCUDA_INC_DIR = [{include}]\nCUDA_ENABLE_CURAND = False\n\
             CUDADRV_LIB_DIR = [{libraries}]\nCUDART_LIB_DIR = [{libraries}]\n",
            root = quoted(&self.root),
            include = quoted(&self.root.join("include")),
        )
    }
}
