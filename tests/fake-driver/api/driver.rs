//! The driver itself: start, version, error names, loading mode, and the mark by which `ctk-bench` knows this driver
//! from NVIDIA's.
#![expect(unsafe_code, reason = "exports C functions that write to the caller's pointers")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::Write as _;
use std::{io, ptr};

use super::{finish, put};
use crate::code::{Code, Stop, describe};
use crate::config::config;
use crate::fault::Kind;
use crate::state::Call;

/// The mark. NVIDIA's driver has no such symbol; the number is the mark's own version.
#[unsafe(no_mangle)]
extern "C" fn ctk_matrix_fake_driver() -> c_int {
    1
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> Code {
    finish(init(flags))
}

fn init(flags: c_uint) -> Result<(), Stop> {
    let config = config().map_err(|why| {
        // Not to stdout, which carries the caller's frames.
        eprintln!("fake driver: {why}");
        Code::UNKNOWN
    })?;
    if config.has(Kind::Noise) {
        // Nobody can be told that stdout is closed.
        let _ = writeln!(io::stdout(), "fake driver: a library that prints on stdout");
    }
    let faults = [
        (Kind::InitHang, Stop::Hang),
        (Kind::Stub, Code::STUB_LIBRARY.into()),
        (Kind::Mismatch, Code::SYSTEM_DRIVER_MISMATCH.into()),
        (Kind::NoDevice, Code::NO_DEVICE.into()),
    ];
    if let Some((_, stop)) = faults.into_iter().find(|(kind, _)| config.has(*kind)) {
        return Err(stop);
    }
    if flags != 0 {
        return Err(Code::INVALID_VALUE.into());
    }
    if config.gpus.is_empty() {
        return Err(Code::NO_DEVICE.into());
    }
    Call::outside(false)?.state().initialized = true;
    Ok(())
}

/// Works before `cuInit`, as the real one does.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Code {
    let number = config().map(|config| config.driver.cuda_number()).map_err(|_| Code::UNKNOWN.into());
    // SAFETY: the caller gives room for a number, or null.
    finish(number.and_then(|number| unsafe { put(version, number) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: c_uint, text: *mut *const c_char) -> Code {
    // SAFETY: the caller gives room for a pointer, or null.
    finish(unsafe { tell(text, describe(error).map(|(name, _)| name)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: c_uint, text: *mut *const c_char) -> Code {
    // SAFETY: the caller gives room for a pointer, or null.
    finish(unsafe { tell(text, describe(error).map(|(_, text)| text)) })
}

/// # Safety
/// `to` is null or points to room for a pointer.
unsafe fn tell(to: *mut *const c_char, text: Option<&'static CStr>) -> Result<(), Stop> {
    // SAFETY: the caller's promise.
    unsafe { put(to, text.map_or(ptr::null(), CStr::as_ptr)) }?;
    text.map(drop).ok_or_else(|| Code::INVALID_VALUE.into())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetLoadingMode(mode: *mut c_uint) -> Code {
    let eager = Call::outside(true).map(|call| call.config.eager);
    // 1 is CU_MODULE_EAGER_LOADING, 2 is CU_MODULE_LAZY_LOADING.
    // SAFETY: the caller gives room for a number, or null.
    finish(eager.and_then(|eager| unsafe { put(mode, if eager { 1 } else { 2 }) }))
}

/// NVRTC's compile cache (12.9 on) asks for a table, and calls what it points to unless it is refused.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetExportTable(table: *mut *const c_void, _id: *const c_void) -> Code {
    // SAFETY: the caller gives room for a pointer, or null.
    finish(unsafe { put(table, ptr::null()) }.and(Err(Code::NOT_FOUND.into())))
}

/// No function is found this way: callers must do without it.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress(
    _symbol: *const c_char,
    function: *mut *mut c_void,
    _cuda_version: c_int,
    _flags: u64,
) -> Code {
    // SAFETY: the caller gives room for a pointer, or null.
    finish(unsafe { put(function, ptr::null_mut()) }.and(Err(Code::NOT_FOUND.into())))
}

/// As `cuGetProcAddress`. A missing symbol is a status here, and the call itself succeeds.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress_v2(
    _symbol: *const c_char,
    function: *mut *mut c_void,
    _cuda_version: c_int,
    _flags: u64,
    status: *mut c_uint,
) -> Code {
    // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
    const SYMBOL_NOT_FOUND: c_uint = 1;
    if !status.is_null() {
        // SAFETY: it is not null, so the caller gives room for a status.
        unsafe { status.write_unaligned(SYMBOL_NOT_FOUND) };
    }
    // SAFETY: the caller gives room for a pointer, or null.
    finish(unsafe { put(function, ptr::null_mut()) })
}
