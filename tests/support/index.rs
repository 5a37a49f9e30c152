//! A package index of the tests' own, for the real pip. Its main type is [`Index`].

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Serves `tests/support/index.py` until it is dropped.
pub(crate) struct Index {
    child: Child,
    pub(crate) url: String,
    _folder: tempfile::TempDir,
}

impl Index {
    pub(crate) fn serve() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/index.py");
        let mut child = Command::new("python3").arg(script).arg(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, url: format!("http://127.0.0.1:{}/simple/", port.trim()), _folder: folder }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
