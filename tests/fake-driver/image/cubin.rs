//! Reads a cubin: an ELF file for NVIDIA's machine, in the two layouts that there are.
//! The main type is [`Cubin`].
//!
//! ABI 7 (`EI_OSABI` 0x33) is what 11.x and 12.x write for `sm_90` and below; ABI 8 (0x41) is what 12.8 and 12.9 write
//! for `sm_100` and above, and 13.x for all. The layouts were read off files of ten toolkits.

use super::Entry;
use super::arch::{Arch, Mark};
use super::bytes::{u16_at, u32_at, u64_at};

/// Length of the ELF header, in bytes.
pub(super) const HEADER: usize = 64;

const MACHINE_CUDA: u16 = 190;
const OSABI_OLD: u8 = 0x33;
const OSABI_NEW: u8 = 0x41;
const SECTION: u64 = 64;
const SYMBOL: usize = 24;
const NO_BITS: u32 = 8;
const SYMBOL_TABLE: u32 = 2;
/// `st_info`'s type of a function.
const FUNCTION: u8 = 2;
/// `st_other`'s bit of a function that can be launched.
const CUDA_ENTRY: u8 = 0x10;
/// The record of `.nv.info` that holds a function's register count.
const INFO_REGISTERS: u8 = 0x2F;
/// The format of a `.nv.info` record that has a length and that many bytes.
const INFO_SIZED: u8 = 4;

/// What is wrong with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// It is not an ELF file for NVIDIA's machine.
    NotACubin,
    /// Its tables are not where its header says.
    CutOff,
}

/// What a cubin says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cubin {
    /// What it was made for.
    pub(super) arch: Arch,
    /// The toolkit's version; ABI 8 files of 12.8 and 12.9 do not say it in a field.
    pub(super) producer: Option<(u32, u32)>,
    /// The toolkit's major version.
    pub(super) major: u32,
    /// Its kernels.
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug)]
struct Section<'a> {
    name: &'a str,
    kind: u32,
    link: usize,
    body: &'a [u8],
}

/// Where the header's two tables end.
pub(super) fn tables_end(header: &[u8]) -> Result<u64, Broken> {
    let read = || {
        let (osabi, machine) = (*header.get(7)?, u16_at(header, 18)?);
        let known = matches!(osabi, OSABI_OLD | OSABI_NEW) && machine == MACHINE_CUDA && u16_at(header, 58)? == 64;
        let sections = u64_at(header, 40)?.checked_add(u64::from(u16_at(header, 60)?) * SECTION)?;
        let programs =
            u64_at(header, 32)?.checked_add(u64::from(u16_at(header, 56)?) * u64::from(u16_at(header, 54)?))?;
        known.then(|| sections.max(programs))
    };
    read().ok_or(Broken::NotACubin)
}

/// Where the last section ends.
pub(super) fn sections_end(bytes: &[u8]) -> Result<u64, Broken> {
    let ends = headers(bytes)?.into_iter().map(|header| {
        let length = if u32_at(header, 4) == Some(NO_BITS) { Some(0) } else { u64_at(header, 32) };
        length.zip(u64_at(header, 24)).and_then(|(length, offset)| offset.checked_add(length))
    });
    ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max()).ok_or(Broken::CutOff)
}

/// Reads a whole file.
pub(super) fn parse(bytes: &[u8]) -> Result<Cubin, Broken> {
    tables_end(bytes)?;
    let sections = sections(bytes)?;
    let named = |name: &str| sections.iter().find(|section| section.name == name).map(|section| section.body);
    let flags = u32_at(bytes, 48).ok_or(Broken::CutOff)?;
    let (sm, exact, producer) = if bytes[7] == OSABI_OLD {
        let version = u32_at(bytes, 20).ok_or(Broken::CutOff)?;
        (flags & 0xFF, flags & 0x800 != 0, Some((version / 10, version % 10)))
    } else {
        let marked = named(".nv.compat").is_some_and(|records| records.starts_with(&[2, 9, 1]));
        ((flags >> 8) & 0xFF, flags & 8 != 0 || marked, named(".note.nv.cuinfo").and_then(toolkit))
    };
    let entries = entries(&sections, named(".nv.info").unwrap_or_default()).ok_or(Broken::CutOff)?;
    // `f` is not told apart from no mark: the file says it only in the compiler's command line.
    let arch = Arch::new(sm, if exact { Mark::Exact } else { Mark::Generic });
    // An ABI 8 file without the note is of 12.8 or 12.9.
    Ok(Cubin { arch, producer, major: producer.map_or(12, |(major, _)| major), entries })
}

/// The toolkit in `.note.nv.cuinfo`: the third 16-bit number after the note's owner, 130 for 13.0.
fn toolkit(note: &[u8]) -> Option<(u32, u32)> {
    let owner = usize::try_from(u32_at(note, 0)?).ok()?.next_multiple_of(4);
    let version = u32::from(u16_at(note, 12 + owner + 4)?);
    Some((version / 10, version % 10))
}

fn headers(bytes: &[u8]) -> Result<Vec<&[u8]>, Broken> {
    let read = || {
        let start = usize::try_from(u64_at(bytes, 40)?).ok()?;
        let count = usize::from(u16_at(bytes, 60)?);
        let table = bytes.get(start..start.checked_add(count * 64)?)?;
        Some(table.chunks_exact(64).collect())
    };
    read().ok_or(Broken::CutOff)
}

fn sections(bytes: &[u8]) -> Result<Vec<Section<'_>>, Broken> {
    let headers = headers(bytes)?;
    let body = |header: &[u8]| {
        let (offset, length) = (u64_at(header, 24)?, u64_at(header, 32)?);
        let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
        if u32_at(header, 4)? == NO_BITS {
            return Some(&[][..]);
        }
        bytes.get(offset..offset.checked_add(length)?)
    };
    let read = || {
        let names = body(headers.get(usize::from(u16_at(bytes, 62)?))?)?;
        let section = |header: &&'_ [u8]| {
            Some(Section {
                name: text_at(names, u32_at(header, 0)?)?,
                kind: u32_at(header, 4)?,
                link: usize::try_from(u32_at(header, 40)?).ok()?,
                body: body(header)?,
            })
        };
        headers.iter().map(section).collect::<Option<Vec<_>>>()
    };
    let sections = read().ok_or(Broken::CutOff)?;
    // Bytes that are no section table can look like one; they do not name the table of names.
    let sound = sections.iter().any(|section| section.name == ".shstrtab");
    sound.then_some(sections).ok_or(Broken::CutOff)
}

/// The functions that can be launched, with their register counts.
fn entries(sections: &[Section<'_>], info: &[u8]) -> Option<Vec<Entry>> {
    let table = sections.iter().find(|section| section.kind == SYMBOL_TABLE)?;
    let names = sections.get(table.link)?.body;
    let mut entries = Vec::new();
    for (index, symbol) in (0_u32..).zip(table.body.chunks_exact(SYMBOL)) {
        let (kind, other) = (symbol[4] & 0xF, symbol[5]);
        if kind == FUNCTION && other & CUDA_ENTRY != 0 {
            let name = text_at(names, u32_at(symbol, 0)?)?.to_owned();
            entries.push(Entry { name, registers: registers(info, index) });
        }
    }
    Some(entries)
}

/// The register count of the function with this symbol index.
fn registers(info: &[u8], symbol: u32) -> Option<i32> {
    let mut rest = info;
    while rest.len() >= 4 {
        let (format, attribute) = (rest[0], rest[1]);
        let length = if format == INFO_SIZED { usize::from(u16_at(rest, 2)?) } else { 0 };
        if attribute == INFO_REGISTERS && u32_at(rest, 4)? == symbol {
            return i32::try_from(u32_at(rest, 8)?).ok();
        }
        rest = rest.get(4 + length..)?;
    }
    None
}

fn text_at(table: &[u8], at: u32) -> Option<&str> {
    let tail = table.get(usize::try_from(at).ok()?..)?;
    let end = tail.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&tail[..end]).ok()
}
