//! One environment in the cache: where it lies, and whether it is complete. The main types are [`StackEntry`] (the place)
//! and [`StackManifest`] (`ctk-stack.json`, written last).

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::super::cache::Cache;
use super::super::entry::FileFacts;
use super::super::staging::Staging;
use crate::model::stack::Package;
use crate::model::wire::hex;

/// The file that makes an environment complete.
const MANIFEST: &str = "ctk-stack.json";

/// The version of [`StackManifest`]'s layout. An environment of another version is made anew.
const SCHEMA: u32 = 1;

/// What an environment holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StackManifest {
    schema: u32,
    /// What it was made from.
    key: String,
    /// Every package, sorted by name.
    pub(crate) packages: Vec<Package>,
    /// What `pip check` said.
    pub(crate) check: String,
    files: BTreeMap<String, FileFacts>,
}

/// Where an environment lies in the cache.
#[derive(Debug, Clone)]
pub(crate) struct StackEntry {
    /// `CACHE/stacks/py3.11-0123456789ab`.
    pub(crate) folder: PathBuf,
    /// The lock beside it.
    pub(crate) lock: PathBuf,
    key: String,
}

impl StackEntry {
    /// The entry of what `parts` say: the same text is the same environment.
    pub(crate) fn new(cache: &Cache, name: &str, parts: &[String]) -> Self {
        let key = parts.join("\n");
        let name = format!("{name}-{}", &hex(&Sha256::digest(key.as_bytes()))[..12]);
        Self { lock: cache.stacks().join(format!("{name}.lock")), folder: cache.stacks().join(name), key }
    }

    /// What it holds, if it is complete. Sizes are compared, contents are not: they were hashed when it was made.
    pub(crate) fn complete(&self) -> Option<StackManifest> {
        let text = fs::read(self.folder.join(MANIFEST)).ok()?;
        let manifest: StackManifest = serde_json::from_slice(&text).ok()?;
        let whole = manifest.files.iter().all(|(path, facts)| {
            fs::metadata(self.folder.join(path)).is_ok_and(|found| found.is_file() && found.len() == facts.bytes)
        });
        (manifest.schema == SCHEMA && manifest.key == self.key && whole).then_some(manifest)
    }

    /// Writes the manifest and moves the tree to its place; what lies there is not complete and goes.
    pub(crate) fn place(
        &self,
        tree: &Path,
        packages: Vec<Package>,
        check: String,
        files: BTreeMap<String, FileFacts>,
        staging: &Staging,
    ) -> std::io::Result<StackManifest> {
        let manifest = StackManifest { schema: SCHEMA, key: self.key.clone(), packages, check, files };
        let path = tree.join(MANIFEST);
        fs::write(&path, serde_json::to_vec_pretty(&manifest)?)?;
        fs::set_permissions(&path, Permissions::from_mode(0o644))?;
        if fs::symlink_metadata(&self.folder).is_ok() {
            fs::rename(&self.folder, staging.path().join("replaced"))?;
        }
        fs::rename(tree, &self.folder)?;
        Ok(manifest)
    }
}
