//! Whether a driver takes an artifact for a GPU: PTX, machine code, and a fatbin of both. Its main function is
//! [`load`]; [`Piece`] is one part of an artifact, as far as it decides.

use super::machine::{Jit, Machine};
use crate::compat::artifact::{Compression, Contents, Entry, EntryKind};
use crate::model::arch::{Arch, Mark};
use crate::model::fleet::DriverVersion;
use crate::model::path::Form;
use crate::model::version::Version;

/// The first driver that unpacks fatbins compressed with zstd.
const FIRST_WITH_ZSTD: DriverVersion = DriverVersion([550, 54, 14]);
/// Between 8.8 and 9.0 no PTX ISA was published.
const UNPUBLISHED: Version = Version::new(8, 9);
/// The first toolkit whose cubins all have ELF ABI 8.
const ALL_ABI_8: u16 = 13;

/// What the driver makes of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The driver's error; none where it loads, and where which error it is has not been seen.
    pub error: Option<u32>,
    /// Whether it loads.
    pub loads: bool,
    /// The rule that decided.
    pub rule: &'static str,
}

impl Load {
    const fn taken(rule: &'static str) -> Self {
        Self { error: None, loads: true, rule }
    }

    const fn refused(rule: &'static str, error: u32) -> Self {
        Self { error: Some(error), loads: false, rule }
    }

    /// Refused, with a code that no source names.
    const fn refused_somehow(rule: &'static str) -> Self {
        Self { error: None, loads: false, rule }
    }
}

/// One part of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// PTX or cubin.
    pub kind: PieceKind,
    /// What it was made for.
    pub arch: Arch,
    /// Whether it is compressed with zstd.
    pub zstd: bool,
}

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// PTX of this ISA.
    Ptx(Version),
    /// Machine code of a toolkit of this version; where only the layout says something, of the oldest that it can be.
    Cubin(Version),
}

/// The parts of an artifact that a driver looks at.
#[must_use]
pub fn pieces(contents: &Contents) -> Vec<Piece> {
    contents.entries.iter().filter_map(|entry| piece(contents, entry)).collect()
}

fn piece(contents: &Contents, entry: &Entry) -> Option<Piece> {
    let kind = match entry.kind {
        EntryKind::Ptx => PieceKind::Ptx(entry.ptx_isa?),
        EntryKind::Cubin => PieceKind::Cubin(toolkit(contents, entry)),
        EntryKind::LtoIr | EntryKind::Other(_) => return None,
    };
    Some(Piece { kind, arch: entry.arch, zstd: entry.compression == Some(Compression::Zstd) })
}

/// The toolkit of a cubin. A fatbin may hold cubins of several, and names one at most: the layout decides first.
fn toolkit(contents: &Contents, entry: &Entry) -> Version {
    let oldest = match entry.abi {
        Some(abi) if abi >= 8 && entry.arch.number() < 100 => Version::new(ALL_ABI_8, 0),
        Some(abi) if abi >= 8 => Version::new(12, 8),
        _ => Version::new(11, 0),
    };
    let fits = |said: &Version| *said >= oldest && (entry.abi != Some(7) || said.major < ALL_ABI_8);
    contents.toolkit.filter(fits).unwrap_or(oldest)
}

/// What the machine's driver makes of an artifact of this form with these parts.
#[must_use]
pub fn load(form: Form, pieces: &[Piece], machine: &Machine) -> Load {
    match form {
        Form::Fatbin => fatbin(pieces, machine),
        Form::Ptx | Form::Cubin => match pieces.first() {
            Some(piece) => single(piece, machine),
            None => Load::refused("artifact-form", 200),
        },
    }
}

/// An artifact of one part.
fn single(piece: &Piece, machine: &Machine) -> Load {
    match piece.kind {
        PieceKind::Ptx(isa) => ptx(piece.arch, isa, machine),
        // A forced JIT changes the choice within a fatbin: a cubin that is handed over by itself loads all the same.
        PieceKind::Cubin(toolkit) => cubin(piece.arch, toolkit, machine),
    }
}

fn ptx(target: Arch, isa: Version, machine: &Machine) -> Load {
    match machine.jit {
        Jit::Disabled => return Load::refused("jit-disabled", 223),
        Jit::Missing => return Load::refused("jit-missing", 221),
        Jit::Usual | Jit::Forced => {}
    }
    // ptxas reads the version before the target.
    if isa == UNPUBLISHED {
        Load::refused("ptx-unpublished", 222)
    } else if isa > machine.max_ptx_isa() {
        Load::refused("ptx-isa", 222)
    } else if let Some(rule) = not_for(target, machine.cc, ptx_reaches(target, machine.cc), Kind::Ptx) {
        Load::refused(rule, 218)
    } else {
        Load::taken("ptx-isa")
    }
}

fn cubin(arch: Arch, toolkit: Version, machine: &Machine) -> Load {
    if let Some(rule) = not_for(arch, machine.cc, cubin_reaches(arch, machine.cc), Kind::Cubin) {
        Load::refused(rule, 209)
    } else if toolkit.major > machine.cuda.major {
        Load::refused_somehow("cuda-major")
    } else if toolkit > machine.cuda {
        Load::taken("minor-version")
    } else {
        Load::taken("backward")
    }
}

/// The machine code that fits best, else the PTX of the highest target that does.
fn fatbin(pieces: &[Piece], machine: &Machine) -> Load {
    let unpacks = |piece: &Piece| !piece.zstd || machine.driver.is_none_or(|driver| driver >= FIRST_WITH_ZSTD);
    let zstd = Load::refused("fatbin-zstd", 200);
    let mut codes: Vec<(&Piece, Version)> = pieces
        .iter()
        .filter_map(|piece| match piece.kind {
            PieceKind::Cubin(toolkit) => Some((piece, toolkit)),
            PieceKind::Ptx(_) => None,
        })
        .filter(|(piece, _)| machine.jit != Jit::Forced && cubin_reaches(piece.arch, machine.cc))
        .collect();
    codes.sort_by_key(|(piece, _)| std::cmp::Reverse(piece.arch.number()));
    let mut why = None;
    for (piece, toolkit) in codes {
        let this = if unpacks(piece) { cubin(piece.arch, toolkit, machine) } else { zstd };
        if this.loads || this == zstd {
            return this;
        }
        why = why.or(Some(this));
    }
    let best = pieces
        .iter()
        .filter_map(|piece| match piece.kind {
            PieceKind::Ptx(isa) => Some((piece, isa)),
            PieceKind::Cubin(_) => None,
        })
        .filter(|(piece, _)| ptx_reaches(piece.arch, machine.cc))
        .max_by_key(|(piece, _)| piece.arch.number());
    match best {
        Some((piece, isa)) => match ptx(piece.arch, isa, machine) {
            taken if taken.loads && !unpacks(piece) => zstd,
            said => said,
        },
        None if machine.jit == Jit::Forced => Load::refused("jit-forced", 209),
        None => why.unwrap_or(Load::refused("fatbin-none", 209)),
    }
}

enum Kind {
    Ptx,
    Cubin,
}

/// The rule by which code for `made` is not for `here`, where it is not.
fn not_for(made: Arch, here: Arch, reaches: bool, kind: Kind) -> Option<&'static str> {
    // A mark matters only where the same code without it would do.
    let generic = Arch { mark: None, ..made };
    let without_mark = match kind {
        Kind::Ptx => ptx_reaches(generic, here),
        Kind::Cubin => cubin_reaches(generic, here),
    };
    match (reaches, without_mark, kind) {
        (true, _, _) => None,
        (false, true, Kind::Ptx) => Some("ptx-specific"),
        (false, true, Kind::Cubin) => Some("cubin-specific"),
        (false, false, Kind::Ptx) => Some("ptx-target"),
        (false, false, Kind::Cubin) => Some("cubin-arch"),
    }
}

/// Whether PTX for `target` compiles for the capability `cc`.
#[must_use]
pub fn ptx_reaches(target: Arch, cc: Arch) -> bool {
    match target.mark {
        None => target.number() <= cc.number(),
        Some(Mark::Specific) => target.number() == cc.number(),
        Some(Mark::Family) => in_family(target, cc),
    }
}

/// Whether machine code for `arch` runs on the capability `cc`.
#[must_use]
pub fn cubin_reaches(arch: Arch, cc: Arch) -> bool {
    match arch.mark {
        None => arch.major == cc.major && arch.minor <= cc.minor,
        Some(Mark::Specific) => arch.number() == cc.number(),
        Some(Mark::Family) => in_family(arch, cc),
    }
}

/// Families are 10.0, 10.3 and 10.7; 11.0 (and 10.1, its old name); 12.0 and 12.1.
fn in_family(arch: Arch, cc: Arch) -> bool {
    let family = |arch: Arch| match arch.number() {
        100 | 103 | 107 => Some(100),
        101 | 110 => Some(110),
        120 | 121 => Some(120),
        _ => None,
    };
    family(arch).is_some() && family(arch) == family(cc) && arch.number() <= cc.number()
}
