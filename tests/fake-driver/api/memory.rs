//! Device memory: allocated, freed, filled, copied. Every range is checked against the live allocations.
#![expect(unsafe_code, reason = "exports C functions that copy between the caller's memory and the device's")]

use std::ffi::{c_uchar, c_uint, c_void};
use std::ptr;

use super::{finish, put};
use crate::code::{Code, Stop};
use crate::fault::Kind;
use crate::memory::Block;
use crate::state::Call;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, length: usize) -> Code {
    // SAFETY: the caller gives room for an address, or null.
    finish(allocate(length).and_then(|at| unsafe { put(address, at) }))
}

fn allocate(length: usize) -> Result<u64, Stop> {
    let mut call = Call::inside()?;
    if length == 0 {
        return Err(Code::INVALID_VALUE.into());
    }
    let total = call.gpu()?.model.memory;
    let fits = call.state().allocated().checked_add(length).is_some_and(|sum| sum <= total);
    if !fits || call.config.has(Kind::Oom) {
        return Err(Code::OUT_OF_MEMORY.into());
    }
    let block = Block::new(length).ok_or(Code::OUT_OF_MEMORY)?;
    let address = block.address();
    call.state().blocks.insert(address, block);
    Ok(address)
}

/// Waits for the GPU first, as the real one does.
#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> Code {
    finish(Call::synchronizing().and_then(|mut call| {
        // Freeing null is allowed.
        let known = address == 0 || call.state().blocks.remove(&address).is_some();
        if known { Ok(()) } else { Err(Code::INVALID_VALUE.into()) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    let sizes = Call::inside().and_then(|mut call| {
        let total = call.gpu()?.model.memory;
        Ok((total.saturating_sub(call.state().allocated()), total))
    });
    // SAFETY: the caller gives room for two sizes, or null.
    finish(sizes.and_then(|sizes| unsafe { put(free, sizes.0).and(put(total, sizes.1)) }))
}

/// Which way a copy goes.
enum Copy {
    In(*const c_void),
    Out(*mut c_void),
}

/// # Safety
/// The host pointer has `length` bytes.
unsafe fn copy(mut call: Call, device: u64, length: usize, way: &Copy) -> Result<(), Stop> {
    if length == 0 {
        return Ok(());
    }
    let at = call.state().memory(device, length).ok_or(Code::INVALID_VALUE)?;
    match *way {
        Copy::In(from) if from.is_null() => return Err(Code::INVALID_VALUE.into()),
        Copy::Out(to) if to.is_null() => return Err(Code::INVALID_VALUE.into()),
        // SAFETY: the block is live under the lock, the caller gives `length` bytes; `ptr::copy` allows overlap.
        Copy::In(from) => unsafe { ptr::copy(from.cast::<u8>(), at, length) },
        // SAFETY: as above.
        Copy::Out(to) => unsafe { ptr::copy(at, to.cast::<u8>(), length) },
    }
    Ok(())
}

/// A call in a stream that exists.
fn in_stream(call: Result<Call, Stop>, stream: *mut c_void) -> Result<Call, Stop> {
    let mut call = call?;
    if call.state().is_stream(stream.addr()) { Ok(call) } else { Err(Code::INVALID_HANDLE.into()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, length: usize) -> Code {
    // SAFETY: the caller gives `length` bytes.
    finish(Call::synchronizing().and_then(|call| unsafe { copy(call, to, length, &Copy::In(from)) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, length: usize) -> Code {
    // SAFETY: the caller has room for `length` bytes.
    finish(Call::synchronizing().and_then(|call| unsafe { copy(call, from, length, &Copy::Out(to)) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, length: usize, stream: *mut c_void) -> Code {
    let call = in_stream(Call::inside(), stream);
    // SAFETY: the caller gives `length` bytes.
    finish(call.and_then(|call| unsafe { copy(call, to, length, &Copy::In(from)) }))
}

/// Returns when the copy is done, since the host's memory is pageable: so it waits for the launches before it.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, length: usize, stream: *mut c_void) -> Code {
    let call = in_stream(Call::synchronizing(), stream);
    // SAFETY: the caller has room for `length` bytes.
    finish(call.and_then(|call| unsafe { copy(call, from, length, &Copy::Out(to)) }))
}

fn fill<T: Clone>(mut call: Call, to: u64, value: T, count: usize) -> Result<(), Stop> {
    let length = count.checked_mul(size_of::<T>()).ok_or(Code::INVALID_VALUE)?;
    if length == 0 {
        return Ok(());
    }
    let at = call.state().memory(to, length).map(<*mut u8>::cast::<T>).filter(|at| at.is_aligned());
    let at = at.ok_or(Code::INVALID_VALUE)?;
    // SAFETY: `count` aligned values of plain numbers lie in a live block, and the lock is held.
    unsafe { std::slice::from_raw_parts_mut(at, count) }.fill(value);
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(to: u64, value: c_uchar, count: usize) -> Code {
    finish(Call::inside().and_then(|call| fill(call, to, value, count)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32_v2(to: u64, value: c_uint, count: usize) -> Code {
    finish(Call::inside().and_then(|call| fill(call, to, value, count)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: u64, value: c_uchar, count: usize, stream: *mut c_void) -> Code {
    finish(in_stream(Call::inside(), stream).and_then(|call| fill(call, to, value, count)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(to: u64, value: c_uint, count: usize, stream: *mut c_void) -> Code {
    finish(in_stream(Call::inside(), stream).and_then(|call| fill(call, to, value, count)))
}
