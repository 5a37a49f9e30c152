//! Launching a function. It runs before the call returns; what it did wrong shows at the next synchronisation.
#![expect(unsafe_code, reason = "exports a C function that hands the caller's parameters to a kernel")]

use std::ffi::{c_uint, c_void};

use super::finish;
use crate::code::{Code, Stop};
use crate::config::Config;
use crate::fault::Kind;
use crate::kernel::{self, Spoil};
use crate::state::{Call, Function, Pending};

/// The most threads in a block.
const BLOCK: u64 = 1024;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: *mut c_void,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Code {
    let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared_bytes };
    // The other way to pass parameters is not served.
    let fits = shape.fits() && extra.is_null() && !parameters.is_null();
    // SAFETY: the caller gives a pointer for each parameter of the function.
    finish(unsafe { launch(function.addr(), fits, shape.threads_x(), stream.addr(), parameters) })
}

struct Shape {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
}

impl Shape {
    fn fits(&self) -> bool {
        let [x, y, z] = self.grid;
        let grid = (1..=0x7FFF_FFFF).contains(&x) && (1..=65_535).contains(&y) && (1..=65_535).contains(&z);
        let threads: u64 = self.block.iter().map(|side| u64::from(*side)).product();
        grid && (1..=BLOCK).contains(&threads) && self.block[2] <= 64 && self.shared_bytes <= 48 << 10
    }

    fn threads_x(&self) -> u64 {
        u64::from(self.grid[0]) * u64::from(self.block[0])
    }
}

/// # Safety
/// `parameters` points to a pointer for each parameter of the function.
unsafe fn launch(
    handle: usize,
    fits: bool,
    threads: u64,
    stream: usize,
    parameters: *mut *mut c_void,
) -> Result<(), Stop> {
    let mut call = Call::inside()?;
    let config = call.config;
    let state = call.state();
    let is_stream = state.is_stream(stream);
    let function = state.functions.get_mut(&handle).filter(|_| is_stream).ok_or(Code::INVALID_HANDLE)?;
    if !fits {
        return Err(Code::INVALID_VALUE.into());
    }
    function.launches += 1;
    let function = function.clone();
    let met = |kind| config.fault(kind, &function.origin).is_some();
    if met(Kind::CrashLaunch) {
        return Err(Stop::Abort);
    }
    // Behind a kernel that never ends, or one that failed, nothing runs.
    if state.pending.is_none() {
        // SAFETY: the caller's promise.
        let ran =
            unsafe { kernel::run(&function.entry.name, state, threads, parameters, spoil(config, &function, threads)) };
        let after = [
            (Kind::HangLaunch, Pending::Hang),
            (Kind::Sticky, Pending::Error(Code::ILLEGAL_ADDRESS)),
            (Kind::Lost, Pending::Error(Code::UNKNOWN)),
        ];
        let fault = after.into_iter().find(|(kind, _)| met(*kind)).map(|(_, pending)| pending);
        state.pending = fault.or(ran.err().map(Pending::Error));
    }
    Ok(())
}

/// Threads of a launch that is not large: a thousand elements in blocks of 256.
const SMALL: u64 = 1024;

fn spoil(config: &Config, function: &Function, threads: u64) -> Spoil {
    let fault = |kind| config.fault(kind, &function.origin);
    let late = fault(Kind::WrongBitLate).filter(|_| function.launches > 1);
    let large = fault(Kind::WrongBitLarge).filter(|_| function.launches > 1 && threads > SMALL);
    match fault(Kind::WrongBit).or(late).or(large) {
        _ if fault(Kind::NoWrite).is_some() => Spoil::NoWrite,
        Some(fault) => Spoil::Bit(fault.index),
        None => Spoil::No,
    }
}
