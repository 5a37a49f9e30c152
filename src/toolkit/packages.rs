//! What Python packages do: what pip would choose, which versions there are, and whether a throw-away environment can
//! import or compile. The main type is [`Packages`]; nothing that it makes outlives a call.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::str::FromStr as _;
use std::time::Duration;

use pep440_rs::{Version, VersionSpecifiers};
use rustix::process::Pid;
use serde::Deserialize;
use tokio::process::Command;

use super::cache::Cache;
use super::diagnosis::{PipEnd, clean, diagnose};
use super::error::ProvisionError;
use super::pip::{Group, Pip, tail};
pub use super::python::Interpreter;
use super::stack::report::{self, Installed};
use super::staging::Staging;
use crate::model::claim::PackageAction;
use crate::model::stack::normalised;

/// pip is given so long for one question; an environment with CUDA's libraries takes a minute to fetch.
const PIP_LIMIT: Duration = Duration::from_mins(20);

/// Disk that an environment with CUDA's libraries takes: measured 374 MB with numba-cuda and `NumPy`, more with `CuPy`.
const NEEDED: u64 = 1 << 30;

/// The program that runs in an environment.
const PROBE: &str = include_str!("probe.py");

/// What it prints before its answer.
const ANSWER: &str = "CTK-PROBE ";

/// Texts of failures that come from the driver that is not there, and not from the packages.
const NO_DRIVER: [&str; 6] = [
    "libcuda.so",
    "CUDA driver library cannot be found",
    "CUDA_ERROR_NO_DEVICE",
    "cudaErrorNoDevice",
    "cudaErrorInsufficientDriver",
    "CudaSupportError",
];

/// Why packages could not be put to a test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageError {
    /// The Python is not on this machine.
    #[error(
        "Python {wanted} is not on this machine: there is no `python{wanted}` in PATH, nor by pyenv or uv; with one there, \
         it can be tested"
    )]
    NoInterpreter {
        /// `3.12`.
        wanted: String,
    },
    /// pip or its index failed, or the cache.
    #[error(transparent)]
    Provision(#[from] ProvisionError),
    /// The environment could not be made.
    #[error("`python3 -m venv` failed: {cause}")]
    NoEnvironment {
        /// Its last line.
        cause: String,
    },
    /// It took too long.
    #[error("no answer within {seconds} s")]
    Timeout {
        /// The limit.
        seconds: u64,
    },
}

impl PackageError {
    /// Whether it is the machine that lacks something, and nothing that broke.
    #[must_use]
    pub const fn foreseen(&self) -> bool {
        matches!(self, Self::NoInterpreter { .. })
    }

    /// The raw text behind it.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        if let Self::Provision(error) = self { error.detail() } else { None }
    }
}

/// What came of an action on packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// It succeeds.
    Works {
        /// What was seen, in one line.
        saw: String,
        /// The packages that were chosen or installed, `numpy 2.4.6`, sorted.
        packages: Vec<String>,
    },
    /// It fails.
    Fails {
        /// What was seen, in one line.
        saw: String,
        /// pip's decisive lines, or the exception with its place.
        detail: String,
        /// The packages that were installed.
        packages: Vec<String>,
        /// Whether it is the missing driver that it fails for.
        driver: bool,
    },
}

/// The versions of a package, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Versions {
    /// Those that a Python can have as wheels.
    pub usable: Vec<String>,
    /// Those that exist and have no wheel for it.
    pub without_wheel: Vec<String>,
}

impl Versions {
    /// Those without a wheel that are newer than all that have one.
    #[must_use]
    pub fn newer_without_wheel(&self) -> Vec<&str> {
        let newest = self.usable.last().and_then(|version| Version::from_str(version).ok());
        let newer = |version: &&String| {
            newest.as_ref().is_none_or(|newest| Version::from_str(version).is_ok_and(|version| version > *newest))
        };
        self.without_wheel.iter().filter(newer).map(String::as_str).collect()
    }
}

/// Puts packages to the test.
#[derive(Debug, Clone)]
pub struct Packages {
    /// Below which throw-away environments are made.
    pub cache: Cache,
    /// How they are fetched.
    pub pip: Pip,
}

impl Packages {
    /// The machine's Python, or the one of a version.
    pub async fn interpreter(&self, wanted: Option<&str>) -> Result<Interpreter, PackageError> {
        Interpreter::find(&self.pip.python, wanted.filter(|wanted| *wanted != "host")).await
    }

    /// Does something with packages in a Python that is here. `host` takes what is installed for it as given, and puts
    /// the packages beside it.
    pub async fn act(
        &self,
        python: &Interpreter,
        host: bool,
        packages: &[String],
        action: &PackageAction,
        limit: Duration,
    ) -> Result<Seen, PackageError> {
        if let PackageAction::Resolve(_) = action {
            return self.choose(python, None, packages).await;
        }
        let staging = self.staging()?;
        let env = staging.path().join("env");
        let mut command = Command::new(&python.program);
        command.args(["-m", "venv", "--without-pip"]).args(host.then_some("--system-site-packages")).arg(&env);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).current_dir(staging.path());
        command.process_group(0).kill_on_drop(true);
        let ended = self.capture(command, PIP_LIMIT).await?;
        if ended.end != PipEnd::Code(0) {
            let cause = clean(ended.text().trim_end().lines().last().unwrap_or("it printed nothing"));
            return Err(PackageError::NoEnvironment { cause });
        }
        let site = env.join(format!("lib/python{}/site-packages", python.series()));
        if host {
            self.beside(python, &site).await?;
        }
        if !packages.is_empty() {
            let ended =
                self.capture(self.pip.put(&python.program, staging.path(), &site, host, packages), PIP_LIMIT).await?;
            if ended.end != PipEnd::Code(0) {
                return self.refused(packages, &ended);
            }
        }
        self.probe(&env, staging.path(), host, action, limit).await
    }

    /// Lets an environment see the packages of `python`. Where that is in an environment itself, the system's packages,
    /// which `venv` can hand on, are not those that it sees.
    async fn beside(&self, python: &Interpreter, site: &Path) -> Result<(), PackageError> {
        // `addsitedir`, and not the bare path, so that the `.pth` files there count too: numba-cuda takes the place of
        // Numba's own CUDA target by one.
        const PATHS: &str = "import sysconfig\n\
                             for name in ('purelib', 'platlib'):\n  \
                             print('import site; site.addsitedir(%r)' % sysconfig.get_path(name))";
        let mut command = Command::new(&python.program);
        command.args(["-I", "-c", PATHS]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let ended = self.capture(command, PIP_LIMIT).await?;
        // What is installed by the environment itself goes before what this file adds.
        fs::write(site.join("host.pth"), ended.stdout.as_bytes())
            .map_err(|error| PackageError::NoEnvironment { cause: error.to_string() })
    }

    /// What pip would choose. `other` is a Python that is not here.
    pub async fn choose(
        &self,
        python: &Interpreter,
        other: Option<&str>,
        packages: &[String],
    ) -> Result<Seen, PackageError> {
        let staging = self.staging()?;
        let command = self.pip.choose(&python.program, staging.path(), other, packages);
        let ended = self.capture(command, PIP_LIMIT).await?;
        if ended.end != PipEnd::Code(0) {
            return self.refused(packages, &ended);
        }
        let chosen = report::read(&staging.path().join("report.json")).map_err(|error| self.io(&error))?;
        let chosen = chosen.into_iter().map(Installed::package);
        let mut packages: Vec<String> = chosen.map(|package| format!("{} {}", package.name, package.version)).collect();
        packages.sort_by_key(|package| package.to_lowercase());
        Ok(Seen::Works { saw: "pip finds a choice that fits".into(), packages })
    }

    /// The versions of a package that there are within `range`.
    pub async fn versions(&self, python: &Interpreter, package: &str, range: &str) -> Result<Versions, PackageError> {
        let staging = self.staging()?;
        let mut lists = Vec::new();
        for any in [false, true] {
            let command = self.pip.list(&python.program, staging.path(), package, any);
            let ended = self.capture(command, PIP_LIMIT).await?;
            if ended.end == PipEnd::Code(0) {
                lists.push(listed(&ended.stdout, range));
                continue;
            }
            let requirement = [package.to_owned()];
            match self.refused(&requirement, &ended) {
                // No version has a wheel for this Python; there may be others.
                Ok(_) if !any => lists.push(Vec::new()),
                Ok(Seen::Fails { detail, .. }) => {
                    return Err(ProvisionError::NoMatch { requirement: package.into(), detail }.into());
                }
                Ok(Seen::Works { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let all = lists.pop().unwrap_or_default();
        let usable = lists.pop().unwrap_or_default();
        let without_wheel = all.into_iter().filter(|version| !usable.contains(version)).collect();
        Ok(Versions { usable, without_wheel })
    }

    async fn probe(
        &self,
        env: &Path,
        staging: &Path,
        host: bool,
        action: &PackageAction,
        limit: Duration,
    ) -> Result<Seen, PackageError> {
        #[derive(Deserialize)]
        struct Answer {
            ok: bool,
            stage: String,
            #[serde(default)]
            saw: String,
            #[serde(default)]
            trace: String,
            packages: Vec<String>,
        }
        let home = staging.join("home");
        fs::create_dir_all(&home).map_err(|error| self.io(&error))?;
        let mut command = Command::new(env.join("bin/python"));
        command.args(["-I", "-c", PROBE]);
        match action {
            PackageAction::Import(module) => command.arg("import").arg(module),
            PackageAction::CompileNumba(arch) => {
                command.arg("numba").arg(arch.major.to_string()).arg(arch.minor.to_string())
            }
            // pip's choice alone is not tried in an environment.
            PackageAction::Resolve(_) => command.args(["import", "sys"]),
        };
        // Nothing of the machine's own settings or caches: the packages alone are put to the test.
        command.env_clear().env("HOME", &home).env("TMPDIR", staging.join("tmp")).env("LC_ALL", "C.UTF-8");
        // What is installed on the machine may need to be told where the machine's toolkit is.
        let machine: &[&str] = if host { &["CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"] } else { &[] };
        for name in machine.iter().chain(&["PATH"]) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.current_dir(staging).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let ended = self.capture(command, limit).await?;
        let answer = ended.stdout.lines().rev().find_map(|line| line.strip_prefix(ANSWER));
        let answer: Option<Answer> = answer.and_then(|text| serde_json::from_str(text).ok());
        let Some(answer) = answer else {
            let how = match ended.end {
                PipEnd::Signal(signal) => format!("signal {signal} ended Python"),
                PipEnd::Code(code) => format!("Python ended with exit status {code} and no answer"),
            };
            return Ok(Seen::Fails { saw: how, detail: ended.text(), packages: Vec::new(), driver: false });
        };
        let saw = clean(answer.saw.trim().lines().next().unwrap_or_default());
        if answer.ok {
            return Ok(Seen::Works { saw, packages: answer.packages });
        }
        let driver = NO_DRIVER.iter().any(|text| answer.saw.contains(text));
        let saw = format!("at {}: {saw}", answer.stage);
        Ok(Seen::Fails { saw, detail: answer.trace, packages: answer.packages, driver })
    }

    fn staging(&self) -> Result<Staging, PackageError> {
        self.cache.make()?;
        let made = Staging::create(&self.cache).map_err(|error| self.io(&error))?;
        fs::create_dir(made.path().join("tmp")).map_err(|error| self.io(&error))?;
        Ok(made)
    }

    fn io(&self, error: &io::Error) -> PackageError {
        self.cache.error(&self.cache.staging(), NEEDED, error).into()
    }

    /// What a failed pip means: a refusal of what was asked, or a failure of pip itself.
    fn refused(&self, packages: &[String], ended: &Ended) -> Result<Seen, PackageError> {
        let python = self.pip.python.to_string_lossy().into_owned();
        let full = ProvisionError::DiskFull { folder: self.cache.root().into(), needed: NEEDED };
        let output = ended.text();
        let error = diagnose(&python, packages, ended.end, &output, full);
        let refusal = match &error {
            ProvisionError::NoMatch { .. } => true,
            ProvisionError::Pip { .. } => REFUSALS.iter().any(|text| output.contains(text)),
            _ => false,
        };
        if !refusal {
            return Err(error.into());
        }
        let (saw, detail) = decisive(&output);
        Ok(Seen::Fails { saw, detail, packages: Vec::new(), driver: false })
    }

    async fn capture(&self, mut command: Command, limit: Duration) -> Result<Ended, PackageError> {
        use std::os::unix::process::ExitStatusExt as _;
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let missing = |error: io::Error| {
            PackageError::from(ProvisionError::NoPython { python: program.clone(), cause: super::error::cause(&error) })
        };
        let mut child = command.spawn().map_err(missing)?;
        let mut group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let end = async { tokio::join!(child.wait(), tail(stdout), tail(stderr)) };
        let (status, stdout, stderr) =
            tokio::time::timeout(limit, end).await.map_err(|_| PackageError::Timeout { seconds: limit.as_secs() })?;
        group.0 = None;
        let status = status.map_err(missing)?;
        let end = match status.code() {
            Some(code) => PipEnd::Code(code),
            None => PipEnd::Signal(status.signal().unwrap_or_default()),
        };
        Ok(Ended { end, stdout, stderr })
    }
}

/// How a process ended, and the last of what it said.
struct Ended {
    end: PipEnd,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn text(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }
}

/// pip's words for a request that cannot be met.
const REFUSALS: [&str; 4] =
    ["ResolutionImpossible", "conflicting dependencies", "require a different Python", "requires a different Python"];

/// The most lines of a refusal that are kept.
const KEPT_LINES: usize = 30;

/// What decided a refusal: in one line, and all of it. pip prints the causes of a conflict on stdout, and the errors on
/// stderr.
fn decisive(output: &str) -> (String, String) {
    let lines: Vec<String> = output.lines().map(clean).collect();
    let errors: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("ERROR: ")).collect();
    let causes = lines.iter().skip_while(|line| !line.contains("conflict is caused by")).skip(1);
    let causes: Vec<&str> =
        causes.map(|line: &String| line.trim()).take_while(|line| !line.is_empty()).take(KEPT_LINES).collect();
    let saw = if causes.is_empty() {
        // The last error names the requirement; the first lists every version there is.
        errors.last().map_or_else(|| "pip refuses".into(), |error| (*error).to_owned())
    } else {
        causes.join("; ")
    };
    let kept = errors.iter().take(KEPT_LINES).chain(&causes);
    (saw, kept.copied().collect::<Vec<_>>().join("\n"))
}

/// The versions in what `pip index versions` printed, within a range, oldest first.
fn listed(text: &str, range: &str) -> Vec<String> {
    let range = VersionSpecifiers::from_str(range).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Available versions:")).unwrap_or_default();
    let versions = line.split(',').filter_map(|word| Version::from_str(word.trim()).ok());
    let mut versions: Vec<Version> =
        versions.filter(|version| !version.any_prerelease() && range.contains(version)).collect();
    versions.sort();
    versions.iter().map(ToString::to_string).collect()
}

/// Whether a choice, as `name version`, meets a requirement; none if the package is not in it.
#[must_use]
pub fn meets(packages: &[String], requirement: &str) -> Option<bool> {
    let at = requirement.find(['=', '<', '>', '!', '~', '[']).unwrap_or(requirement.len());
    let versions = requirement.find(['=', '<', '>', '!', '~']).map_or("", |at| &requirement[at..]);
    let name = normalised(&requirement[..at]);
    let range = VersionSpecifiers::from_str(versions).unwrap_or_default();
    let found = packages.iter().filter_map(|package| package.rsplit_once(' '));
    let version = found.filter(|(found, _)| normalised(found) == name).map(|(_, version)| version).next()?;
    Some(Version::from_str(version).is_ok_and(|version| range.contains(&version)))
}

/// Whether `version` is the one that `claimed` names: `2.4` names any 2.4.
#[must_use]
pub fn names_version(claimed: &str, version: &str) -> bool {
    let exact = VersionSpecifiers::from_str(&format!("=={claimed}")).ok();
    let any = VersionSpecifiers::from_str(&format!("=={claimed}.*")).ok();
    let Ok(version) = Version::from_str(version) else { return false };
    [exact, any].into_iter().flatten().any(|range| range.contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_told_by_what_caused_it() {
        let stdout = "Collecting a\nINFO: pip is looking at multiple versions\n\nThe conflict is caused by:\n    \
            The user requested b==1\n    a 1 depends on b>=2\n\nTo fix this you could try to:\n1. loosen\n";
        let stderr = "ERROR: Cannot install a==1 and b==1 because these package versions have conflicting dependencies.\n\
            ERROR: ResolutionImpossible: for help visit x\n";
        let (saw, detail) = decisive(&format!("{stdout}\n{stderr}"));
        assert_eq!(saw, "The user requested b==1; a 1 depends on b>=2");
        assert!(detail.starts_with("Cannot install") && detail.ends_with("a 1 depends on b>=2"), "{detail}");
        let output = "ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 1, 2)\n\
            ERROR: No matching distribution found for a==9\n";
        assert_eq!(decisive(output).0, "No matching distribution found for a==9");
    }

    #[test]
    fn versions_are_listed_by_age_and_not_by_letters() {
        let text = "a (2.10.0)\nAvailable versions: 2.10.0, 2.9.1, 2.10.0rc1, 2.0, 1.9, junk!\n  INSTALLED: 1\n";
        assert_eq!(listed(text, ">=2"), ["2.0", "2.9.1", "2.10.0"]);
        assert_eq!(listed(text, ""), ["1.9", "2.0", "2.9.1", "2.10.0"]);
    }

    #[test]
    fn a_choice_is_held_against_ranges_by_the_rules_of_python() {
        let packages = ["numpy 2.4.6".to_owned(), "CuPy_cuda12x 14.2.0".to_owned()];
        assert_eq!(meets(&packages, "numpy<2.5"), Some(true));
        assert_eq!(meets(&packages, "numpy>=2.10"), Some(false));
        assert_eq!(meets(&packages, "cupy.cuda12x"), Some(true));
        assert_eq!(meets(&packages, "scipy"), None);
    }

    #[test]
    fn a_series_names_each_of_its_versions() {
        assert!(names_version("2.4", "2.4.6") && names_version("2.4.6", "2.4.6") && names_version("2.5.0", "2.5"));
        assert!(!names_version("2.4", "2.40.0") && !names_version("2.4.6", "2.4.5") && !names_version("x", "2"));
    }
}
