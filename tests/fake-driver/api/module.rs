//! Modules and their functions.
#![expect(unsafe_code, reason = "exports C functions that read and write through the caller's pointers")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::Write as _;
use std::{io, ptr};

use super::{finish, put};
use crate::code::{Code, Stop};
use crate::fault::Kind;
use crate::image;
use crate::memory::Image;
use crate::state::{Call, Function};

const JIT_ERROR_LOG_BUFFER: c_uint = 5;
const JIT_ERROR_LOG_BUFFER_SIZE_BYTES: c_uint = 6;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> Code {
    // SAFETY: the caller gives a whole image; there are no options.
    unsafe { cuModuleLoadDataEx(module, image, 0, ptr::null_mut(), ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut *mut c_void,
    image: *const c_void,
    count: c_uint,
    options: *mut c_uint,
    values: *mut *mut c_void,
) -> Code {
    let mut log = String::new();
    let handle = load(image, &mut log);
    // SAFETY: the caller gives as many options and values as `count` says.
    unsafe { write_log(&log, count, options, values) };
    // SAFETY: the caller gives room for a handle, or null.
    finish(handle.and_then(|handle| unsafe { put(module, ptr::without_provenance_mut(handle)) }))
}

fn load(image: *const c_void, log: &mut String) -> Result<usize, Stop> {
    let mut call = Call::inside()?;
    let image = Image::new(image).ok_or(Code::INVALID_VALUE)?;
    if call.config.has(Kind::Noise) {
        // Without a line end: what the caller prints next begins in the middle of a line.
        let _ =
            write!(io::stdout(), "fake driver: a library that prints half a line").and_then(|()| io::stdout().flush());
    }
    let module = image::load(&image, call.config, call.gpu()?).map_err(|refusal| {
        *log = refusal.log;
        refusal.stop
    })?;
    let state = call.state();
    let handle = state.handle();
    state.modules.insert(handle, module);
    Ok(handle)
}

/// Writes the log as `cuda.h` has it: the buffer is a value, so is its size, and the size's value becomes the number of
/// bytes that were written.
///
/// # Safety
/// `options` and `values` have `count` elements, and the buffer among them is as long as its size says.
unsafe fn write_log(log: &str, count: c_uint, options: *const c_uint, values: *mut *mut c_void) {
    if options.is_null() || values.is_null() {
        return;
    }
    let (mut buffer, mut size) = (ptr::null_mut::<u8>(), None);
    for place in 0..count as usize {
        // SAFETY: the place is below the count of both.
        let (option, value) = unsafe { (options.add(place).read(), values.add(place)) };
        match option {
            // SAFETY: as above.
            JIT_ERROR_LOG_BUFFER => buffer = unsafe { value.read() }.cast(),
            JIT_ERROR_LOG_BUFFER_SIZE_BYTES => size = Some(value),
            _ => {}
        }
    }
    let Some(size) = size.filter(|_| !buffer.is_null()) else { return };
    // The value is an unsigned int in place of a pointer: only the lower half counts.
    // SAFETY: `size` is one of the values.
    let room = unsafe { size.read() }.addr() & 0xFFFF_FFFF;
    if room == 0 {
        return;
    }
    let length = log.len().min(room - 1);
    // SAFETY: the buffer has `room` bytes, and one is left for the final zero.
    unsafe {
        ptr::copy_nonoverlapping(log.as_ptr(), buffer, length);
        buffer.add(length).write(0);
        size.write(ptr::without_provenance_mut(length));
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: *mut c_void) -> Code {
    finish(Call::synchronizing().and_then(|mut call| {
        let state = call.state();
        state.modules.remove(&module.addr()).ok_or(Code::INVALID_HANDLE)?;
        state.functions.retain(|_, function| function.module != module.addr());
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> Code {
    if name.is_null() {
        return Code::INVALID_VALUE;
    }
    // SAFETY: the caller gives a NUL-terminated name.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let handle = function_of(module.addr(), &name).map(ptr::without_provenance_mut);
    // SAFETY: the caller gives room for a handle, or null.
    finish(handle.and_then(|handle| unsafe { put(function, handle) }))
}

fn function_of(module: usize, name: &str) -> Result<usize, Stop> {
    let mut call = Call::inside()?;
    let state = call.state();
    let loaded = state.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
    let entry = loaded.entry(name).ok_or(Code::NOT_FOUND)?;
    let origin = loaded.origin;
    // The same function is the same handle.
    let same = state.functions.iter().find(|(_, known)| known.module == module && known.entry.name == entry.name);
    if let Some((handle, _)) = same {
        return Ok(*handle);
    }
    let handle = state.handle();
    state.functions.insert(handle, Function { module, entry, origin, launches: 0 });
    Ok(handle)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: *mut c_void) -> Code {
    // SAFETY: the caller gives room for a number, or null.
    finish(attribute_of(function.addr(), attribute).and_then(|number| unsafe { put(value, number) }))
}

fn attribute_of(function: usize, attribute: c_uint) -> Result<c_int, Stop> {
    // What a JIT compiler would use is unknown here; this is what ptxas uses for the shipped kernel on most GPUs.
    const REGISTERS_OF_PTX: c_int = 12;
    let mut call = Call::inside()?;
    let state = call.state();
    let function = state.functions.get(&function).ok_or(Code::INVALID_HANDLE)?;
    let module = state.modules.get(&function.module).ok_or(Code::INVALID_HANDLE)?;
    Ok(match attribute {
        0 => 1024, // threads a block
        4 => function.entry.registers.unwrap_or(REGISTERS_OF_PTX),
        5 => module.ptx_version,
        6 => module.binary_version,
        // Shared, constant and local memory, the cache mode and the rest: none of it.
        1..=3 | 7..=15 => 0,
        _ => return Err(Code::INVALID_VALUE.into()),
    })
}
