//! A GPU's primary context, held and current. The main type is [`Context`].
#![expect(unsafe_code, reason = "makes a foreign handle current")]

use super::buffer::Buffer;
use super::call::Calls;
use super::device::Device;
use super::error::CudaError;
use super::module::Module;
use super::stream::{Event, Stream};

/// A GPU's primary context, current for the thread that made it. It must outlive what is made in it, which the
/// borrow in each handle's type holds.
pub(in crate::bench) struct Context {
    device: Device,
}

impl Context {
    pub(super) fn retain(device: Device) -> Result<Self, CudaError> {
        let raw = device.calls.retain_primary_context(device.raw)?;
        let context = Self { device };
        // SAFETY: it is retained, and released only by `Drop`.
        unsafe { device.calls.set_current(raw) }?;
        Ok(context)
    }

    pub(super) fn calls(&self) -> &'static Calls {
        self.device.calls
    }

    /// A stream that does not wait for the default stream.
    pub(in crate::bench) fn stream(&self) -> Result<Stream<'_>, CudaError> {
        Stream::create(self)
    }

    /// An event with timing.
    pub(in crate::bench) fn event(&self) -> Result<Event<'_>, CudaError> {
        Event::create(self)
    }

    /// Device memory.
    pub(in crate::bench) fn buffer(&self, bytes: usize) -> Result<Buffer<'_>, CudaError> {
        Buffer::allocate(self, bytes)
    }

    /// Loads PTX, a cubin or a fatbin that has been found whole.
    pub(in crate::bench) fn load(&self, image: &[u8]) -> Result<Module<'_>, CudaError> {
        Module::load(self, image)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // A context that is lost cannot be released, and then the process is about to end.
        let _ = self.device.calls.release_primary_context(self.device.raw);
    }
}
