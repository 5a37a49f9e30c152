//! The exported functions, with the signatures of `cuda.h`: each checks what it is given, does its work under the
//! driver's one lock, and answers with a code.
//! The main function is [`finish`], where a call ends.
#![expect(unsafe_code, reason = "writes to the caller's pointers and raises the signals of a crash")]

mod context;
mod device;
mod driver;
mod event;
mod launch;
mod memory;
mod module;
mod stream;

use std::ffi::c_int;
use std::thread;
use std::time::Duration;

use crate::code::{Code, Stop};

const SIGSEGV: c_int = 11;
const SIG_DFL: usize = 0;

unsafe extern "C" {
    fn raise(signal: c_int) -> c_int;
    fn signal(signal: c_int, handler: usize) -> usize;
}

/// Ends a call. The lock is not held any more: the result has no borrow of it.
fn finish(result: Result<(), Stop>) -> Code {
    match result {
        Ok(()) => Code::SUCCESS,
        Err(Stop::Code(code)) => code,
        Err(Stop::Hang) => loop {
            thread::sleep(Duration::from_hours(1));
        },
        Err(Stop::Abort) => std::process::abort(),
        Err(Stop::Segfault) => {
            // SAFETY: both take numbers only. The handler that Rust installs would return, since nothing was touched.
            unsafe {
                signal(SIGSEGV, SIG_DFL);
                raise(SIGSEGV);
            }
            std::process::abort()
        }
    }
}

/// Writes an answer where the caller wants it.
///
/// # Safety
/// `to` is null or points to room for a `T`.
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Stop> {
    if to.is_null() {
        return Err(Code::INVALID_VALUE.into());
    }
    // SAFETY: it is not null, and the caller promises the rest.
    unsafe { to.write_unaligned(value) };
    Ok(())
}
