//! `ctk-bench worker`: carries the tasks out from a given one on, in one process that may die of it.

use std::path::Path;
use std::process::ExitCode;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::emit::Emitter;
use super::error::BenchError;
use super::path::Paths;
use super::session::{Gpu, HostData};
use super::{glibc, python, request};
use crate::model::matrix::Processes;
use crate::model::outcome::Stage;
use crate::model::wire::{Frame, GpuWish, Hello};

/// The status with which a worker ends itself because its context is lost, after it has reported the path.
const CONTEXT_LOST: i32 = 3;

/// Carries the request's tasks out, from index `from` on: those that are a Rust worker's and may share its process.
pub(super) fn run(path: &Path, from: usize, parent: i32) -> Result<ExitCode, BenchError> {
    die_with(parent)?;
    let request = request::read(path)?;
    let mut emitter = Emitter::new(&request.nonce)?;
    let tasks = request.tasks.get(from..).unwrap_or_default();
    // The Python libraries' tasks are their own worker's.
    let most = match request.measure.process {
        Processes::Shared => usize::MAX,
        Processes::Each => 1,
    };
    let ours = tasks.iter().take(most).take_while(|task| !python::is_ours(&request, task)).count();
    let tasks = &tasks[..ours];
    // A driver may hang or crash while it is opened; the first task is the one that this costs.
    if let (Some(first), true) = (tasks.first(), request.gpu != GpuWish::None) {
        emitter.stage(&first.cell, Stage::DriverInit)?;
    }
    let launch = request.kernel.launch.filter(|_| request.gpu != GpuWish::None && !tasks.is_empty());
    let data = launch.map(HostData::begin);
    let mut gpu = Gpu::open(&request.gpu);
    let context = gpu.context();
    let session = context.as_ref().and_then(|context| gpu.session(context, data));
    gpu.settle();
    emitter.send(&Frame::Hello(Box::new(hello(&gpu))))?;

    let mut paths = Paths { request: &request, emitter, gpu, session, nvrtc: None, nvcc: None };
    for task in tasks {
        if !paths.carry_out(task)? {
            // Without freeing anything: a lost context answers every call with an error, and some never.
            std::process::exit(CONTEXT_LOST);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What the container is, and what was found of driver and GPU.
pub(super) fn hello(gpu: &Gpu) -> Hello {
    Hello {
        bench: env!("CARGO_PKG_VERSION").into(),
        glibc: glibc::version(),
        gpu_mode: gpu.mode,
        driver: gpu.file.clone(),
        gpu: gpu.facts.clone(),
        failure: gpu.failure.clone(),
    }
}

/// A worker without its supervisor would go on for nobody.
fn die_with(parent: i32) -> Result<(), BenchError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| BenchError::System { what: "the parent's death cannot be followed", source: error.into() })?;
    // The supervisor may have died before that call.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) == Some(parent) {
        Ok(())
    } else {
        Err(BenchError::Usage(format!(
            "`worker` is started by `ctk-bench run`, and process {parent} is not the parent"
        )))
    }
}
