//! Runs the machine's own `python3 -m pip`, so that its index, proxy and cache settings hold. This is the only file that
//! names pip's options. The main type is [`Pip`]; a future that is dropped ends pip and all that it started.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use super::diagnosis::{PipEnd, diagnose};
use super::error::{ProvisionError, cause};
use super::tree;
use super::wheels::Pin;

/// How often the size on disk is looked at.
const POLL: Duration = Duration::from_millis(200);

/// Without a byte for so long, pip is ended. Its own time limit for one read is 15 s by default, 180 s where a slow
/// proxy asked for more, and it tries again.
const IDLE: Duration = Duration::from_mins(2);

/// An interpreter that does not tell what it is within this time is not used.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// The most of pip's output that is kept, of each stream: the errors are at its end.
const KEPT_OUTPUT: usize = 128 << 10;

/// How pip is run.
#[derive(Debug, Clone)]
pub struct Pip {
    /// The interpreter: `python3`, looked up in `PATH`.
    pub python: OsString,
    /// Environment beyond what is inherited.
    pub env: BTreeMap<OsString, OsString>,
    /// Without a byte for so long, pip is ended.
    pub idle: Duration,
}

impl Default for Pip {
    fn default() -> Self {
        Self { python: "python3".into(), env: BTreeMap::new(), idle: IDLE }
    }
}

impl Pip {
    /// Unpacks the wheels into `staging/tree`. Everything that pip writes but its own cache goes below `staging`, so
    /// that its size there is the progress that `tick` is told. `full` is the error for a full disk.
    pub(crate) async fn install(
        &self,
        staging: &Path,
        pins: &[Pin],
        tick: &(dyn Fn(u64) + Send + Sync),
        full: ProvisionError,
    ) -> Result<(), ProvisionError> {
        let requirements: Vec<_> = pins.iter().map(Pin::requirement).collect();
        match self.watch(self.command(staging), staging, tick).await? {
            (PipEnd::Code(0), _) => Ok(()),
            (end, output) => Err(diagnose(&self.python.to_string_lossy(), &requirements, end, &output.joined(), full)),
        }
    }

    /// Runs pip for the interpreter `target`, which need not have a pip of its own: a stack's Python. Its output is the
    /// answer, whether it was content or not.
    pub(crate) async fn stack(
        &self,
        order: &StackOrder<'_>,
        staging: &Path,
        tick: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(PipEnd, PipOutput), ProvisionError> {
        let patient = Self { idle: self.idle.max(order.silence), ..self.clone() };
        patient.watch(self.stack_command(order, staging), staging, tick).await
    }

    /// The interpreter that pip runs in.
    pub(crate) fn program(&self) -> String {
        self.python.to_string_lossy().into_owned()
    }

    /// Where a user's pip settings are, for a command that gets another `HOME`.
    pub(crate) fn settings_folder(&self) -> Option<OsString> {
        self.said("XDG_CONFIG_HOME").or_else(|| Some(Path::new(&self.home()?).join(".config").into()))
    }

    /// The user's own folder.
    pub(crate) fn home(&self) -> Option<OsString> {
        self.said("HOME")
    }

    fn said(&self, name: &str) -> Option<OsString> {
        let own = self.env.get(OsStr::new(name)).cloned();
        own.or_else(|| std::env::var_os(name)).filter(|text| !text.is_empty())
    }

    fn stack_command(&self, order: &StackOrder<'_>, staging: &Path) -> Command {
        let mut command = Command::new(&self.python);
        if let StackWork::Choose { .. } = order.what {
            // Its own arguments are the interpreter, a pip that is not known yet, and the file for sizes with the seconds
            // that they may take: well below what would be taken for a pip that is stuck.
            command.arg(staging.join("resolve.py")).arg(order.target.unwrap_or(Path::new(""))).arg("");
            command.arg(staging.join("sizes.json")).arg((self.idle / 4).as_secs_f64().to_string());
        } else {
            command.args(["-m", "pip"]);
            if let Some(target) = order.target {
                command.arg("--python").arg(target);
            }
        }
        match &order.what {
            StackWork::Check => {
                command.arg("check");
            }
            StackWork::Choose { arguments, requirements } => {
                command.args(["install", "--dry-run", "--ignore-installed", "--no-input", "--progress-bar", "off"]);
                // Without this feature, pip fetches whole wheels to read what they need.
                command.arg("--use-feature=fast-deps");
                self.patience(&mut command);
                command.arg("--report").arg(staging.join("report.json")).args(arguments);
                command.arg("-r").arg(requirements);
            }
            StackWork::Install { arguments, requirements } => {
                command.args(["install", "--no-input", "--progress-bar", "off"]);
                self.patience(&mut command);
                command.arg("--report").arg(staging.join("report.json")).args(arguments);
                command.arg("-r").arg(requirements);
            }
        }
        command.arg("--disable-pip-version-check");
        self.surround(&mut command, staging);
        command.envs(order.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs pip to its end, unless nothing comes for too long.
    async fn watch(
        &self,
        mut command: Command,
        staging: &Path,
        tick: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(PipEnd, PipOutput), ProvisionError> {
        let python = self.program();
        let mut child = command
            .spawn()
            .map_err(|error| ProvisionError::NoPython { python: python.clone(), cause: cause(&error) })?;
        let mut group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let end = async { tokio::join!(child.wait(), tail(stdout), tail(stderr)) };
        tokio::pin!(end);

        let mut poll = tokio::time::interval(POLL);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut seen, mut since) = (0, Instant::now());
        let (status, stdout, stderr) = loop {
            tokio::select! {
                end = &mut end => break end,
                _ = poll.tick() => {
                    let size = tree::size(staging);
                    if size != seen {
                        (seen, since) = (size, Instant::now());
                        tick(size);
                    } else if since.elapsed() >= self.idle {
                        return Err(ProvisionError::Idle { seconds: self.idle.as_secs() });
                    }
                }
            }
        };
        group.0 = None;
        let status =
            status.map_err(|error| ProvisionError::NoPython { python: python.clone(), cause: cause(&error) })?;
        let end = match (status.code(), status.signal()) {
            (Some(code), _) => PipEnd::Code(code),
            (None, signal) => PipEnd::Signal(signal.unwrap_or_default()),
        };
        Ok((end, PipOutput { stdout, stderr }))
    }

    /// What `pip --version` says: its version and its Python's.
    pub(crate) async fn version(&self) -> Result<String, ProvisionError> {
        let said = self.answer(&["--version"]).await?;
        // `pip 24.0 from FOLDER (python 3.12)`.
        let line = said.lines().next().unwrap_or_default();
        let (first, last) = (line.split(" from ").next().unwrap_or(line), line.rsplit(" (").next());
        let with = last.and_then(|last| last.strip_suffix(')')).map(|python| format!(", {python}"));
        Ok(format!("{first}{}", with.unwrap_or_default()))
    }

    /// What `pip config list` says: the settings of its files and of its environment.
    pub(crate) async fn settings(&self) -> Result<String, ProvisionError> {
        self.answer(&["config", "list"]).await
    }

    /// What pip prints at once.
    async fn answer(&self, asked: &[&str]) -> Result<String, ProvisionError> {
        let python = self.python.to_string_lossy().into_owned();
        let mut command = Command::new(&self.python);
        command.args(["-m", "pip"]).args(asked).arg("--disable-pip-version-check").envs(&self.env);
        // Not in the user's folder, which may hold a `pip.py`.
        command.current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(ANSWER, command.output()).await;
        let output = output.map_err(|_| ProvisionError::Idle { seconds: ANSWER.as_secs() })?;
        let output =
            output.map_err(|error| ProvisionError::NoPython { python: python.clone(), cause: cause(&error) })?;
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            return Ok(said.into_owned());
        }
        let end = output.status.code().map_or(PipEnd::Signal(output.status.signal().unwrap_or_default()), PipEnd::Code);
        let text = format!("{said}\n{}", String::from_utf8_lossy(&output.stderr));
        let full = ProvisionError::DiskFull { folder: std::env::temp_dir(), needed: 0 };
        Err(diagnose(&python, &[asked.join(" ")], end, &text, full))
    }

    fn command(&self, staging: &Path) -> Command {
        let mut command = self.bare(&self.python, staging, &["install"]);
        command.args(["--no-deps", "--only-binary=:all:", "--no-compile", "--progress-bar", "off"]);
        command.arg("--target").arg(staging.join("tree"));
        command.arg("--require-hashes").arg("-r").arg(staging.join("requirements.txt"));
        command
    }

    /// `PYTHON -m pip VERB`, with the settings that hold whatever pip is asked. What it writes goes below `staging`.
    pub(super) fn bare(&self, python: &OsStr, staging: &Path, verb: &[&str]) -> Command {
        let mut command = Command::new(python);
        command.args(["-m", "pip"]).args(verb).args(["--no-input", "--disable-pip-version-check"]);
        self.patience(&mut command);
        self.surround(&mut command, staging);
        command
    }

    /// What pip is asked to list: the versions of a package that this Python can have, or those that there are for any
    /// Python, as wheels or as source. Yanked ones and pre-releases are left out by pip.
    pub(super) fn list(&self, python: &OsStr, staging: &Path, package: &str, any_python: bool) -> Command {
        let mut command = self.bare(python, staging, &["index", "versions"]);
        command.arg(if any_python { "--ignore-requires-python" } else { "--only-binary=:all:" }).arg(package);
        command
    }

    /// What pip is asked to choose: from wheels, into nothing. `other` is a Python that is not on this machine: pip can
    /// choose for it by its wheels' tags. What a wheel says for some Pythons only (markers, and the Pythons that it
    /// takes) pip holds against the interpreter that runs it, so the latter is left out.
    pub(super) fn choose(&self, python: &OsStr, staging: &Path, other: Option<&str>, packages: &[String]) -> Command {
        let mut command = self.bare(python, staging, &["install", "--dry-run", "--ignore-installed"]);
        // Without this feature, pip fetches whole wheels to read what they need.
        command.args(["--use-feature=fast-deps", "--only-binary=:all:", "--progress-bar", "off"]);
        command.arg("--target").arg(staging.join("nothing")).arg("--report").arg(staging.join("report.json"));
        if let Some(other) = other {
            command.args(["--ignore-requires-python", "--python-version", other]);
        }
        command.args(packages);
        command
    }

    /// What pip is asked to install into `folder`: from wheels, with what they need or, into a Python that has it,
    /// without.
    pub(super) fn put(
        &self,
        python: &OsStr,
        staging: &Path,
        folder: &Path,
        alone: bool,
        packages: &[String],
    ) -> Command {
        let mut command = self.bare(python, staging, &["install", "--ignore-installed", "--no-compile"]);
        command.args(["--only-binary=:all:", "--progress-bar", "off"]).arg("--target").arg(folder);
        if alone {
            command.arg("--no-deps");
        }
        command.args(packages);
        command
    }

    fn patience(&self, command: &mut Command) {
        // pip's own defaults keep a machine without a network waiting for minutes.
        let said = |name: &str| self.env.contains_key(OsStr::new(name)) || std::env::var_os(name).is_some();
        if !said("PIP_RETRIES") {
            command.args(["--retries", "2"]);
        }
        if !said("PIP_DEFAULT_TIMEOUT") && !said("PIP_TIMEOUT") {
            command.args(["--timeout", "20"]);
        }
    }

    fn surround(&self, command: &mut Command, staging: &Path) {
        // Settings for installing into an interpreter contradict `--target`; a constraint file contradicts hashes.
        for name in ["PIP_PREFIX", "PIP_ROOT", "PIP_CONSTRAINT"] {
            command.env_remove(name);
        }
        command.envs([("PIP_USER", "0"), ("PIP_REQUIRE_VIRTUALENV", "0"), ("PIP_QUIET", "0")]);
        command.envs([("PIP_ROOT_USER_ACTION", "ignore"), ("PYTHONUNBUFFERED", "1"), ("NO_COLOR", "1")]);
        command.envs(&self.env).env("TMPDIR", staging.join("tmp"));
        // `python3 -m` looks for modules in the working folder first, and the user's may hold a `pip.py`.
        command.current_dir(staging);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: Ctrl-C reaches us first, and all that pip starts can be ended.
        command.process_group(0).kill_on_drop(true);
    }
}

/// What pip is to do for a stack.
pub(crate) struct StackOrder<'a> {
    /// The interpreter to work for; none for pip's own.
    pub(crate) target: Option<&'a Path>,
    /// Environment for builds from source.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// How long nothing may be written, where that is longer than usual: a compiler writes when it is done.
    pub(crate) silence: Duration,
    /// The work.
    pub(crate) what: StackWork<'a>,
}

/// One of pip's commands.
pub(crate) enum StackWork<'a> {
    /// `pip check`.
    Check,
    /// `pip install --dry-run` by `staging/resolve.py`, with a report in `staging/report.json`, and sizes in
    /// `staging/sizes.json`.
    Choose {
        /// Options beyond those that every choice has.
        arguments: Vec<OsString>,
        /// The requirements file.
        requirements: &'a Path,
    },
    /// `pip install`, with a report in `staging/report.json`.
    Install {
        /// Options beyond those that every install has.
        arguments: Vec<OsString>,
        /// The requirements file.
        requirements: &'a Path,
    },
}

/// What pip printed, the last of each stream.
#[derive(Debug, Default)]
pub(crate) struct PipOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl PipOutput {
    /// Both streams, the errors last.
    pub(crate) fn joined(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }
}

/// Ends pip's process group when it is dropped while pip runs.
pub(super) struct Group(pub(super) Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // Neither can fail for a child that has not been reaped.
            let _ = kill_process_group(pid, Signal::KILL);
            // Not reaped, only waited for, so that nothing writes below the folder that is removed next.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        }
    }
}

/// Reads a stream to its end and keeps the last of it.
pub(super) async fn tail(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    if let Some(mut stream) = stream {
        let mut buffer = vec![0_u8; 8 << 10];
        while let Ok(read) = stream.read(&mut buffer).await
            && read > 0
        {
            kept.extend_from_slice(&buffer[..read]);
            if kept.len() > 2 * KEPT_OUTPUT {
                kept.drain(..kept.len() - KEPT_OUTPUT);
            }
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}
