//! Device memory. The main type is [`Buffer`]. All its work is in a stream and waited for, so that it cannot overtake
//! a launch.
#![expect(unsafe_code, reason = "passes addresses of device memory that it owns")]

use std::marker::PhantomData;

use cudarc::driver::sys::CUdeviceptr;

use super::call::Calls;
use super::context::Context;
use super::error::CudaError;
use super::stream::Stream;

/// Device memory.
pub(in crate::bench) struct Buffer<'c> {
    calls: &'static Calls,
    pub(super) at: CUdeviceptr,
    pub(super) bytes: usize,
    context: PhantomData<&'c Context>,
}

impl<'c> Buffer<'c> {
    pub(super) fn allocate(context: &'c Context, bytes: usize) -> Result<Self, CudaError> {
        let calls = context.calls();
        Ok(Self { calls, at: calls.allocate(bytes)?, bytes, context: PhantomData })
    }

    /// Copies as much of `from` as there is room for, and waits.
    pub(in crate::bench) fn write(&self, from: &[u8], stream: &Stream<'c>) -> Result<(), CudaError> {
        let from = &from[..from.len().min(self.bytes)];
        // SAFETY: it fits, and `from` is borrowed until the stream is synchronised; if that fails, nothing runs.
        unsafe { self.calls.copy_in(self.at, from, stream.raw) }?;
        stream.synchronize()
    }

    /// Copies as much into `to` as there is, and waits.
    pub(in crate::bench) fn read(&self, to: &mut [u8], stream: &Stream<'c>) -> Result<(), CudaError> {
        let end = to.len().min(self.bytes);
        // SAFETY: there are as many bytes, and `to` is borrowed until the stream is synchronised.
        unsafe { self.calls.copy_out(&mut to[..end], self.at, stream.raw) }?;
        stream.synchronize()
    }

    /// Fills it with a word of four bytes, and waits.
    pub(in crate::bench) fn fill(&self, word: u32, stream: &Stream<'c>) -> Result<(), CudaError> {
        // SAFETY: so many words fit.
        unsafe { self.calls.fill(self.at, word, self.bytes / 4, stream.raw) }?;
        stream.synchronize()
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: this is its owner, and the last use.
        let _ = unsafe { self.calls.free(self.at) };
    }
}
