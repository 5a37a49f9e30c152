//! One path, from its artifact to the last comparison. The main type is [`Paths`], which carries them out in turn and
//! keeps what they share: the GPU, and each compiler once it was found.

use std::ffi::CString;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::built::{Built, NotBuilt};
use super::cuda::CudaError;
use super::emit::Emitter;
use super::error::BenchError;
use super::inspect::{Inspected, inspect};
use super::nvcc::Nvcc;
use super::nvrtc::{self, NotCompiled, Nvrtc};
use super::session::{Bench, Gpu, Session};
use super::{measure, prebuilt};
use crate::model::outcome::{Outcome, Stage};
use crate::model::path::{Family, Form};
use crate::model::record::{Bits, LoadedFile};
use crate::model::wire::{Failure, PathResult, Request, Task};

/// The largest artifact that is sent to the host, bytes: in base64 it must fit a frame.
const MAX_SENT: usize = 12 << 20;

/// Carries paths out.
pub(super) struct Paths<'r, 'c> {
    pub(super) request: &'r Request,
    pub(super) emitter: Emitter,
    pub(super) gpu: Gpu,
    pub(super) session: Option<Session<'c>>,
    pub(super) nvrtc: Option<Sought<Nvrtc>>,
    pub(super) nvcc: Option<Sought<Nvcc>>,
}

/// A compiler that was looked for: the file, where there is one, and whether it can be used.
pub(super) type Sought<T> = (Option<LoadedFile>, Result<T, NotBuilt>);

/// Why a path ends before its last stage.
enum Stop {
    /// It does not go further than this, and that is as it should be.
    As(Outcome),
    /// It cannot run here.
    Skip(String),
    /// A stage failed.
    Fail(Failure),
    /// The driver failed a stage.
    Cuda(CudaError, Stage),
    /// The output is wrong.
    Wrong(Stage),
    /// Nobody listens any more.
    Deaf(BenchError),
}

impl From<BenchError> for Stop {
    fn from(error: BenchError) -> Self {
        Self::Deaf(error)
    }
}

impl Paths<'_, '_> {
    /// Carries one path out and reports it. Whether the context still works afterwards.
    pub(super) fn carry_out(&mut self, task: &Task) -> Result<bool, BenchError> {
        let mut result = PathResult::new(&task.cell, Outcome::Pass);
        result.loaded.driver.clone_from(&self.gpu.file);
        // Everything that the path loaded is freed before it is reported: a crash in that is this path's.
        let mut usable = true;
        match self.stages(task, &mut result) {
            Ok(()) => {}
            Err(Stop::As(outcome)) => result.outcome = outcome,
            Err(Stop::Skip(reason)) => {
                result.outcome = Outcome::Skip;
                result.reason = Some(reason);
            }
            Err(Stop::Fail(failure)) => fail(&mut result, failure),
            Err(Stop::Cuda(error, stage)) => {
                usable = !error.is_sticky();
                fail(&mut result, error.at(stage));
            }
            Err(Stop::Wrong(stage)) => {
                result.outcome = Outcome::WrongResult;
                result.stage = Some(stage);
                result.reason = result.bits.as_ref().map(wrong);
            }
            Err(Stop::Deaf(error)) => return Err(error),
        }
        // Some codes do not tell that the context is gone.
        if result.outcome == Outcome::Fail
            && usable
            && let Some(session) = &self.session
        {
            usable = session.stream.synchronize().is_ok();
        }
        self.emitter.path(result)?;
        Ok(usable)
    }

    fn stages(&mut self, task: &Task, result: &mut PathResult) -> Result<(), Stop> {
        if let Some(failure) = self.gpu.failure.clone() {
            self.emitter.stage(&task.cell, Stage::DriverInit)?;
            return Err(Stop::Fail(failure));
        }
        self.emitter.stage(&task.cell, Stage::Build)?;
        let built = self.build(task, result)?;
        result.timings.build_ms = built.build_ms;
        let form = task.path.form;
        let mut inspected = inspect(&built, form, &self.request.kernel.entry);
        result.artifact = Some(inspected.artifact.clone());
        if built.bytes.len() <= MAX_SENT {
            result.artifact_base64 = Some(STANDARD.encode(&built.bytes));
        }
        self.launch(task, &built, &mut inspected, result)
    }

    fn build(&mut self, task: &Task, result: &mut PathResult) -> Result<Built, Stop> {
        let Request { kernel, toolkit, work, .. } = self.request;
        let built = match task.path.family {
            Family::Driver => prebuilt::take(kernel, task.path.form),
            Family::Nvrtc => {
                let sought = self.nvrtc.get_or_insert_with(|| seek_nvrtc(self.request));
                result.loaded.nvrtc.clone_from(&sought.0);
                match &sought.1 {
                    Ok(nvrtc) => compile(nvrtc, self.request, task),
                    Err(error) => Err(error.clone()),
                }
            }
            Family::CudaCore | Family::Cupy | Family::Numba | Family::Pycuda => {
                Err(NotBuilt::fail("the request brings no stack of Python packages"))
            }
            Family::Nvcc => {
                let sought =
                    self.nvcc.get_or_insert_with(|| Nvcc::find(&toolkit.roots, toolkit.version, &toolkit.hashes, work));
                result.loaded.nvcc.clone_from(&sought.0);
                match &sought.1 {
                    Ok(nvcc) => nvcc.build(kernel, task.path.form, task.arch, work),
                    Err(error) => Err(error.clone()),
                }
            }
        };
        built.map_err(|error| match error {
            NotBuilt::Skip(reason) => Stop::Skip(reason),
            NotBuilt::Fail { code, reason, detail } => {
                Stop::Fail(Failure { stage: Stage::Build, code, reason, detail })
            }
        })
    }

    fn launch(
        &mut self,
        task: &Task,
        built: &Built,
        inspected: &mut Inspected,
        result: &mut PathResult,
    ) -> Result<(), Stop> {
        let cell = &task.cell;
        let Self { request, emitter, session, gpu, .. } = self;
        let unfit = |stage, reason: String| Stop::Fail(Failure { stage, code: None, reason, detail: None });
        let Some(session) = session else {
            return Err(match &inspected.error {
                Some(error) => unfit(Stage::Build, error.to_string()),
                None => Stop::As(Outcome::Built),
            });
        };

        emitter.stage(cell, Stage::Load)?;
        if let Some(error) = inspected.refusal() {
            return Err(unfit(Stage::Load, format!("{error} (the driver was not given it)")));
        }
        let started = Instant::now();
        let module = session.context.load(&built.bytes).map_err(|error| Stop::Cuda(error, Stage::Load))?;
        let load = started.elapsed();

        emitter.stage(cell, Stage::GetFunction)?;
        let Ok(entry) = CString::new(request.kernel.entry.as_str()) else {
            return Err(unfit(Stage::GetFunction, "the kernel's entry has a zero byte in its name".into()));
        };
        let started = Instant::now();
        let function = module.function(&entry).map_err(|error| Stop::Cuda(error, Stage::GetFunction))?;
        result.timings.load_ms = Some((load + started.elapsed()).as_secs_f64() * 1e3);
        inspected.learn(function.resources());
        result.artifact = Some(inspected.artifact.clone());
        let Some(bench) = &mut session.bench else { return Err(Stop::As(Outcome::Loaded)) };
        let (context, stream) = (session.context, &session.stream);
        let launch_over = |bench: &Bench<'_>, n| function.launch_over(bench.arguments(), n, bench.launch.block, stream);
        let launch = |bench: &Bench<'_>| launch_over(bench, bench.launch.n);

        emitter.stage(cell, Stage::FirstLaunch)?;
        let at = |stage| move |error| Stop::Cuda(error, stage);
        bench.poison(stream).map_err(at(Stage::FirstLaunch))?;
        let started = Instant::now();
        launch(bench).and_then(|()| stream.synchronize()).map_err(at(Stage::FirstLaunch))?;
        result.timings.first_ms = Some(started.elapsed().as_secs_f64() * 1e3);
        result.gpu = gpu.facts.as_ref().map(|facts| facts.uuid.clone());

        emitter.stage(cell, Stage::Verify)?;
        let bits = bench.compare(stream).map_err(at(Stage::Verify))?;
        keep(bits, Stage::Verify, result)?;

        emitter.stage(cell, Stage::Steady)?;
        // Again, so that the second comparison shows what the timed launches wrote.
        bench.poison(stream).map_err(at(Stage::Steady))?;
        let wanted = request.measure;
        let mean_ms = measure::mean_ms(context, stream, wanted, || launch(bench)).map_err(at(Stage::Steady))?;

        emitter.stage(cell, Stage::VerifyAfter)?;
        let bits = bench.compare(stream).map_err(at(Stage::VerifyAfter))?;
        // A time of wrong results is no time: it is put in only now.
        keep(bits, Stage::VerifyAfter, result)?;
        result.timings.mean_ms = mean_ms;
        // Only now: these launches write over what has just been compared.
        let few = request.launches.n.min(bench.launch.n);
        let launch_ms = measure::launch_ms(stream, request.launches, || launch_over(bench, few));
        result.timings.launch_ms = launch_ms.map_err(at(Stage::VerifyAfter))?;
        result.timings.gbps = mean_ms.map(|mean_ms| measure::gbps(bench.launch, mean_ms));
        result.timings.warmup = Some(wanted.warmup);
        result.timings.timed = Some(wanted.timed);
        Ok(())
    }
}

fn fail(result: &mut PathResult, failure: Failure) {
    result.outcome = Outcome::Fail;
    result.stage = Some(failure.stage);
    result.code = failure.code;
    result.reason = Some(failure.reason);
    result.detail = failure.detail;
}

fn keep(bits: Bits, stage: Stage, result: &mut PathResult) -> Result<(), Stop> {
    let right = bits.mismatches == 0;
    result.bits = Some(bits);
    if right { Ok(()) } else { Err(Stop::Wrong(stage)) }
}

fn wrong(bits: &Bits) -> String {
    let first = bits.first.as_ref().map(|first| {
        format!(": at index {} it is {}, and one float32 addition gives {}", first.index, first.got, first.want)
    });
    format!("{} of {} elements have the wrong bits{}", bits.mismatches, bits.checked, first.unwrap_or_default())
}

fn seek_nvrtc(request: &Request) -> Sought<Nvrtc> {
    let toolkit = &request.toolkit;
    let found = match nvrtc::find(&toolkit.roots, toolkit.version) {
        Ok(found) => found,
        Err(error) => return (None, Err(NotBuilt::Skip(error.to_string()))),
    };
    let (file, opened) = Nvrtc::open(&found, toolkit.version, &toolkit.hashes);
    (file, opened.map_err(|error| NotBuilt::fail(error.to_string())))
}

fn compile(nvrtc: &Nvrtc, request: &Request, task: &Task) -> Result<Built, NotBuilt> {
    let kernel = &request.kernel;
    let Some(source) = &kernel.source else {
        return Err(NotBuilt::Skip(format!("the kernel {} has no source to compile", kernel.name)));
    };
    let form = task.path.form;
    let target = if form == Form::Ptx { task.arch.compute() } else { task.arch.sm() };
    let mut options = vec![format!("--gpu-architecture={target}")];
    options.extend_from_slice(&kernel.options);
    let started = Instant::now();
    let bytes = nvrtc
        .compile(&format!("{}.cu", kernel.name), source, &options, form)
        .map_err(|NotCompiled { code, reason, log }| NotBuilt::Fail { code, reason, detail: log })?;
    let build_ms = Some(started.elapsed().as_secs_f64() * 1e3);
    Ok(Built { bytes, producer: Some(nvrtc.producer()), build_ms })
}
