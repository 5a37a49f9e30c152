//! Why an artifact cannot be read. Its main type is [`ArtifactError`].

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
