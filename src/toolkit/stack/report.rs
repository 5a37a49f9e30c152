//! pip's installation report: what it chose or installed. The main type is [`Installed`], one package of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::model::locked_stack::LockedPackage;
use crate::model::stack::{Package, normalised};

#[derive(Deserialize)]
struct Report {
    install: Vec<Installed>,
}

/// A package of the report, as far as it is used.
#[derive(Deserialize)]
pub(crate) struct Installed {
    metadata: Metadata,
    #[serde(default)]
    download_info: DownloadInfo,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
    #[serde(default)]
    requires_dist: Vec<String>,
}

#[derive(Deserialize, Default)]
struct DownloadInfo {
    /// Its address, without a user and a password: pip leaves them out.
    #[serde(default)]
    url: String,
    #[serde(default)]
    archive_info: ArchiveInfo,
}

#[derive(Deserialize, Default)]
struct ArchiveInfo {
    /// Since pip 23.
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    /// `sha256=…`, before that.
    #[serde(default)]
    hash: String,
}

impl Installed {
    fn sha256(&self) -> Option<String> {
        let archive = &self.download_info.archive_info;
        archive.hashes.get("sha256").cloned().or_else(|| archive.hash.strip_prefix("sha256=").map(Into::into))
    }

    /// As a record has it.
    pub(crate) fn package(self) -> Package {
        let sha256 = self.sha256();
        Package {
            name: self.metadata.name,
            version: self.metadata.version,
            sha256,
            requires: self.metadata.requires_dist,
        }
    }

    /// As a lock has it, with its size of `sizes`, by address.
    pub(super) fn locked(self, sizes: &BTreeMap<String, u64>) -> LockedPackage {
        LockedPackage {
            sha256: self.sha256(),
            bytes: sizes.get(&self.download_info.url).copied(),
            name: normalised(&self.metadata.name),
            version: self.metadata.version,
        }
    }
}

/// The packages of the report in `file`, sorted by name.
pub(crate) fn read(file: &Path) -> io::Result<Vec<Installed>> {
    let mut report: Report = serde_json::from_slice(&fs::read(file)?)?;
    report.install.sort_by_key(|installed| normalised(&installed.metadata.name));
    Ok(report.install)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_old_and_new_pips_are_read_and_sizes_only_where_they_are_known() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("report.json");
        let text = r#"{"version": "1", "install": [
            {"metadata": {"name": "B_c", "version": "2"}, "download_info": {"url": "https://i/b", "archive_info": {"hash": "sha256=0b"}}},
            {"metadata": {"name": "a", "version": "1", "requires_dist": ["b-c"]}, "is_direct": false,
             "download_info": {"url": "https://i/a", "archive_info": {"hash": "sha256=0a", "hashes": {"sha256": "0a"}}}}]}"#;
        fs::write(&file, text).unwrap();
        let sizes = BTreeMap::from([("https://i/b".to_owned(), 7)]);
        let locked: Vec<_> = read(&file).unwrap().into_iter().map(|installed| installed.locked(&sizes)).collect();
        let package = |name: &str, version: &str, bytes, sha256: &str| LockedPackage {
            name: name.into(),
            version: version.into(),
            bytes,
            sha256: Some(sha256.into()),
        };
        assert_eq!(locked, [package("a", "1", None, "0a"), package("b-c", "2", Some(7), "0b")]);
        let packages: Vec<_> = read(&file).unwrap().into_iter().map(Installed::package).collect();
        assert_eq!((packages[0].requires.as_slice(), packages[1].name.as_str()), (&["b-c".to_owned()][..], "B_c"));
    }
}
