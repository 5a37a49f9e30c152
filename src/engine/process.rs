//! Jobs as child processes, where there is no container engine. Its main type is [`Process`].
//!
//! A job gets a process group, a fresh working folder with its home in it, and an environment of its own. It sees the
//! host's file system and network as they are: this is an engine for trusted kernels, and its notes say so.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::attach::Attach;
use super::cancel::{Cancel, to_its_end};
use super::cgroup::Cgroup;
use super::handover::{Handover, View, checked_bench};
use super::host_gpu::is_searched;
use super::job::{EngineError, JobEnd, JobEvent, JobExit, JobSpec};
use super::leftovers;
use super::output::{Collector, MAX_SHOWN, MAX_STDERR, Tail};
use crate::model::place::Place;
use crate::model::record::{EngineInfo, EngineKind};

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// What is still in the pipes when the process has ended is read within this time. A process that left the group may
/// hold them open for ever.
const DRAIN: Duration = Duration::from_secs(1);

/// Child processes on this machine.
#[derive(Debug, Clone)]
pub struct Process {
    bench: PathBuf,
    notes: Vec<String>,
}

impl Process {
    /// Child processes of this program. `bench` is the host's `ctk-bench`.
    pub fn new(bench: &Path) -> Result<Self, EngineError> {
        let notes =
            vec!["child processes see this machine's files and network: run only kernels that you trust".into()];
        Ok(Self { bench: checked_bench(bench, false)?, notes })
    }

    /// The same, where Docker was looked for first.
    pub(super) fn instead_of_docker(bench: &Path, why: &str) -> Result<Self, EngineError> {
        let mut process = Self::new(bench)?;
        process.notes.insert(0, format!("child processes instead of containers: {why}"));
        Ok(process)
    }

    /// Its kind.
    #[must_use]
    pub fn info(&self) -> EngineInfo {
        EngineInfo { kind: EngineKind::Process, version: None, api: None }
    }

    /// Remarks for the head of a report, one line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Runs a job as a child process; nothing of its process group is left when this returns. A `true` on `cancel`
    /// ends it within six seconds; a dropped future does so in the background.
    pub async fn run(
        &self,
        spec: &JobSpec,
        events: mpsc::UnboundedSender<JobEvent>,
        cancel: watch::Receiver<bool>,
    ) -> Result<JobEnd, EngineError> {
        let (bench, spec) = (self.bench.clone(), spec.clone());
        to_its_end(cancel, |cancel| async move { run(&bench, &spec, &events, cancel).await }).await
    }
}

async fn run(
    bench: &Path,
    spec: &JobSpec,
    events: &mpsc::UnboundedSender<JobEvent>,
    mut cancel: Cancel,
) -> Result<JobEnd, EngineError> {
    let called = Instant::now();
    check(spec)?;
    let work = work_folder().map_err(|error| EngineError::Setup(format!("no working folder can be made: {error}")))?;
    let handover = Handover::prepare(&spec.task, View { bench, request: None, toolkit: None, work: work.path() })?;
    let mut notes = Vec::new();
    let unlimited = |why: String| format!("memory and processes are not limited: {why}");
    let name = work.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut group = Cgroup::make(&name, &spec.limits).map_err(|why| notes.push(unlimited(why))).ok();

    let mut command = Command::new(&handover.command[0]);
    command.args(&handover.command[1..]).env_clear().envs(environment(spec, work.path())).current_dir(work.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| EngineError::Start { text: format!("{} cannot be started: {error}", bench.display()) })?;
    let started = Instant::now();
    let pid = child.id().unwrap_or_default();
    if let Some(Err(error)) = group.as_ref().map(|group| group.add(pid)) {
        notes.push(unlimited(error.to_string()));
        group = None;
    }
    // Nobody may listen: the job goes on all the same.
    let _ = events.send(JobEvent::Started);

    let (mut stdout, mut stderr) = (Collector::new(spec.task.nonce()), Tail::default());
    let pipes = (child.stdout.take(), child.stderr.take());
    let (killed, status, run_ms) = {
        let reading =
            async { tokio::join!(read_stdout(pipes.0, &mut stdout, events), read_stderr(pipes.1, &mut stderr)) };
        let (mut reading, mut all_read) = (pin!(reading), false);
        let mut ended = pin!(watch_it(&mut child, started + spec.deadline, &mut cancel));
        let (killed, status) = loop {
            tokio::select! {
                ended = &mut ended => break ended,
                _ = &mut reading, if !all_read => all_read = true,
            }
        };
        let run_ms = millis(started.elapsed());
        // The program is gone, but what it started may not be.
        signal_group(pid, Signal::KILL);
        if let Some(group) = &group {
            group.kill();
        }
        if !all_read {
            let _ = timeout(DRAIN, reading).await;
        }
        (killed, status, run_ms)
    };
    let status =
        status.map_err(|error| EngineError::Lost(format!("the child process cannot be waited for: {error}")))?;
    let out_of_memory = group.as_ref().is_some_and(Cgroup::ran_out_of_memory);
    Ok(JobEnd {
        exit: killed.unwrap_or_else(|| exit(status, out_of_memory)),
        output: stdout.finish(0),
        stderr: stderr.text(MAX_STDERR),
        mapped: Vec::new(),
        notes,
        start_ms: millis(started - called),
        run_ms,
    })
}

fn check(spec: &JobSpec) -> Result<(), EngineError> {
    if let Place::Image { reference, .. } = &spec.place {
        return Err(EngineError::Setup(format!("the image {reference} needs containers: use --engine docker")));
    }
    match spec.attach {
        Attach::None | Attach::Devices { .. } => Ok(()),
        Attach::Request { .. } | Attach::Runtime { .. } | Attach::Cdi { .. } => Err(EngineError::Start {
            text: format!("a child process has no `{}`: it sees the host's devices as they are", spec.attach.name()),
        }),
    }
}

/// A fresh folder with a home and a folder for temporary files in it.
fn work_folder() -> std::io::Result<TempDir> {
    let folder = leftovers::folder("work")?;
    fs::create_dir(folder.path().join("home"))?;
    fs::create_dir(folder.path().join("tmp"))?;
    Ok(folder)
}

fn environment(spec: &JobSpec, work: &Path) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
    set("HOME", work.join("home").display().to_string());
    set("TMPDIR", work.join("tmp").display().to_string());
    set("LANG", "C.UTF-8".into());
    // nvcc finds its host compiler here.
    set("PATH", env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into()));
    set("CUDA_CACHE_DISABLE", "1".into());
    match spec.attach.library_folder() {
        // Its neighbours are opened by name, so the folder must be searched.
        Some(folder) if !is_searched(folder) => {
            set("LD_LIBRARY_PATH", folder.display().to_string());
        }
        Some(_) => {}
        // A driver on this machine then shows no GPU.
        None => {
            set("CUDA_VISIBLE_DEVICES", String::new());
        }
    }
    env.extend(spec.env.clone());
    env
}

/// Waits for the end of the program, or ends it.
async fn watch_it(
    child: &mut Child,
    deadline: Instant,
    cancel: &mut Cancel,
) -> (Option<JobExit>, std::io::Result<ExitStatus>) {
    let pid = child.id().unwrap_or_default();
    let why = tokio::select! {
        biased;
        status = child.wait() => return (None, status),
        () = cancel.cancelled() => JobExit::Cancelled,
        () = sleep_until(deadline) => JobExit::Timeout,
    };
    signal_group(pid, Signal::TERM);
    if let Ok(status) = timeout(GRACE, child.wait()).await {
        return (Some(why), status);
    }
    signal_group(pid, Signal::KILL);
    let status = timeout(GRACE, child.wait()).await;
    let hangs = || Err(std::io::Error::other("it hangs in the kernel, most often in the GPU's driver"));
    (Some(why), status.unwrap_or_else(|_| hangs()))
}

/// Signals the child's process group. Its number is the child's, and stays taken as long as the group has a member; an
/// empty one is not there.
fn signal_group(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, signal);
    }
}

/// Reads to the end, also what there is no room for: a full pipe would stop the job.
async fn read_stdout(
    pipe: Option<impl AsyncRead + Unpin>,
    stdout: &mut Collector,
    events: &mpsc::UnboundedSender<JobEvent>,
) {
    let Some(mut pipe) = pipe else { return };
    let (mut piece, mut shown) = (vec![0; 64 << 10], 0);
    while let Ok(count @ 1..) = pipe.read(&mut piece).await {
        stdout.push(&piece[..count]);
        shown += count;
        if shown <= MAX_SHOWN {
            let _ = events.send(JobEvent::Output(piece[..count].to_vec()));
        }
    }
}

async fn read_stderr(pipe: Option<impl AsyncRead + Unpin>, tail: &mut Tail) {
    let Some(mut pipe) = pipe else { return };
    let mut piece = vec![0; 16 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut piece).await {
        tail.push(&piece[..count], MAX_STDERR);
    }
}

/// How a program that was not ended from here ended.
fn exit(status: ExitStatus, out_of_memory: bool) -> JobExit {
    let code = status.code().map(i64::from);
    match (code, status.signal()) {
        (code, signal) if out_of_memory => {
            JobExit::Oom { code: code.unwrap_or_else(|| 128 + i64::from(signal.unwrap_or(9))) }
        }
        (Some(code), _) => JobExit::Code(code),
        (None, signal) => JobExit::Signal(signal.unwrap_or_default()),
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
