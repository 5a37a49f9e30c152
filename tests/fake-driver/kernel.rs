//! What the shipped kernels compute, by entry name.
//! The main function is [`run`].
#![expect(unsafe_code, reason = "a kernel reads its parameters and works on raw memory, as on a GPU")]

use std::ffi::c_void;

use crate::code::Code;
use crate::state::State;

/// How a kernel's output is to be spoilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoil {
    /// Not at all.
    No,
    /// The lowest bit of this element, or of the one in the middle, is flipped.
    Bit(Option<u64>),
    /// Nothing is written.
    NoWrite,
}

/// Runs the kernel with this entry name over `threads` threads in all, along x.
///
/// The error is the one that the GPU would report: at the next synchronisation, not at the launch.
///
/// # Safety
/// `parameters` points to as many pointers to parameters as the kernel has.
pub(crate) unsafe fn run(
    name: &str,
    state: &State,
    threads: u64,
    parameters: *mut *mut c_void,
    spoil: Spoil,
) -> Result<(), Code> {
    match name {
        // SAFETY: the caller's promise, for the four parameters of vectorAdd.
        "vectorAdd" => unsafe { vector_add(state, threads, parameters, spoil) },
        // An entry that is not shipped cannot be computed here; a wrong answer would be worse than a failed launch.
        _ => Err(Code::LAUNCH_FAILED),
    }
}

/// `vectorAdd(const float* a, const float* b, float* out, unsigned long long n)`.
unsafe fn vector_add(state: &State, threads: u64, parameters: *mut *mut c_void, spoil: Spoil) -> Result<(), Code> {
    let mut values = [0_u64; 4];
    for (place, value) in values.iter_mut().enumerate() {
        // SAFETY: the caller gives four pointers, each to an eight-byte value; they need not be aligned.
        *value = unsafe { parameters.add(place).read_unaligned().cast::<u64>().read_unaligned() };
    }
    let [a, b, out, n] = values;
    if [a, b, out].iter().any(|address| address % 4 != 0) {
        return Err(Code::MISALIGNED_ADDRESS);
    }
    let count = n.min(threads);
    if count == 0 {
        return Ok(());
    }
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(4)).ok_or(Code::ILLEGAL_ADDRESS)?;
    let floats = |address| state.memory(address, bytes).map(<*mut u8>::cast::<f32>).ok_or(Code::ILLEGAL_ADDRESS);
    let (a, b, out) = (floats(a)?, floats(b)?, floats(out)?);
    if spoil == Spoil::NoWrite {
        return Ok(());
    }
    let count = bytes / 4;
    let mut i = 0;
    // A plain loop over pointers: a test build is not optimised, and iterators would make each launch take a second.
    while i < count {
        // SAFETY: i is below the count of floats that all three live blocks hold from these aligned pointers on.
        // The blocks may overlap, as they may on a GPU, so no references are made.
        unsafe { out.add(i).write(*a.add(i) + *b.add(i)) };
        i += 1;
    }
    if let Spoil::Bit(index) = spoil {
        let index = index.and_then(|index| usize::try_from(index).ok()).unwrap_or(count / 2) % count;
        // SAFETY: the index is below the count.
        let element = unsafe { &mut *out.add(index) };
        *element = f32::from_bits(element.to_bits() ^ 1);
    }
    Ok(())
}
