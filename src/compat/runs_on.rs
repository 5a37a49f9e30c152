//! On which GPUs, and with which drivers, an artifact runs. The main function is [`runs_on`].
//!
//! A driver takes the machine code that fits the GPU best, and compiles the PTX of the highest target that does where
//! none fits. Each question is asked of every driver branch that the catalogue knows.

use std::collections::BTreeSet;

use super::artifact::{Compression, EntryKind};
use super::catalogue;
use crate::model::arch::{Arch, Mark};
use crate::model::version::Version;

/// The first branch whose drivers unpack zstd: from 550.54.14 on (rapids-cmake documentation).
const FIRST_WITH_ZSTD: u32 = 550;
/// The last branches that drive Kepler, and Maxwell to Volta (NVIDIA's deprecation schedule for UNIX drivers).
const LAST_FOR_KEPLER: u32 = 470;
const LAST_BEFORE_TURING: u32 = 580;
/// Between 8.8 and 9.0 no PTX ISA was published, and driver 580 refuses 8.9 (measured).
const UNPUBLISHED: Version = Version::new(8, 9);
/// Capabilities of embedded systems: machine code does not go between them and others of their major number (CUDA C++
/// Programming Guide, binary compatibility).
const EMBEDDED: [u32; 5] = [53, 62, 72, 87, 88];

/// One part of an artifact, as far as it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// PTX or cubin.
    pub kind: PieceKind,
    /// What it was made for.
    pub arch: Arch,
    /// Whether it is compressed with zstd.
    pub zstd: bool,
}

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PieceKind {
    /// PTX of this ISA.
    Ptx(Version),
    /// Machine code of a toolkit of this version; where only the layout says something, of the oldest that it can be.
    Cubin(Version),
}

impl Piece {
    /// The piece that a part is; none for what a driver does not load. `said` is the toolkit that the part, or the
    /// artifact round it, names.
    #[must_use]
    pub fn new(
        kind: EntryKind,
        arch: Arch,
        ptx_isa: Option<Version>,
        abi: Option<u16>,
        compression: Option<Compression>,
        said: Option<Version>,
    ) -> Option<Self> {
        let kind = match kind {
            EntryKind::Ptx => PieceKind::Ptx(ptx_isa?),
            EntryKind::Cubin => PieceKind::Cubin(toolkit(arch, abi, said)),
            EntryKind::LtoIr | EntryKind::Other(_) => return None,
        };
        Some(Self { kind, arch, zstd: compression == Some(Compression::Zstd) })
    }
}

/// The toolkit of a cubin: the layout decides, and what is said counts where it does not contradict.
fn toolkit(arch: Arch, abi: Option<u16>, said: Option<Version>) -> Version {
    let oldest = match abi {
        Some(abi) if abi >= 8 && arch.number() < 100 => Version::new(13, 0),
        Some(abi) if abi >= 8 => Version::new(12, 8),
        _ => Version::new(11, 0),
    };
    said.filter(|said| *said >= oldest && (abi != Some(7) || said.major < 13)).unwrap_or(oldest)
}

/// That an artifact runs on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// The GPU's compute capability.
    pub gpu: Arch,
    /// The oldest driver branch.
    pub from: u32,
    /// The newest driver branch; none if every later one will do.
    pub until: Option<u32>,
    /// The part that the newest of these drivers takes.
    pub by: Piece,
}

/// Every compute capability for which some toolkit compiles, lowest first.
#[must_use]
pub fn gpus() -> Vec<Arch> {
    let known = catalogue::toolkits().iter().flat_map(|toolkit| toolkit.targets.value.generic());
    // 10.1 was renamed to 11.0 when its GPUs came out.
    known.filter(|arch| arch.number() != 101).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether and with which drivers an artifact of these parts runs on a GPU of the capability `gpu`.
#[must_use]
pub fn runs_on(pieces: &[Piece], gpu: Arch) -> Option<Runs> {
    let mut taken = catalogue::drivers()
        .iter()
        .filter(|driver| drives(driver.branch, gpu))
        .filter_map(|driver| Some((driver.branch, taken(pieces, driver, gpu)?)));
    let (from, first) = taken.next()?;
    let (last, by) = taken.next_back().unwrap_or((from, first));
    let until = (gpu < Arch::new(7, 5)).then_some(last);
    Some(Runs { gpu, from, until, by })
}

/// Whether drivers of this branch know GPUs of this capability: from that of the first toolkit that compiles for them.
fn drives(branch: u32, gpu: Arch) -> bool {
    let first = catalogue::toolkits().iter().find(|toolkit| toolkit.knows(gpu)).map(|toolkit| toolkit.driver.branch);
    // What the oldest toolkit here compiles for is mostly older than the toolkit.
    let oldest = catalogue::toolkits().first().map(|toolkit| toolkit.driver.branch);
    let new = gpu.number() >= 89;
    let known = first.is_some_and(|first| branch >= first || (!new && Some(first) == oldest));
    let dropped = match gpu.number() {
        ..50 => branch > LAST_FOR_KEPLER,
        50..75 => branch > LAST_BEFORE_TURING,
        75.. => false,
    };
    known && !dropped
}

/// The part that a driver takes for a GPU.
fn taken(pieces: &[Piece], driver: &catalogue::DriverFacts, gpu: Arch) -> Option<Piece> {
    let unpacks = |piece: &&Piece| !piece.zstd || driver.branch >= FIRST_WITH_ZSTD;
    let code = pieces.iter().filter(|piece| match piece.kind {
        PieceKind::Cubin(toolkit) => cubin_reaches(piece.arch, gpu) && toolkit.major <= driver.cuda.value.major,
        PieceKind::Ptx(_) => false,
    });
    // Code that fits and that the driver cannot unpack is an error, and no reason to look further.
    if let Some(best) = code.max_by_key(|piece| (piece.arch.number(), piece.arch.mark)) {
        return Some(best).filter(unpacks).copied();
    }
    let text = pieces.iter().filter_map(|piece| match piece.kind {
        PieceKind::Ptx(isa) if ptx_reaches(piece.arch, gpu) => Some((piece, isa)),
        PieceKind::Ptx(_) | PieceKind::Cubin(_) => None,
    });
    let (best, isa) = text.max_by_key(|(piece, _)| piece.arch.number())?;
    let taken = isa <= driver.max_ptx_isa.value && isa != UNPUBLISHED;
    taken.then_some(best).filter(unpacks).copied()
}

/// Whether PTX for `target` compiles for the capability `gpu`.
#[must_use]
pub fn ptx_reaches(target: Arch, gpu: Arch) -> bool {
    match target.mark {
        None => target.number() <= gpu.number(),
        Some(Mark::Specific) => target.number() == gpu.number(),
        Some(Mark::Family) => in_family(target, gpu),
    }
}

/// Whether machine code for `arch` runs on the capability `gpu`.
#[must_use]
pub fn cubin_reaches(arch: Arch, gpu: Arch) -> bool {
    match arch.mark {
        None if EMBEDDED.contains(&arch.number()) || EMBEDDED.contains(&gpu.number()) => arch.number() == gpu.number(),
        None => arch.major == gpu.major && arch.minor <= gpu.minor,
        Some(Mark::Specific) => arch.number() == gpu.number(),
        Some(Mark::Family) => in_family(arch, gpu),
    }
}

/// Families are 10.0, 10.3 and 10.7; 11.0 (and 10.1, its old name); 12.0 and 12.1 (measured with ptxas 13.5).
fn in_family(arch: Arch, gpu: Arch) -> bool {
    let family = |arch: Arch| match arch.number() {
        100 | 103 | 107 => Some(100),
        101 | 110 => Some(110),
        120 | 121 => Some(120),
        _ => None,
    };
    family(arch).is_some() && family(arch) == family(gpu) && arch.number() <= gpu.number()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arch(text: &str) -> Arch {
        text.parse().unwrap()
    }

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn ptx(target: &str, isa: &str) -> Piece {
        Piece { kind: PieceKind::Ptx(version(isa)), arch: arch(target), zstd: false }
    }

    fn cubin(target: &str, toolkit: &str) -> Piece {
        Piece { kind: PieceKind::Cubin(version(toolkit)), arch: arch(target), zstd: false }
    }

    fn zstd(piece: Piece) -> Piece {
        Piece { zstd: true, ..piece }
    }

    /// On which GPUs with which drivers, as `9.0 525- cubin 9.0`.
    fn shown(pieces: &[Piece]) -> Vec<String> {
        let show = |runs: Runs| {
            let until = runs.until.map(|until| until.to_string()).unwrap_or_default();
            let by = match runs.by.kind {
                PieceKind::Ptx(_) => "ptx",
                PieceKind::Cubin(_) => "cubin",
            };
            format!("{} {}-{until} {by} {}", runs.gpu, runs.from, runs.by.arch)
        };
        gpus().into_iter().filter_map(|gpu| runs_on(pieces, gpu)).map(show).collect()
    }

    #[test]
    fn machine_code_runs_within_its_major_number_and_from_its_minor_up() {
        let expected = ["8.0 525- cubin 8.0", "8.6 525- cubin 8.0", "8.9 525- cubin 8.0"];
        assert_eq!(shown(&[cubin("8.0", "12.4")]), expected);
        assert_eq!(shown(&[cubin("9.0", "13.5")]), ["9.0 580- cubin 9.0"]);
        assert_eq!(shown(&[cubin("8.7", "12.4")]), ["8.7 525- cubin 8.7"]);
        assert_eq!(shown(&[cubin("7.0", "12.4")]), ["7.0 525-580 cubin 7.0", "7.5 525- cubin 7.0"]);
        assert_eq!(shown(&[cubin("3.5", "11.0")]), ["3.5 450-470 cubin 3.5", "3.7 450-470 cubin 3.5"]);
    }

    #[test]
    fn ptx_runs_upward_with_every_driver_that_knows_its_isa_and_the_gpu() {
        let expected = [
            "9.0 550- ptx 9.0",
            "10.0 570- ptx 9.0",
            "10.3 575- ptx 9.0",
            "10.7 615- ptx 9.0",
            "11.0 580- ptx 9.0",
            "12.0 570- ptx 9.0",
            "12.1 575- ptx 9.0",
        ];
        assert_eq!(shown(&[ptx("9.0", "8.4")]), expected);
        assert_eq!(shown(&[ptx("12.1", "9.5")]), ["12.1 620- ptx 12.1"]);
        assert_eq!(shown(&[ptx("7.5", "99.0")]), [""; 0]);
    }

    #[test]
    fn marks_tie_code_to_its_chip_or_family() {
        assert_eq!(shown(&[cubin("9.0a", "12.0")]), ["9.0 525- cubin 9.0a"]);
        assert_eq!(
            shown(&[ptx("10.0f", "9.0")]),
            ["10.0 580- ptx 10.0f", "10.3 580- ptx 10.0f", "10.7 615- ptx 10.0f"]
        );
        assert_eq!(shown(&[cubin("12.1f", "12.9")]), ["12.1 575- cubin 12.1f"]);
    }

    #[test]
    fn a_fatbin_gives_the_best_machine_code_and_ptx_where_there_is_none() {
        let pieces = [cubin("7.5", "12.4"), cubin("8.0", "12.4"), cubin("8.6", "12.4"), ptx("8.6", "8.4")];
        let found = shown(&pieces);
        assert_eq!(found[..4], ["7.5 525- cubin 7.5", "8.0 525- cubin 8.0", "8.6 525- cubin 8.6", "8.7 550- ptx 8.6"]);
        assert!(found.contains(&"9.0 550- ptx 8.6".to_owned()), "{found:?}");
        // Below 580 the PTX does it, where the machine code is of a later major version.
        let both = [cubin("9.0", "13.0"), ptx("9.0", "8.0")];
        assert_eq!(runs_on(&both, arch("9.0")).map(|runs| (runs.from, runs.by)), Some((525, both[0])));
    }

    #[test]
    fn what_is_compressed_with_zstd_needs_a_driver_that_unpacks_it() {
        assert_eq!(shown(&[zstd(cubin("9.0", "12.9"))]), ["9.0 550- cubin 9.0"]);
        assert_eq!(shown(&[zstd(cubin("9.0", "12.9")), ptx("9.0", "8.0")])[0], "9.0 550- cubin 9.0");
    }

    #[test]
    fn a_cubin_s_layout_bounds_its_toolkit_whatever_is_said() {
        let of = |arch: &str, abi, said: Option<&str>| {
            let arch = arch.parse().unwrap();
            let said = said.map(version);
            let piece = Piece::new(EntryKind::Cubin, arch, None, Some(abi), None, said).unwrap();
            let PieceKind::Cubin(toolkit) = piece.kind else { panic!("no cubin") };
            toolkit.to_string()
        };
        assert_eq!([of("9.0", 8, None), of("10.0", 8, None), of("9.0", 7, None)], ["13.0", "12.8", "11.0"]);
        assert_eq!([of("9.0", 7, Some("12.4")), of("9.0", 7, Some("13.0"))], ["12.4", "11.0"]);
        assert_eq!(Piece::new(EntryKind::LtoIr, arch("9.0"), None, None, None, None), None);
    }
}
