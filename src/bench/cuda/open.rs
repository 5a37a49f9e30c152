//! Opens the driver and makes sure which one it is. The main type is [`Driver`].

use std::path::{Path, PathBuf};

use super::call::Calls;
use super::device::{Device, Wish};
use super::error::CudaError;
use super::table::{self, Table};
use crate::bench::loaded::Hashing;
use crate::bench::maps;
use crate::model::record::{GpuMode, LoadedFile};
use crate::model::version::Version;

/// The name by which the loader finds the driver, in every mode of attaching a GPU.
const LIBRARY: &str = "libcuda.so.1";

/// Exported by the test suite's stand-in, and by no driver.
const FAKE: &str = "ctk_matrix_fake_driver";

/// An opened libcuda.
#[derive(Clone, Copy)]
pub(in crate::bench) struct Driver {
    pub(super) calls: &'static Calls,
    fake: bool,
}

/// Why there is no driver to use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::bench) enum NotOpened {
    /// The loader does not find it, or cannot load it.
    #[error("{LIBRARY} cannot be opened: no driver reached this container, or not with the `compute` capability")]
    Loader { text: String },
    /// It lacks a function.
    #[error("{} has no `{symbol}`: it is older than CUDA 11.4, or no driver", path.display())]
    Symbol { path: PathBuf, symbol: &'static str },
    /// It is not the only one.
    #[error("more than one libcuda is loaded: {}", paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and "))]
    Several { paths: Vec<PathBuf> },
    /// It is loaded, and no file is seen of it.
    #[error("{LIBRARY} is loaded, but no such file is in /proc/self/maps")]
    Unseen,
}

/// Why an opened driver does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) enum NotStarted {
    /// It said so.
    Driver(CudaError),
    /// It is not the only one any more.
    Ambiguous(NotOpened),
}

impl From<CudaError> for NotStarted {
    fn from(error: CudaError) -> Self {
        Self::Driver(error)
    }
}

impl From<NotOpened> for NotStarted {
    fn from(error: NotOpened) -> Self {
        Self::Ambiguous(error)
    }
}

impl NotOpened {
    /// The raw text behind it.
    pub(in crate::bench) fn detail(&self) -> Option<String> {
        match self {
            Self::Loader { text } => Some(text.clone()),
            Self::Symbol { .. } | Self::Several { .. } | Self::Unseen => None,
        }
    }
}

impl Driver {
    /// Opens libcuda; beside it the file that it came from, also where it cannot be used.
    pub(in crate::bench) fn open() -> (Option<Hashing>, Result<Self, NotOpened>) {
        let library = match table::open(LIBRARY) {
            Ok(library) => library,
            Err(error) => {
                let text = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                return (None, Err(NotOpened::Loader { text }));
            }
        };
        let path = match only_one() {
            Ok(path) => path,
            Err(error) => return (None, Err(error)),
        };
        let table = Table::read(library);
        let fake = table.as_ref().is_ok_and(|table| table.exports(FAKE));
        // Mounted under the loader's name, the file says nothing of its version. It is the kernel module's all the same:
        // with another one `cuInit` gives 803.
        let module = || if fake { None } else { kernel_module() };
        let version = version_in_name(&path).map(ToOwned::to_owned).or_else(module).unwrap_or_default();
        let file = Hashing::begin(&path, &version);
        let driver = match table {
            Ok(table) => Ok(Self { calls: Box::leak(Box::new(Calls { table })), fake }),
            Err(symbol) => Err(NotOpened::Symbol { path, symbol }),
        };
        (Some(file), driver)
    }

    /// Whether this is NVIDIA's driver.
    pub(in crate::bench) fn mode(self) -> GpuMode {
        if self.fake { GpuMode::Fake } else { GpuMode::Real }
    }

    /// `cuInit`, after which still only one libcuda must be loaded.
    pub(in crate::bench) fn init(self) -> Result<(), NotStarted> {
        self.calls.init()?;
        only_one()?;
        Ok(())
    }

    /// The CUDA version that the driver implements.
    pub(in crate::bench) fn cuda(self) -> Result<Version, CudaError> {
        let number = self.calls.driver_version()?;
        Ok(Version::from_driver_api(number).unwrap_or(Version::new(0, 0)))
    }

    /// The GPU that is wished for.
    pub(in crate::bench) fn device(self, wish: Wish<'_>) -> Result<Device, super::device::NoDevice> {
        Device::choose(self.calls, wish)
    }

    /// The version of the driver that is installed: the kernel module's, else that of the library's file name, else
    /// the empty text. The stand-in drives no kernel module.
    pub(in crate::bench) fn version(self, file: Option<&LoadedFile>) -> String {
        let module = if self.fake { None } else { kernel_module() };
        let name = || file.map(|file| file.version.clone());
        module.or_else(name).unwrap_or_default()
    }
}

fn only_one() -> Result<PathBuf, NotOpened> {
    let mut paths = maps::mapped(|name| name.starts_with("libcuda.so"));
    match (paths.pop(), paths.is_empty()) {
        (Some(path), true) => Ok(path),
        (Some(last), false) => {
            paths.push(last);
            Err(NotOpened::Several { paths })
        }
        (None, _) => Err(NotOpened::Unseen),
    }
}

/// `580.159.04` of `libcuda.so.580.159.04`.
fn version_in_name(path: &Path) -> Option<&str> {
    let version = path.file_name()?.to_str()?.strip_prefix("libcuda.so.")?;
    version.contains('.').then_some(version)
}

fn kernel_module() -> Option<String> {
    let long = std::fs::read_to_string("/proc/driver/nvidia/version").ok();
    let short = || std::fs::read_to_string("/sys/module/nvidia/version").ok();
    long.as_deref().and_then(version_in_text).or_else(|| version_in_text(&short()?))
}

/// The first word that is numbers with dots between: `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  …`.
fn version_in_text(text: &str) -> Option<String> {
    let is_version = |word: &&str| {
        word.contains('.')
            && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    text.split_whitespace().find(is_version).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_version_is_read_from_both_texts_and_from_the_file_name() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Mon Aug 11 21:11:53 UTC 2025\nGCC version: 12.2.0";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (root@x)";
        assert_eq!(version_in_text(closed), Some("580.159.04".into()));
        assert_eq!(version_in_text(open), Some("570.86.10".into()));
        assert_eq!(version_in_text("none"), None);
        assert_eq!(version_in_name(Path::new("/usr/lib/libcuda.so.580.159.04")), Some("580.159.04"));
        assert_eq!(version_in_name(Path::new("/usr/lib/libcuda.so.1")), None);
    }
}
