//! The folder in which an entry is made before it is renamed into its place.
//! The main type is [`Staging`]: it is gone when the value is dropped, and when its owner was killed, the next run that
//! makes something removes it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cache::Cache;
use super::lock::{self, Lock, Tried};
use crate::model::wire::hex;

const LOCK_SUFFIX: &str = ".lock";

/// A folder of one's own below the cache, on the same file system as the entries.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    lock_path: PathBuf,
    /// Held while the folder has a living owner, across process namespaces too.
    _lock: Lock,
}

impl Staging {
    /// Makes a folder with a name that nobody can guess, after removing those whose owners are gone.
    pub(crate) fn create(cache: &Cache) -> io::Result<Self> {
        let above = cache.staging();
        remove_stale(&above);
        loop {
            let mut name = [0_u8; 16];
            getrandom::fill(&mut name).map_err(|error| io::Error::other(error.to_string()))?;
            let path = above.join(hex(&name));
            let lock_path = above.join(format!("{}{LOCK_SUFFIX}", hex(&name)));
            let file = lock::open(&lock_path)?;
            let made = file.metadata()?.ino();
            let Tried::Held(lock) = Lock::attempt(file)? else { continue };
            // A run that cleans up may have taken the file for a stale one in between.
            if fs::metadata(&lock_path).map(|facts| facts.ino()).ok() != Some(made) {
                continue;
            }
            let staging = Self { path, lock_path, _lock: lock };
            fs::create_dir(&staging.path)?;
            fs::set_permissions(&staging.path, Permissions::from_mode(0o755))?;
            return Ok(staging);
        }
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        remove(&self.path);
        drop(fs::remove_file(&self.lock_path));
    }
}

/// Removes a folder that a process which was killed a moment ago may still be writing to.
fn remove(folder: &Path) {
    for _ in 0..40 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::sleep(Duration::from_millis(25)),
            Ok(()) | Err(_) => return,
        }
    }
}

/// Removes what owners that are gone have left. What cannot be removed stays: it is somebody else's, or a later run's.
fn remove_stale(above: &Path) {
    let Ok(entries) = fs::read_dir(above) else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let name = name.strip_suffix(LOCK_SUFFIX).unwrap_or(&name);
        let lock_path = above.join(format!("{name}{LOCK_SUFFIX}"));
        // The lock is made before the folder and removed after it, so a folder without one has no owner.
        let _held = match fs::metadata(&lock_path) {
            Ok(_) => match lock::open(&lock_path).and_then(Lock::attempt) {
                Ok(Tried::Held(lock)) if lock.is_real() => Some(lock),
                Ok(Tried::Held(_) | Tried::Busy(_)) | Err(_) => continue,
            },
            Err(_) => None,
        };
        drop(fs::remove_dir_all(above.join(name)));
        drop(fs::remove_file(&lock_path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cache: &Cache) -> usize {
        fs::read_dir(cache.staging()).unwrap().count()
    }

    #[test]
    fn a_folder_without_a_living_owner_goes_and_one_with_an_owner_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::at(scratch.path()).unwrap();
        cache.make().unwrap();
        let owned = Staging::create(&cache).unwrap();
        fs::create_dir_all(cache.staging().join("dead/tree")).unwrap();
        fs::write(cache.staging().join("dead.lock"), "").unwrap();
        fs::create_dir_all(cache.staging().join("without-lock")).unwrap();
        let second = Staging::create(&cache).unwrap();
        assert!(owned.path().is_dir() && second.path().is_dir());
        assert_eq!(names(&cache), 4, "two folders and their locks");
        drop((owned, second));
        assert_eq!(names(&cache), 0);
    }
}
