//! Reads a fatbin's members.
//! The main type is [`Member`].
//!
//! The layout was read off files of nvcc 12.4, 13.0 and 13.5; NVIDIA documents none of it.

use super::arch::{Arch, Mark};
use super::bytes::{u16_at, u32_at, u64_at};

/// Length of a fatbin's own header, in bytes.
pub(super) const HEADER: usize = 16;

/// A member's header reaches at least this far.
const MEMBER: usize = 64;

const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
const FLAG_EXACT: u64 = 0x10_0000;
const FLAG_FAMILY: u64 = 0x20_0000;

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// PTX text.
    Ptx,
    /// Machine code.
    Cubin,
    /// Something that the driver does not load: LTO-IR.
    Other,
}

/// How a member is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// Not.
    Plain,
    /// LZ4.
    Lz4,
    /// zstd.
    Zstd,
}

/// A member of a fatbin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) kind: Kind,
    pub(super) arch: Arch,
    /// Of PTX, its ISA.
    pub(super) version: (u32, u32),
    pub(super) packing: Packing,
    pub(super) payload: &'a [u8],
}

/// The whole fatbin's length, by its header.
pub(super) fn length(header: &[u8]) -> Option<u64> {
    let after = u64_at(header, 8)?;
    (u16_at(header, 4)? == 1).then_some(())?;
    after.checked_add(u64::from(u16_at(header, 6)?))
}

/// All members; nothing if they do not fill the fatbin exactly.
pub(super) fn members(bytes: &[u8]) -> Option<Vec<Member<'_>>> {
    let mut rest = bytes.get(usize::from(u16_at(bytes, 6)?)..)?;
    let mut members = Vec::new();
    while !rest.is_empty() {
        let header = usize::try_from(u32_at(rest, 4)?).ok().filter(|length| *length >= MEMBER)?;
        let padded = usize::try_from(u64_at(rest, 8)?).ok()?;
        let payload = rest.get(header..header.checked_add(padded)?)?;
        let flags = u64_at(rest, 40)?;
        let packed = usize::try_from(u32_at(rest, 16)?).ok()?;
        let packing = match flags {
            flags if flags & FLAG_ZSTD != 0 => Packing::Zstd,
            flags if flags & FLAG_LZ4 != 0 => Packing::Lz4,
            _ => Packing::Plain,
        };
        let mark = match flags {
            flags if flags & FLAG_EXACT != 0 => Mark::Exact,
            flags if flags & FLAG_FAMILY != 0 => Mark::Family,
            _ => Mark::Generic,
        };
        members.push(Member {
            kind: match u16_at(rest, 0)? {
                1 => Kind::Ptx,
                2 => Kind::Cubin,
                _ => Kind::Other,
            },
            arch: Arch::new(u32_at(rest, 28)?, mark),
            version: (u32::from(u16_at(rest, 26)?), u32::from(u16_at(rest, 24)?)),
            packing,
            payload: if packing == Packing::Plain { payload } else { payload.get(..packed)? },
        });
        rest = rest.get(header + padded..)?;
    }
    Some(members)
}
