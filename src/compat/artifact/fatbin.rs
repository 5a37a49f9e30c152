//! Reads fatbins: every part with its kind, architecture, PTX ISA and compression. Nothing is decompressed, because
//! the parts' headers say all that rules need; parts that are not compressed are read as PTX or cubin.

use std::collections::HashSet;

use super::bytes::{slice, u16_at, u32_at, u64_at};
use super::contents::{Compression, Contents, Entry, EntryKind, Kernels};
use super::error::ArtifactError;
use super::{cubin, ptx};
use crate::model::arch::{Arch, Mark};
use crate::model::path::Form;
use crate::model::version::Version;

/// What a fatbin opens with: 0xBA55ED50.
pub(super) const MAGIC: &[u8] = &[0x50, 0xED, 0x55, 0xBA];
/// The shortest headers of the file and of a part.
const HEADER: u64 = 16;
pub(super) const ENTRY_HEADER: u64 = 64;
/// Flags of a part.
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const SPECIFIC: u64 = 0x10_0000;
const FAMILY: u64 = 0x20_0000;

/// Reads a fatbin, and proves that every part lies inside it. What follows its own end is not looked at.
pub(super) fn read(bytes: &[u8]) -> Result<Contents, ArtifactError> {
    let has = bytes.len() as u64;
    let truncated = |what: &str, needs: u64| ArtifactError::Truncated { what: what.into(), needs, has };
    let (header, size) = header(bytes)?;
    let mut rest = slice(bytes, header, size).ok_or_else(|| truncated("the fatbin", header.saturating_add(size)))?;

    let mut contents = Contents {
        form: Form::Fatbin,
        ptx_isa: None,
        archs: Vec::new(),
        producer: None,
        toolkit: None,
        compressed: None,
        entries: Vec::new(),
        kernels: Vec::new(),
    };
    let mut kernels = Kernels::default();
    let mut targets = HashSet::new();
    while !rest.is_empty() {
        let number = contents.entries.len() + 1;
        let end = |length: u64| has - rest.len() as u64 + length;
        let short = |length| truncated(&format!("part {number} of the fatbin"), end(length));
        let part = Part::read(rest).ok_or_else(|| short(ENTRY_HEADER))?;
        let entry = part.checked(number)?;
        let length = part.header.saturating_add(part.payload);
        let payload = slice(rest, part.header, part.payload).ok_or_else(|| short(length))?;
        if let Some(inner) = inside(&entry, payload)? {
            contents.producer = contents.producer.take().or(inner.producer);
            contents.toolkit = contents.toolkit.or(inner.toolkit);
            inner.kernels.into_iter().for_each(|kernel| kernels.push(kernel));
        }
        add(&mut contents, &mut targets, entry);
        // The slice above was not longer than the rest, so neither is this.
        rest = rest.get(usize::try_from(length).unwrap_or(usize::MAX)..).unwrap_or_default();
    }
    if contents.entries.is_empty() {
        return Err(malformed("there is nothing in it".into()));
    }
    contents.kernels = kernels.into_vec();
    Ok(contents)
}

/// The lengths of a fatbin's header and of what follows it.
pub(super) fn header(bytes: &[u8]) -> Result<(u64, u64), ArtifactError> {
    let (Some(header), Some(size)) = (u16_at(bytes, 6), u64_at(bytes, 8)) else {
        let has = bytes.len() as u64;
        return Err(ArtifactError::Truncated { what: "the fatbin's header".into(), needs: HEADER, has });
    };
    let header = u64::from(header);
    if header < HEADER {
        return Err(malformed(format!("its header is {header} bytes long, not {HEADER}")));
    }
    Ok((header, size))
}

/// What a part holds; none if it is compressed, or of no form that is read.
fn inside(entry: &Entry, payload: &[u8]) -> Result<Option<Contents>, ArtifactError> {
    if entry.compression.is_some() {
        return Ok(None);
    }
    match entry.kind {
        EntryKind::Ptx => ptx::read(payload).map(Some),
        EntryKind::Cubin => match cubin::read(payload) {
            // Made for another driver than the parts that are known; the header still says for which GPU.
            Err(ArtifactError::OtherAbi { .. }) => Ok(None),
            read => read.map(Some),
        },
        EntryKind::LtoIr | EntryKind::Other(_) => Ok(None),
    }
}

fn add(contents: &mut Contents, targets: &mut HashSet<String>, entry: Entry) {
    let target = entry.target();
    if targets.insert(target.clone()) {
        contents.archs.push(target);
    }
    contents.ptx_isa = contents.ptx_isa.max(entry.ptx_isa);
    contents.compressed = match (contents.compressed, entry.compression) {
        (Some(Compression::Zstd), _) | (_, Some(Compression::Zstd)) => Some(Compression::Zstd),
        (before, this) => before.or(this),
    };
    contents.entries.push(entry);
}

/// A part's header.
pub(super) struct Part {
    kind: u16,
    pub(super) header: u64,
    pub(super) payload: u64,
    pub(super) packed: u64,
    minor: u16,
    major: u16,
    sm: u32,
    flags: u64,
    unpacked: u64,
}

impl Part {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            kind: u16_at(bytes, 0)?,
            header: u64::from(u32_at(bytes, 4)?),
            payload: u64_at(bytes, 8)?,
            packed: u64::from(u32_at(bytes, 16)?),
            minor: u16_at(bytes, 24)?,
            major: u16_at(bytes, 26)?,
            sm: u32_at(bytes, 28)?,
            flags: u64_at(bytes, 40)?,
            unpacked: u64_at(bytes, 56)?,
        })
    }

    /// The part, the `number`th of its fatbin, if its header is one.
    pub(super) fn checked(&self, number: usize) -> Result<Entry, ArtifactError> {
        if self.header < ENTRY_HEADER {
            return Err(malformed(format!("the header of part {number} is {} bytes long", self.header)));
        }
        let entry = self.entry().ok_or_else(|| malformed(format!("part {number} is for SM number {}", self.sm)))?;
        if self.packed > self.payload {
            return Err(malformed(format!("part {number} is longer compressed than it is")));
        }
        Ok(entry)
    }

    fn entry(&self) -> Option<Entry> {
        let kind = match self.kind {
            1 => EntryKind::Ptx,
            2 => EntryKind::Cubin,
            8 => EntryKind::LtoIr,
            other => EntryKind::Other(other),
        };
        let mark = if self.flags & SPECIFIC != 0 {
            Some(Mark::Specific)
        } else if self.flags & FAMILY != 0 {
            Some(Mark::Family)
        } else {
            None
        };
        let compression = if self.flags & ZSTD != 0 {
            Some(Compression::Zstd)
        } else if self.flags & LZ4 != 0 {
            Some(Compression::Lz4)
        } else {
            (self.packed != 0).then_some(Compression::Other)
        };
        Some(Entry {
            kind,
            arch: Arch { mark, ..Arch::from_digits(&self.sm.to_string())? },
            ptx_isa: (kind == EntryKind::Ptx).then(|| Version::new(self.major, self.minor)),
            abi: (kind == EntryKind::Cubin).then_some(self.minor),
            compression,
            bytes: self.payload,
            unpacked_bytes: compression.map(|_| self.unpacked),
        })
    }
}

fn malformed(why: String) -> ArtifactError {
    ArtifactError::Malformed { form: "fatbin", why }
}
