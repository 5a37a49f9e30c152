//! `ctk-bench probe`: says what the driver and the GPU are, in one hello frame.

use std::process::ExitCode;

use super::emit::Emitter;
use super::error::BenchError;
use super::session::Gpu;
use super::worker::hello;
use crate::model::wire::{Frame, GpuWish};

/// Opens the driver and says what it is. That there is none is an answer, and no error.
pub(super) fn run(nonce: &str, device: Option<String>) -> Result<ExitCode, BenchError> {
    let mut emitter = Emitter::new(nonce)?;
    // The caches of the JIT compiler are not touched: nothing is loaded.
    let mut gpu = Gpu::open(&device.map_or(GpuWish::First, GpuWish::Device));
    gpu.settle();
    emitter.send(&Frame::Hello(Box::new(hello(&gpu))))?;
    emitter.send(&Frame::Final { count: 0 })?;
    Ok(ExitCode::SUCCESS)
}
