//! The driver's result codes: numbers, names and texts, as `cuda.h` has them.
//! The main types are [`Code`] and [`Stop`], the ways in which a call does not end well.

use std::ffi::CStr;

/// A `CUresult`.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u32);

impl Code {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const INVALID_VALUE: Self = Self(1);
    pub(crate) const OUT_OF_MEMORY: Self = Self(2);
    pub(crate) const NOT_INITIALIZED: Self = Self(3);
    pub(crate) const STUB_LIBRARY: Self = Self(34);
    pub(crate) const NO_DEVICE: Self = Self(100);
    pub(crate) const INVALID_DEVICE: Self = Self(101);
    pub(crate) const INVALID_IMAGE: Self = Self(200);
    pub(crate) const INVALID_CONTEXT: Self = Self(201);
    pub(crate) const NO_BINARY_FOR_GPU: Self = Self(209);
    pub(crate) const INVALID_PTX: Self = Self(218);
    pub(crate) const UNSUPPORTED_PTX_VERSION: Self = Self(222);
    pub(crate) const JIT_COMPILATION_DISABLED: Self = Self(223);
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    pub(crate) const NOT_FOUND: Self = Self(500);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const ILLEGAL_ADDRESS: Self = Self(700);
    pub(crate) const CONTEXT_IS_DESTROYED: Self = Self(709);
    pub(crate) const MISALIGNED_ADDRESS: Self = Self(716);
    pub(crate) const LAUNCH_FAILED: Self = Self(719);
    pub(crate) const SYSTEM_DRIVER_MISMATCH: Self = Self(803);
    pub(crate) const UNKNOWN: Self = Self(999);
}

/// Why a call does not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It gives this code.
    Code(Code),
    /// It never returns.
    Hang,
    /// The process dies of SIGSEGV.
    Segfault,
    /// The process dies of SIGABRT.
    Abort,
}

impl From<Code> for Stop {
    fn from(code: Code) -> Self {
        Self::Code(code)
    }
}

/// The codes that this driver gives, in the order of their numbers.
const CODES: [(Code, &CStr, &CStr); 22] = [
    (Code::SUCCESS, c"CUDA_SUCCESS", c"no error"),
    (Code::INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (Code::OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (Code::NOT_INITIALIZED, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (Code::STUB_LIBRARY, c"CUDA_ERROR_STUB_LIBRARY", c"CUDA driver is a stub library"),
    (Code::NO_DEVICE, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (Code::INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (Code::INVALID_IMAGE, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid"),
    (Code::INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (
        Code::NO_BINARY_FOR_GPU,
        c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        c"no kernel image is available for execution on the device",
    ),
    (Code::INVALID_PTX, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
    (
        Code::UNSUPPORTED_PTX_VERSION,
        c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        c"the provided PTX was compiled with an unsupported toolchain.",
    ),
    (Code::JIT_COMPILATION_DISABLED, c"CUDA_ERROR_JIT_COMPILATION_DISABLED", c"PTX JIT compilation was disabled"),
    (Code::INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (Code::NOT_FOUND, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (Code::NOT_READY, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (Code::ILLEGAL_ADDRESS, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (Code::CONTEXT_IS_DESTROYED, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed"),
    (Code::MISALIGNED_ADDRESS, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
    (Code::LAUNCH_FAILED, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (
        Code::SYSTEM_DRIVER_MISMATCH,
        c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        c"system has unsupported display driver / cuda driver combination",
    ),
    (Code::UNKNOWN, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

/// A code's name and text; nothing for a number that this driver never gives.
pub(crate) fn describe(code: u32) -> Option<(&'static CStr, &'static CStr)> {
    CODES.iter().find(|row| row.0.0 == code).map(|row| (row.1, row.2))
}
