//! Reads what is handed to the driver, without any tool of a toolkit: PTX, cubins and fatbins. [`read`] tells them
//! apart, proves that they are whole, and gives [`Contents`]. Bytes come from users and compilers, so every access is
//! checked and every bad input is a typed [`ArtifactError`].
//!
//! [`Survey`] is for files that are too large to be read whole, and for libraries with fatbins in them. Only the host's
//! program has it: it decompresses, and `ctk-bench` is to stay small.

mod bytes;
mod contents;
mod cubin;
mod elf;
mod error;
mod fatbin;
mod producer;
mod ptx;
#[cfg(feature = "host")]
mod sections;
#[cfg(feature = "host")]
mod source;
#[cfg(feature = "host")]
pub mod survey;
#[cfg(all(test, feature = "host"))]
mod survey_tests;
#[cfg(test)]
mod tests;
#[cfg(feature = "host")]
mod unpack;

pub use contents::{Compression, Contents, Entry, EntryKind, KernelEntry};
pub use error::ArtifactError;
#[cfg(feature = "host")]
pub use error::SurveyError;
#[cfg(feature = "host")]
pub use source::Source;
#[cfg(feature = "host")]
pub use survey::Survey;

/// Reads an artifact of any form. A cubin that gets through is not cut short: the driver may be given it.
pub fn read(bytes: &[u8]) -> Result<Contents, ArtifactError> {
    if bytes.iter().all(|byte| *byte == 0) {
        Err(ArtifactError::Empty)
    } else if bytes.starts_with(fatbin::MAGIC) {
        fatbin::read(bytes)
    } else if bytes.starts_with(elf::MAGIC) {
        cubin::read(bytes)
    } else if ptx::recognises(bytes) {
        ptx::read(bytes)
    } else {
        Err(ArtifactError::Unrecognised(opening(bytes)))
    }
}

/// The first bytes, for a message: as text if they are text, else in hexadecimal.
fn opening(bytes: &[u8]) -> String {
    let first = bytes.get(..16).unwrap_or(bytes);
    if first.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
        format!("`{}`", String::from_utf8_lossy(first))
    } else {
        let hex: Vec<String> = first.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        hex.join(" ")
    }
}
