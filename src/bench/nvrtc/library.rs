//! An opened libnvrtc of the right version. The main type is [`Nvrtc`].
#![expect(unsafe_code, reason = "calls into libnvrtc")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::path::{Path, PathBuf};

use super::find::Found;
use super::table::{self, Status, Table};
use crate::bench::{loaded, maps};
use crate::model::outcome::Code;
use crate::model::record::LoadedFile;
use crate::model::version::Version;

/// An opened libnvrtc.
pub(in crate::bench) struct Nvrtc {
    pub(super) table: Table,
    file: LoadedFile,
    version: Version,
}

/// Why the file that was found is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::bench) enum NotUsable {
    /// The loader cannot load it.
    #[error("{} cannot be opened: {text}", path.display())]
    Loader { path: PathBuf, text: String },
    /// It lacks a function.
    #[error("{} has no `{symbol}`: it is older than NVRTC 11.2, or another library", path.display())]
    Symbol { path: PathBuf, symbol: &'static str },
    /// It does not say its version.
    #[error("{}: nvrtcVersion failed with {code}", path.display())]
    Mute { path: PathBuf, code: Code },
    /// It is another one than the toolkit's.
    #[error("{} is NVRTC {found}, and the toolkit is to be {wanted}", path.display())]
    Version { path: PathBuf, found: Version, wanted: Version },
}

impl Nvrtc {
    /// Opens what was found, the companion first. Beside the result: the file that was really loaded.
    pub(in crate::bench) fn open(
        found: &Found,
        wanted: Version,
        hashes: &BTreeMap<PathBuf, String>,
    ) -> (Option<LoadedFile>, Result<Self, NotUsable>) {
        let path = &found.library;
        let loader = |path: &Path, error: &libloading::Error| {
            let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
            NotUsable::Loader { path: path.into(), text }
        };
        // NVRTC opens its builtins by bare name, and 13.0's wheel has no RUNPATH to find them by. Once loaded by path,
        // the loader takes the loaded one.
        if let Some(builtins) = &found.builtins {
            match table::open(builtins) {
                Ok(library) => std::mem::forget(library),
                Err(error) => return (None, Err(loader(builtins, &error))),
            }
        }
        let library = match table::open(path) {
            Ok(library) => library,
            Err(error) => return (None, Err(loader(path, &error))),
        };
        let path = really_mapped(path);
        let table = match Table::read(library) {
            Ok(table) => table,
            Err(symbol) => return (None, Err(NotUsable::Symbol { path, symbol })),
        };
        let version = match version_of(&table) {
            Ok(version) => version,
            Err(code) => return (None, Err(NotUsable::Mute { path, code })),
        };
        // The host hashed what it knows by the name that is searched for; a link of that name is the same bytes.
        let by_name = hashes.get(&found.library).map(|hash| (path.clone(), hash.clone()));
        let known = hashes.iter().map(|(path, hash)| (path.clone(), hash.clone())).chain(by_name).collect();
        let file = loaded::record(&path, &version.to_string(), &known);
        if version != wanted {
            return (Some(file), Err(NotUsable::Version { path, found: version, wanted }));
        }
        (Some(file.clone()), Ok(Self { table, file, version }))
    }

    /// The file that it is.
    pub(in crate::bench) fn file(&self) -> &LoadedFile {
        &self.file
    }

    /// As reports name it: `NVRTC 12.6`.
    pub(in crate::bench) fn producer(&self) -> String {
        format!("NVRTC {}", self.version)
    }

    /// The option that keeps a compilation a compilation.
    ///
    /// From 12.9 on NVRTC looks its results up in the driver's compute cache. For that it opens `libcuda.so.1` by the
    /// loader's rules and calls `cuInit`, inside what is timed here, and also where no GPU was wished for. Found with
    /// 12.9.86 and 13.0.88; 12.8.93 has neither the cache nor the option. The artifact's bytes are the same.
    pub(super) fn without_cache(&self) -> Option<&'static str> {
        (self.version >= Version::new(12, 9)).then_some("--no-cache")
    }

    pub(super) fn code(&self, status: Status) -> Code {
        code(&self.table, status)
    }
}

/// What the loader mapped for `path`: links resolved, as /proc/self/maps has it.
fn really_mapped(path: &Path) -> PathBuf {
    let real = path.canonicalize().unwrap_or_else(|_| path.into());
    let seen = maps::mapped(|name| name.starts_with("libnvrtc.") || real.file_name().is_some_and(|real| real == name));
    seen.into_iter().find(|mapped| *mapped == real).unwrap_or(real)
}

fn version_of(table: &Table) -> Result<Version, Code> {
    let (mut major, mut minor): (c_int, c_int) = (0, 0);
    // SAFETY: both are places for the answer.
    let status = unsafe { (table.version)(&raw mut major, &raw mut minor) };
    if status != 0 {
        return Err(code(table, status));
    }
    let number = |part| u16::try_from(part).unwrap_or(0);
    Ok(Version::new(number(major), number(minor)))
}

fn code(table: &Table, status: Status) -> Code {
    // SAFETY: the function takes any number and gives a constant text, also for a code that it does not know.
    let text = unsafe { (table.error_string)(status) };
    let name = if text.is_null() {
        "NVRTC_ERROR".into()
    } else {
        // SAFETY: not null, so a constant of the library's.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    Code { name, number: status.into() }
}
