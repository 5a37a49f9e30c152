//! One compilation. The main type inside is [`Program`], which destroys what it holds.
#![expect(unsafe_code, reason = "calls into libnvrtc")]

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use cudarc::nvrtc::sys::nvrtcProgram;

use super::library::Nvrtc;
use super::table::Status;
use crate::model::outcome::Code;
use crate::model::path::Form;

/// Why there is no artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) struct NotCompiled {
    /// What NVRTC returned; none where it was not asked.
    pub(in crate::bench) code: Option<Code>,
    /// One line.
    pub(in crate::bench) reason: String,
    /// The compiler's log.
    pub(in crate::bench) log: Option<String>,
}

impl Nvrtc {
    /// Compiles `source`, which messages call `name`, with these options, and takes the artifact.
    pub(in crate::bench) fn compile(
        &self,
        name: &str,
        source: &str,
        options: &[String],
        form: Form,
    ) -> Result<Vec<u8>, NotCompiled> {
        let text = |text: &str, what: &str| {
            CString::new(text).map_err(|_| NotCompiled {
                code: None,
                reason: format!("{what} has a zero byte in it"),
                log: None,
            })
        };
        let (name, source) = (text(name, "the kernel's name")?, text(source, "the source")?);
        let options = options.iter().map(String::as_str).chain(self.without_cache());
        let options: Vec<CString> = options.map(|option| text(option, "an option")).collect::<Result<_, _>>()?;
        let program = Program::create(self, &name, &source)?;
        program.compile(&options)?;
        program.take(form)
    }
}

struct Program<'n> {
    nvrtc: &'n Nvrtc,
    raw: nvrtcProgram,
}

impl<'n> Program<'n> {
    fn create(nvrtc: &'n Nvrtc, name: &CString, source: &CString) -> Result<Self, NotCompiled> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a place for the answer, the texts end in zeros, and there are no headers.
        let status =
            unsafe { (nvrtc.table.create)(&raw mut raw, source.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()) };
        if status == 0 { Ok(Self { nvrtc, raw }) } else { Err(failed(nvrtc, "nvrtcCreateProgram", status)) }
    }

    fn compile(&self, options: &[CString]) -> Result<(), NotCompiled> {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
        // SAFETY: as many texts as are counted, each ends in a zero and outlives the call.
        let status = unsafe { (self.nvrtc.table.compile)(self.raw, count, pointers.as_ptr()) };
        if status == 0 {
            return Ok(());
        }
        let failure = failed(self.nvrtc, "nvrtcCompileProgram", status);
        let log = self.text(self.nvrtc.table.log_size, self.nvrtc.table.log).ok();
        let log = log.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).filter(|log| !log.trim().is_empty());
        let first = log.as_deref().and_then(|log| log.lines().find(|line| !line.trim().is_empty()));
        Err(NotCompiled { reason: first.map_or(failure.reason, |line| line.trim().to_owned()), log, ..failure })
    }

    fn take(&self, form: Form) -> Result<Vec<u8>, NotCompiled> {
        let table = &self.nvrtc.table;
        let (call, bytes) = match form {
            Form::Ptx => ("nvrtcGetPTX", self.text(table.ptx_size, table.ptx)),
            Form::Cubin => ("nvrtcGetCUBIN", self.bytes(table.cubin_size, table.cubin)),
            Form::Fatbin => {
                return Err(NotCompiled { code: None, reason: "NVRTC makes no fatbin".into(), log: None });
            }
        };
        let bytes = bytes.map_err(|status| failed(self.nvrtc, call, status))?;
        if bytes.is_empty() {
            return Err(NotCompiled { code: None, reason: format!("{call} gave nothing"), log: None });
        }
        Ok(bytes)
    }

    /// As [`Program::bytes`], without the zero that ends a text.
    fn text(&self, size: SizeOf, copy: CopyOf) -> Result<Vec<u8>, Status> {
        let mut bytes = self.bytes(size, copy)?;
        if bytes.last() == Some(&0) {
            bytes.pop();
        }
        Ok(bytes)
    }

    fn bytes(&self, size: SizeOf, copy: CopyOf) -> Result<Vec<u8>, Status> {
        let mut length = 0;
        // SAFETY: `length` is a place for the answer.
        match unsafe { size(self.raw, &raw mut length) } {
            0 => {}
            status => return Err(status),
        }
        let mut bytes = vec![0_u8; length];
        // SAFETY: there is room for as much as the library has just said.
        match unsafe { copy(self.raw, bytes.as_mut_ptr().cast()) } {
            0 => Ok(bytes),
            status => Err(status),
        }
    }
}

type SizeOf = unsafe extern "C" fn(nvrtcProgram, *mut usize) -> Status;
type CopyOf = unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> Status;

fn failed(nvrtc: &Nvrtc, call: &str, status: Status) -> NotCompiled {
    let code = nvrtc.code(status);
    NotCompiled { reason: format!("{call} failed with {code}"), code: Some(code), log: None }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: this is its owner, and the last use.
        let _ = unsafe { (self.nvrtc.table.destroy)(&raw mut self.raw) };
    }
}
