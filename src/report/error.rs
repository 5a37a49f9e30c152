//! Why the folder of a run could not be written or read. Its main type is [`ReportError`], which always names the
//! file or folder that is at fault.

use std::io;
use std::path::{Path, PathBuf};

/// The folder of a run could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder already holds a run, and a report is never mixed with another.
    #[error("{} already holds a run ({found}): give --out a new or empty folder, or take it up with --resume", dir.display())]
    Occupied {
        /// The folder.
        dir: PathBuf,
        /// The file or folder in it that says so.
        found: String,
    },
    /// Another process writes to the folder.
    #[error("the run in {} still goes on: wait for its end, or end it", dir.display())]
    Living {
        /// The folder.
        dir: PathBuf,
    },
    /// A file or folder could not be written; what was there before is kept.
    #[error("cannot write {}{}", path.display(), cure(source))]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The folder is not that of a run.
    #[error("{} is not the folder of a run: there is no run.json in it", dir.display())]
    NotARun {
        /// The folder.
        dir: PathBuf,
    },
    /// A file is not what this version writes.
    #[error("{} cannot be understood", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A file was written by a version with another schema.
    #[error("{} has schema {found}, and this version reads schema {wanted}: use the version that wrote it", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// The schema in it.
        found: u32,
        /// The schema that is understood.
        wanted: u32,
    },
}

impl ReportError {
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.into(), source }
    }

    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.into(), source }
    }
}

fn cure(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": no space is left, free some or give another folder with --out"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ": give a folder that you may write to with --out"
        }
        io::ErrorKind::NotADirectory => ": a part of the path is a file, give another folder with --out",
        _ => "",
    }
}
