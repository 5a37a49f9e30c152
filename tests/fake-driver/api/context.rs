//! Primary contexts: retained and released by count, current by thread.
#![expect(unsafe_code, reason = "exports C functions that write to the caller's pointers")]

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use super::device::gpu;
use super::{finish, put};
use crate::code::{Code, Stop};
use crate::state::{Call, current, set_current};

/// A context's handle is an address that nothing is at: this one and the device's ordinal.
const FIRST: usize = 0xC0_0000;

fn handle(device: Option<usize>) -> *mut c_void {
    device.map_or(ptr::null_mut(), |device| ptr::without_provenance_mut(FIRST + device))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> Code {
    // SAFETY: the caller gives room for a handle, or null.
    finish(retain(device).and_then(|device| unsafe { put(context, handle(Some(device))) }))
}

fn retain(device: c_int) -> Result<usize, Stop> {
    let mut call = Call::outside(true)?;
    let (ordinal, _) = gpu(&call, device)?;
    // A context with a sticky error stays so: only a new process is rid of it.
    if let Some(code) = call.state().sticky {
        return Err(code.into());
    }
    *call.state().retained.entry(ordinal).or_default() += 1;
    Ok(ordinal)
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Code {
    finish(release(device))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease(device: c_int) -> Code {
    finish(release(device))
}

fn release(device: c_int) -> Result<(), Stop> {
    let mut call = Call::outside(true)?;
    let (ordinal, _) = gpu(&call, device)?;
    let state = call.state();
    match state.retained.get_mut(&ordinal) {
        Some(count @ 1..) => *count -= 1,
        _ => return Err(Code::INVALID_CONTEXT.into()),
    }
    if state.retained.values().all(|count| *count == 0) {
        state.destroy_context();
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> Code {
    finish(make_current(context))
}

fn make_current(context: *mut c_void) -> Result<(), Stop> {
    let mut call = Call::outside(true)?;
    if context.is_null() {
        set_current(None);
        return Ok(());
    }
    let device = context.addr().checked_sub(FIRST).ok_or(Code::INVALID_CONTEXT)?;
    match call.state().retained.get(&device) {
        Some(1..) => set_current(Some(device)),
        _ => return Err(Code::INVALID_CONTEXT.into()),
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut *mut c_void) -> Code {
    // SAFETY: the caller gives room for a handle, or null.
    finish(Call::outside(true).and_then(|_| unsafe { put(context, handle(current())) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> Code {
    finish(Call::synchronizing().map(drop))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetApiVersion(_context: *mut c_void, version: *mut c_uint) -> Code {
    // The API version of every driver since CUDA 4.
    const API: c_uint = 3020;
    // SAFETY: the caller gives room for a number, or null.
    finish(Call::inside().and_then(|_| unsafe { put(version, API) }))
}
