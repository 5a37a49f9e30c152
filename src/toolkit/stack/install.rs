//! Makes environments with pip, each in a staging folder that is renamed at the end. The main type is [`Installer`].

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::super::diagnosis::PipEnd;
use super::super::error::ProvisionError;
use super::super::lock::{self, Lock, Tried};
use super::super::pip::{Pip, StackOrder, StackWork};
use super::super::staging::Staging;
use super::super::tree;
use super::entry::StackEntry;
use super::error::StackError;
use super::image::Target;
use super::python::Interpreter;
use super::{StackAsk, site_packages};
use crate::model::stack::{Package, normalised};

/// Disk for an environment whose size nobody knows beforehand. Measured: CuPy 13.6, cuda.core, numba-cuda and NumPy take
/// 584 MB, and their wheels, which pip keeps meanwhile, 200 MB.
const NEEDED: u64 = 1 << 30;

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

/// pip's installation report, as far as it is used.
#[derive(Deserialize)]
struct Report {
    install: Vec<Installed>,
}

#[derive(Deserialize)]
struct Installed {
    metadata: Metadata,
    #[serde(default)]
    download_info: DownloadInfo,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
    #[serde(default)]
    requires_dist: Vec<String>,
}

#[derive(Deserialize, Default)]
struct DownloadInfo {
    #[serde(default)]
    archive_info: ArchiveInfo,
}

#[derive(Deserialize, Default)]
struct ArchiveInfo {
    #[serde(default)]
    hashes: std::collections::BTreeMap<String, String>,
}

impl Installer<'_> {
    /// The environment of what comes as wheels.
    pub(super) async fn wheels(&self, packages: &[String]) -> Result<Made, StackError> {
        let python = self.interpreter.map_or_else(
            || self.image.map(|target| target.key()).unwrap_or_default(),
            |found| format!("{} {}", found.version, found.executable.display()),
        );
        let mut parts = vec!["wheels".to_owned(), python, self.ask.locked.unwrap_or_default().to_owned()];
        parts.extend(sorted(packages));
        let entry = StackEntry::new(self.ask.cache, &format!("py{}", self.version), &parts);
        self.ready(&entry, packages, |staging| self.make_wheels(&entry, staging, packages)).await
    }

    /// What is built from source against the toolkit, to go on top of the wheels.
    pub(super) async fn sources(&self, packages: &[String], base: &[Package]) -> Result<Made, StackError> {
        let toolkit = BuildToolkit::of(self.ask, &packages.join(", "))?;
        let python = self.interpreter.map(|found| format!("{} {}", found.version, found.executable.display()));
        let mut parts = vec!["sources".to_owned(), python.unwrap_or_default(), toolkit.root.display().to_string()];
        parts.push(self.ask.toolkit.source.reference.clone());
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
        cache.make()?;
        let locked = |error: io::Error| StackError::from(cache.error(&entry.lock, NEEDED, &error));
        let _lock = match lock::open(&entry.lock).and_then(Lock::attempt).map_err(locked)? {
            Tried::Held(lock) => lock,
            Tried::Busy(file) => {
                (self.ask.note)(format!("stack {name}: another run installs it, waiting for that"));
                Lock::wait(file).await.map_err(locked)?
            }
        };
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
        let mut arguments: Vec<OsString> = vec!["--only-binary=:all:".into()];
        let target = if let Some(interpreter) = self.interpreter {
            environment(&tree, interpreter).map_err(failed)?;
            Some(tree.join("bin/python3"))
        } else {
            if let Some(target) = self.image {
                target.environment(&tree).map_err(failed)?;
                arguments.extend(target.options());
            }
            arguments.push(site.into());
            None
        };
        let (target, env) = (target.as_deref(), Vec::new());
        let reader = self.image.and_then(|target| target.reader).map(|reader| reader.executable.as_path());
        let requirements = match self.ask.locked {
            Some(locked) => {
                arguments.extend(["--require-hashes", "--no-deps"].map(OsString::from));
                locked.to_owned()
            }
            None => lines(packages),
        };
        let found = self
            .install(
                &staging,
                StackOrder { target: target.or(reader), env, silence: Duration::ZERO, what: StackWork::Check },
                arguments,
                &requirements,
                packages,
            )
            .await?;
        let check = match target {
            Some(target) => check(self.ask.pip, Some(target), staging.path()).await,
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
        let pinned: Vec<String> =
            base.iter().map(|package| format!("{}=={}", normalised(&package.name), package.version)).collect();
        let constraints = staging.path().join("constraints.txt");
        fs::write(&constraints, lines(&pinned)).map_err(failed)?;
        let mut path = OsString::from(toolkit.root.join("bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()));
        let env = vec![
            ("HOME".into(), home.into()),
            ("CUDA_ROOT".into(), toolkit.root.clone().into()),
            ("PATH".into(), path),
            // A wheel that another toolkit's build left there would be taken for this one's.
            ("PIP_NO_CACHE_DIR".into(), "1".into()),
        ];
        let mut arguments: Vec<OsString> = vec!["--constraint".into(), constraints.into(), "--target".into()];
        arguments.push(staging.path().join("tree").into());
        let interpreter = self.interpreter.map(|found| found.executable.clone());
        let order = StackOrder { target: interpreter.as_deref(), env, silence: COMPILE, what: StackWork::Check };
        let found = self.install(&staging, order, arguments, &lines(packages), packages).await?;
        self.finish(entry, &staging, found, String::new()).await
    }

    /// Runs pip, and reads its report.
    async fn install(
        &self,
        staging: &Staging,
        order: StackOrder<'_>,
        arguments: Vec<OsString>,
        requirements: &str,
        packages: &[String],
    ) -> Result<Vec<Package>, StackError> {
        let failed = |error: io::Error| self.ask.cache.error(staging.path(), NEEDED, &error);
        let file = staging.path().join("requirements.txt");
        fs::write(&file, requirements).map_err(failed)?;
        fs::create_dir_all(staging.path().join("tmp")).map_err(failed)?;
        let order = StackOrder { what: StackWork::Install { arguments, requirements: &file }, ..order };
        let (end, output) = self.ask.pip.stack(&order, staging.path(), &|_| ()).await?;
        if end != PipEnd::Code(0) {
            let full = ProvisionError::DiskFull { folder: self.ask.cache.root().into(), needed: NEEDED };
            let program = self.ask.pip.program();
            return Err(StackError::of_pip(&program, self.version, packages, end, &output.joined(), full));
        }
        let text = fs::read(staging.path().join("report.json")).map_err(failed)?;
        let report: Report = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
        let package = |installed: Installed| Package {
            name: installed.metadata.name,
            version: installed.metadata.version,
            sha256: installed.download_info.archive_info.hashes.get("sha256").cloned(),
            requires: installed.metadata.requires_dist,
        };
        let mut found: Vec<Package> = report.install.into_iter().map(package).collect();
        found.sort_by_key(|package| normalised(&package.name));
        Ok(found)
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
fn environment(tree: &Path, interpreter: &Interpreter) -> io::Result<()> {
    let program = fs::canonicalize(&interpreter.executable)?;
    let home = program.parent().unwrap_or(Path::new("/")).display();
    let settings = format!("home = {home}\ninclude-system-site-packages = false\nversion = {}\n", interpreter.version);
    fs::create_dir_all(tree.join("bin"))?;
    fs::write(tree.join("pyvenv.cfg"), settings)?;
    symlink(&program, tree.join("bin/python3"))
}

fn sorted(packages: &[String]) -> Vec<String> {
    let mut packages = packages.to_vec();
    packages.sort();
    packages
}

fn lines(packages: &[String]) -> String {
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
