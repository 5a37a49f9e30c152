//! Reads cubins: the architecture with its mark, the toolkit, and each kernel's registers, stack and shared memory.
//!
//! There are two layouts. ABI 7 (OS/ABI 0x33: 11.x, and 12.x up to SM 90) keeps the SM number in the low byte of the
//! flags and the toolkit in the ELF version. ABI 8 (OS/ABI 0x41: 12.8 and 12.9 from SM 100 on, 13.x for all) keeps the
//! SM number in the second byte, and the rest in notes.

use std::collections::HashMap;

use super::bytes::{u16_at, u32_at};
use super::contents::{Contents, Entry, EntryKind, KernelEntry, Kernels};
use super::elf::{self, Elf};
use super::error::ArtifactError;
use super::producer;
use crate::model::arch::{Arch, Mark};
use crate::model::path::Form;
use crate::model::version::Version;

/// `e_machine` of NVIDIA GPUs.
pub(super) const MACHINE: u16 = 190;
/// `EI_OSABI` of ABI 7 and of ABI 8.
const OLD: u8 = 0x33;
const NEW: u8 = 0x41;
/// The flag of the `a` mark, in each.
const OLD_SPECIFIC: u32 = 0x800;
const NEW_SPECIFIC: u32 = 0x8;
/// The attribute of `.nv.compat` that is 1 in code for one chip (13.x).
const COMPAT_SPECIFIC: u8 = 0x09;
/// Attributes of `.nv.info`: a function's registers and its frame, each a symbol's index and a number.
const REGISTERS: u8 = 0x2F;
const FRAME: u8 = 0x11;
/// `STT_FUNC`, and the bit of `st_other` that makes a function a kernel.
const FUNCTION: u8 = 2;
const KERNEL: u8 = 0x10;
/// `SHT_SYMTAB`, and the size of one of its entries.
const SYMBOLS: u32 = 2;
const SYMBOL: usize = 24;

/// Reads a cubin, and proves that it is whole.
pub(super) fn read(bytes: &[u8]) -> Result<Contents, ArtifactError> {
    let elf = Elf::read(bytes)?;
    if elf.machine() != MACHINE {
        return Err(ArtifactError::OtherMachine(elf.machine()));
    }
    let note = elf.section(".note.nv.tkinfo").map(|section| String::from_utf8_lossy(section.data));
    let number = match elf.os_abi {
        OLD => elf.flags & 0xFF,
        NEW => elf.flags >> 8 & 0xFF,
        os_abi => return Err(ArtifactError::OtherAbi { os_abi }),
    };
    let arch = Arch::from_digits(&number.to_string())
        .ok_or_else(|| ArtifactError::Malformed { form: "cubin", why: format!("its SM number is {number}") })?;
    let arch = Arch { mark: mark(&elf, number, note.as_deref()), ..arch };
    let maker = note.as_deref().and_then(producer::find);
    let toolkit = maker.as_ref().map(|(_, toolkit)| *toolkit).or_else(|| toolkit(&elf));
    let producer = maker.map(|(full, _)| full).or_else(|| toolkit.map(|toolkit| format!("CUDA {toolkit}")));
    Ok(Contents {
        form: Form::Cubin,
        ptx_isa: None,
        archs: vec![arch.sm()],
        producer,
        toolkit,
        compressed: None,
        entries: vec![Entry {
            kind: EntryKind::Cubin,
            arch,
            ptx_isa: None,
            abi: Some(u16::from(elf.abi)),
            compression: None,
            bytes: bytes.len() as u64,
            unpacked_bytes: None,
        }],
        kernels: kernels(&elf)?,
    })
}

/// The `a` or `f` mark. Nothing but the command line in the note tells `100f` from `100`.
fn mark(elf: &Elf, number: u32, note: Option<&str>) -> Option<Mark> {
    if elf.os_abi == OLD {
        return (elf.flags & OLD_SPECIFIC != 0).then_some(Mark::Specific);
    }
    let asked = note.and_then(|note| note.split_once("-arch sm_")).and_then(|(_, rest)| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        Arch::from_digits(rest.get(..end)?)
    });
    if let Some(asked) = asked.filter(|asked| asked.number() == number) {
        return asked.mark;
    }
    let compat = elf.section(".nv.compat").map_or(&[][..], |section| section.data);
    let specific = Attributes { rest: compat }
        .any(|attribute| attribute.id == COMPAT_SPECIFIC && attribute.value.first() == Some(&1));
    (specific || elf.flags & NEW_SPECIFIC != 0).then_some(Mark::Specific)
}

/// The toolkit, where the note with its full version is not there.
fn toolkit(elf: &Elf) -> Option<Version> {
    if elf.os_abi == OLD {
        return producer::from_number(elf.version);
    }
    // A note: sizes of name and content, type, the name `NVIDIA Corp` with its NUL, then version, SM number, toolkit.
    let note = elf.section(".note.nv.cuinfo")?;
    producer::from_number(u32::from(u16_at(note.data, 12 + 12 + 4)?))
}

/// What one kernel uses, from the sections that say so.
#[derive(Default)]
struct Usage {
    registers: Option<u32>,
    frame: Option<u32>,
}

fn kernels(elf: &Elf) -> Result<Vec<KernelEntry>, ArtifactError> {
    let Some(table) = elf.sections.iter().find(|section| section.kind == SYMBOLS) else { return Ok(Vec::new()) };
    let names = usize::try_from(table.link).ok().and_then(|at| elf.sections.get(at));
    let names = names.map_or(&[][..], |section| section.data);

    let mut usage: HashMap<u32, Usage> = HashMap::new();
    let info = elf.section(".nv.info").map_or(&[][..], |section| section.data);
    for attribute in (Attributes { rest: info }) {
        if let (Some(symbol), Some(value)) = (u32_at(attribute.value, 0), u32_at(attribute.value, 4)) {
            match attribute.id {
                REGISTERS => usage.entry(symbol).or_default().registers = Some(value),
                FRAME => usage.entry(symbol).or_default().frame = Some(value),
                _ => {}
            }
        }
    }
    let shared: HashMap<&str, u64> = elf
        .sections
        .iter()
        .filter_map(|section| Some((section.name.strip_prefix(".nv.shared.")?, section.size)))
        .collect();

    let mut found = Kernels::default();
    // Names of a real cubin do not overlap, so that together they fit into the file.
    let mut room = names.len();
    for (index, symbol) in table.data.chunks_exact(SYMBOL).enumerate() {
        let (Some(name), [_, _, _, _, info, other, ..]) = (u32_at(symbol, 0), symbol) else { continue };
        if info & 0xF != FUNCTION || other & KERNEL == 0 {
            continue;
        }
        let name = elf::string(names, u64::from(name));
        room = room.checked_sub(name.len()).ok_or_else(|| ArtifactError::Malformed {
            form: "cubin",
            why: "the names of its kernels are longer than their table".into(),
        })?;
        let usage = u32::try_from(index).ok().and_then(|index| usage.get(&index));
        // Without the section with the registers there is nothing that a missing one of shared memory would mean.
        let shared_bytes = usage.map(|_| shared.get(name).copied().unwrap_or(0));
        found.push(KernelEntry {
            name: name.into(),
            registers: usage.and_then(|usage| usage.registers),
            stack_bytes: usage.and_then(|usage| usage.frame),
            shared_bytes: shared_bytes.and_then(|bytes| u32::try_from(bytes).ok()),
        });
    }
    Ok(found.into_vec())
}

/// One attribute of `.nv.info` and `.nv.compat`.
struct Attribute<'a> {
    id: u8,
    value: &'a [u8],
}

/// The attributes of a section: a format, an id, and by the format no value, a byte, two bytes, or a counted value.
struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let (&[format, id, a, b], rest) = self.rest.split_first_chunk::<4>()?;
        let (value, rest) = match format {
            1..=3 => (self.rest.get(2..4)?, rest),
            4 => rest.split_at_checked(usize::from(u16::from_le_bytes([a, b])))?,
            // Padding, or a format that is not known: nothing behind it can be told apart.
            _ => return None,
        };
        self.rest = rest;
        Some(Attribute { id, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_told_apart_by_their_format_and_end_at_what_is_not_known() {
        let bytes = [3, 0x1B, 0xFF, 0, 4, 0x2F, 8, 0, 6, 0, 0, 0, 12, 0, 0, 0, 2, 9, 1, 0, 0, 0, 0, 0];
        let shown: Vec<_> = Attributes { rest: &bytes }.map(|a| (a.id, a.value.to_vec())).collect();
        assert_eq!(shown, [(0x1B, vec![0xFF, 0]), (0x2F, vec![6, 0, 0, 0, 12, 0, 0, 0]), (9, vec![1, 0])]);
        assert_eq!(Attributes { rest: &[4, 0x2F, 9, 0, 1] }.count(), 0);
    }
}
