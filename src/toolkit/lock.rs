//! One run at a time makes an entry; the others wait for it. The main type is [`Lock`], a `flock` on a file beside the
//! entry: the kernel gives it back when its owner ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::oneshot;

/// A lock that is held. Without a value inside, the file system knows no locks, and only the rename at the end keeps
/// two runs apart: both download, one wins.
#[derive(Debug)]
pub(crate) struct Lock {
    file: Option<File>,
}

/// Whether a lock was to be had at once.
#[derive(Debug)]
pub(crate) enum Tried {
    /// It was.
    Held(Lock),
    /// Another has it.
    Busy(File),
}

/// Opens the lock file, and makes it if need be. Another user's is opened for reading, which is enough to lock it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let options = |write: bool| {
        let mut options = OpenOptions::new();
        options.read(true).write(write).create(write).mode(0o644);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        options
    };
    options(true).open(path).or_else(|error| options(false).open(path).map_err(|_| error))
}

impl Lock {
    /// Whether the file system really holds it.
    pub(crate) fn is_real(&self) -> bool {
        self.file.is_some()
    }

    /// Takes the lock if nobody has it.
    pub(crate) fn attempt(file: File) -> io::Result<Tried> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Tried::Held(Self { file: Some(file) })),
            Err(Errno::WOULDBLOCK) => Ok(Tried::Busy(file)),
            Err(error) if unknown_here(error) => Ok(Tried::Held(Self { file: None })),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the lock. The waiting thread is nobody's: a run that is interrupted meanwhile does not wait for it.
    pub(crate) async fn wait(file: File) -> io::Result<Self> {
        let (sender, receiver) = oneshot::channel();
        std::thread::Builder::new().name("cache lock".into()).spawn(move || {
            let locked = loop {
                match flock(&file, FlockOperation::LockExclusive) {
                    Ok(()) => break Ok(Self { file: Some(file) }),
                    Err(Errno::INTR) => {}
                    Err(error) => break Err(error.into()),
                }
            };
            // If nobody listens any more, the value is dropped here, and with it the lock.
            drop(sender.send(locked));
        })?;
        receiver.await.unwrap_or_else(|_| Err(io::Error::other("the thread that waits for the lock ended")))
    }
}

fn unknown_here(error: Errno) -> bool {
    [Errno::NOSYS, Errno::NOTSUP, Errno::NOLCK, Errno::BADF].contains(&error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_comes_in_when_the_first_has_left() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let Tried::Held(first) = Lock::attempt(open(&path).unwrap()).unwrap() else { panic!("the lock was free") };
        let Tried::Busy(file) = Lock::attempt(open(&path).unwrap()).unwrap() else { panic!("the lock was taken") };
        let second = tokio::spawn(Lock::wait(file));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap().unwrap();
    }
}
