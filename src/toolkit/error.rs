//! Why a toolkit is not there, each with its cure in one line.
//! The main type is [`ProvisionError`]; [`ProvisionError::detail`] is the raw text behind it, where there is one.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::model::version::Version;

/// Why a toolkit is not there. The text is one line and ends in the cure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvisionError {
    /// There is no interpreter.
    #[error(
        "`{python}` cannot be run ({cause}): install Python 3 with pip, or name the toolkit as a `dir` or an `image`"
    )]
    NoPython {
        /// The program that was tried.
        python: String,
        /// The system's words.
        cause: String,
    },
    /// The interpreter has no pip.
    #[error(
        "`{python} -m pip` does not exist: install it (Debian, Ubuntu: apt-get install python3-pip; else: {python} -m ensurepip)"
    )]
    NoPip {
        /// The program that was run.
        python: String,
        /// pip's decisive lines.
        detail: String,
    },
    /// The index does not answer.
    #[error(
        "pip cannot reach its package index: check the network, and the proxy and index that `python3 -m pip config list` shows"
    )]
    Unreachable {
        /// pip's decisive lines.
        detail: String,
    },
    /// The index answers, and has no such wheel for this machine.
    #[error(
        "pip's index has no wheel of {requirement} for this machine (NVIDIA's wheels are for x86_64 Linux with glibc): check the index that `python3 -m pip config list` shows, or name the toolkit as a `dir` or an `image`"
    )]
    NoMatch {
        /// `nvidia-cuda-nvrtc-cu12==12.6.85`.
        requirement: String,
        /// pip's decisive lines.
        detail: String,
    },
    /// What came is not what is pinned.
    #[error(
        "{requirement} is not the file that is pinned: its SHA-256 differs; clear pip's cache (`python3 -m pip cache purge`) and ask who runs the index if it happens again"
    )]
    HashMismatch {
        /// `nvidia-cuda-nvrtc-cu12==12.6.85`.
        requirement: String,
        /// pip's decisive lines.
        detail: String,
    },
    /// No space left, or a quota reached.
    #[error(
        "no space left below `{}`: about {} are needed; free some, or set CTK_MATRIX_CACHE to a folder on another disk",
        folder.display(), crate::model::units::bytes(*needed)
    )]
    DiskFull {
        /// The cache folder.
        folder: PathBuf,
        /// Bytes needed while it is unpacked, as an estimate.
        needed: u64,
    },
    /// Something else ended pip.
    #[error("signal {signal} ended pip: run it again (signal 9 without a sender means that memory ran out)")]
    Killed {
        /// The signal's number.
        signal: i32,
        /// pip's decisive lines.
        detail: String,
    },
    /// Nothing came for too long.
    #[error(
        "no byte came from pip for {seconds} s, so it was ended: check the network and the proxy, and run it again"
    )]
    Idle {
        /// How long.
        seconds: u64,
    },
    /// pip failed in a way that has no name of its own.
    #[error(
        "pip failed with exit status {code}: {line}; the command by hand is `python3 -m pip install {requirements}`"
    )]
    Pip {
        /// pip's exit status.
        code: i32,
        /// Its last line that says something.
        line: String,
        /// What was to be installed.
        requirements: String,
        /// Its decisive lines.
        detail: String,
    },
    /// pip was content, and a file that must be there is not.
    #[error("the wheels of {version} hold no {file}: the index serves other files than NVIDIA's; check its settings")]
    Incomplete {
        /// The toolkit's version.
        version: Version,
        /// The file.
        file: String,
    },
    /// The catalogue knows no wheels.
    #[error("there are no wheels of toolkit {version}: name it as a `dir` or an `image`")]
    NoPins {
        /// The toolkit's version.
        version: Version,
    },
    /// The pinned wheels are for another processor.
    #[error("the pinned wheels are for x86_64, this machine is {arch}: name the toolkit as a `dir` or an `image`")]
    OtherProcessor {
        /// This machine's.
        arch: String,
    },
    /// There is no place for a cache.
    #[error("no home folder is known to put a cache in: set CTK_MATRIX_CACHE to a folder")]
    NoHome,
    /// The cache folder cannot be made or written.
    #[error("the cache folder `{}` cannot be used ({cause}): set CTK_MATRIX_CACHE to a folder that you may write", folder.display())]
    Cache {
        /// The folder or the file in it.
        folder: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// `dir:` is not usable.
    #[error(transparent)]
    Dir(#[from] super::dir::DirError),
    /// An image is not usable.
    #[error(transparent)]
    Image(#[from] super::image::ImageError),
    /// An image was handed to what only does wheels and folders.
    #[error("image `{reference}` has not been inspected: only an engine can, so use `--engine docker`")]
    NotInspected {
        /// The image.
        reference: String,
    },
    /// The run was interrupted.
    #[error("interrupted")]
    Cancelled,
}

impl ProvisionError {
    /// The lines of pip's output that decided, where pip was asked.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::NoPip { detail, .. }
            | Self::Unreachable { detail }
            | Self::NoMatch { detail, .. }
            | Self::HashMismatch { detail, .. }
            | Self::Killed { detail, .. }
            | Self::Pip { detail, .. } => (!detail.is_empty()).then_some(detail.as_str()),
            Self::NoPython { .. }
            | Self::DiskFull { .. }
            | Self::Idle { .. }
            | Self::Incomplete { .. }
            | Self::NoPins { .. }
            | Self::OtherProcessor { .. }
            | Self::NoHome
            | Self::Cache { .. }
            | Self::Dir(_)
            | Self::Image(_)
            | Self::NotInspected { .. }
            | Self::Cancelled => None,
        }
    }

    /// What an input or output error below the cache folder means. `needed` is the estimate for a full disk.
    pub(crate) fn io(folder: &Path, needed: u64, error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::DiskFull { folder: folder.into(), needed },
            _ => Self::Cache { folder: folder.into(), cause: cause(error) },
        }
    }
}

/// The system's words without Rust's `(os error 13)`, in lower case as the rest of the line is.
pub(crate) fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_reached_quota_are_told_from_other_faults() {
        let from = |errno: Errno| ProvisionError::io(Path::new("/c"), 5_000_000, &errno.into());
        let full = "no space left below `/c`: about 5.00 MB are needed; free some, or set CTK_MATRIX_CACHE to a folder \
                    on another disk";
        assert_eq!(from(Errno::NOSPC).to_string(), full);
        assert_eq!(from(Errno::DQUOT).to_string(), full);
        assert_eq!(
            from(Errno::ROFS).to_string(),
            "the cache folder `/c` cannot be used (read-only file system): set CTK_MATRIX_CACHE to a folder that you \
             may write"
        );
    }
}
