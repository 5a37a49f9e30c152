//! From the text of a `matrix.yaml` to a [`Matrix`]: [`read`] is the one way in.
//!
//! Three passes, none of which touches a file: `places` and `walk` find every error of key and type and know where each
//! thing stands; `serde_yaml` fills the types in [`raw`]; `lower` and the files beside it look up what the words mean.
//! Kernel files come through [`Input::read`], so that this folder stays pure.

pub mod builtin;
mod check;
mod claims;
pub mod error;
mod kernels;
mod lower;
mod node;
mod places;
mod quantity;
pub mod raw;
pub mod raw_claims;
mod requirement;
mod rules;
mod schema;
mod shape;
mod stacks;
mod toolkits;
mod walk;

use std::io;
use std::path::Path;

pub use self::error::{Severity, SpecError, SpecErrors};
pub use self::places::MAX_BYTES;
pub use self::schema::json_schema;
use super::matrix::Matrix;
use super::version::Version;

/// Which toolkits there are. The catalogue knows; this folder may not import it.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// Every toolkit version that can be named.
    pub versions: &'a [Version],
    /// Why a version was never published, if that is known.
    pub not_published: &'a dyn Fn(Version) -> Option<String>,
}

impl Known<'_> {
    /// `known are 11.8 to 13.5`.
    fn span(&self) -> String {
        match (self.versions.iter().min(), self.versions.iter().max()) {
            (Some(oldest), Some(newest)) => format!("known are {oldest} to {newest}"),
            _ => "no toolkit is known".into(),
        }
    }
}

/// A matrix file to be read.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The file, as reports and errors name it.
    pub origin: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The folder it lies in, from which relative names start.
    pub dir: &'a Path,
    /// Reads a kernel file below `dir`.
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

/// Reads a matrix file. The error holds everything that is wrong with it.
pub fn read(input: &Input<'_>, known: &Known<'_>) -> Result<Matrix, SpecErrors> {
    let mut findings = error::Findings::default();
    let text = places::text(input.bytes, &mut findings);
    let matrix = text.and_then(|text| lower::matrix(input, text, known, &mut findings));
    match matrix {
        Some(matrix) if findings.is_empty() => Ok(matrix),
        _ => Err(findings.into_errors(input.origin, text.unwrap_or_default())),
    }
}
