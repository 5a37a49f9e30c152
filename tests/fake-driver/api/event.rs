//! Events: a real clock, read when an event is recorded.
#![expect(unsafe_code, reason = "exports C functions that write to the caller's pointers")]

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use super::{finish, put};
use crate::code::{Code, Stop};
use crate::state::{Call, Event};

/// `CU_EVENT_DISABLE_TIMING`.
const NOT_TIMED: c_uint = 2;

/// What NVIDIA's manual says of an event's resolution. No two events are nearer to each other.
const RESOLUTION: Duration = Duration::from_nanos(500);

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, flags: c_uint) -> Code {
    let handle = Call::inside().map(|mut call| {
        let state = call.state();
        let handle = state.handle();
        state.events.insert(handle, Event { timed: flags & NOT_TIMED == 0, at: None });
        ptr::without_provenance_mut(handle)
    });
    // SAFETY: the caller gives room for a handle, or null.
    finish(handle.and_then(|handle| unsafe { put(event, handle) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> Code {
    finish(Call::inside().and_then(|mut call| {
        let known = call.state().events.remove(&event.addr());
        known.map(drop).ok_or_else(|| Code::INVALID_HANDLE.into())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> Code {
    finish(record(event.addr(), stream.addr()))
}

fn record(event: usize, stream: usize) -> Result<(), Stop> {
    let mut call = Call::inside()?;
    let state = call.state();
    let is_stream = state.is_stream(stream);
    let event = state.events.get_mut(&event).filter(|_| is_stream).ok_or(Code::INVALID_HANDLE)?;
    event.at = Some(Instant::now());
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: *mut c_void) -> Code {
    finish(find(event.addr()).and_then(|_| Call::synchronizing().map(drop)))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: *mut c_void) -> Code {
    finish(find(event.addr()).and_then(|_| match Call::synchronizing() {
        Err(Stop::Hang) => Err(Code::NOT_READY.into()),
        other => other.map(drop),
    }))
}

fn find(event: usize) -> Result<Event, Stop> {
    Call::inside()?.state().events.get(&event).copied().ok_or_else(|| Code::INVALID_HANDLE.into())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: *mut c_void, end: *mut c_void) -> Code {
    // SAFETY: the caller gives room for a number, or null.
    finish(elapsed(start.addr(), end.addr()).and_then(|time| unsafe { put(milliseconds, time) }))
}

fn elapsed(start: usize, end: usize) -> Result<f32, Stop> {
    let recorded = |event: usize| match find(event)? {
        Event { timed: true, at: Some(at) } => Ok(at),
        _ => Err(Stop::from(Code::INVALID_HANDLE)),
    };
    let (start, end) = (recorded(start)?, recorded(end)?);
    // A negative time is what the driver gives for events in the wrong order.
    let time = |from: Instant, to: Instant| to.duration_since(from).max(RESOLUTION).as_secs_f32() * 1e3;
    Ok(if end >= start { time(start, end) } else { -time(end, start) })
}
