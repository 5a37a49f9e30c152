//! The driver's calls with `Result`s instead of codes: layer two. The main type is [`Calls`], which exists once in a
//! process and is never dropped.
#![expect(unsafe_code, reason = "calls into libcuda")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUevent_flags, CUfunction, CUfunction_attribute,
    CUjit_option, CUmodule, CUstream, CUstream_flags, CUuuid,
};

use super::error::{CudaError, fallback_name};
use super::table::{self, Status, Table};

type Result<T> = std::result::Result<T, CudaError>;

/// The driver's calls.
pub(super) struct Calls {
    pub(super) table: Table,
}

/// What the JIT compiler may say. It stops writing where the buffer is full.
const LOG_BYTES: usize = 64 << 10;

impl Calls {
    fn check(&self, call: &'static str, status: Status) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(self.error(call, status)) }
    }

    fn error(&self, call: &'static str, code: Status) -> CudaError {
        let say = |ask: unsafe extern "C" fn(Status, *mut *const c_char) -> Status| {
            let mut text = ptr::null();
            // SAFETY: `text` is a place for a pointer; what comes back is a string of the driver's own, or untouched.
            unsafe { if ask(code, &raw mut text) == 0 { table::text(text) } else { None } }
        };
        let name = say(self.table.get_error_name).filter(|name| !name.is_empty());
        CudaError {
            call,
            code,
            name: name.unwrap_or_else(|| fallback_name(code)),
            text: say(self.table.get_error_string).filter(|text| !text.is_empty()),
            log: None,
        }
    }

    pub(super) fn init(&self) -> Result<()> {
        // SAFETY: takes no pointer.
        self.check("cuInit", unsafe { (self.table.init)(0) })
    }

    pub(super) fn driver_version(&self) -> Result<c_int> {
        let mut version = 0;
        // SAFETY: `version` is a place for the answer.
        self.check("cuDriverGetVersion", unsafe { (self.table.driver_get_version)(&raw mut version) })?;
        Ok(version)
    }

    pub(super) fn device_count(&self) -> Result<c_int> {
        let mut count = 0;
        // SAFETY: `count` is a place for the answer.
        self.check("cuDeviceGetCount", unsafe { (self.table.device_get_count)(&raw mut count) })?;
        Ok(count)
    }

    pub(super) fn device(&self, ordinal: c_int) -> Result<CUdevice> {
        let mut device = 0;
        // SAFETY: `device` is a place for the answer.
        self.check("cuDeviceGet", unsafe { (self.table.device_get)(&raw mut device, ordinal) })?;
        Ok(device)
    }

    pub(super) fn device_name(&self, device: CUdevice) -> Result<String> {
        let mut name = [0_u8; 256];
        // SAFETY: the driver writes at most 255 bytes and the final zero.
        let status = unsafe { (self.table.device_get_name)(name.as_mut_ptr().cast(), 255, device) };
        self.check("cuDeviceGetName", status)?;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
        Ok(String::from_utf8_lossy(&name[..end]).into_owned())
    }

    pub(super) fn device_uuid(&self, device: CUdevice) -> Result<[u8; 16]> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: `uuid` is a place for the answer.
        self.check("cuDeviceGetUuid", unsafe { (self.table.device_get_uuid)(&raw mut uuid, device) })?;
        // `c_char` is signed on some machines; the bits are what counts.
        Ok(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
    }

    pub(super) fn device_attribute(&self, device: CUdevice, attribute: CUdevice_attribute) -> Result<c_int> {
        let mut value = 0;
        // SAFETY: `value` is a place for the answer.
        let status = unsafe { (self.table.device_get_attribute)(&raw mut value, attribute as c_uint, device) };
        self.check("cuDeviceGetAttribute", status)?;
        Ok(value)
    }

    pub(super) fn retain_primary_context(&self, device: CUdevice) -> Result<CUcontext> {
        let mut context = ptr::null_mut();
        // SAFETY: `context` is a place for the answer.
        let status = unsafe { (self.table.primary_ctx_retain)(&raw mut context, device) };
        self.check("cuDevicePrimaryCtxRetain", status)?;
        Ok(context)
    }

    pub(super) fn release_primary_context(&self, device: CUdevice) -> Result<()> {
        // SAFETY: takes no pointer.
        self.check("cuDevicePrimaryCtxRelease", unsafe { (self.table.primary_ctx_release)(device) })
    }

    /// # Safety
    /// `context` is retained.
    pub(super) unsafe fn set_current(&self, context: CUcontext) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check("cuCtxSetCurrent", unsafe { (self.table.ctx_set_current)(context) })
    }

    pub(super) fn allocate(&self, bytes: usize) -> Result<CUdeviceptr> {
        let mut at = 0;
        // SAFETY: `at` is a place for the answer.
        self.check("cuMemAlloc", unsafe { (self.table.mem_alloc)(&raw mut at, bytes) })?;
        Ok(at)
    }

    /// # Safety
    /// `at` was allocated and is not used again.
    pub(super) unsafe fn free(&self, at: CUdeviceptr) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check("cuMemFree", unsafe { (self.table.mem_free)(at) })
    }

    /// # Safety
    /// `to` has room for `from`, which stays as it is until the stream has been synchronised.
    pub(super) unsafe fn copy_in(&self, to: CUdeviceptr, from: &[u8], stream: CUstream) -> Result<()> {
        // SAFETY: as the caller promises.
        let status = unsafe { (self.table.memcpy_htod_async)(to, from.as_ptr().cast(), from.len(), stream) };
        self.check("cuMemcpyHtoDAsync", status)
    }

    /// # Safety
    /// `from` holds as many bytes as `to`, which is not touched until the stream has been synchronised.
    pub(super) unsafe fn copy_out(&self, to: &mut [u8], from: CUdeviceptr, stream: CUstream) -> Result<()> {
        // SAFETY: as the caller promises.
        let status = unsafe { (self.table.memcpy_dtoh_async)(to.as_mut_ptr().cast(), from, to.len(), stream) };
        self.check("cuMemcpyDtoHAsync", status)
    }

    /// # Safety
    /// `to` has room for `words` words of four bytes.
    pub(super) unsafe fn fill(&self, to: CUdeviceptr, word: u32, words: usize, stream: CUstream) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check("cuMemsetD32Async", unsafe { (self.table.memset_d32_async)(to, word, words, stream) })
    }

    pub(super) fn create_stream(&self) -> Result<CUstream> {
        let mut stream = ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
        // SAFETY: `stream` is a place for the answer.
        self.check("cuStreamCreate", unsafe { (self.table.stream_create)(&raw mut stream, flags) })?;
        Ok(stream)
    }

    /// # Safety
    /// `stream` was created and is not used again.
    pub(super) unsafe fn destroy_stream(&self, stream: CUstream) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check("cuStreamDestroy", unsafe { (self.table.stream_destroy)(stream) })
    }

    /// # Safety
    /// `stream` lives.
    pub(super) unsafe fn synchronize(&self, stream: CUstream) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check("cuStreamSynchronize", unsafe { (self.table.stream_synchronize)(stream) })
    }

    pub(super) fn create_event(&self) -> Result<CUevent> {
        let mut event = ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_DEFAULT as c_uint;
        // SAFETY: `event` is a place for the answer.
        self.check("cuEventCreate", unsafe { (self.table.event_create)(&raw mut event, flags) })?;
        Ok(event)
    }

    /// # Safety
    /// `event` was created and is not used again.
    pub(super) unsafe fn destroy_event(&self, event: CUevent) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check("cuEventDestroy", unsafe { (self.table.event_destroy)(event) })
    }

    /// # Safety
    /// Both live.
    pub(super) unsafe fn record(&self, event: CUevent, stream: CUstream) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check("cuEventRecord", unsafe { (self.table.event_record)(event, stream) })
    }

    /// # Safety
    /// `event` lives.
    pub(super) unsafe fn await_event(&self, event: CUevent) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check("cuEventSynchronize", unsafe { (self.table.event_synchronize)(event) })
    }

    /// Milliseconds between two events.
    ///
    /// # Safety
    /// Both live.
    pub(super) unsafe fn elapsed(&self, start: CUevent, end: CUevent) -> Result<f32> {
        let mut ms = 0.0;
        // SAFETY: `ms` is a place for the answer; the rest as the caller promises.
        self.check("cuEventElapsedTime", unsafe { (self.table.event_elapsed_time)(&raw mut ms, start, end) })?;
        Ok(ms)
    }

    /// Loads an image. The error carries the JIT compiler's log.
    ///
    /// # Safety
    /// `image` is PTX that ends in a zero, or a whole cubin or fatbin: its size is not passed on.
    pub(super) unsafe fn load(&self, image: &[u8]) -> Result<CUmodule> {
        let mut log = vec![0_u8; LOG_BYTES];
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER as c_uint,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_uint,
        ];
        // A size is passed in place of a pointer, as cuda.h has it. The last byte stays zero.
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_BYTES - 1)];
        let mut module = ptr::null_mut();
        // SAFETY: two options, two values; the log outlives the call; the image as the caller promises.
        let status = unsafe {
            (self.table.module_load_data_ex)(
                &raw mut module,
                image.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        self.check("cuModuleLoadDataEx", status).map_err(|error| {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
            let text = String::from_utf8_lossy(&log[..end]).into_owned();
            CudaError { log: (!text.trim().is_empty()).then_some(text), ..error }
        })?;
        Ok(module)
    }

    /// # Safety
    /// `module` was loaded and is not used again.
    pub(super) unsafe fn unload(&self, module: CUmodule) -> Result<()> {
        // SAFETY: as the caller promises.
        self.check("cuModuleUnload", unsafe { (self.table.module_unload)(module) })
    }

    /// # Safety
    /// `module` is loaded.
    pub(super) unsafe fn function(&self, module: CUmodule, name: &CString) -> Result<CUfunction> {
        let mut function = ptr::null_mut();
        // SAFETY: `function` is a place for the answer, `name` ends in a zero; the rest as the caller promises.
        let status = unsafe { (self.table.module_get_function)(&raw mut function, module, name.as_ptr()) };
        self.check("cuModuleGetFunction", status)?;
        Ok(function)
    }

    /// # Safety
    /// `function`'s module is loaded.
    pub(super) unsafe fn function_attribute(
        &self,
        function: CUfunction,
        attribute: CUfunction_attribute,
    ) -> Result<c_int> {
        let mut value = 0;
        // SAFETY: `value` is a place for the answer; the rest as the caller promises.
        let status = unsafe { (self.table.func_get_attribute)(&raw mut value, attribute as c_uint, function) };
        self.check("cuFuncGetAttribute", status)?;
        Ok(value)
    }

    /// # Safety
    /// `function`'s module is loaded, `arguments` point to values of the types that the function takes, and the memory
    /// that those name lives until the stream has been synchronised.
    pub(super) unsafe fn launch(
        &self,
        function: CUfunction,
        grid: c_uint,
        block: c_uint,
        stream: CUstream,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        // SAFETY: as the caller promises.
        let status = unsafe {
            (self.table.launch_kernel)(
                function,
                grid,
                1,
                1,
                block,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.check("cuLaunchKernel", status)
    }
}
