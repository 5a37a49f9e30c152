//! Wheels from the machine's own pip into a cache: complete, readable and shared, or nothing at all.
//! One small wheel (NVRTC 12.0, 23 MB) is really downloaded; what pip prints when it fails comes from a stand-in for
//! `python3` with texts that pip 23.2 printed.
#![cfg(feature = "host")]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ctk_matrix::model::event::ProvisionStep;
use ctk_matrix::model::matrix::{Toolkit, ToolkitSource};
use ctk_matrix::model::path::Family;
use ctk_matrix::model::place::{Place, Provisioned};
use ctk_matrix::model::version::Version;
use ctk_matrix::toolkit::wheels::listed;
use ctk_matrix::toolkit::{Ask, Cache, Pin, Pip, ProvisionError, Wheels, provision};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

const BYTES: u64 = 23_410_082;

fn nvrtc_12_0() -> Wheels {
    Wheels {
        version: Version::new(12, 0),
        pins: vec![Pin {
            name: "nvidia-cuda-nvrtc-cu12".into(),
            version: "12.0.140".into(),
            bytes: BYTES,
            sha256: "8e94e991d85c422de4da87bdc7472fdc1364367bd4aace7000b559cd33122071".into(),
        }],
        nvcc: false,
        nvrtc: "libnvrtc.so.12".into(),
    }
}

/// A cache in a scratch folder, and what was told while something was put into it.
struct Scene {
    scratch: tempfile::TempDir,
    cache: Cache,
    steps: Mutex<Vec<ProvisionStep>>,
    notes: Mutex<Vec<String>>,
    cancel: watch::Sender<bool>,
}

impl Scene {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::at(&scratch.path().join("cache")).unwrap();
        Self { scratch, cache, steps: Mutex::default(), notes: Mutex::default(), cancel: watch::channel(false).0 }
    }

    /// A stand-in for `python3`. In its script, `$TARGET` is the folder that pip is to fill.
    fn python(&self, script: &str) -> Pip {
        let path = self.scratch.path().join("python3");
        let target = "TARGET=; for word in \"$@\"; do [ \"$before\" = --target ] && TARGET=$word; before=$word; done";
        // Copied by another process: a file that this one has open for writing while another test forks cannot be run.
        let text = path.with_extension("text");
        fs::write(&text, format!("#!/bin/sh\n{target}\n{script}\n")).unwrap();
        assert!(Command::new("cp").args([&text, &path]).status().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Pip { python: path.into(), ..Pip::default() }
    }

    async fn provision(&self, pip: &Pip) -> Result<Provisioned, ProvisionError> {
        let toolkit =
            Toolkit { name: "12.0".into(), version: Version::new(12, 0), source: ToolkitSource::Unsaid, base: None };
        provision(Ask {
            toolkit: &toolkit,
            wheels: Some(&nvrtc_12_0()),
            cache: &self.cache,
            pip,
            progress: &|step| self.steps.lock().unwrap().push(step),
            note: &|note| self.notes.lock().unwrap().push(note),
            cancel: self.cancel.subscribe(),
        })
        .await
    }

    /// What is in the cache but locks of entries: the names of entries, and of what is left in staging.
    fn left(&self) -> Vec<String> {
        let names = |folder: &str| {
            let entries = fs::read_dir(self.cache.root().join(folder)).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let mut left = names("toolkits");
        left.retain(|name| Path::new(name).extension() != Some("lock".as_ref()));
        left.extend(names("staging"));
        left
    }
}

/// Every file and folder below one, itself included.
fn walk(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    if path.is_dir() {
        found.extend(fs::read_dir(path).unwrap().flat_map(|entry| walk(&entry.unwrap().path())));
    }
    found
}

/// Fills the target as the wheel does, with a library of four bytes that begins as an ELF file does.
const SMALL_TREE: &str = "mkdir -p \"$TARGET/nvidia/cuda_nvrtc/lib\"\n\
    printf '\\177ELF' > \"$TARGET/nvidia/cuda_nvrtc/lib/libnvrtc.so.12\"";

#[tokio::test]
async fn a_wheel_is_complete_readable_by_all_under_umask_077_and_used_again_without_pip() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let scene = Scene::new();
    let wheels = nvrtc_12_0();
    assert_eq!(wheels.download_size(&scene.cache), BYTES);
    let made = scene.provision(&Pip::default()).await.unwrap();

    let dir = made.dir.clone().unwrap();
    assert_eq!(dir.parent(), Some(scene.cache.root().join("toolkits").as_path()));
    assert_eq!(made.roots, [dir.join("nvidia/cuda_nvrtc")]);
    assert_eq!((&made.place, made.source.reference.as_str()), (&Place::Userland, "nvidia-cuda-nvrtc-cu12==12.0.140"));
    let nvcc = "NVIDIA's 12.x wheels carry no nvcc: name a `dir` or a -devel- image";
    assert_eq!(made.absent, [(Family::Nvcc, nvcc.to_owned())]);
    assert_eq!(made.notes, ["wheels, not NVIDIA's image"]);
    let libraries: Vec<_> = ["libnvrtc-builtins.so.12.0", "libnvrtc.so.12"]
        .map(|name| dir.join("nvidia/cuda_nvrtc/lib").join(name))
        .map(|path| (path.clone(), ctk_matrix::model::wire::hex(&Sha256::digest(fs::read(path).unwrap()))))
        .into();
    assert_eq!(made.hashes.clone().into_iter().collect::<Vec<_>>(), libraries);

    let permissions = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let closed: Vec<_> = walk(scene.cache.root())
        .into_iter()
        .filter(|path| permissions(path) & 0o444 != 0o444 && path.extension() != Some("lock".as_ref()))
        .collect();
    assert_eq!(closed, Vec::<PathBuf>::new());
    assert!(walk(scene.cache.root()).iter().all(|path| !path.is_dir() || permissions(path) == 0o755));

    let steps = std::mem::take(&mut *scene.steps.lock().unwrap());
    assert_eq!(steps.first(), Some(&ProvisionStep::Started { bytes: Some(BYTES) }));
    assert_eq!(steps.last(), Some(&ProvisionStep::Finished));
    let done: Vec<u64> = steps[1..steps.len() - 1]
        .iter()
        .map(|step| match step {
            ProvisionStep::Progress { done } => *done,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(!done.is_empty() && done.is_sorted() && done.iter().all(|done| *done <= BYTES), "{done:?}");

    let without_pip = Pip { python: "/nonexistent/python3".into(), ..Pip::default() };
    assert_eq!(scene.provision(&without_pip).await.unwrap(), made);
    assert_eq!(*scene.steps.lock().unwrap(), [ProvisionStep::Finished]);
    assert_eq!(wheels.download_size(&scene.cache), 0);
    assert!(listed(&scene.cache, &[wheels])[0].cached);
    assert_eq!(scene.left().len(), 1);
}

#[tokio::test]
async fn two_runs_at_once_download_once() {
    let scene = Scene::new();
    let count = scene.scratch.path().join("count");
    let pip = scene.python(&format!("echo run >> '{}'; exec python3 \"$@\"", count.display()));
    let (one, other) = tokio::join!(scene.provision(&pip), scene.provision(&pip));
    assert_eq!(one.unwrap(), other.unwrap());
    assert_eq!(fs::read_to_string(count).unwrap(), "run\n");
    assert_eq!(*scene.notes.lock().unwrap(), ["toolkit 12.0: another run downloads it, waiting for that"]);
    assert_eq!(scene.left().len(), 1);
}

#[tokio::test]
async fn an_entry_that_is_not_whole_is_made_anew() {
    let scene = Scene::new();
    let pip = scene.python(SMALL_TREE);
    let made = scene.provision(&pip).await.unwrap();
    let library = made.hashes.keys().next().unwrap().clone();
    let damages: [&dyn Fn(); 3] =
        [&|| fs::write(&library, "").unwrap(), &|| fs::remove_file(&library).unwrap(), &|| {
            fs::write(made.dir.as_ref().unwrap().join("ctk-toolkit.json"), "{").unwrap();
        }];
    for damage in damages {
        damage();
        assert!(!nvrtc_12_0().is_cached(&scene.cache));
        assert_eq!(scene.provision(&pip).await.unwrap(), made);
        assert_eq!(fs::read(&library).unwrap(), b"\x7fELF");
        assert_eq!(scene.left().len(), 1);
    }
}

#[tokio::test]
async fn a_pip_that_is_killed_half_way_leaves_nothing() {
    let scene = Scene::new();
    let end = scene.provision(&scene.python(&format!("{SMALL_TREE}\nkill -9 $$"))).await;
    assert!(matches!(end, Err(ProvisionError::Killed { signal: 9, .. })), "{end:?}");
    assert_eq!(scene.left(), Vec::<String>::new());
    assert!(matches!(scene.steps.lock().unwrap().last(), Some(ProvisionStep::Failed(_))));
}

#[tokio::test]
async fn a_pip_that_leaves_out_the_library_leaves_nothing() {
    let scene = Scene::new();
    let end = scene.provision(&scene.python("mkdir -p \"$TARGET\"; printf '\\177ELF' > \"$TARGET/libother.so\"")).await;
    let file = "libnvrtc.so.12".to_owned();
    assert_eq!(end, Err(ProvisionError::Incomplete { version: Version::new(12, 0), file }));
    assert_eq!(scene.left(), Vec::<String>::new());
}

/// Whether a process is there and not only waiting to be reaped.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// A pip that starts a process of its own, tells both ids, and never ends.
fn endless(scene: &Scene) -> (Pip, PathBuf) {
    let pids = scene.scratch.path().join("pids");
    let script =
        format!("{SMALL_TREE}\nsleep 600 & echo \"$$ $!\" > '{0}.new'; mv '{0}.new' '{0}'; wait", pids.display());
    (scene.python(&script), pids)
}

async fn started(pids: &Path) -> Vec<String> {
    let since = Instant::now();
    while !pids.exists() {
        assert!(since.elapsed() < Duration::from_secs(20), "the stand-in for pip did not start");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fs::read_to_string(pids).unwrap().split_whitespace().map(str::to_owned).collect()
}

async fn assert_gone(pids: &[String]) {
    let since = Instant::now();
    while pids.iter().any(|pid| lives(pid)) {
        assert!(since.elapsed() < Duration::from_secs(5), "{pids:?} still run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_cancellation_ends_all_that_pip_started_and_leaves_nothing() {
    let scene = Scene::new();
    let (pip, pids) = endless(&scene);
    let work = scene.provision(&pip);
    let cancel = async {
        let pids = started(&pids).await;
        assert!(pids.iter().all(|pid| lives(pid)));
        scene.cancel.send(true).unwrap();
        pids
    };
    let (end, pids) = tokio::join!(work, cancel);
    assert_eq!(end, Err(ProvisionError::Cancelled));
    assert_gone(&pids).await;
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[tokio::test]
async fn a_future_that_is_dropped_does_what_a_cancellation_does() {
    let scene = Scene::new();
    let (pip, pids) = endless(&scene);
    let pids = tokio::select! {
        end = scene.provision(&pip) => panic!("{end:?}"),
        pids = started(&pids) => pids,
    };
    assert_gone(&pids).await;
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[tokio::test]
async fn a_pip_that_moves_no_byte_is_ended() {
    let scene = Scene::new();
    let (pip, pids) = endless(&scene);
    let end = scene.provision(&Pip { idle: Duration::from_secs(1), ..pip }).await;
    assert_eq!(end, Err(ProvisionError::Idle { seconds: 1 }));
    assert_gone(&started(&pids).await).await;
    assert_eq!(scene.left(), Vec::<String>::new());
}

const HASHES: &str = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes. Otherwise, examine the package contents carefully; someone may have tampered with them.
    nvidia-cuda-nvrtc-cu12==12.0.140 from https://files.example/nvidia_cuda_nvrtc_cu12-12.0.140-py3-none-manylinux1_x86_64.whl (from -r requirements.txt (line 1)):
        Expected sha256 0000
             Got        8e94";
const NO_NETWORK: &str = "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object at 0x7fd9cabd3750>: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/nvidia-cuda-nvrtc-cu12/
ERROR: Could not find a version that satisfies the requirement nvidia-cuda-nvrtc-cu12==12.0.140 (from versions: none)
ERROR: No matching distribution found for nvidia-cuda-nvrtc-cu12==12.0.140";
const NO_MATCH: &str = "ERROR: Could not find a version that satisfies the requirement nvidia-cuda-nvrtc-cu12==12.0.140 (from versions: 12.0.76, 12.1.55)
ERROR: No matching distribution found for nvidia-cuda-nvrtc-cu12==12.0.140";
const FULL: &str = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device";

#[tokio::test]
async fn every_failure_of_pip_is_one_line_with_its_cure_and_leaves_nothing() {
    let texts = [
        (
            HASHES,
            "nvidia-cuda-nvrtc-cu12==12.0.140 is not the file that is pinned: its SHA-256 differs; clear pip's cache (`python3 -m pip cache purge`) and ask who runs the index if it happens again",
        ),
        (
            NO_NETWORK,
            "pip cannot reach its package index: check the network, and the proxy and index that `python3 -m pip config list` shows",
        ),
        (
            NO_MATCH,
            "pip's index has no wheel of nvidia-cuda-nvrtc-cu12==12.0.140 for this machine (NVIDIA's wheels are for x86_64 Linux with glibc): check the index that `python3 -m pip config list` shows, or name the toolkit as a `dir` or an `image`",
        ),
        (
            FULL,
            "no space left below `CACHE`: about 93.6 MB are needed; free some, or set CTK_MATRIX_CACHE to a folder on another disk",
        ),
        (
            "PYTHON: No module named pip",
            "`PYTHON -m pip` does not exist: install it (Debian, Ubuntu: apt-get install python3-pip; else: PYTHON -m ensurepip)",
        ),
    ];
    for (text, message) in texts {
        let scene = Scene::new();
        let python = scene.scratch.path().join("python3").display().to_string();
        let said = scene.scratch.path().join("said");
        fs::write(&said, text.replace("PYTHON", &python)).unwrap();
        let pip = scene.python(&format!("mkdir -p \"$TARGET/half\"; cat '{}' >&2; exit 1", said.display()));
        let error = scene.provision(&pip).await.unwrap_err();
        let shown = error.to_string().replace(&scene.cache.root().display().to_string(), "CACHE");
        assert_eq!(shown, message.replace("PYTHON", &python));
        assert_eq!(scene.left(), Vec::<String>::new());
        let last = text.lines().last().unwrap().trim().replace("PYTHON", &python);
        let full = matches!(error, ProvisionError::DiskFull { .. });
        assert!(full || error.detail().unwrap().ends_with(&last), "{:?}", error.detail());
    }
}

#[tokio::test]
async fn a_python_that_is_not_there_is_named() {
    let scene = Scene::new();
    let pip = Pip { python: OsString::from("/nonexistent/python3"), ..Pip::default() };
    assert_eq!(
        scene.provision(&pip).await.unwrap_err().to_string(),
        "`/nonexistent/python3` cannot be run (no such file or directory): install Python 3 with pip, or name the \
         toolkit as a `dir` or an `image`"
    );
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[tokio::test]
async fn a_real_pip_without_a_network_says_so_soon() {
    let scene = Scene::new();
    // Port 9 is "discard": nothing listens there.
    let env =
        [("PIP_INDEX_URL", "http://127.0.0.1:9/simple"), ("PIP_FIND_LINKS", ""), ("PIP_CONFIG_FILE", "/dev/null")];
    let env =
        env.into_iter().chain([("PIP_EXTRA_INDEX_URL", ""), ("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")]);
    let env = env.map(|(name, value)| (name.into(), value.into())).collect();
    let since = Instant::now();
    let end = scene.provision(&Pip { env, ..Pip::default() }).await;
    assert!(matches!(end, Err(ProvisionError::Unreachable { .. })), "{end:?}");
    assert!(since.elapsed() < Duration::from_mins(1));
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_is_named() {
    let scene = Scene::new();
    fs::create_dir(scene.cache.root()).unwrap();
    fs::write(scene.cache.root().join("staging"), "a file in the folder's place").unwrap();
    let error = scene.provision(&Pip::default()).await.unwrap_err().to_string();
    let staging = scene.cache.root().join("staging").display().to_string();
    assert_eq!(
        error.replace(&staging, "STAGING"),
        "the cache folder `STAGING` cannot be used (not a directory): set CTK_MATRIX_CACHE to a folder that you may write"
    );
}

/// A file system of its own, where this user may mount one.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(path: &Path, options: &str) -> Option<Self> {
        fs::create_dir(path).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(path).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(path.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.0).output());
    }
}

#[tokio::test]
async fn a_disk_that_is_really_full_is_named_and_left_empty() {
    let scene = Scene::new();
    // Room for the wheel, and not for what is in it.
    let Some(_disk) = Tmpfs::mount(scene.cache.root(), "size=50m") else {
        eprintln!("not run: no file system can be mounted here");
        return;
    };
    let end = scene.provision(&Pip::default()).await;
    assert!(matches!(end, Err(ProvisionError::DiskFull { .. })), "{end:?}");
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[tokio::test]
async fn a_complete_cache_may_be_read_only_and_an_incomplete_one_says_why_not() {
    let scene = Scene::new();
    let Some(disk) = Tmpfs::mount(scene.cache.root(), "size=1m") else {
        eprintln!("not run: no file system can be mounted here");
        return;
    };
    let pip = scene.python(SMALL_TREE);
    let made = scene.provision(&pip).await.unwrap();
    let remount = |options: &str| {
        assert!(Command::new("mount").args(["-o", options]).arg(&disk.0).status().unwrap().success());
    };
    remount("remount,ro");
    assert_eq!(scene.provision(&pip).await.unwrap(), made);
    remount("remount,rw");
    fs::remove_dir_all(made.dir.unwrap()).unwrap();
    remount("remount,ro");
    let error = scene.provision(&pip).await.unwrap_err().to_string();
    assert!(error.contains("(read-only file system): set CTK_MATRIX_CACHE"), "{error}");
}
