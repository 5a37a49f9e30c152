//! What a job's output says of its cells. Its main type is [`Harvest`]: the frames of one job, checked.
//!
//! The rules that keep a green cell honest live here: exactly one intact frame a cell, an artifact whose bytes have
//! the hash that was said, and a pass that carries its proof.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::engine::job::{EngineError, JobEnd, JobExit};
use crate::engine::output::Output;
use crate::model::kernel::{Kernel, Launch};
use crate::model::outcome::{Code, Outcome, Stage};
use crate::model::wire::{Failure, Frame, Hello, PathResult, hex};

/// The frames of one job.
#[derive(Debug, Default)]
pub struct Harvest {
    /// The last greeting: what the container is and sees.
    pub hello: Option<Hello>,
    /// Results by cell id.
    results: BTreeMap<String, PathResult>,
    /// Cells for which more than one result came.
    repeated: BTreeSet<String>,
    /// The last stage that each cell announced.
    stages: BTreeMap<String, Stage>,
    /// What is wrong with the output as a whole.
    damage: Option<String>,
    /// Whether the final frame came, with the right count.
    complete: bool,
    /// Whether frames may be missing because there was more than is kept.
    cut: bool,
}

impl Harvest {
    /// Reads a job's whole standard output.
    #[must_use]
    pub fn read(output: Output) -> Self {
        let mut harvest = Self { damage: output.damage, cut: output.cut, ..Self::default() };
        let mut count = 0;
        for frame in output.frames {
            match frame {
                Frame::Hello(hello) => harvest.hello = Some(*hello),
                Frame::Stage { cell, stage } => {
                    harvest.stages.insert(cell, stage);
                }
                Frame::Path(result) => {
                    count += 1;
                    let cell = result.cell.clone();
                    if harvest.results.insert(cell.clone(), *result).is_some() {
                        harvest.repeated.insert(cell);
                    }
                }
                Frame::Final { count: said } if said == count => harvest.complete = true,
                Frame::Final { count: said } => {
                    harvest.damage = Some(format!("{said} results were sent and {count} arrived"));
                }
            }
        }
        harvest
    }

    /// Takes the result of one cell: what its frame says where there is exactly one that holds, else what the end of
    /// the job means for it.
    #[must_use]
    pub fn take(&mut self, cell: &str, kernel: &Kernel, end: &Result<JobEnd, EngineError>) -> Taken {
        if self.repeated.contains(cell) {
            let reason = "more than one result came for this cell";
            return Taken::without_artifact(result(cell, Outcome::Truncated, None, None, reason.into()));
        }
        match self.results.remove(cell) {
            Some(found) => Taken::checked(killed_for_memory(found, end), kernel),
            None => Taken::without_artifact(self.missing(cell, end)),
        }
    }

    fn missing(&self, cell: &str, end: &Result<JobEnd, EngineError>) -> PathResult {
        let stage = self.stages.get(cell).copied();
        let end = match end {
            Ok(end) => end,
            Err(EngineError::Lost(why)) => return result(cell, Outcome::Infra, stage, None, why.clone()),
            Err(error) => return PathResult::failed(cell, start_failure(error)),
        };
        let in_flight = stage.is_some();
        let mut missing = match end.exit {
            JobExit::Cancelled if in_flight => result(cell, Outcome::Cancelled, stage, None, "interrupted".into()),
            JobExit::Cancelled => {
                result(cell, Outcome::NotRun, None, None, "interrupted before this path's turn".into())
            }
            JobExit::Timeout => result(cell, Outcome::Timeout, stage, None, "the job's deadline passed".into()),
            JobExit::Oom { .. } => {
                result(cell, Outcome::Oom, stage, None, "a process of the container was killed for its memory".into())
            }
            JobExit::Signal(number) => {
                let code = crate::compat::codes::signal(number);
                let reason = format!("the container ended with {}", code.name);
                result(cell, Outcome::Crashed, stage, Some(code), reason)
            }
            JobExit::Code(0) => {
                let what = self.damage.clone().unwrap_or_else(|| self.loss());
                result(cell, Outcome::Truncated, stage, None, what)
            }
            JobExit::Code(number) => {
                let code = Code { name: "EXIT".into(), number };
                let reason = format!("ctk-bench ended with exit status {number} and without this result");
                result(cell, Outcome::Truncated, stage, Some(code), reason)
            }
        };
        if !end.stderr.trim().is_empty() {
            missing.detail = Some(end.stderr.clone());
        }
        missing
    }

    fn loss(&self) -> String {
        if self.cut {
            "the container wrote more than is kept, and this result is not in what was kept".into()
        } else if self.complete {
            "the container finished without a result for this cell".into()
        } else {
            "the container ended without its final frame".into()
        }
    }
}

/// A cell's result and the artifact's bytes.
#[derive(Debug)]
pub struct Taken {
    /// The result, without the bytes.
    pub result: PathResult,
    /// The artifact's bytes, whose hash is the one that the result says.
    pub artifact: Option<Vec<u8>>,
}

impl Taken {
    fn without_artifact(result: PathResult) -> Self {
        Self { result, artifact: None }
    }

    fn checked(mut found: PathResult, kernel: &Kernel) -> Self {
        let base64 = found.artifact_base64.take();
        let said = found.artifact.as_ref();
        let bytes = match (base64, said) {
            (Some(base64), Some(said)) => match STANDARD.decode(base64) {
                Ok(bytes) if hex(&Sha256::digest(&bytes)) == said.sha256 && bytes.len() as u64 == said.bytes => {
                    Some(bytes)
                }
                _ => {
                    let reason = "the artifact's bytes are not those that its hash says";
                    let cell = found.cell.clone();
                    return Self::without_artifact(result(&cell, Outcome::Truncated, None, None, reason.into()));
                }
            },
            _ => None,
        };
        if found.outcome == Outcome::Pass
            && let Some(lack) = lacking_proof(&found, kernel.launch)
        {
            let failure = Failure {
                stage: Stage::Verify,
                code: None,
                reason: format!("a pass without its proof: {lack}"),
                detail: None,
            };
            found = PathResult { artifact: found.artifact, ..PathResult::failed(&found.cell, failure) };
        }
        Self { result: found, artifact: bytes }
    }
}

/// What a pass must carry and does not.
fn lacking_proof(found: &PathResult, launch: Option<Launch>) -> Option<&'static str> {
    let Some(launch) = launch else { return Some("this kernel is not one that is launched") };
    let Some(bits) = &found.bits else { return Some("nothing was compared") };
    if bits.checked != launch.n {
        Some("not every element was compared")
    } else if bits.mismatches != 0 {
        Some("there are mismatches")
    } else if launch == Launch::VECTOR_ADD && bits.sha256 != Launch::VECTOR_ADD_OUT {
        Some("the output's hash is not the expected one")
    } else if found.gpu.is_none() {
        Some("no GPU is named")
    } else if found.loaded.driver.is_none() {
        Some("no driver is named")
    } else if found.artifact.is_none() {
        Some("no artifact is named")
    } else {
        None
    }
}

/// A worker that the kernel killed for its memory dies of SIGKILL, and only the engine knows why.
fn killed_for_memory(found: PathResult, end: &Result<JobEnd, EngineError>) -> PathResult {
    let killed = found.outcome == Outcome::Crashed && found.code.as_ref().is_some_and(|code| code.name == "SIGKILL");
    match end {
        Ok(JobEnd { exit: JobExit::Oom { .. }, .. }) if killed => {
            let reason = "the worker was killed for its memory: raise `limits: memory`".to_owned();
            PathResult { outcome: Outcome::Oom, reason: Some(reason), ..found }
        }
        _ => found,
    }
}

/// Why a job could not be started, as the failure of each of its cells.
fn start_failure(error: &EngineError) -> Failure {
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default().to_owned();
    let detail = (reason != text).then_some(text);
    Failure { stage: Stage::Start, code: None, reason, detail }
}

fn result(cell: &str, outcome: Outcome, stage: Option<Stage>, code: Option<Code>, reason: String) -> PathResult {
    PathResult { stage, code, reason: Some(reason), ..PathResult::new(cell, outcome) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::path::Form;
    use crate::model::record::{Artifact, Bits, Loaded, LoadedFile};

    fn kernel() -> Kernel {
        Kernel {
            name: "vector_add".into(),
            entry: "vectorAdd".into(),
            options: Vec::new(),
            source: None,
            prebuilt: BTreeMap::new(),
            launch: Some(Launch::VECTOR_ADD),
        }
    }

    fn ended(exit: JobExit) -> JobEnd {
        JobEnd {
            exit,
            output: Output::default(),
            stderr: String::new(),
            mapped: Vec::new(),
            notes: Vec::new(),
            start_ms: 0.0,
            run_ms: 0.0,
        }
    }

    fn pass(cell: &str) -> PathResult {
        let file = LoadedFile { path: "/x".into(), version: "1".into(), sha256: "00".into() };
        PathResult {
            loaded: Loaded { driver: Some(file), ..Loaded::default() },
            artifact: Some(Artifact {
                kind: Form::Ptx,
                bytes: 3,
                sha256: hex(&Sha256::digest(b"abc")),
                producer: "NVRTC 12.6".into(),
                ptx_isa: None,
                archs: vec!["compute_90".into()],
                registers: None,
                spill_bytes: None,
                shared_bytes: None,
            }),
            artifact_base64: Some(STANDARD.encode(b"abc")),
            bits: Some(Bits {
                checked: Launch::VECTOR_ADD.n,
                mismatches: 0,
                first: None,
                sha256: Launch::VECTOR_ADD_OUT.into(),
            }),
            gpu: Some("GPU-1".into()),
            ..PathResult::new(cell, Outcome::Pass)
        }
    }

    fn take(frames: &[Frame], end: &Result<JobEnd, EngineError>) -> PathResult {
        Harvest::read(Output { frames: frames.to_vec(), ..Output::default() }).take("c", &kernel(), end).result
    }

    fn path(result: PathResult) -> Frame {
        Frame::Path(Box::new(result))
    }

    #[test]
    fn a_pass_with_its_proof_stays_a_pass_and_brings_its_artifact() {
        let output = Output { frames: vec![path(pass("c"))], ..Output::default() };
        let taken = Harvest::read(output).take("c", &kernel(), &Ok(ended(JobExit::Code(0))));
        assert_eq!((taken.result.outcome, taken.artifact.as_deref()), (Outcome::Pass, Some(&b"abc"[..])));
    }

    #[test]
    fn a_pass_that_lacks_any_part_of_its_proof_is_a_failure() {
        let spoilers: [fn(&mut PathResult); 7] = [
            |r| r.bits = None,
            |r| r.bits.as_mut().unwrap().checked -= 1,
            |r| r.bits.as_mut().unwrap().mismatches = 1,
            |r| r.bits.as_mut().unwrap().sha256 = "00".into(),
            |r| r.gpu = None,
            |r| r.loaded.driver = None,
            |r| {
                r.artifact = None;
                r.artifact_base64 = None;
            },
        ];
        for (number, spoil) in spoilers.iter().enumerate() {
            let mut result = pass("c");
            spoil(&mut result);
            let taken = take(&[path(result)], &Ok(ended(JobExit::Code(0))));
            assert_eq!((taken.outcome, taken.stage), (Outcome::Fail, Some(Stage::Verify)), "spoiler {number}");
        }
    }

    #[test]
    fn an_artifact_that_is_not_what_its_hash_says_is_truncated() {
        let mut result = pass("c");
        result.artifact_base64 = Some(STANDARD.encode(b"abd"));
        assert_eq!(take(&[path(result)], &Ok(ended(JobExit::Code(0)))).outcome, Outcome::Truncated);
    }

    #[test]
    fn two_results_for_one_cell_are_none() {
        let frames = [path(pass("c")), path(pass("c")), Frame::Final { count: 2 }];
        assert_eq!(take(&frames, &Ok(ended(JobExit::Code(0)))).outcome, Outcome::Truncated);
    }

    #[test]
    fn a_missing_result_ends_as_the_job_ended() {
        let in_load = [Frame::Stage { cell: "c".into(), stage: Stage::Load }];
        let none: [Frame; 0] = [];
        let lost: Result<JobEnd, EngineError> = Err(EngineError::Lost("gone".into()));
        let start: Result<JobEnd, EngineError> = Err(EngineError::Start { text: "no such image".into() });
        let cases = [
            (&in_load[..], Ok(ended(JobExit::Timeout)), Outcome::Timeout, Some(Stage::Load)),
            (&in_load[..], Ok(ended(JobExit::Cancelled)), Outcome::Cancelled, Some(Stage::Load)),
            (&none[..], Ok(ended(JobExit::Cancelled)), Outcome::NotRun, None),
            (&in_load[..], Ok(ended(JobExit::Oom { code: 0 })), Outcome::Oom, Some(Stage::Load)),
            (&in_load[..], Ok(ended(JobExit::Signal(11))), Outcome::Crashed, Some(Stage::Load)),
            (&none[..], Ok(ended(JobExit::Code(0))), Outcome::Truncated, None),
            (&none[..], Ok(ended(JobExit::Code(3))), Outcome::Truncated, None),
            (&none[..], lost, Outcome::Infra, None),
            (&none[..], start, Outcome::Fail, Some(Stage::Start)),
        ];
        for (frames, end, outcome, stage) in cases {
            let taken = take(frames, &end);
            assert_eq!((taken.outcome, taken.stage), (outcome, stage), "{end:?}");
            assert!(taken.reason.is_some());
        }
    }

    #[test]
    fn a_worker_that_was_killed_for_its_memory_is_told_from_one_that_was_killed() {
        let killed = || {
            let code = Some(Code { name: "SIGKILL".into(), number: 9 });
            [path(PathResult { code, ..PathResult::new("c", Outcome::Crashed) })]
        };
        assert_eq!(take(&killed(), &Ok(ended(JobExit::Oom { code: 0 }))).outcome, Outcome::Oom);
        assert_eq!(take(&killed(), &Ok(ended(JobExit::Code(0)))).outcome, Outcome::Crashed);
        let built = [path(PathResult::new("c", Outcome::Built))];
        assert_eq!(take(&built, &Ok(ended(JobExit::Oom { code: 0 }))).outcome, Outcome::Built);
    }

    #[test]
    fn a_final_count_that_is_wrong_is_named() {
        let frames = [Frame::Final { count: 1 }];
        let taken = take(&frames, &Ok(ended(JobExit::Code(0))));
        assert_eq!(taken.reason.as_deref(), Some("1 results were sent and 0 arrived"));
    }
}
