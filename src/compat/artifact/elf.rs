//! The ELF frame of a cubin: its header, sections and segments, each proved to lie inside the file.
//! Its main type is [`Elf`]. The proof is what keeps a truncated cubin from the driver, which would never return.

use super::bytes::{slice, u16_at, u32_at, u64_at};
use super::error::ArtifactError;

/// What every ELF file opens with.
pub(super) const MAGIC: &[u8] = b"\x7fELF";
const HEADER: u64 = 64;
const SECTION: u64 = 64;
const SEGMENT: u64 = 56;
/// A section of this type has an extent in memory and none in the file.
const NOBITS: u32 = 8;
/// A section header index that says "look into section 0".
const EXTENDED: u16 = 0xFFFF;
/// The longest name that is read. Mangled names of templates reach a few thousand bytes.
const LONGEST_NAME: u64 = 16 << 10;

/// An ELF file whose tables, sections and segments all lie inside it.
#[derive(Debug)]
pub(super) struct Elf<'a> {
    bytes: &'a [u8],
    pub(super) os_abi: u8,
    pub(super) abi: u8,
    pub(super) version: u32,
    pub(super) flags: u32,
    pub(super) sections: Vec<Section<'a>>,
}

/// One section.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section<'a> {
    /// Empty where it has none, or where it is not UTF-8.
    pub(super) name: &'a str,
    pub(super) kind: u32,
    /// Bytes in memory; in the file too, unless the section has none there.
    pub(super) size: u64,
    /// Another section that it refers to: the string table of a symbol table.
    pub(super) link: u32,
    pub(super) data: &'a [u8],
}

/// The section table's rows, before their names are known.
struct Row {
    name: u32,
    kind: u32,
    offset: u64,
    size: u64,
    link: u32,
}

impl<'a> Elf<'a> {
    /// Reads the frame and proves that it is whole.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, ArtifactError> {
        let has = bytes.len() as u64;
        let header = slice(bytes, 0, HEADER).ok_or_else(|| truncated("the ELF header", 0, HEADER, has))?;
        // The header is 64 bytes long, so that none of these can be missing.
        let half = |offset| u16_at(header, offset).unwrap_or(0);
        let word = |offset| u32_at(header, offset).unwrap_or(0);
        let long = |offset| u64_at(header, offset).unwrap_or(0);
        if !header.starts_with(MAGIC) || header.get(4..6) != Some(&[2, 1]) {
            return Err(malformed("it is not a little-endian 64-bit ELF file".into()));
        }
        let (segments_at, sections_at) = (long(32), long(40));
        for (what, size, known) in [("program", half(54), SEGMENT), ("section", half(58), SECTION)] {
            let used = if what == "program" { half(56) != 0 } else { sections_at != 0 };
            if used && u64::from(size) != known {
                return Err(malformed(format!("its {what} headers are {size} bytes long, not {known}")));
            }
        }
        if sections_at == 0 {
            return Err(malformed("it has no sections".into()));
        }

        let first = row(bytes, sections_at).ok_or_else(|| truncated("the section table", sections_at, SECTION, has))?;
        // Above 65279 sections the count and the index of the names stand in the first row.
        let count = if half(60) == 0 { first.size } else { u64::from(half(60)) };
        let names_at = if half(62) == EXTENDED { first.link } else { u32::from(half(62)) };
        let table = count.checked_mul(SECTION).and_then(|length| slice(bytes, sections_at, length));
        let table =
            table.ok_or_else(|| truncated("the section table", sections_at, count.saturating_mul(SECTION), has))?;
        let rows: Vec<Row> = (0..count).filter_map(|at| row(table, at * SECTION)).collect();

        let names = usize::try_from(names_at).ok().and_then(|at| rows.get(at));
        let names = names.map_or(Ok(&[][..]), |row| data(bytes, row, "the section names"))?;
        let mut sections = Vec::with_capacity(rows.len());
        for row in &rows {
            let name = string(names, u64::from(row.name));
            let data = data(bytes, row, name)?;
            sections.push(Section { name, kind: row.kind, size: row.size, link: row.link, data });
        }

        for at in 0..u64::from(half(56)) {
            let start = segments_at.saturating_add(at * SEGMENT);
            let segment = slice(bytes, start, SEGMENT)
                .ok_or_else(|| truncated("the program header table", start, SEGMENT, has))?;
            let (offset, length) = (u64_at(segment, 8).unwrap_or(0), u64_at(segment, 32).unwrap_or(0));
            if length != 0 && slice(bytes, offset, length).is_none() {
                return Err(truncated(&format!("segment {at}"), offset, length, has));
            }
        }
        let byte = |at: usize| header.get(at).copied().unwrap_or(0);
        Ok(Self { bytes, os_abi: byte(7), abi: byte(8), version: word(20), flags: word(48), sections })
    }

    /// `e_machine`.
    pub(super) fn machine(&self) -> u16 {
        u16_at(self.bytes, 18).unwrap_or(0)
    }

    /// The first section called `name`.
    pub(super) fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.name == name)
    }
}

fn row(bytes: &[u8], offset: u64) -> Option<Row> {
    let row = slice(bytes, offset, SECTION)?;
    Some(Row {
        name: u32_at(row, 0)?,
        kind: u32_at(row, 4)?,
        offset: u64_at(row, 24)?,
        size: u64_at(row, 32)?,
        link: u32_at(row, 40)?,
    })
}

/// The bytes of a section in the file.
fn data<'a>(bytes: &'a [u8], row: &Row, name: &str) -> Result<&'a [u8], ArtifactError> {
    // The first row, of type 0, is no section; its size may be the count of sections.
    if row.size == 0 || row.kind == NOBITS || row.kind == 0 {
        return Ok(&[]);
    }
    slice(bytes, row.offset, row.size)
        .ok_or_else(|| truncated(&format!("section `{name}`"), row.offset, row.size, bytes.len() as u64))
}

/// The string at `offset` of a string table, up to its NUL; empty if it is not there, too long, or not UTF-8.
pub(super) fn string(table: &[u8], offset: u64) -> &str {
    let rest = usize::try_from(offset).ok().and_then(|offset| table.get(offset..)).unwrap_or_default();
    let window = rest.get(..usize::try_from(LONGEST_NAME).unwrap_or(usize::MAX)).unwrap_or(rest);
    let end = window.iter().position(|byte| *byte == 0);
    end.and_then(|end| window.get(..end)).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
}

fn truncated(what: &str, offset: u64, length: u64, has: u64) -> ArtifactError {
    ArtifactError::Truncated { what: what.into(), needs: offset.saturating_add(length), has }
}

fn malformed(why: String) -> ArtifactError {
    ArtifactError::Malformed { form: "cubin", why }
}
