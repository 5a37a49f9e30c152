//! Carries a plan out: feeds the dispatcher, and does what it says, each thing in a task of its own.
//! Its main type is [`Runner`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::dispatcher::{Command, Dispatcher, Input, JobReport, Reaction};
use super::gpu_lock::{Attempt, GpuLock};
use super::provision::Provisioner;
use super::recorder::Recorder;
use super::worker::Worker;
use crate::engine::job::EngineError;
use crate::model::event::{ProvisionStep, RunEvent};
use crate::model::outcome::Stage;
use crate::model::record::Gpu;
use crate::model::wire::Failure;

/// How often a GPU that another process measures on is asked for again.
const LOCK_POLL: Duration = Duration::from_millis(500);

/// Everything that a run needs.
#[derive(Debug)]
pub struct Runner {
    /// Carries out jobs.
    pub worker: Arc<Worker>,
    /// Puts toolkits on this machine.
    pub provisioner: Arc<Provisioner>,
    /// Makes records.
    pub recorder: Recorder,
    /// Jobs side by side.
    pub slots: usize,
}

/// What is known at the end of a run, beside its records.
#[derive(Debug, Default)]
pub struct RunEnd {
    /// The GPU as the last job's driver described it.
    pub gpu: Option<Gpu>,
    /// The attach modes that were used.
    pub attach: BTreeSet<String>,
    /// Whether the GPU could not be brought into some place.
    pub gpu_unreachable: bool,
}

impl Runner {
    /// Carries the plan out and tells what happens. A `true` on `cancel` ends it within seconds; nothing that it
    /// started is left when this returns.
    pub async fn run(self, events: mpsc::UnboundedSender<RunEvent>, cancel: watch::Receiver<bool>) -> RunEnd {
        let _lock = self.lock(&events, cancel.clone()).await;
        let plan = Arc::clone(&self.worker.plan);
        let mut dispatcher = Dispatcher::new(plan, self.recorder.clone(), self.slots);
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let mut end = RunEnd::default();
        let mut interrupted = cancel.clone();
        let mut reaction = dispatcher.start();
        let mut cancelled = false;
        loop {
            let Reaction { events: happened, commands } = reaction;
            for event in happened {
                if let RunEvent::CellFinished(record) = &event {
                    end.attach.extend(record.attach.clone());
                }
                // The receiver may be gone only if the program ends.
                let _ = events.send(event);
            }
            for command in commands {
                self.carry_out(command, &mut tasks, &tell, &cancel);
            }
            if dispatcher.is_done() {
                break;
            }
            let input = tokio::select! {
                biased;
                Ok(_) = interrupted.wait_for(|cancelled| *cancelled), if !cancelled => {
                    cancelled = true;
                    Input::Cancel
                }
                Some(input) = told.recv() => input,
            };
            reaction = dispatcher.handle(input);
        }
        // Provisioning that nobody waits for any more cleans up after itself.
        while tasks.join_next().await.is_some() {}
        end.gpu = dispatcher.gpu().cloned();
        end.gpu_unreachable = self.worker.gpu.unreachable();
        end
    }

    /// Waits until nobody else measures on this GPU.
    async fn lock(
        &self,
        events: &mpsc::UnboundedSender<RunEvent>,
        mut cancel: watch::Receiver<bool>,
    ) -> Option<GpuLock> {
        let gpu = self.worker.gpu.gpu()?;
        let path = GpuLock::path(&gpu.uuid);
        let mut told = String::new();
        loop {
            match GpuLock::attempt(&path) {
                Ok(Attempt::Held(lock)) => return Some(lock),
                Ok(Attempt::Busy(holder)) => {
                    if told != holder {
                        let note = format!("waiting for {}: {holder} measures on it", gpu.uuid);
                        let _ = events.send(RunEvent::Note(note));
                        told = holder;
                    }
                }
                Err(error) => {
                    let note = format!(
                        "the lock {} cannot be used ({error}): another run may measure on this GPU at the same time",
                        path.display()
                    );
                    let _ = events.send(RunEvent::Note(note));
                    return None;
                }
            }
            tokio::select! {
                Ok(_) = cancel.wait_for(|cancelled| *cancelled) => return None,
                () = tokio::time::sleep(LOCK_POLL) => {}
            }
        }
    }

    fn carry_out(
        &self,
        command: Command,
        tasks: &mut JoinSet<()>,
        tell: &mpsc::UnboundedSender<Input>,
        cancel: &watch::Receiver<bool>,
    ) {
        let (tell, cancel) = (tell.clone(), cancel.clone());
        match command {
            Command::Provision(toolkit) => {
                let provisioner = Arc::clone(&self.provisioner);
                let plan = Arc::clone(&self.worker.plan);
                tasks.spawn(async move {
                    let told = tell.clone();
                    let work = tokio::spawn(async move {
                        let progress = |step: ProvisionStep| match step {
                            ProvisionStep::Started { .. } | ProvisionStep::Progress { .. } => {
                                drop(told.send(Input::Provision { toolkit, step }));
                            }
                            // The result says it, for images too.
                            ProvisionStep::Finished | ProvisionStep::Failed(_) => {}
                        };
                        let note = |text| drop(told.send(Input::Note(text)));
                        provisioner.provide(&plan.toolkits[toolkit], &progress, &note, cancel).await
                    });
                    let result = work.await.unwrap_or_else(|error| Err(internal_failure(&error))).map(Box::new);
                    let _ = tell.send(Input::Provisioned { toolkit, result });
                });
            }
            Command::Start { job, provisioned } => {
                let worker = Arc::clone(&self.worker);
                tasks.spawn(async move {
                    let told = tell.clone();
                    let work = tokio::spawn(async move { worker.carry_out(job, &provisioned, &told, &cancel).await });
                    let report = work.await.unwrap_or_else(|error| internal_report(&error));
                    let _ = tell.send(Input::Ended { job, report: Box::new(report) });
                });
            }
        }
    }
}

/// A panic in one task is the end of that toolkit or job, and not of the run.
fn internal_failure(error: &tokio::task::JoinError) -> Failure {
    let reason = format!("ctk-matrix itself failed: {error}");
    Failure { stage: Stage::Provision, code: None, reason, detail: None }
}

fn internal_report(error: &tokio::task::JoinError) -> JobReport {
    let end = Err(EngineError::Lost(format!("ctk-matrix itself failed: {error}")));
    JobReport::bare(String::new(), end, 1)
}
