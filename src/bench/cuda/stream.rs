//! An order of work ([`Stream`]) and points of time in it ([`Event`]).
#![expect(unsafe_code, reason = "passes foreign handles that it owns")]

use std::marker::PhantomData;

use cudarc::driver::sys::{CUevent, CUstream};

use super::call::Calls;
use super::context::Context;
use super::error::CudaError;

/// A stream that does not wait for the default stream.
pub(in crate::bench) struct Stream<'c> {
    calls: &'static Calls,
    pub(super) raw: CUstream,
    context: PhantomData<&'c Context>,
}

impl<'c> Stream<'c> {
    pub(super) fn create(context: &'c Context) -> Result<Self, CudaError> {
        let calls = context.calls();
        Ok(Self { calls, raw: calls.create_stream()?, context: PhantomData })
    }

    /// Waits until everything in it is done; errors of what ran in it come out here.
    pub(in crate::bench) fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: it lives as long as `self`.
        unsafe { self.calls.synchronize(self.raw) }
    }

    /// Marks the time at which everything before it is done.
    pub(in crate::bench) fn record(&self, event: &Event<'c>) -> Result<(), CudaError> {
        // SAFETY: both live as long as their owners.
        unsafe { self.calls.record(event.raw, self.raw) }
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        // SAFETY: this is its owner, and the last use.
        let _ = unsafe { self.calls.destroy_stream(self.raw) };
    }
}

/// A point of time in a stream.
pub(in crate::bench) struct Event<'c> {
    calls: &'static Calls,
    raw: CUevent,
    context: PhantomData<&'c Context>,
}

impl<'c> Event<'c> {
    pub(super) fn create(context: &'c Context) -> Result<Self, CudaError> {
        let calls = context.calls();
        Ok(Self { calls, raw: calls.create_event()?, context: PhantomData })
    }

    /// Milliseconds from an earlier event to this one, which is waited for.
    pub(in crate::bench) fn since(&self, start: &Event<'c>) -> Result<f64, CudaError> {
        // SAFETY: both live as long as their owners.
        unsafe {
            self.calls.await_event(self.raw)?;
            Ok(f64::from(self.calls.elapsed(start.raw, self.raw)?))
        }
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: this is its owner, and the last use.
        let _ = unsafe { self.calls.destroy_event(self.raw) };
    }
}
