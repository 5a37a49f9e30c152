//! The Python half of the worker, on the test suite's driver: a real interpreter with a real NumPy, and small stand-ins
//! for CuPy and `PyCUDA` in `tests/stand-ins`, because the real ones need a GPU. What is tested is what is ours: stages,
//! frames, poison, comparison, and that a library that fails or dies takes none of the others along.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use ctk_matrix::model::arch::Arch;
use ctk_matrix::model::kernel::{self, Kernel, Launch};
use ctk_matrix::model::kernel_cache::KernelCache;
use ctk_matrix::model::matrix::{Measure, Processes, Toolkit, ToolkitSource};
use ctk_matrix::model::outcome::{Outcome, Stage};
use ctk_matrix::model::place::{Place, Provisioned};
use ctk_matrix::model::record::{Source, SourceKind};
use ctk_matrix::model::stack::{Python, Stack, StackFiles};
use ctk_matrix::model::version::Version;
use ctk_matrix::model::wire::{
    Decoder, Frame, GpuWish, Hello, HostLaunches, PathResult, Piece, Request, Task, ToolkitFiles, WIRE,
};
use ctk_matrix::toolkit::stack::{ReadyStack, StackAsk, StackError, provide};
use ctk_matrix::toolkit::{Cache, Pip};
use sha2::{Digest as _, Sha256};

const NONCE: &str = "00112233445566778899aabbccddeeff";
const N: u64 = 100_003;

/// The machine's Python, `3.11`.
fn python_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let print = "import sys; print('%d.%d' % sys.version_info[:2])";
        let output = Command::new("python3").args(["-I", "-c", print]).output().expect("there is a python3");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    })
}

fn provided(packages: &[&str], cache: &Path, pip: &Pip) -> Result<ReadyStack, StackError> {
    let stack = Stack {
        name: "s".into(),
        python: Python::Version(python_version().into()),
        packages: packages.iter().map(ToString::to_string).collect(),
        base: None,
    };
    provided_stack(&stack, cache, pip)
}

fn provided_stack(stack: &Stack, cache: &Path, pip: &Pip) -> Result<ReadyStack, StackError> {
    let version = Version::new(12, 6);
    let toolkit = Provisioned {
        toolkit: Toolkit { name: "12.6".into(), version, source: ToolkitSource::Unsaid, base: None },
        source: Source { kind: SourceKind::Wheels, reference: "none".into(), digest: None, image: None },
        place: Place::Userland,
        dir: None,
        roots: Vec::new(),
        hashes: BTreeMap::new(),
        absent: Vec::new(),
        notes: Vec::new(),
    };
    let cache = Cache::at(cache).unwrap();
    let (locked, budget, image) = (None, None, None);
    let (progress, note) = (&drop, &drop);
    let ask = StackAsk {
        stack,
        toolkit: &toolkit,
        cache: &cache,
        pip,
        by_everyone: true,
        locked,
        image,
        budget,
        progress,
        note,
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(provide(&ask))
}

/// An environment with NumPy alone.
fn numpy() -> &'static ReadyStack {
    static READY: OnceLock<ReadyStack> = OnceLock::new();
    READY.get_or_init(|| provided(&["numpy==2.2.6"], &support::cache(), &Pip::default()).unwrap())
}

/// What one run of `ctk-bench` said.
struct Ran {
    hello: Hello,
    stages: Vec<(String, Stage)>,
    results: Vec<PathResult>,
    stderr: String,
}

impl Ran {
    /// `path outcome stage code reason` of each, the reason's first words alone.
    fn ends(&self) -> Vec<String> {
        let say = |result: &PathResult| {
            let stage = result.stage.map(Stage::name).unwrap_or_default();
            let reason = result.reason.clone().unwrap_or_default();
            format!("{} {} {stage} {reason}", result.cell, result.outcome)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        self.results.iter().map(say).collect()
    }
}

/// Runs the paths with the stand-ins, on the test suite's driver, in one process.
fn run(paths: &[&str], stand_ins: &str, driver: &str) -> Ran {
    run_in(Processes::Shared, paths, stand_ins, driver)
}

fn run_in(process: Processes, paths: &[&str], stand_ins: &str, driver: &str) -> Ran {
    let folder = tempfile::Builder::new().prefix("ctk-python-").tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = support::program("ctk-bench").with_file_name("examples").join("libfake_driver.so");
    let libraries = folder.path().join("driver");
    std::fs::create_dir_all(folder.path().join("work")).unwrap();
    std::fs::create_dir(&libraries).unwrap();
    std::fs::copy(built, libraries.join("libcuda.so.580.159.04")).unwrap();
    std::os::unix::fs::symlink("libcuda.so.580.159.04", libraries.join("libcuda.so.1")).unwrap();
    let StackFiles { name, python, .. } = numpy().files.clone();
    let task = |path: &&str| Task { cell: (*path).into(), path: path.parse().unwrap(), arch: Arch::new(9, 0) };
    let request = Request {
        wire: WIRE,
        nonce: NONCE.into(),
        gpu: GpuWish::First,
        toolkit: ToolkitFiles { version: Version::new(12, 6), roots: Vec::new(), hashes: BTreeMap::new() },
        kernel: Kernel {
            name: "vector_add".into(),
            entry: "vectorAdd".into(),
            options: Vec::new(),
            source: Some("// not compiled here".into()),
            prebuilt: BTreeMap::new(),
            launch: Some(Launch { n: N, block: 256 }),
        },
        tasks: paths.iter().map(task).collect(),
        measure: Measure { process, ..Measure::default() },
        launches: HostLaunches::default(),
        path_timeout_ms: 6000,
        work: folder.path().join("work"),
        stack: Some(StackFiles { name, python, folders: vec![root.join("tests/stand-ins")] }),
    };
    let file = folder.path().join("request.json");
    std::fs::write(&file, serde_json::to_vec(&request).unwrap()).unwrap();
    let output = Command::new(support::program("ctk-bench"))
        .args(["run", "--request"])
        .arg(file)
        .env("LD_LIBRARY_PATH", libraries)
        .env("STAND_IN_FAULTS", stand_ins)
        .env("STAND_IN_PTX", root.join("kernels/prebuilt/vector_add.ptx"))
        .env("CTK_FAKE_FAULT", driver)
        .output()
        .unwrap();
    let mut ran = Ran {
        hello: Hello {
            bench: String::new(),
            glibc: None,
            gpu_mode: ctk_matrix::model::record::GpuMode::None,
            driver: None,
            gpu: None,
            failure: None,
        },
        stages: Vec::new(),
        results: Vec::new(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    let mut finals = 0;
    for piece in Decoder::new(NONCE).push(&output.stdout) {
        match piece {
            Piece::Frame(frame) => match *frame {
                Frame::Hello(hello) => ran.hello = *hello,
                Frame::Stage { cell, stage } => ran.stages.push((cell, stage)),
                Frame::Path(result) => ran.results.push(*result),
                Frame::Final { count } => finals += count,
            },
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((output.status.code(), finals), (Some(0), paths.len()), "{}", ran.stderr);
    ran
}

#[test]
fn the_inputs_are_the_same_bytes_in_numpy_as_in_rust() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bench/python/four_ways.py");
    let output =
        Command::new(&numpy().files.python).args(["-I", "-B"]).arg(program).args(["inputs", "4194915"]).output();
    let output = output.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let hash = |value: fn(u32) -> f32| {
        let mut hash = Sha256::new();
        (0..4_194_915).for_each(|index| hash.update(value(index).to_le_bytes()));
        ctk_matrix::model::wire::hex(&hash.finalize())
    };
    let expected = [hash(kernel::input_a), hash(kernel::input_b), hash(kernel::expected)];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_library_goes_through_the_stages_of_the_rust_paths_and_brings_its_proof() {
    let ran = run(&["cupy", "pycuda"], "cupy:print@import", "");
    assert_eq!(ran.ends(), ["cupy pass", "pycuda pass"], "{}", ran.stderr);
    let stages = |path: &str| -> Vec<Stage> {
        ran.stages.iter().filter(|(cell, _)| cell == path).map(|(_, stage)| *stage).collect()
    };
    let shared = [
        Stage::Build,
        Stage::Load,
        Stage::GetFunction,
        Stage::FirstLaunch,
        Stage::Verify,
        Stage::Steady,
        Stage::VerifyAfter,
    ];
    // CuPy is imported to make the buffers, which all later paths use.
    assert_eq!(stages("cupy"), [&[Stage::Import, Stage::DriverInit][..], &shared].concat());
    assert_eq!(stages("pycuda"), [&[Stage::Import][..], &shared].concat());
    let uuid = ran.hello.gpu.as_ref().map(|gpu| gpu.uuid.clone());
    for result in &ran.results {
        let bits = result.bits.as_ref().unwrap();
        assert_eq!((bits.checked, bits.mismatches), (N, 0));
        let mut hash = Sha256::new();
        (0..u32::try_from(N).unwrap()).for_each(|index| hash.update(kernel::expected(index).to_le_bytes()));
        assert_eq!(bits.sha256, ctk_matrix::model::wire::hex(&hash.finalize()));
        assert_eq!(result.gpu, uuid);
        assert_eq!(result.loaded.driver, ran.hello.driver);
        assert_eq!(result.loaded.library.as_ref().map(|file| file.version.as_str()), Some("0.0-stand-in"));
        let timings = &result.timings;
        assert!(timings.build_ms.is_some() && timings.first_ms.is_some() && timings.mean_ms.is_some(), "{timings:?}");
        assert_eq!((timings.warmup, timings.timed), (Some(3), Some(10)));
    }
    // A deferred compile is no load that could be timed.
    assert_eq!(ran.results[0].timings.load_ms, None);
    assert_eq!(ran.results[1].artifact.as_ref().unwrap().archs, ["compute_52"]);
}

#[test]
fn the_time_to_a_result_is_that_of_the_first_path_of_a_process() {
    let timed = |ran: &Ran| -> Vec<bool> {
        assert_eq!(ran.ends(), ["pycuda pass", "cupy pass"], "{}", ran.stderr);
        let timings: Vec<_> = ran.results.iter().map(|result| &result.timings).collect();
        assert!(timings.iter().all(|timings| timings.launch_ms.unwrap() > 0.0), "{timings:?}");
        // A process that imports NumPy has no result within a hundredth of a second.
        timings.iter().map(|timings| timings.result_ms.is_some_and(|ms| ms > 10.0)).collect()
    };
    let paths = ["pycuda", "cupy"];
    let shared = run(&paths, "cupy:print@import", "");
    assert_eq!(timed(&shared), [true, false]);
    let each = run_in(Processes::Each, &paths, "cupy:print@import", "");
    assert_eq!(timed(&each), [true, true]);
    // Alone, no library pays for the import of CuPy, which owns the buffers where they are shared.
    let driver_init = |ran: &Ran| ran.stages.iter().filter(|(_, stage)| *stage == Stage::DriverInit).count();
    assert_eq!((driver_init(&shared), driver_init(&each)), (1, 2));
    let owner = |ran: &Ran, path: &str| -> Vec<Stage> {
        ran.stages.iter().filter(|(cell, _)| cell == path).map(|(_, stage)| *stage).take(2).collect()
    };
    assert_eq!(owner(&each, "cupy"), [Stage::Import, Stage::DriverInit]);
    let ran = run_in(Processes::Each, &["pycuda"], "cupy:raise@import", "");
    assert_eq!(ran.ends(), ["pycuda pass"], "{}", ran.stderr);
    assert!(!ran.stderr.contains("CuPy"), "{}", ran.stderr);
}

#[test]
fn a_wrong_bit_is_found_at_its_stage() {
    let ran = run(&["pycuda"], "", "wrong-bit:777@ptx");
    let result = &ran.results[0];
    assert_eq!((result.outcome, result.stage), (Outcome::WrongResult, Some(Stage::Verify)), "{}", ran.stderr);
    assert_eq!(result.bits.as_ref().unwrap().first.as_ref().unwrap().index, 777);
    let ran = run(&["pycuda"], "", "no-write@ptx");
    let bits = ran.results[0].bits.as_ref().unwrap();
    assert_eq!(bits.mismatches, N);
    assert_eq!(bits.first.as_ref().unwrap().got, "NaN (0x7fc0dead)");
    let ran = run(&["pycuda"], "", "wrong-bit-large:5@ptx");
    assert_eq!((ran.results[0].outcome, ran.results[0].stage), (Outcome::WrongResult, Some(Stage::VerifyAfter)));
}

#[test]
fn a_library_that_is_absent_fails_or_dies_takes_none_of_the_others_along() {
    let ran = run(&["cuda-core", "cupy", "numba", "pycuda"], "cupy:crash@launch", "");
    assert_eq!(
        ran.ends(),
        [
            "cuda-core skip cuda-core is not installed in this stack",
            "cupy crashed first-launch the worker died of SIGSEGV at first-launch",
            "numba fail import ImportError: libnvvm.so.4: cannot open shared object file",
            "pycuda pass",
        ],
        "{}",
        ran.stderr
    );
}

#[test]
fn a_deferred_compile_that_fails_is_a_failure_of_the_build() {
    let ran = run(&["cupy", "pycuda"], "cupy:raise@launch", "");
    let reason = "AttributeError: module 'numpy' has no attribute 'row_stack'";
    assert_eq!(ran.ends(), [format!("cupy fail build {reason}"), "pycuda pass".into()], "{}", ran.stderr);
    assert!(ran.results[0].detail.as_ref().unwrap().contains("Traceback"));
}

#[test]
fn each_result_says_whether_its_caches_were_cold_as_they_were_found() {
    let caches = |faults: &str| -> Vec<String> {
        let ran = run(&["cupy", "pycuda"], faults, "");
        let say = |cache: &KernelCache| {
            let KernelCache { of, state, found, kept } = cache;
            format!("{of} {state:?} {found} {kept}")
        };
        let each = ran.results.iter().map(|result| result.caches.iter().map(say).collect::<Vec<_>>().join(", "));
        each.collect()
    };
    let pycuda = "PyCUDA Off 0 0, the driver Off 0 0";
    assert_eq!(caches(""), ["CuPy Cold 0 1, the driver Off 0 0", pycuda]);
    assert_eq!(caches("cupy:warm@import"), ["CuPy Warm 1 1, the driver Off 0 0", pycuda]);
    // PyCUDA is told to use none; what it writes all the same would show that it does.
    assert_eq!(caches("pycuda:warm@build")[1], "PyCUDA Cold 0 1, the driver Off 0 0");
}

#[test]
fn cupy_dying_over_the_buffers_costs_no_other_library_its_turn() {
    for fault in ["cupy:crash@buffers", "cupy:raise@buffers", "cupy:raise@import"] {
        let ran = run(&["pycuda"], fault, "");
        assert_eq!(ran.ends(), ["pycuda pass"], "{fault}: {}", ran.stderr);
        assert!(ran.stderr.contains("the driver's own"), "{}", ran.stderr);
    }
}

#[test]
fn a_library_that_hangs_ends_at_the_deadline_and_the_next_goes_on() {
    let ran = run(&["cupy", "pycuda"], "cupy:hang@launch", "");
    assert_eq!(ran.ends(), ["cupy timeout first-launch not done after 6 s, at first-launch", "pycuda pass"]);
}

#[test]
fn what_was_asked_and_what_was_resolved_are_kept_with_hashes_and_a_lock() {
    let ready = numpy();
    let record = &ready.record;
    assert_eq!(
        (record.asked.as_slice(), record.check.as_str()),
        (&["numpy==2.2.6".to_owned()][..], "No broken requirements found.")
    );
    assert!(record.python_version.starts_with(python_version()));
    let [package] = record.resolved.as_slice() else { panic!("{record:?}") };
    let sha256 = package.sha256.as_ref().unwrap();
    assert_eq!((package.version.as_str(), sha256.len()), ("2.2.6", 64));
    // A second time nothing is installed, and nothing is written.
    let again =
        provided(&["numpy==2.2.6"], &support::cache(), &Pip { python: "/nonexistent".into(), ..Pip::default() });
    assert_eq!(again.as_ref(), Ok(ready));
}

#[test]
fn each_thing_that_can_be_wrong_with_a_stack_has_its_own_words() {
    let scratch = tempfile::tempdir().unwrap();
    let fails = |packages: &[&str], pip: Pip| provided(packages, scratch.path(), &pip).unwrap_err().to_string();
    let error = fails(&["numpy==9.9.9"], Pip::default());
    assert!(
        error.starts_with(&format!("pip's index has no numpy==9.9.9 for Python {}: the newest are ", python_version())),
        "{error}"
    );
    let unreachable = [("PIP_INDEX_URL", "http://127.0.0.1:9/simple"), ("PIP_RETRIES", "1"), ("PIP_FIND_LINKS", "")];
    let env = unreachable.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let error = fails(&["numpy==2.2.6"], Pip { env, ..Pip::default() });
    assert!(error.starts_with("pip cannot reach its package index"), "{error}");
    let missing =
        Stack { name: "s".into(), python: Python::Version("3.99".into()), packages: vec!["numpy".into()], base: None };
    let error = provided_stack(&missing, scratch.path(), &Pip::default()).unwrap_err().to_string();
    assert!(error.starts_with("there is no Python 3.99 on this machine (there is 3."), "{error}");
    let left: Vec<PathBuf> =
        std::fs::read_dir(scratch.path().join("staging")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}
