//! Makes the record of a cell from what its job said. Its main type is [`Recorder`].

use std::path::PathBuf;
use std::sync::Arc;

use crate::compat::explain::explain;
use crate::compat::judge::{JudgeInput, judge};
use crate::compat::predict::machine::Machine;
use crate::compat::predict::{Absent, Measured, Predictor, ToolkitSide, agrees, fleet_of_artifact};
use crate::engine::job::{EngineError, JobEnd};
use crate::model::fleet::FleetEntry;
use crate::model::kernel::Kernel;
use crate::model::outcome::Outcome;
use crate::model::path::Family;
use crate::model::place::Provisioned;
use crate::model::plan::Cell;
use crate::model::record::{FleetPrediction, GpuMode, Loaded, LoadedFile, Predicted, Record, Source, SourceKind};
use crate::model::wire::{Failure, PathResult};

use super::names::PathNames;
use crate::model::stack::NOT_TESTED;
use crate::toolkit::stack::ReadyStack;

/// What is the same for all records of a run.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// The run's id.
    pub run: String,
    /// Whether a GPU is used, and whose driver it is.
    pub gpu: GpuMode,
    /// Whether jobs run side by side.
    pub contended: bool,
    /// How paths are shown.
    pub names: PathNames,
    /// What the rules say beforehand.
    pub rules: Foresight,
}

/// What the rules are asked about.
#[derive(Debug, Clone, Default)]
pub struct Foresight {
    /// The rules, with the kernels' artifacts read.
    pub predictor: Arc<Predictor>,
    /// The driver and the GPU; none where nothing is loaded.
    pub machine: Option<Machine>,
    /// Machines that are not here.
    pub fleet: Vec<FleetEntry>,
}

/// What a job has in common for its cells.
#[derive(Debug, Clone, Copy)]
pub struct JobContext<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The toolkit as it was provided; none if it could not be.
    pub provisioned: Option<&'a Provisioned>,
    /// Folders as the job saw them, and as they are on the host.
    pub mapped: &'a [(PathBuf, PathBuf)],
    /// What was measured of the toolkit, where the catalogue does not know it.
    pub measured: Option<&'a Measured>,
    /// How the GPU reached it.
    pub attach: Option<&'a str>,
    /// How often it was started.
    pub attempts: u32,
    /// Its Python packages; none where it has none.
    pub stack: Option<&'a ReadyStack>,
}

impl Recorder {
    /// The record of a cell with this result. `artifact` are the bytes that were built, where they arrived.
    #[must_use]
    pub fn record(&self, cell: &Cell, job: JobContext<'_>, result: PathResult, artifact: Option<&[u8]>) -> Record {
        let family = cell.axes.path.family;
        let absent = if family.is_python() {
            job.stack.map(|stack| &stack.absent)
        } else {
            job.provisioned.map(|provisioned| &provisioned.absent)
        };
        let known = absent.into_iter().flatten().find(|(absent, _)| *absent == family);
        // What lies with this machine and not with the stack, by our own program's word.
        let untested = result.reason.as_ref().filter(|reason| family.is_python() && reason.starts_with(NOT_TESTED));
        let foreseen = untested.cloned().or_else(|| known.map(|(_, reason)| reason.clone()));
        let foreseen = if result.outcome == Outcome::Skip { foreseen } else { None };
        let verdict = judge(&JudgeInput {
            outcome: result.outcome,
            stage: result.stage,
            code: result.code.as_ref(),
            expectation: cell.expectation.as_ref(),
            gpu: self.gpu,
            launches: job.kernel.launch.is_some(),
            foreseen_skip: foreseen.is_some(),
        });
        let predicted = self.predicted(cell, job, &result);
        let show = |text: String| self.names.translate_text(&text, job.mapped);
        let detail = result.detail.filter(|text| !text.trim().is_empty()).map(show);
        let reason = foreseen.or(result.reason).map(show);
        let explained = format!("{}\n{}", reason.as_deref().unwrap_or(""), detail.as_deref().unwrap_or(""));
        let failed = !matches!(
            result.outcome,
            Outcome::Pass | Outcome::Built | Outcome::Loaded | Outcome::Skip | Outcome::NotRun | Outcome::Cancelled
        );
        let mut timings = result.timings;
        if self.contended && timings.build_ms.is_some() {
            timings.contended = Some(true);
        }
        Record {
            run: self.run.clone(),
            id: cell.id.clone(),
            axes: cell.axes.clone(),
            outcome: verdict.outcome,
            expected: verdict.expected,
            stage: result.stage,
            explanation: if failed { explain(result.stage, result.code.as_ref(), &explained) } else { None },
            code: result.code,
            reason: verdict.reason.map(|said| join(reason.as_deref(), &said)).or(reason),
            detail,
            attempts: job.attempts,
            source: self.source(cell, job),
            attach: job.attach.map(Into::into),
            gpu: result.gpu,
            loaded: self.loaded(result.loaded, job.mapped),
            artifact: result.artifact,
            timings,
            caches: result.caches,
            bits: result.bits,
            predicted,
            fleet: self.fleet(cell, job, artifact),
            expectation: cell.expectation.clone(),
        }
    }

    /// The record of a cell that did not get as far as a job.
    #[must_use]
    pub fn record_failure(&self, cell: &Cell, job: JobContext<'_>, failure: Failure) -> Record {
        let untested = failure.reason.starts_with(NOT_TESTED);
        let result = PathResult::failed(&cell.id, failure);
        // What lies with this machine is no failure of the stack.
        let result = if untested { PathResult { outcome: Outcome::Skip, stage: None, ..result } } else { result };
        self.record(cell, job, result, None)
    }

    /// The record of a cell whose turn never came.
    #[must_use]
    pub fn record_not_run(&self, cell: &Cell, job: JobContext<'_>, reason: &str) -> Record {
        let result = PathResult { reason: Some(reason.into()), ..PathResult::new(&cell.id, Outcome::NotRun) };
        self.record(cell, job, result, None)
    }

    /// What the rules said, and whether it happened. Nothing is said of a cell whose toolkit did not come.
    fn predicted(&self, cell: &Cell, job: JobContext<'_>, result: &PathResult) -> Option<Predicted> {
        let provisioned = job.provisioned?;
        let version = provisioned.toolkit.version;
        let Foresight { predictor, machine, .. } = &self.rules;
        let absent = absent(provisioned);
        let toolkit = ToolkitSide { version, absent: &absent, measured: job.measured };
        let predicted = predictor.cell(&cell.axes, &toolkit, machine.as_ref())?;
        let agrees = agrees(&predicted, result.outcome, result.stage, result.code.as_ref());
        Some(Predicted { agrees, ..predicted })
    }

    /// What the rules say of the machines that are not here: by the artifact that was built, else by the catalogue.
    fn fleet(&self, cell: &Cell, job: JobContext<'_>, artifact: Option<&[u8]>) -> Vec<FleetPrediction> {
        let Foresight { predictor, fleet, .. } = &self.rules;
        match (artifact, job.provisioned) {
            (Some(bytes), _) => fleet_of_artifact(bytes, job.kernel.launch.is_some(), fleet),
            (None, Some(provisioned)) => predictor.fleet(&cell.axes, provisioned.toolkit.version, fleet),
            (None, None) => Vec::new(),
        }
    }

    fn source(&self, cell: &Cell, job: JobContext<'_>) -> Option<Source> {
        let path = cell.axes.path;
        if path.family == Family::Driver {
            let prebuilt = job.kernel.prebuilt.get(&path.form)?;
            return Some(Source {
                kind: SourceKind::Prebuilt,
                reference: prebuilt.origin.clone(),
                digest: None,
                image: None,
            });
        }
        let source = &job.provisioned?.source;
        let reference = match source.kind {
            SourceKind::Dir => self.names.shorten(source.reference.as_ref()),
            SourceKind::Image | SourceKind::Wheels | SourceKind::Prebuilt => source.reference.clone(),
        };
        Some(Source { reference, ..source.clone() })
    }

    fn loaded(&self, loaded: Loaded, mapped: &[(PathBuf, PathBuf)]) -> Loaded {
        let show = |file: LoadedFile| LoadedFile { path: self.names.translate(&file.path, mapped), ..file };
        Loaded {
            driver: loaded.driver.map(show),
            nvrtc: loaded.nvrtc.map(show),
            nvcc: loaded.nvcc.map(show),
            library: loaded.library.map(show),
            python: loaded.python.map(show),
        }
    }
}

/// What the toolkit came without, with the rule that foresaw it.
fn absent(provisioned: &Provisioned) -> Vec<Absent> {
    let rule = match provisioned.source.kind {
        SourceKind::Image => "image-variant",
        SourceKind::Wheels | SourceKind::Dir | SourceKind::Prebuilt => "wheels-carry",
    };
    provisioned.absent.iter().map(|(family, _)| (*family, rule)).collect()
}

fn join(reason: Option<&str>, said: &str) -> String {
    match reason {
        Some(reason) => format!("{said}; {reason}"),
        None => said.into(),
    }
}

/// The mapping of a job that ended, or none.
#[must_use]
pub fn mapped(end: &Result<JobEnd, EngineError>) -> &[(PathBuf, PathBuf)] {
    end.as_ref().map_or(&[], |end| &end.mapped)
}
