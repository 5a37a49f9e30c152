//! Finds the sections of a host's library, object or executable that hold fatbins, without reading the rest of it.
//! The main function is [`fatbin_sections`].

use super::bytes::{slice, u16_at, u32_at, u64_at};
use super::elf;
use super::error::{ArtifactError, SurveyError};
use super::source::{Source, read};

/// The sections that CUDA's tools put fatbins into: of whole programs, and of code that is linked again on the device.
const NAMES: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];
const HEADER: u64 = 64;
const ROW: u64 = 64;
/// A section without bytes in the file.
const NOBITS: u32 = 8;
/// The index that says "look into row 0".
const EXTENDED: u16 = 0xFFFF;
/// The most sections and bytes of names that are looked at. An object with a section for each function has a few
/// hundred thousand.
const MOST_SECTIONS: u64 = 1 << 20;
const MOST_NAMES: u64 = 64 << 20;

/// A section with fatbins in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) name: String,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// Where the fatbins of a 64-bit little-endian ELF file lie, in the order of its sections.
pub(super) fn fatbin_sections(source: &dyn Source) -> Result<Vec<Extent>, SurveyError> {
    let has = source.size();
    let truncated =
        |what: &str, needs: u64| SurveyError::from(ArtifactError::Truncated { what: what.into(), needs, has });
    if has < HEADER {
        return Err(truncated("the ELF header", HEADER));
    }
    let header = read(source, 0, HEADER)?;
    let half = |offset| u16_at(&header, offset).unwrap_or(0);
    if !header.starts_with(elf::MAGIC) || header.get(4..6) != Some(&[2, 1]) {
        return Err(malformed("it is not a little-endian 64-bit ELF file"));
    }
    let at = u64_at(&header, 40).unwrap_or(0);
    if at == 0 {
        return Err(malformed("its section table was stripped, and without it fatbins are not found"));
    }
    if u64::from(half(58)) != ROW {
        return Err(malformed("its section headers are not 64 bytes long"));
    }
    let first_end = at.saturating_add(ROW);
    if first_end > has {
        return Err(truncated("the section table", first_end));
    }
    let first = read(source, at, ROW)?;
    let count = if half(60) == 0 { u64_at(&first, 32).unwrap_or(0) } else { u64::from(half(60)) };
    let names_at = if half(62) == EXTENDED { u32_at(&first, 40).unwrap_or(0) } else { u32::from(half(62)) };
    if count > MOST_SECTIONS {
        return Err(malformed("it has more than a million sections"));
    }
    let end = at.saturating_add(count * ROW);
    if end > has {
        return Err(truncated("the section table", end));
    }
    let table = read(source, at, count * ROW)?;
    let row = |index: u64| slice(&table, index * ROW, ROW);

    let names = match row(u64::from(names_at)).map(extent) {
        Some((_, offset, size)) if size > MOST_NAMES || offset.saturating_add(size) > has => {
            return Err(truncated("the section names", offset.saturating_add(size)));
        }
        Some((_, offset, size)) => read(source, offset, size)?,
        None => Vec::new(),
    };
    let mut found = Vec::new();
    for row in (0..count).filter_map(row) {
        let name = elf::string(&names, u64::from(u32_at(row, 0).unwrap_or(0)));
        let (kind, offset, size) = extent(row);
        if !NAMES.contains(&name) || kind == NOBITS || size == 0 {
            continue;
        }
        let end = offset.saturating_add(size);
        if end > has {
            return Err(truncated(&format!("section `{name}`"), end));
        }
        found.push(Extent { name: name.into(), offset, size });
    }
    if found.is_empty() {
        return Err(SurveyError::NoFatbin { machine: half(18) });
    }
    Ok(found)
}

/// The type, the offset and the size of a row.
fn extent(row: &[u8]) -> (u32, u64, u64) {
    (u32_at(row, 4).unwrap_or(0), u64_at(row, 24).unwrap_or(0), u64_at(row, 32).unwrap_or(0))
}

fn malformed(why: &str) -> SurveyError {
    ArtifactError::Malformed { form: "ELF file", why: why.into() }.into()
}
