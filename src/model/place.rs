//! Where a job runs and what is there: the hand-over between provisioning and the engines.
//! Its main types are [`Provisioned`] (a toolkit that is ready) and [`Place`] (the file system that a job sees).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::matrix::Toolkit;
use super::path::Family;
use super::record::Source;

/// The file system that a job sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// An image that brings its own user space.
    Image {
        /// The image's id: containers are created by it, so that a tag that moves does not mix versions.
        id: String,
        /// The reference that the user gave.
        reference: String,
    },
    /// The host's user space: read-only binds into an empty image, or simply the host for a child process.
    Userland,
}

/// A toolkit that is ready to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provisioned {
    /// The entry.
    pub toolkit: Toolkit,
    /// Where it came from, for the record.
    pub source: Source,
    /// What the job's file system is.
    pub place: Place,
    /// The host's folder that holds the toolkit; none if it is in the image.
    pub dir: Option<PathBuf>,
    /// Folders to look for libraries and programs in, best first: below `dir`, or in the image.
    pub roots: Vec<PathBuf>,
    /// SHA-256 of the libraries and programs below `dir`, where they were hashed at provision time.
    pub hashes: BTreeMap<PathBuf, String>,
    /// Families that this source is known not to carry, each with the reason: such a skip is foreseen.
    pub absent: Vec<(Family, String)>,
    /// Remarks for the headline: `wheels, not NVIDIA's image`.
    pub notes: Vec<String>,
}

/// An interpreter in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePython {
    /// `3.13`: what its name or its library's folder says.
    pub version: String,
    /// Its program, symbolic links followed: `/usr/bin/python3.13`.
    pub program: PathBuf,
}

/// What an image on the machine is, read without starting it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImageFacts {
    /// The image's id.
    pub id: String,
    /// `name@sha256:…`, where a registry gave one.
    pub digests: Vec<String>,
    /// What the tag stands for in its registry, where that was asked.
    #[serde(default)]
    pub index_digest: Option<String>,
    /// The digest of this platform's manifest, where the registry was asked.
    #[serde(default)]
    pub platform_digest: Option<String>,
    /// Its size on this machine, bytes.
    pub bytes: u64,
    /// `amd64`.
    pub arch: String,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Its entrypoint, which is overridden.
    pub entrypoint: Vec<String>,
    /// The C library's version; none if there is no glibc.
    pub glibc: Option<String>,
    /// The toolkit folders in it: `/usr/local/cuda-12.6`.
    pub roots: Vec<PathBuf>,
    /// Whether nvcc is in it.
    pub nvcc: bool,
    /// Whether libnvrtc is in it.
    pub nvrtc: bool,
    /// Whether it carries forward-compatibility libraries, and where.
    pub compat: Option<PathBuf>,
}
