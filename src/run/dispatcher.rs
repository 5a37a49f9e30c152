//! Decides what a run does next and what each cell's record is. Its main type is [`Dispatcher`]: a synchronous state
//! machine, fed by [`super::runner`], that answers with events to tell and commands to carry out.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::harvest::Harvest;
use super::recorder::{JobContext, Recorder, mapped};
use crate::compat::predict::Measured;
use crate::engine::job::{EngineError, JobEnd, JobExit};
use crate::model::event::{ProvisionStep, RunEvent, StackStep};
use crate::model::outcome::Stage;
use crate::model::path::Family;
use crate::model::place::Provisioned;
use crate::model::plan::Plan;
use crate::model::record::Gpu;
use crate::model::wire::{Decoder, Failure, Frame, Piece};
use crate::toolkit::stack::ReadyStack;

/// Toolkits that are fetched side by side: two keep the network busy while one is being unpacked.
const PROVISION_SLOTS: usize = 2;

/// Something that the runner tells.
#[derive(Debug)]
pub enum Input {
    /// A toolkit's provisioning moved on.
    Provision {
        /// Index into the plan's toolkits.
        toolkit: usize,
        /// How far it is.
        step: ProvisionStep,
    },
    /// A toolkit is there, or will not be.
    Provisioned {
        /// Index into the plan's toolkits.
        toolkit: usize,
        /// The toolkit, or why not.
        result: Result<Box<Provisioned>, Failure>,
    },
    /// The packages of a stack moved on.
    Stack {
        /// The stack's name.
        stack: String,
        /// How far they are.
        step: StackStep,
    },
    /// A job's program started.
    Started {
        /// Index into the plan's jobs.
        job: usize,
        /// The nonce of its frames.
        nonce: String,
    },
    /// A piece of a running job's output, for display.
    Output {
        /// Index into the plan's jobs.
        job: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A job ended.
    Ended {
        /// Index into the plan's jobs.
        job: usize,
        /// What came of it.
        report: Box<JobReport>,
    },
    /// A remark for the user.
    Note(String),
    /// A signal arrived.
    Cancel,
}

/// What came of a job, as the worker saw it.
#[derive(Debug)]
pub struct JobReport {
    /// How it ended.
    pub end: Result<JobEnd, EngineError>,
    /// How the GPU reached it; none without a GPU.
    pub attach: Option<String>,
    /// What was measured of the toolkit, where the catalogue does not know it.
    pub measured: Option<Measured>,
    /// How often it was started.
    pub attempts: u32,
    /// Its Python packages, or why they are not there; none where it needs none.
    pub stack: Option<Result<ReadyStack, Failure>>,
    /// Why there was no place to run in, of which all its cells fail.
    pub unplaced: Option<Failure>,
    /// Whether an interruption came before its place and its packages were there: then what they lack is no failure.
    pub interrupted: bool,
}

impl JobReport {
    /// A job that ended before it had any packages.
    #[must_use]
    pub fn bare(end: Result<JobEnd, EngineError>, attempts: u32) -> Self {
        Self { end, attach: None, measured: None, attempts, stack: None, unplaced: None, interrupted: false }
    }

    /// A job that has no place to run in.
    #[must_use]
    pub fn unplaced(failure: Failure) -> Self {
        let end = Err(EngineError::Setup(failure.reason.clone()));
        Self { unplaced: Some(failure), ..Self::bare(end, 0) }
    }

    /// Why a path cannot be run: the job has no place, or the packages of its Python library are not there.
    fn lacking(&self, family: Family) -> Option<Failure> {
        if let Some(failure) = &self.unplaced {
            return Some(failure.clone());
        }
        match self.stack.as_ref().filter(|_| family.is_python())? {
            Err(failure) => Some(failure.clone()),
            Ok(ready) => ready.failed.iter().find(|(failed, ..)| *failed == family).map(|(_, reason, detail)| {
                Failure { stage: Stage::Provision, code: None, reason: reason.clone(), detail: detail.clone() }
            }),
        }
    }
}

/// Something that the runner is to do.
#[derive(Debug)]
pub enum Command {
    /// Put a toolkit on this machine.
    Provision(usize),
    /// Start a job.
    Start {
        /// Index into the plan's jobs.
        job: usize,
        /// Its toolkit.
        provisioned: Arc<Provisioned>,
    },
}

/// What the dispatcher answers.
#[derive(Debug, Default)]
#[must_use]
pub struct Reaction {
    /// To be told.
    pub events: Vec<RunEvent>,
    /// To be carried out.
    pub commands: Vec<Command>,
}

#[derive(Debug)]
enum ToolkitState {
    Waiting,
    Fetching,
    Ready(Arc<Provisioned>),
    Failed(Failure),
}

#[derive(Debug)]
enum JobState {
    Waiting,
    Running { decoder: Option<Decoder> },
    Done,
}

/// The state of a run.
#[derive(Debug)]
pub struct Dispatcher {
    plan: Arc<Plan>,
    recorder: Recorder,
    slots: usize,
    toolkits: Vec<ToolkitState>,
    jobs: Vec<JobState>,
    noted: BTreeSet<String>,
    cancelled: bool,
    gpu: Option<Gpu>,
}

impl Dispatcher {
    /// The state before anything is done. At most `slots` jobs run side by side.
    #[must_use]
    pub fn new(plan: Arc<Plan>, recorder: Recorder, slots: usize) -> Self {
        let toolkits = plan.toolkits.iter().map(|_| ToolkitState::Waiting).collect();
        let jobs = plan.jobs.iter().map(|_| JobState::Waiting).collect();
        let noted = BTreeSet::new();
        Self { plan, recorder, slots: slots.max(1), toolkits, jobs, noted, cancelled: false, gpu: None }
    }

    /// The first commands.
    pub fn start(&mut self) -> Reaction {
        let mut reaction = Reaction::default();
        reaction.events.push(RunEvent::Started { cells: self.plan.cells.len(), jobs: self.plan.jobs.len() });
        self.advance(&mut reaction);
        reaction
    }

    /// Whether every cell has its record.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.jobs.iter().all(|job| matches!(job, JobState::Done))
    }

    /// The GPU as the last job's driver described it.
    #[must_use]
    pub fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref()
    }

    /// Takes one input and answers it.
    pub fn handle(&mut self, input: Input) -> Reaction {
        let mut reaction = Reaction::default();
        match input {
            Input::Provision { toolkit, step } => {
                let toolkit = self.plan.toolkits[toolkit].name.clone();
                reaction.events.push(RunEvent::Provision { toolkit, step });
            }
            Input::Provisioned { toolkit, result } => self.provisioned(toolkit, result, &mut reaction),
            Input::Stack { stack, step } => reaction.events.push(RunEvent::StackStep { stack, step }),
            Input::Started { job, nonce } => {
                if let JobState::Running { decoder } = &mut self.jobs[job] {
                    *decoder = Some(Decoder::new(&nonce));
                }
                reaction.events.push(RunEvent::JobStarted { job: self.plan.jobs[job].id.clone() });
            }
            Input::Output { job, bytes } => self.output(job, &bytes, &mut reaction),
            Input::Ended { job, report } => self.ended(job, *report, &mut reaction),
            Input::Note(text) => self.note(text, &mut reaction),
            Input::Cancel => self.cancel(&mut reaction),
        }
        if !self.cancelled {
            self.advance(&mut reaction);
        }
        if self.is_done() {
            reaction.events.push(RunEvent::Finished);
        }
        reaction
    }

    fn provisioned(&mut self, index: usize, result: Result<Box<Provisioned>, Failure>, reaction: &mut Reaction) {
        let toolkit = self.plan.toolkits[index].name.clone();
        match result {
            Ok(provisioned) => {
                reaction.events.push(RunEvent::Provision { toolkit, step: ProvisionStep::Finished });
                for note in &provisioned.notes {
                    self.note(note.clone(), reaction);
                }
                self.toolkits[index] = ToolkitState::Ready(Arc::from(provisioned));
            }
            Err(failure) => {
                let step = ProvisionStep::Failed(failure.reason.clone());
                reaction.events.push(RunEvent::Provision { toolkit, step });
                self.toolkits[index] = ToolkitState::Failed(failure);
            }
        }
    }

    /// A remark is made once, however many toolkits and jobs it is true of.
    fn note(&mut self, text: String, reaction: &mut Reaction) {
        if self.noted.insert(text.clone()) {
            reaction.events.push(RunEvent::Note(text));
        }
    }

    fn output(&mut self, job: usize, bytes: &[u8], reaction: &mut Reaction) {
        let JobState::Running { decoder: Some(decoder) } = &mut self.jobs[job] else { return };
        let id = &self.plan.jobs[job].id;
        for piece in decoder.push(bytes) {
            if let Piece::Frame(frame) = piece
                && let Frame::Stage { cell, stage } = *frame
            {
                reaction.events.push(RunEvent::JobStage { job: id.clone(), cell, stage });
            }
        }
    }

    fn ended(&mut self, index: usize, mut report: JobReport, reaction: &mut Reaction) {
        let plan = Arc::clone(&self.plan);
        let job = &plan.jobs[index];
        let output = report.end.as_mut().map(|end| std::mem::take(&mut end.output)).unwrap_or_default();
        self.noise(&job.id, &output.noise, reaction);
        let mut harvest = Harvest::read(output);
        if let Some(gpu) = harvest.hello.as_ref().and_then(|hello| hello.gpu.clone()) {
            self.gpu = Some(gpu);
        }
        if let Ok(end) = &report.end {
            self.noise(&job.id, &end.stderr, reaction);
            if let JobExit::Oom { .. } = end.exit {
                let limit = crate::model::units::bytes(plan.limits.memory);
                self.note(format!("{}: a process was killed for its memory (limit {limit})", job.id), reaction);
            }
        }
        if let Ok(end) = &report.end {
            for note in &end.notes {
                self.note(note.clone(), reaction);
            }
        }
        let provisioned = match &self.toolkits[job.toolkit] {
            ToolkitState::Ready(provisioned) => Some(Arc::clone(provisioned)),
            ToolkitState::Waiting | ToolkitState::Fetching | ToolkitState::Failed(_) => None,
        };
        let context = JobContext {
            kernel: &plan.kernels[job.kernel],
            provisioned: provisioned.as_deref(),
            mapped: mapped(&report.end),
            measured: report.measured.as_ref(),
            attach: report.attach.as_deref(),
            attempts: report.attempts,
            stack: report.stack.as_ref().and_then(|stack| stack.as_ref().ok()),
        };
        if let Some(ready) = context.stack {
            reaction.events.push(RunEvent::Stack(Box::new(ready.record.clone())));
        }
        for cell in &job.cells {
            let cell = &plan.cells[*cell];
            if let Some(failure) = report.lacking(cell.axes.path.family) {
                let record = if report.interrupted {
                    self.recorder.record_not_run(cell, context, "interrupted before its packages were there")
                } else {
                    self.recorder.record_failure(cell, context, failure)
                };
                reaction.events.push(RunEvent::CellFinished(Box::new(record)));
                continue;
            }
            let taken = harvest.take(&cell.id, context.kernel, &report.end);
            let sha256 = taken.result.artifact.as_ref().map(|artifact| artifact.sha256.clone());
            let record = self.recorder.record(cell, context, taken.result, taken.artifact.as_deref());
            if let (Some(bytes), Some(sha256)) = (taken.artifact, sha256) {
                reaction.events.push(RunEvent::Artifact { sha256, bytes });
            }
            reaction.events.push(RunEvent::CellFinished(Box::new(record)));
        }
        self.jobs[index] = JobState::Done;
        reaction.events.push(RunEvent::JobFinished { job: job.id.clone() });
    }

    fn noise(&self, job: &str, text: &str, reaction: &mut Reaction) {
        if !text.is_empty() {
            let text = self.recorder.names.translate_text(text, &[]);
            reaction.events.push(RunEvent::JobNoise { job: job.into(), text });
        }
    }

    /// Starts what can be started, and ends the jobs of toolkits that will not come.
    fn advance(&mut self, reaction: &mut Reaction) {
        let plan = Arc::clone(&self.plan);
        let mut running = self.jobs.iter().filter(|job| matches!(job, JobState::Running { .. })).count();
        for (index, job) in plan.jobs.iter().enumerate() {
            if !matches!(self.jobs[index], JobState::Waiting) {
                continue;
            }
            match &self.toolkits[job.toolkit] {
                ToolkitState::Ready(provisioned) if running < self.slots => {
                    let provisioned = Arc::clone(provisioned);
                    self.jobs[index] = JobState::Running { decoder: None };
                    running += 1;
                    reaction.commands.push(Command::Start { job: index, provisioned });
                }
                ToolkitState::Failed(failure) => {
                    let failure = failure.clone();
                    self.fail_job(index, &failure, reaction);
                }
                ToolkitState::Ready(_) | ToolkitState::Waiting | ToolkitState::Fetching => {}
            }
        }
        let fetching = self.toolkits.iter().filter(|state| matches!(state, ToolkitState::Fetching)).count();
        let waiting: Vec<usize> = (0..self.toolkits.len())
            .filter(|index| matches!(self.toolkits[*index], ToolkitState::Waiting))
            .take(PROVISION_SLOTS.saturating_sub(fetching))
            .collect();
        for index in waiting {
            self.toolkits[index] = ToolkitState::Fetching;
            reaction.commands.push(Command::Provision(index));
        }
    }

    fn context(plan: &Plan, job: usize) -> JobContext<'_> {
        let kernel = &plan.kernels[plan.jobs[job].kernel];
        JobContext { kernel, provisioned: None, mapped: &[], measured: None, attach: None, attempts: 0, stack: None }
    }

    fn fail_job(&mut self, index: usize, failure: &Failure, reaction: &mut Reaction) {
        let plan = Arc::clone(&self.plan);
        for cell in &plan.jobs[index].cells {
            let context = Self::context(&plan, index);
            let record = self.recorder.record_failure(&plan.cells[*cell], context, failure.clone());
            reaction.events.push(RunEvent::CellFinished(Box::new(record)));
        }
        self.jobs[index] = JobState::Done;
    }

    fn cancel(&mut self, reaction: &mut Reaction) {
        if std::mem::replace(&mut self.cancelled, true) {
            return;
        }
        reaction.events.push(RunEvent::Cancelling);
        let plan = Arc::clone(&self.plan);
        for (index, job) in plan.jobs.iter().enumerate() {
            if !matches!(self.jobs[index], JobState::Waiting) {
                continue;
            }
            for cell in &job.cells {
                let context = Self::context(&plan, index);
                let record = self.recorder.record_not_run(&plan.cells[*cell], context, "interrupted before its turn");
                reaction.events.push(RunEvent::CellFinished(Box::new(record)));
            }
            self.jobs[index] = JobState::Done;
        }
    }
}

#[cfg(test)]
mod tests;
