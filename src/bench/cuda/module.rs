//! A loaded artifact ([`Module`]) and a kernel in it ([`Function`]).
#![expect(unsafe_code, reason = "passes foreign handles that it owns, and launches a kernel")]

use std::ffi::{CString, c_void};
use std::marker::PhantomData;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUmodule};

use super::buffer::Buffer;
use super::call::Calls;
use super::context::Context;
use super::error::CudaError;
use super::stream::Stream;

/// A loaded artifact.
pub(in crate::bench) struct Module<'c> {
    calls: &'static Calls,
    raw: CUmodule,
    context: PhantomData<&'c Context>,
}

impl<'c> Module<'c> {
    pub(super) fn load(context: &'c Context, image: &[u8]) -> Result<Self, CudaError> {
        let calls = context.calls();
        // PTX is text that ends in a zero; after a cubin or fatbin the zero is not looked at.
        let mut ended = Vec::with_capacity(image.len() + 1);
        ended.extend_from_slice(image);
        ended.push(0);
        // SAFETY: the image ends in a zero, and the caller has found it whole.
        Ok(Self { calls, raw: unsafe { calls.load(&ended) }?, context: PhantomData })
    }

    /// The kernel with this name.
    pub(in crate::bench) fn function(&self, name: &CString) -> Result<Function<'_>, CudaError> {
        // SAFETY: the module is loaded as long as `self` lives, and the function borrows it.
        let raw = unsafe { self.calls.function(self.raw, name) }?;
        Ok(Function { calls: self.calls, raw, module: PhantomData })
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: this is its owner, and the last use.
        let _ = unsafe { self.calls.unload(self.raw) };
    }
}

/// A kernel.
pub(in crate::bench) struct Function<'m> {
    calls: &'static Calls,
    raw: CUfunction,
    module: PhantomData<&'m ()>,
}

/// What a kernel takes of each thread and block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) struct Resources {
    /// Registers a thread.
    pub(in crate::bench) registers: Option<u32>,
    /// Bytes of local memory a thread.
    pub(in crate::bench) local_bytes: Option<u32>,
    /// Bytes of static shared memory a block.
    pub(in crate::bench) shared_bytes: Option<u32>,
}

impl Function<'_> {
    /// What it takes, each where the driver says it.
    pub(in crate::bench) fn resources(&self) -> Resources {
        let ask = |attribute| {
            // SAFETY: the module is borrowed.
            unsafe { self.calls.function_attribute(self.raw, attribute) }
                .ok()
                .and_then(|value| u32::try_from(value).ok())
        };
        Resources {
            registers: ask(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS),
            local_bytes: ask(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
            shared_bytes: ask(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
        }
    }

    /// Launches `(const float* a, const float* b, float* out, 64-bit n)` over `n` elements, one a thread.
    pub(in crate::bench) fn launch_over<'c>(
        &self,
        [a, b, out]: [&Buffer<'c>; 3],
        n: u64,
        block: u32,
        stream: &Stream<'c>,
    ) -> Result<(), CudaError> {
        let (mut a, mut b, mut out, mut n) = (a.at, b.at, out.at, n);
        let grid = u32::try_from(n.div_ceil(block.into())).unwrap_or(u32::MAX);
        let mut arguments: [*mut c_void; 4] =
            [(&raw mut a).cast(), (&raw mut b).cast(), (&raw mut out).cast(), (&raw mut n).cast()];
        // SAFETY: the driver copies the arguments before it returns. They are what the kernel's manifest promises; a
        // kernel that takes others is the GPU's fault to report, and ends only this worker.
        unsafe { self.calls.launch(self.raw, grid, block, stream.raw, &mut arguments) }
    }
}
