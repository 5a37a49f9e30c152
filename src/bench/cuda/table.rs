//! The functions of libcuda, as they are: layer one. The main type is [`Table`].
//!
//! Every function returns its code as a plain number. With cudarc's `CUresult`, an enum, a code that is newer than its
//! bindings would be undefined behaviour, and meeting newer drivers is what this program is for.
#![expect(unsafe_code, reason = "symbols of a foreign library have the types that its header gives them")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmodule, CUstream, CUuuid};
use libloading::os::unix::Library;

/// What every function returns.
pub(super) type Status = u32;

macro_rules! table {
    ($($field:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// libcuda's functions. The names are the library's, without `cu` and version suffix.
        pub(super) struct Table {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> Status,)*
            // Never closed: the driver's threads outlive every handle.
            library: Library,
        }

        impl Table {
            /// Looks every function up; the error is the symbol that is missing.
            pub(super) fn read(library: Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $(
                        // SAFETY: the type is that of this symbol in cuda.h of CUDA 12.0, which later ones keep.
                        $field: *unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> Status>($symbol) }
                            .map_err(|_| $symbol)?,
                    )*
                    library,
                })
            }
        }
    };
}

table! {
    init = "cuInit" (c_uint);
    driver_get_version = "cuDriverGetVersion" (*mut c_int);
    get_error_name = "cuGetErrorName" (Status, *mut *const c_char);
    get_error_string = "cuGetErrorString" (Status, *mut *const c_char);
    device_get_count = "cuDeviceGetCount" (*mut c_int);
    device_get = "cuDeviceGet" (*mut CUdevice, c_int);
    device_get_name = "cuDeviceGetName" (*mut c_char, c_int, CUdevice);
    device_get_uuid = "cuDeviceGetUuid_v2" (*mut CUuuid, CUdevice);
    device_get_attribute = "cuDeviceGetAttribute" (*mut c_int, c_uint, CUdevice);
    primary_ctx_retain = "cuDevicePrimaryCtxRetain" (*mut CUcontext, CUdevice);
    primary_ctx_release = "cuDevicePrimaryCtxRelease_v2" (CUdevice);
    ctx_set_current = "cuCtxSetCurrent" (CUcontext);
    mem_alloc = "cuMemAlloc_v2" (*mut CUdeviceptr, usize);
    mem_free = "cuMemFree_v2" (CUdeviceptr);
    memcpy_htod_async = "cuMemcpyHtoDAsync_v2" (CUdeviceptr, *const c_void, usize, CUstream);
    memcpy_dtoh_async = "cuMemcpyDtoHAsync_v2" (*mut c_void, CUdeviceptr, usize, CUstream);
    memset_d32_async = "cuMemsetD32Async" (CUdeviceptr, c_uint, usize, CUstream);
    stream_create = "cuStreamCreate" (*mut CUstream, c_uint);
    stream_destroy = "cuStreamDestroy_v2" (CUstream);
    stream_synchronize = "cuStreamSynchronize" (CUstream);
    event_create = "cuEventCreate" (*mut CUevent, c_uint);
    event_destroy = "cuEventDestroy_v2" (CUevent);
    event_record = "cuEventRecord" (CUevent, CUstream);
    event_synchronize = "cuEventSynchronize" (CUevent);
    event_elapsed_time = "cuEventElapsedTime" (*mut f32, CUevent, CUevent);
    module_load_data_ex = "cuModuleLoadDataEx" (*mut CUmodule, *const c_void, c_uint, *mut c_uint, *mut *mut c_void);
    module_unload = "cuModuleUnload" (CUmodule);
    module_get_function = "cuModuleGetFunction" (*mut CUfunction, CUmodule, *const c_char);
    func_get_attribute = "cuFuncGetAttribute" (*mut c_int, c_uint, CUfunction);
    launch_kernel = "cuLaunchKernel" (
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void
    );
}

impl Table {
    /// Whether the library exports a symbol, whatever it is.
    pub(super) fn exports(&self, symbol: &str) -> bool {
        // SAFETY: the address is compared with nothing and never used.
        unsafe { self.library.get::<*const c_void>(symbol) }.is_ok()
    }
}

/// Opens a library by the loader's rules (a bare name) or by path, with everything it needs.
pub(super) fn open(name: &str) -> Result<Library, libloading::Error> {
    // SAFETY: libcuda's initialisers may run at any time in a process; it is never closed.
    unsafe { Library::open(Some(name), libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_LOCAL) }
}

/// The text at `text`, which the driver owns.
///
/// # Safety
/// `text` is null or a C string that stays as it is during the call.
pub(super) unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: as the caller promises.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
