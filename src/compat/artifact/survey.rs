//! What a large file holds, without reading it whole: a fatbin, or a host's library, object or executable with fatbins
//! in it. Its main type is [`Survey`]; alike parts are counted together, and of each kind one is looked into.

use std::collections::BTreeMap;

use super::contents::{Compression, Contents, Entry, EntryKind, KernelEntry};
use super::error::{ArtifactError, SurveyError};
use super::sections::{Extent, fatbin_sections};
use super::source::{Source, Window, read};
use super::unpack::{LONGEST, unpack};
use super::{cubin, elf, fatbin, ptx};
use crate::compat::runs_on::Piece;
use crate::model::arch::Arch;
use crate::model::version::Version;

/// PTX, cubins and what is in a fatbin alone are read whole up to this size.
const LONGEST_WHOLE: u64 = 256 << 20;
/// Kinds of parts: a library has a few dozen.
const MOST_GROUPS: usize = 4096;
/// Damaged parts that are listed.
const MOST_DAMAGED: usize = 20;
/// Tries to look into a part of a group: the first ones may be too large.
const MOST_LOOKS: u32 = 4;
/// Parts of a fatbin alone that are looked into for the names of its kernels.
const MOST_NAMED: u64 = 256;

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// What the file is.
    pub form: Form,
    /// The sections with fatbins; none unless the file is a host's.
    pub sections: Vec<Section>,
    /// How many fatbins.
    pub fatbins: u64,
    /// Parts that are alike, in the order of kind and architecture.
    pub groups: Vec<Group>,
    /// The combinations of groups that fatbins are made of, and how many are made of each.
    pub shapes: Vec<Shape>,
    /// The kernels; only of an artifact that is not in a host's file.
    pub kernels: Vec<KernelEntry>,
    /// Parts that could not be read, of those that were looked into.
    pub damaged: Vec<Damaged>,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// PTX text.
    Ptx,
    /// Machine code for a GPU.
    Cubin,
    /// A fatbin alone.
    #[default]
    Fatbin,
    /// A library, object or executable of a host.
    Host,
}

/// A section with fatbins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// `.nv_fatbin`, or `__nv_relfatbin` for code that is linked again on the device.
    pub name: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// The fatbins in it.
    pub fatbins: u64,
}

/// Parts that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// PTX, machine code, or what else.
    pub kind: EntryKind,
    /// What they were made for.
    pub arch: Arch,
    /// The PTX ISA, for PTX.
    pub ptx_isa: Option<Version>,
    /// The ELF ABI, for machine code.
    pub abi: Option<u16>,
    /// How they are compressed.
    pub compression: Option<Compression>,
    /// How many.
    pub count: u64,
    /// Their sizes in the file, together.
    pub bytes: u64,
    /// Their sizes after decompression, together.
    pub unpacked_bytes: u64,
    /// The maker that the first of them names, of those that were looked into.
    pub producer: Option<String>,
    /// The toolkit that it belongs to.
    pub toolkit: Option<Version>,
}

/// A combination of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Places in [`Survey::groups`], rising.
    pub groups: Vec<usize>,
    /// How many fatbins are made of just these.
    pub count: u64,
}

/// A part that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Which fatbin of the file, from 1.
    pub fatbin: u64,
    /// Which part of it, from 1.
    pub part: u64,
    /// Why.
    pub error: ArtifactError,
}

impl Group {
    /// The architecture with the prefix of what the parts are: `sm_90a`, `compute_90`, `lto_90`.
    #[must_use]
    pub fn target(&self) -> String {
        let Self { kind, arch, ptx_isa, abi, compression, .. } = self;
        let (kind, arch, ptx_isa, abi, compression) = (*kind, *arch, *ptx_isa, *abi, *compression);
        Entry { kind, arch, ptx_isa, abi, compression, bytes: 0, unpacked_bytes: None }.target()
    }
}

impl Survey {
    /// Surveys a file of any kind.
    pub fn of(source: &dyn Source) -> Result<Self, SurveyError> {
        let opening = read(source, 0, source.size().min(64))?;
        if opening.starts_with(fatbin::MAGIC) {
            return Surveyor::new(source, true).fatbin_alone();
        }
        let machine = super::bytes::u16_at(&opening, 18);
        if opening.starts_with(elf::MAGIC) && machine.is_some_and(|machine| machine != cubin::MACHINE) {
            return Surveyor::new(source, false).host();
        }
        if opening.starts_with(b"!<arch>\n") || opening.starts_with(b"!<thin>\n") {
            return Err(SurveyError::Archive);
        }
        if source.size() > LONGEST_WHOLE {
            return Err(SurveyError::TooLarge { bytes: source.size(), most: LONGEST_WHOLE });
        }
        Ok(Self::whole(super::read(&read(source, 0, source.size())?)?))
    }

    /// The parts of one shape, as far as a driver looks at them.
    #[must_use]
    pub fn pieces(&self, shape: &Shape) -> Vec<Piece> {
        // Mostly one toolkit made all of a file, so that what names no maker has that of the rest.
        let newest = self.groups.iter().filter_map(|group| group.toolkit).max();
        let piece = |group: &Group| {
            let said = group.toolkit.or(newest);
            Piece::new(group.kind, group.arch, group.ptx_isa, group.abi, group.compression, said)
        };
        shape.groups.iter().filter_map(|at| self.groups.get(*at)).filter_map(piece).collect()
    }

    /// What one reading gave, in the shape of a survey: PTX or a cubin, which is one part.
    fn whole(contents: Contents) -> Self {
        let form = match contents.form {
            crate::model::path::Form::Ptx => Form::Ptx,
            crate::model::path::Form::Cubin => Form::Cubin,
            crate::model::path::Form::Fatbin => Form::Fatbin,
        };
        let group = |entry: &Entry| Group {
            kind: entry.kind,
            arch: entry.arch,
            ptx_isa: entry.ptx_isa,
            abi: entry.abi,
            compression: entry.compression,
            count: 1,
            bytes: entry.bytes,
            unpacked_bytes: entry.unpacked_bytes.unwrap_or(entry.bytes),
            producer: contents.producer.clone(),
            toolkit: contents.toolkit,
        };
        let groups: Vec<Group> = contents.entries.iter().map(group).collect();
        let shapes = vec![Shape { groups: (0..groups.len()).collect(), count: 1 }];
        Self { form, groups, shapes, kernels: contents.kernels, ..Self::default() }
    }
}

/// What makes parts alike, in the order in which groups are listed.
type Key = (u16, Arch, Option<Version>, Option<u16>, u8);

/// Walks over a file.
struct Surveyor<'a> {
    source: &'a dyn Source,
    window: Window<'a>,
    groups: BTreeMap<Key, (Group, u32)>,
    shapes: BTreeMap<Vec<Key>, u64>,
    fatbins: u64,
    damaged: Vec<Damaged>,
    /// Whether names of kernels are collected.
    names: bool,
    named: u64,
    kernels: super::contents::Kernels,
}

impl<'a> Surveyor<'a> {
    fn new(source: &'a dyn Source, names: bool) -> Self {
        Self {
            source,
            window: Window::new(source),
            groups: BTreeMap::new(),
            shapes: BTreeMap::new(),
            fatbins: 0,
            damaged: Vec::new(),
            names,
            named: 0,
            kernels: super::contents::Kernels::default(),
        }
    }

    fn fatbin_alone(mut self) -> Result<Survey, SurveyError> {
        self.fatbin(0, self.source.size())?;
        Ok(self.finish(Form::Fatbin, Vec::new()))
    }

    fn host(mut self) -> Result<Survey, SurveyError> {
        let mut sections = Vec::new();
        for extent in fatbin_sections(self.source)? {
            let before = self.fatbins;
            self.section(&extent)?;
            sections.push(Section { name: extent.name, bytes: extent.size, fatbins: self.fatbins - before });
        }
        Ok(self.finish(Form::Host, sections))
    }

    /// Fatbins one after the other, with zeros between them.
    fn section(&mut self, extent: &Extent) -> Result<(), SurveyError> {
        let (mut at, end) = (extent.offset, extent.offset + extent.size);
        while at < end {
            let bytes = self.window.at(at, end)?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            if zeros > 0 {
                at += zeros as u64;
            } else if bytes.starts_with(fatbin::MAGIC) {
                at = self.fatbin(at, end)?;
            } else {
                let why = format!("at byte {at} in section `{}` there is no fatbin", extent.name);
                return Err(ArtifactError::Malformed { form: "ELF file", why }.into());
            }
        }
        Ok(())
    }

    /// One fatbin; gives its end.
    fn fatbin(&mut self, at: u64, end: u64) -> Result<u64, SurveyError> {
        let truncated =
            |what: String, needs: u64| SurveyError::from(ArtifactError::Truncated { what, needs, has: end });
        self.fatbins += 1;
        let fatbin = self.fatbins;
        let head = self.window.at(at, end)?;
        let (header, size) = fatbin::header(head)?;
        let inside_end = at.saturating_add(header).saturating_add(size);
        if inside_end > end {
            return Err(truncated("the fatbin".into(), inside_end));
        }
        let mut place = at + header;
        let mut shape = Vec::new();
        let mut number = 0;
        while place < inside_end {
            number += 1;
            let part = fatbin::Part::read(self.window.at(place, inside_end)?);
            let part =
                part.ok_or_else(|| truncated(format!("part {number} of the fatbin"), place + fatbin::ENTRY_HEADER))?;
            let entry = part.checked(number)?;
            let payload = place.saturating_add(part.header);
            let next = payload.saturating_add(part.payload);
            if next > inside_end {
                return Err(truncated(format!("part {number} of the fatbin"), next));
            }
            shape.push(self.part(&entry, (fatbin, number as u64), payload, part.packed)?);
            place = next;
        }
        if shape.is_empty() {
            let why = "there is nothing in it".into();
            return Err(ArtifactError::Malformed { form: "fatbin", why }.into());
        }
        shape.sort_unstable();
        shape.dedup();
        *self.shapes.entry(shape).or_default() += 1;
        Ok(inside_end)
    }

    /// Counts a part, and looks into it where nothing like it was looked into.
    fn part(&mut self, entry: &Entry, number: (u64, u64), payload: u64, packed: u64) -> Result<Key, SurveyError> {
        let key = key(entry);
        if !self.groups.contains_key(&key) && self.groups.len() == MOST_GROUPS {
            let why = format!("there are more than {MOST_GROUPS} kinds of parts in it");
            return Err(ArtifactError::Malformed { form: "fatbin", why }.into());
        }
        let (group, looks) = self.groups.entry(key).or_insert_with(|| (empty(entry), 0));
        group.count += 1;
        group.bytes = group.bytes.saturating_add(entry.bytes);
        group.unpacked_bytes = group.unpacked_bytes.saturating_add(entry.unpacked_bytes.unwrap_or(entry.bytes));
        let for_maker = group.producer.is_none() && *looks < MOST_LOOKS;
        let for_names = self.names && self.named < MOST_NAMED;
        if for_maker || for_names {
            *looks += 1;
            self.named += 1;
            match inside(self.source, entry, payload, packed) {
                Ok(Some(contents)) => {
                    if for_maker {
                        group.producer = contents.producer;
                        group.toolkit = contents.toolkit;
                    }
                    if for_names {
                        contents.kernels.into_iter().for_each(|kernel| self.kernels.push(kernel));
                    }
                }
                Ok(None) => {}
                Err(SurveyError::Artifact(error)) => {
                    if self.damaged.len() < MOST_DAMAGED {
                        self.damaged.push(Damaged { fatbin: number.0, part: number.1, error });
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(key)
    }

    fn finish(self, form: Form, sections: Vec<Section>) -> Survey {
        let places: BTreeMap<Key, usize> = self.groups.keys().enumerate().map(|(at, key)| (*key, at)).collect();
        let shape = |(keys, count): (&Vec<Key>, &u64)| Shape {
            groups: keys.iter().filter_map(|key| places.get(key).copied()).collect(),
            count: *count,
        };
        let shapes = self.shapes.iter().map(shape).collect();
        Survey {
            form,
            sections,
            fatbins: self.fatbins,
            groups: self.groups.into_values().map(|(group, _)| group).collect(),
            shapes,
            kernels: self.kernels.into_vec(),
            damaged: self.damaged,
        }
    }
}

fn key(entry: &Entry) -> Key {
    let kind = match entry.kind {
        EntryKind::Cubin => 0,
        EntryKind::Ptx => 1,
        EntryKind::LtoIr => 2,
        EntryKind::Other(kind) => kind.saturating_add(3),
    };
    let compression = match entry.compression {
        None => 0,
        Some(Compression::Lz4) => 1,
        Some(Compression::Zstd) => 2,
        Some(Compression::Other) => 3,
    };
    (kind, entry.arch, entry.ptx_isa, entry.abi, compression)
}

fn empty(entry: &Entry) -> Group {
    Group {
        kind: entry.kind,
        arch: entry.arch,
        ptx_isa: entry.ptx_isa,
        abi: entry.abi,
        compression: entry.compression,
        count: 0,
        bytes: 0,
        unpacked_bytes: 0,
        producer: None,
        toolkit: None,
    }
}

/// What a part holds, decompressed if need be; none if it is too large, or of no form that is read.
fn inside(source: &dyn Source, entry: &Entry, at: u64, packed: u64) -> Result<Option<Contents>, SurveyError> {
    if entry.bytes > LONGEST || !matches!(entry.kind, EntryKind::Ptx | EntryKind::Cubin) {
        return Ok(None);
    }
    let unpacked = match entry.compression {
        None => Some(read(source, at, entry.bytes)?),
        Some(how) => unpack(how, &read(source, at, packed)?, entry.unpacked_bytes.unwrap_or(0))?,
    };
    let Some(bytes) = unpacked else { return Ok(None) };
    let contents = if entry.kind == EntryKind::Ptx { ptx::read(&bytes) } else { cubin::read(&bytes) };
    match contents {
        // Made for another driver than the parts that are known; the header still says for which GPU.
        Err(ArtifactError::OtherAbi { .. }) => Ok(None),
        read => Ok(read.map(Some)?),
    }
}
