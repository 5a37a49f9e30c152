//! What the end-to-end tests share: a folder with a matrix in it, the test driver beside it, and `ctk-matrix` run as a
//! user runs it. Its main types are [`Scene`] and [`Ran`].
#![allow(dead_code, reason = "each test program uses its own part")]

pub(crate) mod daemon;
pub(crate) mod index;
pub(crate) mod python_image;
pub(crate) mod stand_in;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::Value;

/// The cache of all test programs, so that each wheel is fetched once.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

pub(crate) fn program(name: &str) -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_ctk-matrix")).with_file_name(name);
    assert!(beside.exists(), "{} is missing", beside.display());
    beside
}

/// Whether there is a Docker daemon to test with. Its absence is a failure where CI says that it must be there.
pub(crate) fn docker() -> bool {
    let found = Command::new("docker").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    let required = std::env::var_os("CTK_TEST_REQUIRE_DOCKER").is_some_and(|value| value == "1");
    assert!(found || !required, "CTK_TEST_REQUIRE_DOCKER is set, and `docker version` fails");
    if !found {
        eprintln!("did not run: no Docker daemon");
    }
    found
}

/// A folder of its own in which `ctk-matrix` is run.
pub(crate) struct Scene {
    folder: Arc<tempfile::TempDir>,
    env: BTreeMap<String, String>,
}

/// What a run of `ctk-matrix` did.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) out: PathBuf,
    /// The scene's folder, which is to outlive the look at its report.
    folder: Arc<tempfile::TempDir>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("ctk-scene-").tempdir().unwrap();
        let folder = Arc::new(folder);
        let mut env = BTreeMap::new();
        env.insert("CTK_MATRIX_CACHE".to_owned(), cache().display().to_string());
        Self { folder, env }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn matrix(self, text: &str) -> Self {
        self.file("matrix.yaml", text)
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Puts the test driver where the loader finds it, as a GPU with this UUID. `faults` is its `CTK_FAKE_FAULT`.
    pub(crate) fn fake_gpu(self, faults: &str) -> Self {
        let built = Path::new(env!("CARGO_BIN_EXE_ctk-matrix")).with_file_name("examples").join("libfake_driver.so");
        assert!(built.exists(), "{} is missing: run `cargo build --example fake_driver`", built.display());
        let folder = self.path().join("driver");
        std::fs::create_dir_all(&folder).unwrap();
        // As a driver installs it: the version is in the file's name, and the loader's name is a link.
        std::fs::copy(&built, folder.join("libcuda.so.580.159.04")).unwrap();
        std::os::unix::fs::symlink("libcuda.so.580.159.04", folder.join("libcuda.so.1")).unwrap();
        // A UUID of its own keeps scenes from waiting for each other's measurements.
        let unique = self.path().file_name().unwrap().to_str().unwrap();
        let digits: String =
            unique.bytes().flat_map(|byte| format!("{byte:02x}").into_bytes()).map(char::from).collect();
        let d = &format!("{digits:0<32}")[digits.len().saturating_sub(32)..][..32];
        let uuid = format!("GPU-{}-{}-{}-{}-{}", &d[..8], &d[8..12], &d[12..16], &d[16..20], &d[20..]);
        let library_path = folder.display().to_string();
        let scene = self.env("LD_LIBRARY_PATH", &library_path).env("CTK_FAKE_UUID", &uuid);
        if faults.is_empty() { scene } else { scene.env("CTK_FAKE_FAULT", faults) }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("ctk-matrix"));
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("LD_LIBRARY_PATH").env_remove("GITHUB_ACTIONS");
        command.envs(&self.env);
        command
    }

    /// Runs `ctk-matrix ARGUMENTS`.
    pub(crate) fn ctk_matrix(&self, arguments: &[&str]) -> Ran {
        let output = self.command(arguments).output().unwrap();
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            out: self.path().join("out"),
            folder: Arc::clone(&self.folder),
        }
    }

    /// Runs `ctk-matrix run --out out ARGUMENTS`.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let mut all = vec!["run", "--out", "out"];
        all.extend(arguments);
        self.ctk_matrix(&all)
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn assert_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    pub(crate) fn report(&self) -> Value {
        let path = self.out.join("report.json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap()
    }

    /// The record of the one cell whose id holds all of `parts`.
    #[track_caller]
    pub(crate) fn cell(&self, parts: &[&str]) -> Value {
        let report = self.report();
        let cells = report["cells"].as_array().unwrap();
        let fits = |cell: &&Value| {
            let id = cell["id"].as_str().unwrap();
            parts.iter().all(|part| id.split(',').any(|pair| pair == *part))
        };
        let found: Vec<_> = cells.iter().filter(fits).collect();
        assert_eq!(found.len(), 1, "{parts:?} names {} of {} cells", found.len(), cells.len());
        found[0].clone()
    }

    /// Every cell as `path toolkit: outcome[ stage][ code]`, in report order.
    pub(crate) fn outcomes(&self) -> Vec<String> {
        let report = self.report();
        let line = |cell: &Value| {
            let mut line = format!(
                "{} {}: {}",
                cell["axes"]["path"].as_str().unwrap(),
                cell["axes"]["toolkit"].as_str().unwrap(),
                cell["outcome"].as_str().unwrap()
            );
            for part in [&cell["stage"], &cell["code"]["name"]] {
                if let Some(part) = part.as_str() {
                    line.push(' ');
                    line.push_str(part);
                }
            }
            line
        };
        report["cells"].as_array().unwrap().iter().map(line).collect()
    }
}

/// Lower-case hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    ctk_matrix::model::wire::hex(&sha2::Sha256::digest(bytes))
}

/// The ids of containers that carry this run's label, running or not.
pub(crate) fn containers_of(run: &str) -> Vec<String> {
    let filter = format!("label=ctk-matrix.run={run}");
    let output = Command::new("docker").args(["ps", "-aq", "--filter", &filter]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(ToOwned::to_owned).collect()
}
