//! What an artifact holds. Its main type is [`Contents`], which is the same for PTX, cubins and fatbins.

use std::collections::HashSet;
use std::fmt;

use crate::model::arch::Arch;
use crate::model::path::Form;
use crate::model::version::Version;

/// What an artifact holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// PTX, cubin or fatbin.
    pub form: Form,
    /// The PTX ISA of the PTX in it; of several, the highest, which is the one that a driver may be too old for.
    pub ptx_isa: Option<Version>,
    /// The architectures in it, in order and each once: `sm_90a` for machine code, `compute_90` for PTX, `lto_90` for
    /// what only a linker takes.
    pub archs: Vec<String>,
    /// What it says of its maker: `CUDA 12.4.131`, or `CUDA 12.4` where it names no more.
    pub producer: Option<String>,
    /// The toolkit that made it, where it says so.
    pub toolkit: Option<Version>,
    /// How parts of it are compressed; zstd if any is, because that is what an older driver refuses.
    pub compressed: Option<Compression>,
    /// Its parts: one for PTX and for a cubin, any number for a fatbin.
    pub entries: Vec<Entry>,
    /// The kernels in it that can be read without decompressing, in order and each once.
    pub kernels: Vec<KernelEntry>,
}

/// One part of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// What it was made for.
    pub arch: Arch,
    /// The PTX ISA, for PTX.
    pub ptx_isa: Option<Version>,
    /// The ELF ABI, for a cubin: 7 or 8.
    pub abi: Option<u16>,
    /// How it is compressed.
    pub compression: Option<Compression>,
    /// Its size in the file, bytes.
    pub bytes: u64,
    /// Its size after decompression, bytes; none if it is not compressed.
    pub unpacked_bytes: Option<u64>,
}

/// What a part of a fatbin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// PTX text.
    Ptx,
    /// Machine code.
    Cubin,
    /// Input for a linker that optimises, which a driver does not load by itself.
    LtoIr,
    /// A kind that this program does not know.
    Other(u16),
}

/// How a part of a fatbin is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// LZ4, which every driver takes: the default of nvcc 12 and older.
    Lz4,
    /// zstd, which drivers take from 550.54.14 on: the default of nvcc 13 where it compresses.
    Zstd,
    /// Compressed in a way that this program does not know.
    Other,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lz4 => "LZ4",
            Self::Zstd => "zstd",
            Self::Other => "an unknown compression",
        })
    }
}

/// A kernel in an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelEntry {
    /// Its name, as `cuModuleGetFunction` takes it.
    pub name: String,
    /// Registers a thread; machine code only.
    pub registers: Option<u32>,
    /// Bytes of stack a thread, spilled registers included; machine code only.
    pub stack_bytes: Option<u32>,
    /// Bytes of static shared memory a block; machine code only. From SM 9.0 on, where a kernel uses any, this counts
    /// the 1024 bytes that the system keeps, as `cuobjdump -res-usage` does.
    pub shared_bytes: Option<u32>,
}

impl Entry {
    /// The architecture with the prefix of what the part is: `sm_90a`, `compute_90`, `lto_90`.
    #[must_use]
    pub fn target(&self) -> String {
        match self.kind {
            EntryKind::Ptx => self.arch.compute(),
            EntryKind::Cubin | EntryKind::Other(_) => self.arch.sm(),
            EntryKind::LtoIr => self.arch.compute().replacen("compute", "lto", 1),
        }
    }
}

impl Contents {
    /// The kernel `name`, if it is in the part of the artifact that can be read.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&KernelEntry> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

/// Kernels in the order in which they are found, each name once.
#[derive(Default)]
pub(super) struct Kernels {
    kernels: Vec<KernelEntry>,
    names: HashSet<String>,
}

impl Kernels {
    pub(super) fn push(&mut self, kernel: KernelEntry) {
        if self.names.insert(kernel.name.clone()) {
            self.kernels.push(kernel);
        }
    }

    pub(super) fn into_vec(self) -> Vec<KernelEntry> {
        self.kernels
    }
}
