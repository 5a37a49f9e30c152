//! A package index of the test's own, over HTTP on this machine. Its main type is [`Index`].

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/index.py");

/// Serves `tests/support/index.py` until it is dropped.
pub(crate) struct Index {
    child: Child,
    pub(crate) url: String,
    folder: tempfile::TempDir,
}

impl Index {
    pub(crate) fn serve() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("python3").arg(SCRIPT).arg(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, url: format!("http://127.0.0.1:{}/simple/", port.trim()), folder }
    }

    /// Adds a version of a package, which needs others.
    pub(crate) fn publish(&self, name: &str, version: &str, needs: &[&str]) {
        let status =
            Command::new("python3").arg(SCRIPT).arg(self.folder.path()).args([name, version]).args(needs).status();
        assert!(status.unwrap().success());
    }

    /// From now on only who has the password gets an answer: `name:password`.
    pub(crate) fn lock_up(&self, password: &str) {
        std::fs::write(self.folder.path().join("password"), password).unwrap();
    }

    /// From now on each question after a size takes so many seconds.
    pub(crate) fn slow_down(&self, seconds: u32) {
        std::fs::write(self.folder.path().join("slow"), seconds.to_string()).unwrap();
    }

    /// What was asked for so far, `GET /simple/lib/`.
    pub(crate) fn requests(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("requests")).unwrap();
        log.lines().map(ToOwned::to_owned).collect()
    }
}

/// pip's settings by which it knows the index at an address alone: the machine's own may name further places.
pub(crate) fn settings(url: &str) -> [(&'static str, &str); 5] {
    [
        ("PIP_INDEX_URL", url),
        ("PIP_EXTRA_INDEX_URL", ""),
        ("PIP_FIND_LINKS", ""),
        ("PIP_CONFIG_FILE", "/dev/null"),
        ("PIP_NO_CACHE_DIR", "1"),
    ]
}

impl Drop for Index {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
