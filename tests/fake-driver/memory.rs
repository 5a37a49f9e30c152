//! Memory as the driver sees it: an image of unknown length in the caller's memory, and what it hands out as device
//! memory, which is host memory here.
//! The main types are [`Image`] and [`Block`].
#![expect(unsafe_code, reason = "device memory is raw host memory, and an image is an address without a length")]

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CStr, c_char, c_void};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::ptr;

/// Device allocations are aligned to this many bytes, as the real driver's are.
const ALIGNMENT: usize = 512;

/// What fresh device memory holds. It is not zero, because the real driver's is not either, and a result that is right
/// only on zeroed memory must not pass.
const FRESH: u8 = 0xA5;

/// Where an image begins.
#[derive(Debug)]
pub(crate) struct Image {
    base: *const c_void,
}

impl Image {
    /// The image at this address, which is not null.
    pub(crate) fn new(base: *const c_void) -> Option<Self> {
        (!base.is_null()).then_some(Self { base })
    }

    /// `length` bytes from the start; nothing if that much memory is not there.
    ///
    /// A truncated cubin's header asks for more than the caller has. The bytes come through `/proc/self/mem`, so that
    /// reading past the caller's buffer gives other bytes or an error, and never a fault.
    pub(crate) fn bytes(&self, length: usize) -> Option<Vec<u8>> {
        let memory = File::open("/proc/self/mem").ok()?;
        let mut bytes = Vec::new();
        // The header may ask for more than there is memory in the machine; nothing that large is an image.
        bytes.try_reserve_exact(length).ok()?;
        bytes.resize(length, 0);
        memory.read_exact_at(&mut bytes, self.base as u64).ok()?;
        Some(bytes)
    }

    /// The text up to the first NUL byte.
    pub(crate) fn text(&self) -> String {
        // SAFETY: an image that is neither ELF nor a fatbin is NUL-terminated text by the driver's contract; the
        // caller of cuModuleLoadData vouches for it.
        unsafe { CStr::from_ptr(self.base.cast::<c_char>()) }.to_string_lossy().into_owned()
    }
}

/// One allocation of device memory. Freed when dropped.
#[derive(Debug)]
pub(crate) struct Block {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: a block owns its memory, and everything that reads or writes it holds the driver's one lock.
unsafe impl Send for Block {}

impl Block {
    /// `length` bytes, more than none; nothing if the host has not as much.
    pub(crate) fn new(length: usize) -> Option<Self> {
        let layout = Layout::from_size_align(length, ALIGNMENT).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return None;
        }
        // SAFETY: `start` is a fresh allocation of that size.
        unsafe { ptr::write_bytes(start, FRESH, length) };
        Some(Self { start, layout })
    }

    /// Its first address, which is its device pointer.
    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    /// Its length in bytes.
    pub(crate) fn length(&self) -> usize {
        self.layout.size()
    }

    /// A pointer to `length` bytes from this device address on; nothing if they are not all in this block.
    pub(crate) fn at(&self, address: u64, length: usize) -> Option<*mut u8> {
        let offset = usize::try_from(address.checked_sub(self.address())?).ok()?;
        let fits = offset.checked_add(length)? <= self.length();
        // `wrapping_add` stays inside the block, since `fits` says so.
        fits.then(|| self.start.wrapping_add(offset))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc` with this layout and is freed once.
        unsafe { dealloc(self.start, self.layout) };
    }
}
