//! What a driver makes of an image: which form it has, whether this driver takes it for this GPU, and which entries it
//! then has.
//! The main function is [`load`]; the main types are [`Module`] and [`Refusal`].

mod arch;
mod bytes;
mod cubin;
mod fatbin;
mod instruction;
mod lexer;
mod ptx;

use crate::branch::Driver;
use crate::code::{Code, Stop};
use crate::config::Config;
use crate::fault::{Form, Kind, Origin};
use crate::gpu::Gpu;
use crate::memory::Image;

/// The most that is ever read of one image. A table further away than this is behind a header that is garbage.
const MAX_IMAGE: u64 = 256 << 20;

/// A kernel of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: String,
    /// Registers a thread; known only where the image is machine code.
    pub(crate) registers: Option<i32>,
}

/// A module that was taken.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    /// What faults may be limited by.
    pub(crate) origin: Origin,
    /// Its kernels; nothing where they are inside a compressed entry, which is not unpacked here.
    pub(crate) entries: Option<Vec<Entry>>,
    /// `CU_FUNC_ATTRIBUTE_PTX_VERSION`: the SM number that its PTX, or else its machine code, was made for.
    pub(crate) ptx_version: i32,
    /// `CU_FUNC_ATTRIBUTE_BINARY_VERSION`: the SM number of the machine code that runs.
    pub(crate) binary_version: i32,
}

impl Module {
    /// The kernel with this name. Of a compressed entry only the kernels that this driver can run are known.
    pub(crate) fn entry(&self, name: &str) -> Option<Entry> {
        match &self.entries {
            Some(entries) => entries.iter().find(|entry| entry.name == name).cloned(),
            None => (name == "vectorAdd").then(|| Entry { name: name.into(), registers: None }),
        }
    }
}

/// Why a module was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What the load ends in.
    pub(crate) stop: Stop,
    /// What is written to the error log, in the driver's words.
    pub(crate) log: String,
}

impl Refusal {
    fn new(code: Code, log: impl Into<String>) -> Self {
        Self { stop: code.into(), log: log.into() }
    }

    /// What the driver gives for bytes that it does not know.
    fn unrecognized() -> Self {
        Self::new(Code::INVALID_IMAGE, "Binary format for key='0', ident='' is not recognized")
    }
}

/// Who judges an image, and for which GPU.
#[derive(Debug, Clone, Copy)]
struct Judge {
    driver: Driver,
    cc: (u32, u32),
    jit_disabled: bool,
    jit_forced: bool,
}

/// Loads the image at this address, or says why not.
pub(crate) fn load(image: &Image, config: &Config, gpu: &Gpu) -> Result<Module, Refusal> {
    let judge = Judge {
        driver: config.driver,
        cc: gpu.model.cc,
        jit_disabled: config.jit_disabled,
        jit_forced: config.jit_forced,
    };
    let start = image.bytes(4).ok_or_else(Refusal::unrecognized)?;
    let (form, found) = match start[..] {
        [0x7F, b'E', b'L', b'F'] => (Form::Cubin, cubin(image, judge)),
        [0x50, 0xED, 0x55, 0xBA] => (Form::Fatbin, fatbin(image, judge)),
        _ => (Form::Ptx, ptx(&image.text(), judge)),
    };
    // A fault comes before the verdict if it is met by what can be read of a refused image: its form.
    let origin = Origin { form, producer: found.as_ref().ok().and_then(|found| found.producer) };
    if config.fault(Kind::HangLoad, &origin).is_some() {
        return Err(Refusal { stop: Stop::Hang, log: String::new() });
    }
    if config.fault(Kind::CrashLoad, &origin).is_some() {
        return Err(Refusal { stop: Stop::Segfault, log: String::new() });
    }
    if config.fault(Kind::Blind, &origin).is_some() {
        return Ok(Module {
            origin,
            entries: None,
            ptx_version: 52,
            binary_version: number(judge.cc.0 * 10 + judge.cc.1),
        });
    }
    let Found { entries, ptx_version, binary_version, .. } = found?;
    Ok(Module { origin, entries, ptx_version: number(ptx_version), binary_version: number(binary_version) })
}

/// What was taken of an image.
#[derive(Debug)]
struct Found {
    entries: Option<Vec<Entry>>,
    producer: Option<(u32, u32)>,
    ptx_version: u32,
    binary_version: u32,
}

fn number(sm: u32) -> i32 {
    i32::try_from(sm).unwrap_or(0)
}

/// PTX that stands alone.
fn ptx(text: &str, judge: Judge) -> Result<Found, Refusal> {
    if !ptx::is_ptx(text) {
        return Err(Refusal::unrecognized());
    }
    if judge.jit_disabled {
        return Err(Refusal::new(Code::JIT_COMPILATION_DISABLED, ""));
    }
    let ptx = ptx::compile(text, judge.driver.ptx, judge.cc)?;
    let entries = ptx.entries.into_iter().map(|name| Entry { name, registers: None }).collect();
    Ok(Found {
        entries: Some(entries),
        producer: ptx.producer,
        ptx_version: ptx.target,
        binary_version: judge.cc.0 * 10 + judge.cc.1,
    })
}

/// A cubin that stands alone.
fn cubin(image: &Image, judge: Judge) -> Result<Found, Refusal> {
    let hang = || Refusal { stop: Stop::Hang, log: String::new() };
    let header = image.bytes(cubin::HEADER).ok_or_else(hang)?;
    let Ok(length) = cubin::tables_end(&header) else { return Err(Refusal::unrecognized()) };
    // As a real driver does: a cubin that is cut off is not refused, the call never returns.
    let read = |length: u64| {
        let length = usize::try_from(length.min(MAX_IMAGE + 1)).ok().filter(|_| length <= MAX_IMAGE);
        length.and_then(|length| image.bytes(length)).ok_or_else(hang)
    };
    let tables = read(length)?;
    let whole = cubin::sections_end(&tables).map_err(|_| hang())?;
    let bytes = read(whole.max(length))?;
    match cubin::parse(&bytes) {
        Ok(cubin) => take(cubin, judge),
        Err(cubin::Broken::CutOff) => Err(hang()),
        Err(cubin::Broken::NotACubin) => Err(Refusal::unrecognized()),
    }
}

/// A cubin, if it fits.
fn take(cubin: cubin::Cubin, judge: Judge) -> Result<Found, Refusal> {
    // A forced JIT has no say in a cubin that is handed over by itself (seen on an H200 with driver 580).
    if !cubin.arch.machine_code_runs_on(judge.cc) {
        return Err(Refusal::new(Code::NO_BINARY_FOR_GPU, ""));
    }
    // Machine code of a later major version is outside the minor-version promise. No real driver was asked; that the
    // code is 200 is a guess.
    if cubin.major > judge.driver.cuda.0 {
        return Err(Refusal::new(Code::INVALID_IMAGE, ""));
    }
    Ok(Found {
        entries: Some(cubin.entries),
        producer: cubin.producer,
        ptx_version: cubin.arch.sm(),
        binary_version: cubin.arch.sm(),
    })
}

/// A fatbin: the machine code that fits best, else the best PTX.
fn fatbin(image: &Image, judge: Judge) -> Result<Found, Refusal> {
    let header = image.bytes(fatbin::HEADER).ok_or_else(Refusal::unrecognized)?;
    let length = fatbin::length(&header).filter(|length| *length <= MAX_IMAGE).and_then(|at| usize::try_from(at).ok());
    let bytes = length.and_then(|length| image.bytes(length)).ok_or_else(Refusal::unrecognized)?;
    let members = fatbin::members(&bytes).ok_or_else(Refusal::unrecognized)?;
    let mut why_not = None;

    let mut codes: Vec<_> = members.iter().filter(|member| member.kind == fatbin::Kind::Cubin).collect();
    codes.retain(|member| !judge.jit_forced && member.arch.machine_code_runs_on(judge.cc));
    codes.sort_by_key(|member| std::cmp::Reverse(member.arch.sm()));
    for member in codes {
        match unpack(member, judge)? {
            // The names are inside; the container says the rest.
            None => {
                let sm = member.arch.sm();
                return Ok(Found { entries: None, producer: None, ptx_version: sm, binary_version: sm });
            }
            Some(payload) => match cubin::parse(payload).map_err(|_| Refusal::unrecognized()) {
                Ok(cubin) => match take(cubin, judge) {
                    Ok(found) => return Ok(found),
                    Err(refusal) => why_not = Some(refusal),
                },
                Err(refusal) => return Err(refusal),
            },
        }
    }

    let mut texts: Vec<_> = members.iter().filter(|member| member.kind == fatbin::Kind::Ptx).collect();
    texts.retain(|member| member.arch.text_compiles_for(judge.cc).is_ok());
    texts.sort_by_key(|member| std::cmp::Reverse(member.arch.sm()));
    if judge.jit_disabled && !texts.is_empty() {
        return Err(Refusal::new(Code::JIT_COMPILATION_DISABLED, ""));
    }
    for member in texts {
        // The container names the PTX ISA, so that a text which is too new need not be unpacked to be refused.
        if let Err(refusal) = ptx::check_version(member.version, judge.driver.ptx, 1) {
            why_not = Some(refusal);
            continue;
        }
        return match unpack(member, judge)? {
            None => Ok(Found {
                entries: None,
                producer: None,
                ptx_version: member.arch.sm(),
                binary_version: judge.cc.0 * 10 + judge.cc.1,
            }),
            Some(payload) => {
                // Filled up with zeros to the container's alignment.
                let end = payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len());
                ptx(&String::from_utf8_lossy(&payload[..end]), judge)
            }
        };
    }
    Err(why_not.unwrap_or_else(|| Refusal::new(Code::NO_BINARY_FOR_GPU, "")))
}

/// A member's bytes; nothing if they are compressed in a way that the driver could unpack.
fn unpack<'a>(member: &fatbin::Member<'a>, judge: Judge) -> Result<Option<&'a [u8]>, Refusal> {
    match member.packing {
        fatbin::Packing::Plain => Ok(Some(member.payload)),
        fatbin::Packing::Zstd if !judge.driver.unpacks_zstd() => Err(Refusal::new(Code::INVALID_IMAGE, "")),
        fatbin::Packing::Lz4 | fatbin::Packing::Zstd => Ok(None),
    }
}
