//! What is recorded of a library or program that was used: path, version, SHA-256.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use sha2::{Digest as _, Sha256};

use crate::model::record::LoadedFile;
use crate::model::wire;

/// The record of the file at `path`. A hash that the host has taken already is used instead of reading 100 MB again.
pub(super) fn record(path: &Path, version: &str, hashes: &BTreeMap<PathBuf, String>) -> LoadedFile {
    let sha256 = match hashes.get(path) {
        Some(known) => known.clone(),
        // An unreadable file has no hash, and the empty text says so; that it was loaded stands all the same.
        None => sha256(path).unwrap_or_default(),
    };
    LoadedFile { path: path.display().to_string(), version: version.into(), sha256 }
}

/// The record of a library whose hash is taken while other work goes on: libcuda has 100 MB, and its start takes longer.
pub(super) struct Hashing {
    file: LoadedFile,
    hash: JoinHandle<String>,
}

impl Hashing {
    /// Begins to read the file at `path`.
    pub(super) fn begin(path: &Path, version: &str) -> Self {
        let file = LoadedFile { path: path.display().to_string(), version: version.into(), sha256: String::new() };
        let path = path.to_owned();
        Self { file, hash: std::thread::spawn(move || sha256(&path).unwrap_or_default()) }
    }

    /// The record without its hash.
    pub(super) fn known(&self) -> &LoadedFile {
        &self.file
    }

    /// The whole record, once the file is read.
    pub(super) fn finish(self) -> LoadedFile {
        // A thread that panicked has no hash, as an unreadable file has none.
        LoadedFile { sha256: self.hash.join().unwrap_or_default(), ..self.file }
    }
}

/// The SHA-256 of a file's bytes, in hexadecimal.
pub(super) fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(wire::hex(&hash.finalize())),
            read => hash.update(&chunk[..read]),
        }
    }
}

/// Folders in one text, for a message that says where a file is not.
pub(super) fn list(roots: &[PathBuf]) -> String {
    if roots.is_empty() {
        return "no folder at all".into();
    }
    roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(", ")
}
