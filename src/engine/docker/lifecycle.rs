//! A container's life, always in this order: create, start, follow its output for display, wait, inspect, read its
//! output again, remove. The main function is [`run`].
//!
//! Nothing that an engine says in passing is believed: output that is followed may end early without an error, and so
//! may a wait. Only what is read after the end counts. Every way out leads through [`remove_for_good`].

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::super::cancel::Cancel;
use super::super::handover::Handover;
use super::super::job::{EngineError, JobEnd, JobEvent, JobExit, JobSpec};
use super::super::output::{Collector, MAX_SHOWN};
use super::api::{Api, Failure, State, Waited};
use super::container::{Base, DRIVER, body, unguessable_name, view};
use super::presence::RETURN;
use super::upload::Upload;
use super::{Docker, userland};
use crate::model::place::Place;

/// An engine that leaves three pings unanswered, each for two seconds, is lost.
const PING: Duration = Duration::from_secs(2);
const MISSED_PINGS: u32 = 3;
/// What a create or start that is under way gets after an interruption: dropping it would leave its container behind.
const UNDER_WAY: Duration = Duration::from_secs(2);
/// Reading the 128 MiB of output that the engine keeps takes some seconds.
const READ_OUTPUT: Duration = Duration::from_mins(1);
/// The same after an interruption, whose whole budget is six seconds.
const READ_OUTPUT_QUICKLY: Duration = Duration::from_millis(600);
/// So much output may be what is left after the engine dropped the oldest of its two log files of 64 MiB; an entry's
/// own header takes as much room as a short line.
const LOG_MAY_TURN: u64 = 32 << 20;
/// A process that a signal cannot end, because it hangs in a driver, is given this long.
const UNKILLABLE: Duration = Duration::from_secs(15);
/// How long a create whose answer never came may still bring forth a container.
const LATE: Duration = Duration::from_mins(2);
const REMOVE: Duration = Duration::from_secs(10);
const REMOVE_QUICKLY: Duration = Duration::from_millis(1500);

/// Why a container does not run any more, or is not to.
enum Ended {
    ByItself,
    /// By itself or with the engine, which went away meanwhile, for this reason.
    Unseen(Failure),
    Deadline,
    Cancelled,
}

/// What became of a container whose engine went away and came back.
enum Found {
    Running,
    Ended,
}

/// How far a container came before the run was interrupted.
enum Before {
    Ready,
    Cancelled,
}

pub(super) async fn run(
    docker: &Docker,
    spec: &JobSpec,
    events: &mpsc::UnboundedSender<JobEvent>,
    mut cancel: Cancel,
) -> Result<JobEnd, EngineError> {
    let called = Instant::now();
    docker.presence.check(&docker.api).await?;
    let handover = Handover::prepare(&spec.task, view())?;
    let base = base(docker, spec).await?;
    let mut life = Life { api: &docker.api, name: unguessable_name()?, hurry: false, unsure: false, written: 0 };
    let body = Box::new(body(spec, &base, &handover, &docker.about.bench));
    let upload = base.upload.then(|| Upload::new(&docker.about.bench, &handover));
    let end = life.live(spec, body, upload, called, events, &mut cancel).await;
    // An engine that does not answer gets a last try; then `gc` has to do it.
    let quickly = life.hurry || matches!(end, Err(EngineError::Lost(_)));
    let limit = if quickly { REMOVE_QUICKLY } else { 3 * REMOVE };
    let left = match timeout(limit, life.remove()).await {
        Ok(Ok(())) => None,
        Ok(Err(failure)) => Some(failure.to_string()),
        Err(_) if life.unsure => {
            // Nobody waits for this; if the program ends first, `gc` does it.
            let (api, name) = (docker.api.clone(), life.name.clone());
            tokio::spawn(timeout(LATE, async move { remove_when_seen(&api, &name).await }));
            None
        }
        Err(_) => Some("the engine took too long".into()),
    };
    if left.is_some() {
        docker.presence.leave(&life.name);
    }
    let left = left.map(|why| {
        format!("container {} is left if the engine still has it ({why}): `ctk-matrix gc` removes it", life.name)
    });
    match end {
        Ok(mut end) => {
            end.mapped = handover.mapped.clone();
            end.mapped.extend(spec.attach.library_folder().map(|folder| (PathBuf::from(DRIVER), folder.to_owned())));
            end.notes.extend(left);
            Ok(end)
        }
        Err(EngineError::Lost(text)) => {
            Err(EngineError::Lost(left.map_or(text.clone(), |left| format!("{text}; {left}"))))
        }
        Err(error) => Err(error),
    }
}

/// The file system that the container starts from.
async fn base(docker: &Docker, spec: &JobSpec) -> Result<Base, EngineError> {
    let about = &docker.about;
    let (selinux, podman, upload) = (about.selinux, about.podman, about.remote.is_some());
    match &spec.place {
        Place::Userland => {
            if let Some(why) = docker.without_userland() {
                return Err(EngineError::Setup(why));
            }
            let image = userland::image(&docker.api).await?;
            Ok(Base { image, folders: userland::folders(), selinux, podman, ..Base::default() })
        }
        Place::Image { id, reference } => {
            let image = docker.api.image(id).await.map_err(Failure::into_error)?;
            let image =
                image.ok_or_else(|| EngineError::Start { text: format!("no such image: {reference} ({id})") })?;
            let lines = image.config.and_then(|config| config.env).unwrap_or_default();
            let pair = |line: &String| {
                let (name, value) = line.split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            };
            let env = lines.iter().filter_map(pair).collect();
            Ok(Base { image: id.clone(), env, selinux, podman, upload, ..Base::default() })
        }
    }
}

/// Removes a container, whatever it does, with its volumes. It is no error if it is not there.
pub(super) async fn remove_for_good(api: &Api, name: &str) -> Result<(), Failure> {
    let mut last = Ok(());
    for _ in 0..3 {
        last = match api.remove(name, REMOVE).await {
            Ok(()) => return Ok(()),
            Err(failure) if failure.is_not_found() => return Ok(()),
            // 409: a removal is in progress already, or a stop is; the next try finds it gone.
            Err(failure) => Err(failure),
        };
        sleep(Duration::from_millis(200)).await;
    }
    last
}

/// Removes a container that may not be there yet, and waits for it.
async fn remove_when_seen(api: &Api, name: &str) -> Result<(), Failure> {
    while api.state(name, REMOVE).await.is_err() {
        sleep(Duration::from_millis(100)).await;
    }
    remove_for_good(api, name).await
}

struct Life<'a> {
    api: &'a Api,
    name: String,
    /// After an interruption, everything has to be quick.
    hurry: bool,
    /// Whether a create was sent whose answer never came: its container may appear at any time.
    unsure: bool,
    /// Bytes of stdout that were followed. What is read after the end must not be less.
    written: u64,
}

impl Life<'_> {
    async fn live(
        &mut self,
        spec: &JobSpec,
        body: Box<ContainerCreateBody>,
        upload: Option<Upload>,
        called: Instant,
        events: &mpsc::UnboundedSender<JobEvent>,
        cancel: &mut Cancel,
    ) -> Result<JobEnd, EngineError> {
        let mut notes = Vec::new();
        let (api, name) = (self.api, self.name.clone());
        self.unsure = true;
        let created = async {
            notes = api.create(&name, body).await?;
            Ok(())
        };
        let mut before = self.prepare(created, cancel).await?;
        if let (Before::Ready, Some(upload)) = (&before, upload) {
            before = self.prepare(upload.send(api, &name), cancel).await?;
        }
        let before = match before {
            Before::Ready => self.prepare(api.start(&name), cancel).await?,
            Before::Cancelled => Before::Cancelled,
        };
        let started = Instant::now();
        let start_ms = millis(started - called);
        let ended = match before {
            Before::Ready => {
                // Nobody may listen: the job goes on all the same.
                let _ = events.send(JobEvent::Started);
                self.watch(started + spec.deadline, events, cancel).await?
            }
            Before::Cancelled => Ended::Cancelled,
        };
        let run_ms = millis(started.elapsed());
        let killed = match ended {
            Ended::ByItself | Ended::Unseen(_) => None,
            Ended::Deadline => {
                self.end(3).await?;
                Some(JobExit::Timeout)
            }
            Ended::Cancelled => {
                self.hurry = true;
                if matches!(before, Before::Ready) {
                    self.end(1).await?;
                }
                Some(JobExit::Cancelled)
            }
        };
        let limit = if self.hurry { READ_OUTPUT_QUICKLY } else { READ_OUTPUT };
        let mut output = Collector::new(spec.task.nonce());
        let (read, stderr) = tokio::join!(api.stdout(&name, limit, &mut output), api.stderr(&name, limit));
        let exit = if let Some(exit) = killed {
            exit
        } else {
            let state = api.state(&name, REMOVE).await.map_err(|failure| lost(&failure))?;
            exit(&state, stderr.as_deref().unwrap_or_default())?
        };
        // What a job that was ended had to say is worth having, not worth failing for.
        if killed.is_none() {
            read.map_err(|failure| lost(&failure))?;
        } else if read.is_err() {
            output.cut();
        }
        if output.read() > LOG_MAY_TURN {
            output.cut();
        }
        let output = output.finish(self.written);
        if let Ended::Unseen(failure) = ended
            && !output.is_whole()
        {
            return Err(went_away(&failure));
        }
        let stderr =
            stderr.or_else(|failure| if killed.is_some() { Ok(String::new()) } else { Err(lost(&failure)) })?;
        Ok(JobEnd { exit, output, stderr, mapped: Vec::new(), notes, start_ms, run_ms })
    }

    async fn remove(&self) -> Result<(), Failure> {
        if self.unsure {
            remove_when_seen(self.api, &self.name).await
        } else {
            remove_for_good(self.api, &self.name).await
        }
    }

    /// Carries a create or start to its end. After an interruption it gets a moment to finish, because an engine goes
    /// on with it whether or not somebody listens.
    async fn prepare(
        &mut self,
        call: impl Future<Output = Result<(), Failure>>,
        cancel: &mut Cancel,
    ) -> Result<Before, EngineError> {
        let mut call = pin!(call);
        let done = if cancel.is_cancelled() {
            None
        } else {
            tokio::select! {
                done = &mut call => Some(done),
                () = cancel.cancelled() => {
                    self.hurry = true;
                    let done = timeout(UNDER_WAY, call).await;
                    self.unsure &= done.is_err();
                    return Ok(Before::Cancelled);
                }
            }
        };
        match done {
            None => {
                self.hurry = true;
                self.unsure = false;
                Ok(Before::Cancelled)
            }
            Some(Ok(())) => {
                self.unsure = false;
                Ok(Before::Ready)
            }
            Some(Err(failure)) => {
                self.unsure &= matches!(failure, Failure::Broken(_));
                Err(explained(failure))
            }
        }
    }

    /// Waits for the end, the deadline or an interruption, and hands on output while it waits.
    async fn watch(
        &mut self,
        deadline: Instant,
        events: &mpsc::UnboundedSender<JobEvent>,
        cancel: &mut Cancel,
    ) -> Result<Ended, EngineError> {
        let api = self.api;
        let mut output = api.follow(&self.name);
        let mut following = true;
        let mut wait = Box::pin(api.wait(&self.name));
        let mut silence = pin!(silence(api));
        loop {
            tokio::select! {
                biased;
                waited = &mut wait => match waited {
                    Waited::Ended => return Ok(Ended::ByItself),
                    Waited::Broken(failure) => {
                        let found = tokio::select! {
                            found = self.find_again(&failure) => found?,
                            () = cancel.cancelled() => return Ok(Ended::Cancelled),
                        };
                        if matches!(found, Found::Ended) {
                            return Ok(Ended::Unseen(failure));
                        }
                        wait = Box::pin(api.wait(&self.name));
                    }
                },
                () = cancel.cancelled() => return Ok(Ended::Cancelled),
                () = sleep_until(deadline) => return Ok(Ended::Deadline),
                text = &mut silence => return Err(EngineError::Lost(text)),
                piece = output.next(), if following => match piece {
                    Some(piece) => {
                        self.written += piece.len() as u64;
                        // The rest is only counted.
                        if self.written <= MAX_SHOWN as u64 {
                            let _ = events.send(JobEvent::Output(piece));
                        }
                    }
                    None => following = false,
                },
            }
        }
    }

    /// After a broken wait: whether the container still runs. An engine that is started again takes some seconds; with
    /// live-restore its containers go on meanwhile. One that ended may have been killed by the engine's own end, and
    /// what the engine then says of it cannot be told from a crash: only whole output can be believed.
    async fn find_again(&self, failure: &Failure) -> Result<Found, EngineError> {
        let until = Instant::now() + RETURN;
        while Instant::now() < until {
            sleep(Duration::from_millis(500)).await;
            match self.api.state(&self.name, PING).await {
                Ok(state) if state.running => return Ok(Found::Running),
                Ok(_) => return Ok(Found::Ended),
                Err(failure) if failure.is_not_found() => {
                    return Err(EngineError::Lost("the container was removed from outside while it ran".into()));
                }
                Err(_) => {}
            }
        }
        Err(went_away(failure))
    }

    /// Ends a container that runs: SIGTERM, SIGKILL after `grace` seconds, and a look whether it is gone.
    async fn end(&self, grace: i32) -> Result<(), EngineError> {
        let moment = Duration::from_millis(if self.hurry { 700 } else { 10_000 });
        let limit = Duration::from_secs(u64::from(grace.unsigned_abs())) + moment;
        if self.api.stop(&self.name, grace, limit).await.is_ok() {
            return Ok(());
        }
        // Refused because it has ended already, or not answered: either way the look decides.
        let _ = self.api.kill(&self.name, moment).await;
        let until = Instant::now() + if self.hurry { moment } else { UNKILLABLE };
        loop {
            match self.api.state(&self.name, moment).await {
                Ok(state) if !state.running => return Ok(()),
                Err(failure) if failure.is_not_found() => return Ok(()),
                Ok(_) | Err(_) if Instant::now() < until => sleep(Duration::from_millis(100)).await,
                Ok(_) => {
                    return Err(EngineError::Lost(
                        "the container cannot be killed: its process hangs in the kernel, most often in the GPU's driver"
                            .into(),
                    ));
                }
                Err(failure) => return Err(lost(&failure)),
            }
        }
    }
}

/// Returns when the engine has left three pings unanswered.
async fn silence(api: &Api) -> String {
    let mut missed = 0;
    loop {
        let next = Instant::now() + PING;
        match api.ping(PING).await {
            Ok(()) => missed = 0,
            Err(failure) => {
                missed += 1;
                if missed >= MISSED_PINGS {
                    return format!("the engine stopped answering while the job ran: {failure}");
                }
            }
        }
        sleep_until(next).await;
    }
}

/// How a container that ended by itself ended.
fn exit(state: &State, stderr: &str) -> Result<JobExit, EngineError> {
    // The engine's init says so when it cannot run the program: a C library that is missing, another architecture.
    let never_ran = stderr.lines().find(|line| line.starts_with("[FATAL tini"));
    if matches!(state.code, 126 | 127) && (!state.error.is_empty() || never_ran.is_some()) {
        let text = never_ran.map_or_else(
            || state.error.clone(),
            |line| format!("{line}: ctk-bench needs an image with glibc, and of this machine's architecture"),
        );
        return Err(EngineError::Start { text });
    }
    Ok(match state.code {
        code if state.oom => JobExit::Oom { code },
        // With an init, the status of a program that a signal ended is 128 and the signal.
        code @ 129..=192 => JobExit::Signal(i32::try_from(code - 128).unwrap_or_default()),
        code => JobExit::Code(code),
    })
}

/// A refusal to create or start, with its cure where there is one.
fn explained(failure: Failure) -> EngineError {
    match failure.into_error() {
        EngineError::Start { text } if text.contains("bind source path does not exist") => EngineError::Setup(format!(
            "{text}: the engine does not see this machine's files; run ctk-matrix where the engine runs"
        )),
        error => error,
    }
}

/// After the start, whatever the engine refuses says that the container is not there any more.
fn lost(failure: &Failure) -> EngineError {
    EngineError::Lost(failure.to_string())
}

fn went_away(failure: &Failure) -> EngineError {
    EngineError::Lost(format!("the engine went away while the job ran: {failure}"))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(code: i64, oom: bool, error: &str) -> State {
        State { running: false, oom, code, error: error.into() }
    }

    #[test]
    fn an_exit_status_is_read_as_code_signal_memory_or_a_start_that_failed() {
        let ends = [
            (state(0, false, ""), "", Ok(JobExit::Code(0))),
            (state(3, false, ""), "", Ok(JobExit::Code(3))),
            (state(139, false, ""), "", Ok(JobExit::Signal(11))),
            (state(137, false, ""), "", Ok(JobExit::Signal(9))),
            (state(137, true, ""), "", Ok(JobExit::Oom { code: 137 })),
            (state(0, true, ""), "", Ok(JobExit::Oom { code: 0 })),
            // A shell inside says 127 too.
            (state(127, false, ""), "sh: x: not found", Ok(JobExit::Code(127))),
        ];
        for (state, stderr, exit) in ends {
            assert_eq!(super::exit(&state, stderr), exit, "{state:?}");
        }
        let missing = "[FATAL tini (7)] exec /ctk/bin/ctk-bench failed: No such file or directory\n";
        let EngineError::Start { text } = exit(&state(127, false, ""), missing).unwrap_err() else { panic!() };
        assert!(text.contains("needs an image with glibc"), "{text}");
    }
}
