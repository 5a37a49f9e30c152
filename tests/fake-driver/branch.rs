//! Which CUDA version and which highest PTX ISA a driver has, by its branch.
//! The main type is [`Driver`].
//!
//! Branches and CUDA versions are NVIDIA's release notes; the PTX ISA is that of the CUDA version's ptxas, and was seen
//! on a real driver for 580 alone (PTX 9.0 taken, 8.9, 9.1 and above refused with 222).

/// A major and a minor version.
type Version = (u32, u32);

/// `(branch, CUDA version, highest PTX ISA)`, oldest first. A branch that is not here is refused, not guessed.
const BRANCHES: [(u32, Version, Version); 25] = [
    (450, (11, 0), (7, 0)),
    (455, (11, 1), (7, 1)),
    (460, (11, 2), (7, 2)),
    (465, (11, 3), (7, 3)),
    (470, (11, 4), (7, 4)),
    (495, (11, 5), (7, 5)),
    (510, (11, 6), (7, 6)),
    (515, (11, 7), (7, 7)),
    (520, (11, 8), (7, 8)),
    (525, (12, 0), (8, 0)),
    (530, (12, 1), (8, 1)),
    (535, (12, 2), (8, 2)),
    (545, (12, 3), (8, 3)),
    (550, (12, 4), (8, 4)),
    (555, (12, 5), (8, 5)),
    (560, (12, 6), (8, 5)),
    (565, (12, 7), (8, 6)),
    (570, (12, 8), (8, 7)),
    (575, (12, 9), (8, 8)),
    (580, (13, 0), (9, 0)),
    (590, (13, 1), (9, 1)),
    (595, (13, 2), (9, 2)),
    (610, (13, 3), (9, 3)),
    (615, (13, 4), (9, 4)),
    (620, (13, 5), (9, 5)),
];

/// The first driver that unpacks fatbins compressed with zstd.
const FIRST_WITH_ZSTD: [u32; 3] = [550, 54, 14];

/// The driver that is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Driver {
    number: [u32; 3],
    /// `cuDriverGetVersion`'s major and minor.
    pub(crate) cuda: Version,
    /// The highest PTX ISA that its JIT compiler takes.
    pub(crate) ptx: Version,
}

impl Driver {
    /// Reads `580.159.04`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut number = [0; 3];
        let mut parts = text.split('.');
        for (place, slot) in number.iter_mut().enumerate() {
            match (parts.next(), place) {
                (Some(part), _) => *slot = part.parse().map_err(|_| format!("`{text}` is no driver version"))?,
                (None, 0) => return Err("a driver version is empty".into()),
                (None, _) => {}
            }
        }
        if parts.next().is_some() {
            return Err(format!("`{text}` is no driver version: it has more than three parts"));
        }
        let row = BRANCHES.iter().find(|row| row.0 == number[0]);
        let &(_, cuda, ptx) = row.ok_or_else(|| format!("no driver branch {}; known: {}", number[0], branches()))?;
        Ok(Self { number, cuda, ptx })
    }

    /// What `cuDriverGetVersion` gives: 13000 for 13.0.
    pub(crate) fn cuda_number(self) -> i32 {
        i32::try_from(self.cuda.0 * 1000 + self.cuda.1 * 10).unwrap_or(i32::MAX)
    }

    /// Whether fatbins compressed with zstd can be unpacked.
    pub(crate) fn unpacks_zstd(self) -> bool {
        self.number >= FIRST_WITH_ZSTD
    }
}

fn branches() -> String {
    BRANCHES.map(|row| row.0.to_string()).join(" ")
}
