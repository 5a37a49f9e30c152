//! One toolkit in the cache: where it lies, and whether it is complete.
//! The main types are [`Entry`] (the place) and [`Manifest`] (`ctk-toolkit.json`, written last).

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::cache::Cache;
use super::wheels::{Pin, Wheels};
use crate::model::version::Version;
use crate::model::wire::hex;

/// The file that makes an entry complete.
pub(crate) const MANIFEST: &str = "ctk-toolkit.json";

/// The version of [`Manifest`]'s layout. An entry of another version is made anew.
pub(crate) const MANIFEST_SCHEMA: u32 = 1;

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// [`MANIFEST_SCHEMA`].
    pub schema: u32,
    /// The toolkit's version.
    pub version: Version,
    /// The wheels that it was made from.
    pub pins: Vec<Pin>,
    /// The size of all its files.
    pub bytes: u64,
    /// Every library and program, by its path in the entry.
    pub files: BTreeMap<String, FileFacts>,
}

/// What is known of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileFacts {
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes.
    pub sha256: String,
}

/// Where a toolkit lies in the cache.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// `CACHE/toolkits/12.6-0123456789ab`: other pins of one version are another entry.
    pub folder: PathBuf,
    /// The lock beside it.
    pub lock: PathBuf,
}

impl Entry {
    /// The entry that these wheels make.
    pub(crate) fn new(cache: &Cache, wheels: &Wheels) -> Self {
        let mut lines: Vec<_> = wheels.pins.iter().map(Pin::requirement_line).collect();
        lines.sort();
        let hash = hex(&Sha256::digest(lines.join("\n").as_bytes()));
        let name = format!("{}-{}", wheels.version, &hash[..12]);
        Self { lock: cache.toolkits().join(format!("{name}.lock")), folder: cache.toolkits().join(name) }
    }

    /// What the entry holds, if it is complete and these wheels'. Sizes are compared, contents are not: they were
    /// hashed when the entry was made.
    pub(crate) fn complete(&self, wheels: &Wheels) -> Option<Manifest> {
        let text = fs::read(self.folder.join(MANIFEST)).ok()?;
        let manifest: Manifest = serde_json::from_slice(&text).ok()?;
        let same = manifest.schema == MANIFEST_SCHEMA
            && manifest.version == wheels.version
            && manifest.pins == wheels.pins
            && !manifest.files.is_empty();
        let whole = manifest.files.iter().all(|(path, facts)| {
            fs::metadata(self.folder.join(path)).is_ok_and(|found| found.is_file() && found.len() == facts.bytes)
        });
        (same && whole).then_some(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_is_not_complete() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::at(scratch.path()).unwrap();
        let pin = Pin { name: "nvidia-a".into(), version: "12.0.1".into(), bytes: 7, sha256: "0".repeat(64) };
        let others = Pin { sha256: "2".repeat(64), ..pin.clone() };
        let wheels =
            Wheels { version: Version::new(12, 0), pins: vec![pin], nvcc: false, nvrtc: "libnvrtc.so.12".into() };
        let entry = Entry::new(&cache, &wheels);
        let manifest = Manifest {
            schema: MANIFEST_SCHEMA,
            version: wheels.version,
            pins: wheels.pins.clone(),
            bytes: 3,
            files: [("lib/a".to_owned(), FileFacts { bytes: 3, sha256: "1".repeat(64) })].into(),
        };
        let write = |manifest: &Manifest| {
            fs::create_dir_all(entry.folder.join("lib")).unwrap();
            fs::write(entry.folder.join("lib/a"), "abc").unwrap();
            fs::write(entry.folder.join(MANIFEST), serde_json::to_vec(manifest).unwrap()).unwrap();
        };
        assert_eq!(entry.complete(&wheels), None);
        write(&manifest);
        assert_eq!(entry.complete(&wheels), Some(manifest.clone()));
        fs::write(entry.folder.join("lib/a"), "ab").unwrap();
        assert_eq!(entry.complete(&wheels), None, "a file is cut");
        write(&Manifest { version: Version::new(12, 1), ..manifest.clone() });
        assert_eq!(entry.complete(&wheels), None, "another version");
        write(&Manifest { files: BTreeMap::new(), ..manifest.clone() });
        assert_eq!(entry.complete(&wheels), None, "no file was hashed");
        write(&manifest);
        let text = fs::read(entry.folder.join(MANIFEST)).unwrap();
        fs::write(entry.folder.join(MANIFEST), &text[..text.len() / 2]).unwrap();
        assert_eq!(entry.complete(&wheels), None, "half a manifest");
        let others = Wheels { pins: vec![others], ..wheels };
        assert_ne!(Entry::new(&cache, &others).folder, entry.folder);
    }
}
