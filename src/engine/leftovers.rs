//! Folders that jobs are handed or work in, named after the process that made them, so that those of a killed run are
//! found again. The main functions are `folder` and [`collect`].

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::owner::{Life, Owner};

const PREFIX: &str = "ctk-matrix-";

/// A folder of a run that is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The folder.
    pub path: PathBuf,
    /// Why it could not be removed; none if it was, or was not to be.
    pub failure: Option<String>,
}

/// A fresh folder of this process for temporary files. It is removed when it is dropped.
pub(crate) fn folder(what: &str) -> io::Result<TempDir> {
    let owner = Owner::this_process().map(|owner| owner.in_a_name()).unwrap_or_default();
    tempfile::Builder::new().prefix(&format!("{PREFIX}{what}.{owner}.")).tempdir()
}

/// Removes this user's folders whose process is gone, and says which they were. With `dry_run` nothing is removed.
#[must_use]
pub fn collect(dry_run: bool) -> Vec<Leftover> {
    collect_in(&std::env::temp_dir(), dry_run)
}

fn collect_in(dir: &Path, dry_run: bool) -> Vec<Leftover> {
    let user = rustix::process::geteuid().as_raw();
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let owner = owner_of(path.file_name()?.to_str()?)?;
            // Not through a link, and not what another user made under such a name.
            let entry = fs::symlink_metadata(&path).ok()?;
            (entry.is_dir() && entry.uid() == user && owner.life() == Life::Gone).then_some(path)
        })
        .collect();
    found.sort();
    let remove = |path: PathBuf| {
        let removed = if dry_run { Ok(()) } else { fs::remove_dir_all(&path) };
        // Another `gc` was faster.
        let removed =
            removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) });
        Leftover { failure: removed.err().map(|error| error.to_string()), path }
    };
    found.into_iter().map(remove).collect()
}

/// `ctk-matrix-request.PID.TICKS.BOOT.NAMESPACE.RANDOM`.
fn owner_of(name: &str) -> Option<Owner> {
    let (_what, rest) = name.strip_prefix(PREFIX)?.split_once('.')?;
    let (owner, _random) = rest.rsplit_once('.')?;
    Owner::from_a_name(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_processes_that_are_gone_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let living = folder("request").unwrap();
        let name = living.path().file_name().unwrap().to_str().unwrap();
        let owner = owner_of(name).unwrap();
        assert_eq!(owner.life(), Life::Living);
        let mut fields: Vec<&str> = name.split('.').collect();
        let ticks = (fields[2].parse::<u64>().unwrap() + 1).to_string();
        fields[2] = &ticks;
        let gone = fields.join(".");
        for name in [name, &gone, "ctk-matrix-request.x", "ctk-matrix-", "other.1.2.3.4.5"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join(&gone).join("request.json"), "{}").unwrap();
        std::os::unix::fs::symlink(living.path(), dir.path().join(format!("{gone}2"))).unwrap();
        let expected = [Leftover { path: dir.path().join(&gone), failure: None }];
        assert_eq!(collect_in(dir.path(), true), expected);
        assert_eq!(collect_in(dir.path(), false), expected);
        assert_eq!(collect_in(dir.path(), false), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5);
    }
}
