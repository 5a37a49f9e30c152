//! The functions of libnvrtc, as they are. The main type is [`Table`].
//!
//! They return their code as a plain number, as those of libcuda do: cudarc's `nvrtcResult` is an enum, and a code
//! that is newer than its bindings would be undefined behaviour.
#![expect(unsafe_code, reason = "symbols of a foreign library have the types that its header gives them")]

use std::ffi::{c_char, c_int};
use std::path::Path;

use cudarc::nvrtc::sys::nvrtcProgram;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// What most functions return.
pub(super) type Status = i32;

macro_rules! table {
    ($($field:ident = $symbol:literal ($($argument:ty),*) -> $answer:ty;)*) => {
        /// libnvrtc's functions.
        pub(super) struct Table {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> $answer,)*
            // Never closed: unloading a compiler of 100 MB gains nothing and is a way to crash.
            _library: Library,
        }

        impl Table {
            /// Looks every function up; the error is the symbol that is missing.
            pub(super) fn read(library: Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $(
                        // SAFETY: the type is that of this symbol in nvrtc.h, the same from 11.2 to 13.
                        $field: *unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> $answer>($symbol) }
                            .map_err(|_| $symbol)?,
                    )*
                    _library: library,
                })
            }
        }
    };
}

table! {
    version = "nvrtcVersion" (*mut c_int, *mut c_int) -> Status;
    error_string = "nvrtcGetErrorString" (Status) -> *const c_char;
    create = "nvrtcCreateProgram" (
        *mut nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
    ) -> Status;
    destroy = "nvrtcDestroyProgram" (*mut nvrtcProgram) -> Status;
    compile = "nvrtcCompileProgram" (nvrtcProgram, c_int, *const *const c_char) -> Status;
    ptx_size = "nvrtcGetPTXSize" (nvrtcProgram, *mut usize) -> Status;
    ptx = "nvrtcGetPTX" (nvrtcProgram, *mut c_char) -> Status;
    cubin_size = "nvrtcGetCUBINSize" (nvrtcProgram, *mut usize) -> Status;
    cubin = "nvrtcGetCUBIN" (nvrtcProgram, *mut c_char) -> Status;
    log_size = "nvrtcGetProgramLogSize" (nvrtcProgram, *mut usize) -> Status;
    log = "nvrtcGetProgramLog" (nvrtcProgram, *mut c_char) -> Status;
}

/// Opens a library by its path, with everything it needs.
pub(super) fn open(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: NVRTC's initialisers may run at any time in a process; it is never closed.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
}
