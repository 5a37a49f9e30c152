//! Streams. All work is done when it is given, so a stream is only a handle that must be right.
#![expect(unsafe_code, reason = "exports C functions that write to the caller's pointers")]

use std::ffi::{c_uint, c_void};
use std::ptr;

use super::{finish, put};
use crate::code::{Code, Stop};
use crate::state::Call;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) -> Code {
    // SAFETY: the caller gives room for a handle, or null.
    finish(create(flags).and_then(|handle| unsafe { put(stream, ptr::without_provenance_mut(handle)) }))
}

fn create(flags: c_uint) -> Result<usize, Stop> {
    // CU_STREAM_DEFAULT and CU_STREAM_NON_BLOCKING.
    if flags > 1 {
        return Err(Code::INVALID_VALUE.into());
    }
    let mut call = Call::inside()?;
    let handle = call.state().handle();
    call.state().streams.insert(handle);
    Ok(handle)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: *mut c_void) -> Code {
    finish(Call::inside().and_then(|mut call| {
        let known = call.state().streams.remove(&stream.addr());
        if known { Ok(()) } else { Err(Code::INVALID_HANDLE.into()) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: *mut c_void) -> Code {
    finish(check(stream).and_then(|()| Call::synchronizing().map(drop)))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: *mut c_void) -> Code {
    finish(check(stream).and_then(|()| match Call::synchronizing() {
        Err(Stop::Hang) => Err(Code::NOT_READY.into()),
        other => other.map(drop),
    }))
}

fn check(stream: *mut c_void) -> Result<(), Stop> {
    let known = Call::inside()?.state().is_stream(stream.addr());
    if known { Ok(()) } else { Err(Code::INVALID_HANDLE.into()) }
}
