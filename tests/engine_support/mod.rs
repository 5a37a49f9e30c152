//! Scenes for the engine tests: stand-ins for `ctk-bench` written as shell scripts, jobs for them, and small tar files.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ctk_matrix::engine::attach::Attach;
use ctk_matrix::engine::job::{BenchTask, JobSpec};
use ctk_matrix::model::kernel::Kernel;
use ctk_matrix::model::matrix::{Limits, Measure};
use ctk_matrix::model::place::Place;
use ctk_matrix::model::version::Version;
use ctk_matrix::model::wire::{GpuWish, HostLaunches, Request, ToolkitFiles, WIRE};

/// A folder with a stand-in for `ctk-bench` in it.
pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
}

impl Bench {
    /// A shell script.
    pub(crate) fn script(text: &str) -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        fs::write(bench.path(), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(bench.path(), fs::Permissions::from_mode(0o755)).unwrap();
        bench
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("ctk-bench")
    }
}

/// A job that no other test binary and no other run of this one has.
pub(crate) fn job(name: &str) -> JobSpec {
    JobSpec {
        run: format!("test-{}-{name}", std::process::id()),
        job: name.into(),
        place: Place::Userland,
        task: BenchTask::Probe { nonce: "00".into(), device: None },
        attach: Attach::None,
        limits: Limits { timeout_ms: 60_000, memory: 512 << 20, pids: 77 },
        deadline: Duration::from_secs(40),
        env: BTreeMap::new(),
    }
}

/// A request for a toolkit below `dir`.
pub(crate) fn request(dir: &Path) -> Request {
    Request {
        wire: WIRE,
        nonce: "00".into(),
        gpu: GpuWish::None,
        toolkit: ToolkitFiles {
            version: Version::new(12, 6),
            roots: vec![dir.into(), dir.join("nvvm")],
            hashes: BTreeMap::from([(dir.join("lib64/libnvrtc.so.12"), "abc".into())]),
        },
        kernel: Kernel {
            name: "vector_add".into(),
            entry: "vectorAdd".into(),
            options: vec![],
            source: None,
            prebuilt: BTreeMap::new(),
            launch: None,
        },
        tasks: vec![],
        measure: Measure::default(),
        launches: HostLaunches::default(),
        path_timeout_ms: 1000,
        work: PathBuf::new(),
        stack: None,
    }
}

/// A tar file in memory, entry by entry.
#[derive(Default)]
pub(crate) struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    pub(crate) fn file(mut self, path: &str, content: &[u8]) -> Self {
        self.header(path, b'0', "", content.len());
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn link(mut self, path: &str, target: &str) -> Self {
        self.header(path, b'2', target, 0);
        self
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 1024, 0);
        self.bytes
    }

    fn header(&mut self, path: &str, kind: u8, target: &str, size: usize) {
        let mut header = [0_u8; 512];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, path);
        put(100, "0000755\0");
        put(108, "0000000\0");
        put(116, "0000000\0");
        put(124, &format!("{size:011o}\0"));
        put(136, "00000000000\0");
        put(148, "        ");
        put(157, target);
        put(257, "ustar\u{0}00");
        header[156] = kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&header);
    }
}
