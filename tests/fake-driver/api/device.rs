//! What can be asked of a GPU without a context.
#![expect(unsafe_code, reason = "exports C functions that write to the caller's pointers")]

use std::ffi::{c_char, c_int, c_uint};

use super::{finish, put};
use crate::code::{Code, Stop};
use crate::gpu::Gpu;
use crate::state::Call;

/// The GPU with this handle, which is its ordinal.
pub(super) fn gpu(call: &Call, device: c_int) -> Result<(usize, &'static Gpu), Stop> {
    let ordinal = usize::try_from(device).ok();
    let found = ordinal.and_then(|ordinal| Some((ordinal, call.config.gpus.get(ordinal)?)));
    found.ok_or_else(|| Code::INVALID_DEVICE.into())
}

fn ask<T>(device: c_int, answer: impl FnOnce(&'static Gpu) -> Option<T>) -> Result<T, Stop> {
    let (_, gpu) = gpu(&Call::outside(true)?, device)?;
    answer(gpu).ok_or_else(|| Code::INVALID_VALUE.into())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    let number = Call::outside(true).map(|call| c_int::try_from(call.config.gpus.len()).unwrap_or(c_int::MAX));
    // SAFETY: the caller gives room for a number, or null.
    finish(number.and_then(|number| unsafe { put(count, number) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    // SAFETY: the caller gives room for a handle, or null.
    finish(ask(ordinal, |_| Some(ordinal)).and_then(|handle| unsafe { put(device, handle) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> Code {
    finish(ask(device, |gpu| Some(gpu.model.name)).and_then(|text| {
        let room = usize::try_from(length).ok().filter(|room| *room > 0 && !name.is_null());
        let room = room.ok_or(Code::INVALID_VALUE)?;
        let bytes = text.bytes().take(room - 1).chain([0]);
        for (place, byte) in bytes.enumerate() {
            // SAFETY: at most `room` bytes are written, and the caller gives as many.
            unsafe { name.add(place).cast::<u8>().write(byte) };
        }
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> Code {
    // SAFETY: the caller gives room for sixteen bytes, or null.
    finish(ask(device, |gpu| Some(gpu.uuid)).and_then(|bytes| unsafe { put(uuid, bytes) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> Code {
    // SAFETY: the caller's promise is the same.
    unsafe { cuDeviceGetUuid(uuid, device) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) -> Code {
    // SAFETY: the caller gives room for a number, or null.
    finish(ask(device, |gpu| gpu.attribute(attribute)).and_then(|number| unsafe { put(value, number) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> Code {
    // SAFETY: the caller gives room for a size, or null.
    finish(ask(device, |gpu| Some(gpu.model.memory)).and_then(|number| unsafe { put(bytes, number) }))
}
