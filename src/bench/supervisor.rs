//! `ctk-bench run`: starts workers, passes their frames on, and ends those that hang.
//! Its main type is [`Supervisor`]; what an end means is decided by [`super::roll::Roll`].

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use super::emit::Emitter;
use super::error::BenchError;
use super::roll::{End, Roll};
use super::signals::Signals;
use super::{note, python, request};
use crate::model::matrix::Processes;
use crate::model::outcome::Stage;
use crate::model::path::Family;
use crate::model::wire::{Decoder, Frame, PathResult, Piece, Request};

/// How long a worker may take to go away: after its last result, and after SIGKILL (a process in the kernel's hands
/// does not die before they let go).
const GRACE: Duration = Duration::from_secs(5);

/// Carries the request out. The exit status is 128 + n after a signal n that asks for the end.
pub(super) fn run(path: &Path) -> Result<ExitCode, BenchError> {
    let request = request::read(path)?;
    let mut supervisor = Supervisor {
        path,
        signals: Signals::catch()?,
        emitter: Emitter::new(&request.nonce)?,
        roll: Roll::new(&request.tasks),
        request: &request,
        own_buffers: false,
    };
    supervisor.watch()
}

struct Supervisor<'a> {
    path: &'a Path,
    request: &'a Request,
    signals: Signals,
    emitter: Emitter,
    roll: Roll<'a>,
    /// Whether the Python libraries do without CuPy's buffers: a worker died while it made them.
    own_buffers: bool,
}

/// Why a worker is no longer listened to.
enum Heard {
    /// It ended, or was ended.
    End(End),
    /// This process is to end.
    Asked(u8),
}

impl Supervisor<'_> {
    fn watch(&mut self) -> Result<ExitCode, BenchError> {
        // At least one worker: it says what the container is, even where there is nothing to do.
        let mut greeted = false;
        let shared = self.request.measure.process == Processes::Shared;
        loop {
            self.roll.begin();
            let python = self.python_is_next();
            // Only a worker of ours says what the container is, and here the first one would be Python's.
            let greeting = python && !self.roll.greeted() && !std::mem::replace(&mut greeted, true);
            let end = match self.start(python && !greeting, greeting) {
                Ok(mut worker) => match self.listen(&mut worker) {
                    Ok(Heard::End(end)) => end,
                    Ok(Heard::Asked(signal)) => {
                        worker.kill();
                        return Ok(ExitCode::from(128 + signal));
                    }
                    Err(error) => {
                        worker.kill();
                        return Err(error);
                    }
                },
                Err(error) => End::NotStarted(error.to_string()),
            };
            if greeting {
                continue;
            }
            if python && self.roll.stage() == Some(Stage::DriverInit) && !std::mem::replace(&mut self.own_buffers, true)
            {
                note(&format!("{} while CuPy made the buffers; the driver's own are used", describe(&end)));
                continue;
            }
            for frame in self.roll.end(&end) {
                self.emitter.send(&frame)?;
            }
            if self.roll.done() {
                break;
            }
            if shared || end != End::Exit(0) {
                note(&format!("{}; a new worker goes on", describe(&end)));
            }
        }
        self.emitter.send(&Frame::Final { count: self.request.tasks.len() })?;
        Ok(ExitCode::SUCCESS)
    }

    fn python_is_next(&self) -> bool {
        self.request.tasks.get(self.roll.next()).is_some_and(|task| python::is_ours(self.request, task))
    }

    /// Starts a worker at the next task. One that only greets gets none.
    fn start(&self, python: bool, greeting: bool) -> std::io::Result<Worker> {
        let from = if greeting { self.request.tasks.len() } else { self.roll.next() };
        let mut command = match &self.request.stack {
            Some(stack) if python => python::command(self.request, self.path, stack, from, self.own_buffers(from))?,
            Some(_) | None => self.own(from),
        };
        command
            // A cached JIT result would be reported as a load.
            .env("CUDA_CACHE_DISABLE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // A group of its own, so that its compilers end with it.
            .process_group(0);
        if std::env::var_os("CUDA_MODULE_LOADING").is_none() {
            // The default changed with 12.2: unsaid, toolkits would differ by it.
            command.env("CUDA_MODULE_LOADING", "EAGER");
        }
        let started = Instant::now();
        let mut child = command.spawn().map_err(|error| match command.get_program() {
            program if python => std::io::Error::new(error.kind(), format!("{}: {error}", program.display())),
            _ => error,
        })?;
        let output = child.stdout.take().map(|pipe| File::from(std::os::fd::OwnedFd::from(pipe)));
        let output = output.ok_or_else(|| std::io::Error::other("its output is not a pipe"))?;
        let decoder = Decoder::new(&self.request.nonce);
        Ok(Worker { child, output, decoder, status: None, first: First::Awaited { started } })
    }

    /// Whether a Python worker does without CuPy's buffers. In a process of its own a library would be charged with the
    /// import of CuPy.
    fn own_buffers(&self, from: usize) -> bool {
        let of_another = || self.request.tasks.get(from).is_some_and(|task| task.path.family != Family::Cupy);
        self.own_buffers || (self.request.measure.process == Processes::Each && of_another())
    }

    fn own(&self, from: usize) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg("worker").arg("--request").arg(self.path).args(["--from", &from.to_string()]);
        command.args(["--parent", &std::process::id().to_string()]);
        command
    }

    fn listen(&mut self, worker: &mut Worker) -> Result<Heard, BenchError> {
        let limit = Duration::from_millis(self.request.path_timeout_ms);
        let mut deadline = Instant::now() + limit;
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            let readable = worker.wait(&mut self.signals, wait)?;
            if let Some(signal) = self.signals.end() {
                return Ok(Heard::Asked(signal));
            }
            if readable {
                let read = worker.read()?;
                let since = Instant::now();
                let before = self.roll.next();
                self.pass_on(&read.pieces, &mut worker.first)?;
                if self.roll.next() > before {
                    deadline = Instant::now() + if self.roll.done() { GRACE } else { limit };
                } else {
                    // Whoever reads our output may pause; that is no time of the path's.
                    deadline += since.elapsed();
                }
                if !read.closed {
                    continue;
                }
            }
            if let Some(status) = worker.ended(readable)? {
                // What it wrote last may have come between the waiting and its end.
                while worker.wait(&mut self.signals, Duration::ZERO)? {
                    let read = worker.read()?;
                    self.pass_on(&read.pieces, &mut worker.first)?;
                    if read.closed {
                        break;
                    }
                }
                return Ok(Heard::End(end_of(status)));
            }
            if Instant::now() >= deadline {
                worker.kill();
                return Ok(Heard::End(End::Deadline { after_ms: self.request.path_timeout_ms }));
            }
        }
    }

    fn is_python(&self, cell: &str) -> bool {
        self.request.tasks.iter().any(|task| task.cell == cell && python::is_ours(self.request, task))
    }

    fn pass_on(&mut self, pieces: &[Piece], first: &mut First) -> Result<(), BenchError> {
        for piece in pieces {
            match piece {
                Piece::Frame(frame) if self.roll.accept(frame) => {
                    first.hear(frame);
                    match &**frame {
                        Frame::Path(result) => {
                            let mut result = result.clone();
                            if self.is_python(&result.cell) {
                                python::complete(&mut result, self.request, self.roll.driver());
                            }
                            first.charge(&mut result);
                            self.emitter.path(*result)?;
                        }
                        frame => self.emitter.send(frame)?,
                    }
                }
                Piece::Frame(frame) => note(&format!("out of turn: {frame:?}")),
                Piece::Noise(line) => note(&format!("| {line}")),
                Piece::Damaged(why) => note(&format!("a worker's frame is damaged: {why}")),
            }
        }
        Ok(())
    }
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::NotStarted(format!("it ended in an unknown way: {status}")),
    }
}

fn describe(end: &End) -> String {
    match end {
        End::Exit(status) => format!("a worker exited with status {status}"),
        End::Signal(signal) => format!("a worker died of {}", super::signals::name(*signal)),
        End::Deadline { after_ms } => format!("a worker passed the deadline of {after_ms} ms and was killed"),
        End::NotStarted(why) => format!("a worker could not be started: {why}"),
    }
}

struct Worker {
    child: Child,
    output: File,
    decoder: Decoder,
    status: Option<ExitStatus>,
    first: First,
}

/// A worker's first verified result.
#[derive(Debug, Clone, Copy, PartialEq)]
enum First {
    /// Its first path is under way, since the process was started.
    Awaited { started: Instant },
    /// The first path has come past its verification.
    Verified { after: Duration },
    /// The first path is over. What comes later owes nothing to the start of the process.
    Over,
}

impl First {
    /// The steady stage is announced the moment that the first comparison was right.
    fn hear(&mut self, frame: &Frame) {
        if let (Self::Awaited { started }, Frame::Stage { stage: Stage::Steady, .. }) = (*self, frame) {
            *self = Self::Verified { after: started.elapsed() };
        }
    }

    fn charge(&mut self, result: &mut PathResult) {
        // A time of wrong results is no time.
        if let (Self::Verified { after }, Some(bits)) = (*self, &result.bits)
            && bits.mismatches == 0
        {
            result.timings.result_ms = Some(after.as_secs_f64() * 1e3);
        }
        *self = Self::Over;
    }
}

struct Chunk {
    pieces: Vec<Piece>,
    closed: bool,
}

impl Worker {
    /// Waits for output, a signal, or the time. Whether there is output.
    fn wait(&self, signals: &mut Signals, time: Duration) -> Result<bool, BenchError> {
        let ready = {
            let mut both =
                [PollFd::new(&self.output, PollFlags::IN), PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
            let time = Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::from(u32::MAX), tv_nsec: 0 });
            match poll(&mut both, Some(&time)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(BenchError::System { what: "waiting failed", source: error.into() }),
            }
            !both[0].revents().is_empty()
        };
        signals.clear();
        Ok(ready)
    }

    fn read(&mut self) -> Result<Chunk, BenchError> {
        let mut chunk = vec![0; 1 << 16];
        let read = self.output.read(&mut chunk);
        let read = read.map_err(|source| BenchError::System { what: "a worker's output cannot be read", source })?;
        let pieces = if read == 0 { self.decoder.finish() } else { self.decoder.push(&chunk[..read]) };
        Ok(Chunk { pieces, closed: read == 0 })
    }

    /// Its exit status, once it has ended. After its output was closed that is awaited, for a while.
    fn ended(&mut self, closed: bool) -> Result<Option<ExitStatus>, BenchError> {
        let failed = |source| BenchError::System { what: "a worker cannot be waited for", source };
        let until = Instant::now() + if closed { GRACE } else { Duration::ZERO };
        loop {
            self.status = self.child.try_wait().map_err(failed)?;
            if self.status.is_some() {
                // Compilers that it left behind.
                self.kill_group();
                return Ok(self.status);
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn kill(&mut self) {
        self.kill_group();
        let until = Instant::now() + GRACE;
        while self.status.is_none() && Instant::now() < until {
            match self.child.try_wait() {
                Ok(status) => self.status = status,
                Err(_) => return,
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn kill_group(&self) {
        let Ok(Some(pid)) = i32::try_from(self.child.id()).map(Pid::from_raw) else { return };
        // No such group: everything in it has ended.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}
