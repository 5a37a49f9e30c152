//! One measurement per GPU at a time, across processes. Its main type is [`GpuLock`]: an advisory lock on a file named
//! after the GPU's UUID, which the kernel releases when its holder ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A held lock.
#[derive(Debug)]
pub struct GpuLock {
    file: File,
}

/// What came of an attempt to take a lock.
#[derive(Debug)]
pub enum Attempt {
    /// It is held now.
    Held(GpuLock),
    /// Somebody else holds it: the process that the file names.
    Busy(String),
}

impl GpuLock {
    /// The lock file of a GPU. It lies in a folder that all users share, since they share the GPU.
    #[must_use]
    pub fn path(uuid: &str) -> PathBuf {
        let safe: String = uuid.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        Path::new("/tmp").join(format!("ctk-matrix-{safe}.lock"))
    }

    /// Takes the lock, or says who holds it.
    pub fn attempt(path: &Path) -> io::Result<Attempt> {
        let mut file = open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all(format!("process {}", std::process::id()).as_bytes())?;
                Ok(Attempt::Held(Self { file }))
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.rewind()?;
                file.take(100).read_to_string(&mut holder)?;
                Ok(Attempt::Busy(if holder.is_empty() { "another process".into() } else { holder }))
            }
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for GpuLock {
    fn drop(&mut self) {
        // Closing the file releases the lock; the name is cleared so that nobody is accused later.
        let _ = self.file.set_len(0);
    }
}

fn open(path: &Path) -> io::Result<File> {
    // A lock file is never removed: a second process could then lock a new one of the same name. `O_NOFOLLOW` keeps a
    // link in a shared folder from pointing the write elsewhere.
    let nofollow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let open =
        |create: bool| OpenOptions::new().read(true).write(true).create(create).custom_flags(nofollow).open(path);
    match open(false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = open(true)?;
            // Other users must be able to take it too; a failure here means that somebody else made it just now.
            let _ = file.set_permissions(std::fs::Permissions::from_mode(0o666));
            Ok(file)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_who_holds_it_and_gets_it_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu.lock");
        let Attempt::Held(first) = GpuLock::attempt(&path).unwrap() else { panic!("the lock is free") };
        let Attempt::Busy(holder) = GpuLock::attempt(&path).unwrap() else { panic!("the lock is held") };
        assert_eq!(holder, format!("process {}", std::process::id()));
        drop(first);
        assert!(matches!(GpuLock::attempt(&path).unwrap(), Attempt::Held(_)));
    }

    #[test]
    fn the_file_name_holds_nothing_but_the_uuid() {
        assert_eq!(GpuLock::path("GPU-1a/../x"), Path::new("/tmp/ctk-matrix-GPU-1ax.lock"));
    }
}
