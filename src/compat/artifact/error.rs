//! Why an artifact cannot be read: [`ArtifactError`]. Why a large file cannot be surveyed: [`SurveyError`].

/// Why an artifact cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// There is nothing in it.
    #[error("the artifact is empty")]
    Empty,
    /// It is none of the three forms.
    #[error("the artifact is neither PTX, nor a cubin, nor a fatbin: it begins with {0}")]
    Unrecognised(String),
    /// It ends before its own headers say so. A driver that is handed such a cubin may never return.
    #[error("{what} ends at byte {needs} and the artifact at byte {has}: it was cut short, make or copy it again")]
    Truncated {
        /// What is not all there.
        what: String,
        /// Where it would end.
        needs: u64,
        /// The artifact's size.
        has: u64,
    },
    /// An ELF file for something else than an NVIDIA GPU.
    #[error("the artifact is an ELF file for machine {0}, and machine code for NVIDIA GPUs is 190")]
    OtherMachine(u16),
    /// A cubin in a layout that this program does not know.
    #[error("the cubin has ELF OS/ABI {os_abi:#04x}, and this program knows 0x33 and 0x41")]
    OtherAbi {
        /// `EI_OSABI`.
        os_abi: u8,
    },
    /// A header contradicts itself.
    #[error("the {form} is malformed: {why}")]
    Malformed {
        /// What it claims to be.
        form: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// Why a large file cannot be surveyed.
#[cfg(feature = "host")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SurveyError {
    /// The artifact, or the frame round it, cannot be read.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// A host's library, object or executable without any fatbin.
    #[error(
        "there is no fatbin in the ELF file (for machine {machine}): none of its sections is called .nv_fatbin or \
         __nv_relfatbin"
    )]
    NoFatbin {
        /// `e_machine`.
        machine: u16,
    },
    /// A static library, which is a folder of objects.
    #[error("the file is a static library: take the objects out of it with `ar x` and inspect those")]
    Archive,
    /// More than is read at once.
    #[error("the artifact has {bytes} bytes, and one that is read whole may have {most}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// The system would not give out the bytes.
    #[error("the bytes from {offset} on cannot be read: {why}")]
    Unreadable {
        /// From where.
        offset: u64,
        /// What the system said.
        why: String,
    },
}
