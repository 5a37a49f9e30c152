//! `ctk-bench` as a program: requests in, frames out, and what becomes of workers that die, hang or are told to end.
//! None of this needs a GPU, a toolkit or a network; compilers are small scripts of the test's own.
#![cfg(feature = "bench")]

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use ctk_matrix::model::arch::Arch;
use ctk_matrix::model::kernel::{self, Kernel, Launch, Prebuilt};
use ctk_matrix::model::matrix::Measure;
use ctk_matrix::model::outcome::{Outcome, Stage};
use ctk_matrix::model::path::Form;
use ctk_matrix::model::record::GpuMode;
use ctk_matrix::model::version::Version;
use ctk_matrix::model::wire::{
    Decoder, Frame, GpuWish, Hello, HostLaunches, PathResult, Piece, Request, Task, ToolkitFiles, WIRE,
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

const NONCE: &str = "00112233445566778899aabbccddeeff";
const BENCH: &str = env!("CARGO_BIN_EXE_ctk-bench");
const PTX: &[u8] = include_bytes!("../kernels/prebuilt/vector_add.ptx");
const FATBIN: &[u8] = include_bytes!("../kernels/prebuilt/vector_add.fatbin");

/// A folder of one test's own, with a request that it may change.
struct Scene {
    folder: PathBuf,
    request: Request,
}

impl Scene {
    fn new(paths: &[&str]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("bench-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(folder.join("work")).unwrap();
        let prebuilt = |name: &str, bytes: &[u8]| Prebuilt {
            origin: name.into(),
            base64: base64::engine::general_purpose::STANDARD.encode(bytes),
        };
        let source = kernel::wrap(kernel::snippet(include_str!("../kernels/vector_add.cu")).unwrap());
        let request = Request {
            wire: WIRE,
            nonce: NONCE.into(),
            gpu: GpuWish::None,
            toolkit: ToolkitFiles {
                version: Version::new(12, 4),
                roots: vec![folder.join("toolkit")],
                hashes: [].into(),
            },
            kernel: Kernel {
                name: "vector_add".into(),
                entry: "vectorAdd".into(),
                options: Vec::new(),
                source: Some(source),
                prebuilt: [
                    (Form::Ptx, prebuilt("vector_add.ptx", PTX)),
                    (Form::Fatbin, prebuilt("vector_add.fatbin", FATBIN)),
                ]
                .into(),
                launch: Some(Launch::VECTOR_ADD),
            },
            tasks: paths
                .iter()
                .map(|path| Task { cell: (*path).into(), path: path.parse().unwrap(), arch: Arch::new(9, 0) })
                .collect(),
            measure: Measure::default(),
            launches: HostLaunches::default(),
            path_timeout_ms: 30_000,
            work: folder.join("work"),
            stack: None,
        };
        Self { folder, request }
    }

    /// Puts an nvcc in the toolkit: a script that gives this version and then, for a compilation, runs `body`.
    fn nvcc(self, version: &str, body: &str) -> Self {
        let program = self.folder.join("toolkit/bin/nvcc");
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 'Cuda compilation tools, release 0, V{version}'; exit; }}\n{body}\n"
        );
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// Puts a file where the loader looks first for the driver.
    fn libcuda(self, bytes: &[u8]) -> Self {
        fs::create_dir_all(self.folder.join("driver")).unwrap();
        fs::write(self.folder.join("driver/libcuda.so.1"), bytes).unwrap();
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BENCH);
        command.args(arguments).env("LD_LIBRARY_PATH", self.folder.join("driver"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self) -> Child {
        let file = self.folder.join("request.json");
        fs::write(&file, serde_json::to_vec(&self.request).unwrap()).unwrap();
        self.command(&["run", "--request", file.to_str().unwrap()]).spawn().unwrap()
    }

    fn run(&self) -> Ran {
        Ran::new(self.start().wait_with_output().unwrap())
    }

    /// What `run` says to a request file with this text.
    fn run_text(&self, text: &[u8]) -> Ran {
        let file = self.folder.join("request.json");
        fs::write(&file, text).unwrap();
        Ran::new(self.command(&["run", "--request", file.to_str().unwrap()]).output().unwrap())
    }

    fn probe(&self) -> Hello {
        let ran = Ran::new(self.command(&["probe", "--nonce", NONCE]).output().unwrap());
        assert_eq!((ran.status, ran.frames.last()), (Some(0), Some(&Frame::Final { count: 0 })));
        match ran.frames.as_slice() {
            [Frame::Hello(hello), Frame::Final { .. }] => (**hello).clone(),
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What came out of the program.
struct Ran {
    status: Option<i32>,
    frames: Vec<Frame>,
    stderr: String,
}

impl Ran {
    fn new(output: Output) -> Self {
        Self {
            status: output.status.code(),
            frames: frames(&output.stdout),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn results(&self) -> Vec<&PathResult> {
        let mut results = Vec::new();
        for frame in &self.frames {
            if let Frame::Path(result) = frame {
                results.push(&**result);
            }
        }
        results
    }

    /// Cell, outcome, stage and code of each path.
    fn ends(&self) -> Vec<String> {
        let end = |result: &&PathResult| {
            let stage = result.stage.map_or("", Stage::name);
            let code = result.code.as_ref().map_or(String::new(), ToString::to_string);
            format!("{} {} {stage} {code}", result.cell, result.outcome).trim_end().to_owned()
        };
        self.results().iter().map(end).collect()
    }

    fn hellos(&self) -> usize {
        self.frames.iter().filter(|frame| matches!(frame, Frame::Hello(_))).count()
    }
}

fn frames(stdout: &[u8]) -> Vec<Frame> {
    let mut decoder = Decoder::new(NONCE);
    let mut pieces = decoder.push(stdout);
    pieces.extend(decoder.finish());
    let frame = |piece| match piece {
        Piece::Frame(frame) => *frame,
        other => panic!("not a frame on stdout: {other:?}"),
    };
    pieces.into_iter().map(frame).collect()
}

/// Waits until `ready` gives something.
fn eventually<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if let Some(found) = ready() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what} did not happen");
}

/// The pid that a script wrote down.
fn pid_in(file: &Path) -> Option<Pid> {
    Pid::from_raw(fs::read_to_string(file).ok()?.trim().parse().ok()?)
}

/// The one child of a process.
fn child_of(pid: u32) -> Option<Pid> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
}

/// Whether a process runs: one that has ended and was not waited for does not.
fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

#[test]
fn without_a_gpu_prebuilt_artifacts_are_read_and_an_absent_toolkit_is_a_skip() {
    let scene = Scene::new(&["driver-ptx", "driver-fatbin", "driver-cubin", "nvrtc-cubin", "nvcc-ptx"]);
    let ran = scene.run();
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let expected =
        ["driver-ptx built", "driver-fatbin built", "driver-cubin skip", "nvrtc-cubin skip", "nvcc-ptx skip"];
    assert_eq!(ran.ends(), expected);
    assert_eq!(ran.frames.last(), Some(&Frame::Final { count: 5 }));

    let root = scene.folder.join("toolkit").display().to_string();
    let results = ran.results();
    let reasons: Vec<_> = results.iter().map(|result| result.reason.clone().unwrap_or_default()).collect();
    assert_eq!(
        reasons,
        [
            String::new(),
            String::new(),
            "the kernel vector_add has no prebuilt cubin".into(),
            format!("no libnvrtc.so.12 under {root}"),
            format!("no nvcc under {root}"),
        ]
    );
    let artifact = results[1].artifact.clone().unwrap();
    assert_eq!((artifact.kind, artifact.bytes, artifact.archs.len()), (Form::Fatbin, FATBIN.len() as u64, 8));
    let sent = base64::engine::general_purpose::STANDARD.decode(results[1].artifact_base64.as_ref().unwrap()).unwrap();
    assert_eq!(sent, FATBIN);
    assert_eq!(
        (results[0].loaded.driver.as_ref(), results[0].timings.build_ms, results[0].bits.as_ref()),
        (None, None, None)
    );
    let Frame::Hello(hello) = &ran.frames[0] else { panic!("{:?}", ran.frames[0]) };
    assert_eq!((hello.gpu_mode, &hello.gpu, &hello.failure), (GpuMode::None, &None, &None));
}

#[test]
fn every_path_announces_its_stage_before_its_result() {
    let ran = Scene::new(&["driver-ptx", "nvcc-ptx"]).run();
    let said: Vec<_> = ran
        .frames
        .iter()
        .map(|frame| match frame {
            Frame::Hello(_) => "hello".to_owned(),
            Frame::Stage { cell, stage } => format!("{cell} {stage}"),
            Frame::Path(result) => format!("{} ended", result.cell),
            Frame::Final { count } => format!("final {count}"),
        })
        .collect();
    assert_eq!(said, ["hello", "driver-ptx build", "driver-ptx ended", "nvcc-ptx build", "nvcc-ptx ended", "final 2"]);
}

#[test]
fn a_request_that_cannot_be_used_is_refused_with_its_reason() {
    let scene = Scene::new(&["driver-ptx"]);
    let whole = serde_json::to_string(&scene.request).unwrap();
    let newer = whole.replacen("\"wire\":1", "\"wire\":2,\"shape\":\"another\"", 1);
    let twice = {
        let mut request = scene.request.clone();
        request.tasks.extend(request.tasks.clone());
        serde_json::to_string(&request).unwrap()
    };
    let outside = whole.replacen("\"name\":\"vector_add\"", "\"name\":\"../vector_add\"", 1);
    for (text, named) in [
        (&whole[..whole.len() / 2], "EOF"),
        ("", "EOF"),
        (newer.as_str(), "protocol version 2, and this ctk-bench speaks 1"),
        (twice.as_str(), "the cell driver-ptx is in it twice"),
        (outside.as_str(), "is no name for a file"),
    ] {
        let ran = scene.run_text(text.as_bytes());
        assert_eq!((ran.status, ran.frames.len()), (Some(2), 0), "{}", ran.stderr);
        assert!(ran.stderr.contains(named), "{named:?} is not in {:?}", ran.stderr);
    }
    let absent = scene.command(&["run", "--request", "/nowhere/request.json"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("/nowhere/request.json"));
}

#[test]
fn a_worker_is_not_started_by_hand() {
    let scene = Scene::new(&[]);
    let output = scene.command(&["worker", "--request", "r", "--from", "0", "--parent", "1"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}

#[test]
fn a_driver_that_cannot_be_opened_is_said_once_and_fails_every_path() {
    // A file that is no library stops the loader, whatever else this machine has.
    let mut scene = Scene::new(&["driver-ptx", "nvcc-ptx"]).libcuda(
        b"not an ELF file, and longer than its header is: \
        0123456789012345678901234567890123456789012345678901234567890123456789",
    );
    let failure = scene.probe().failure.unwrap();
    assert_eq!((failure.stage, &failure.code), (Stage::DriverInit, &None));
    assert!(failure.reason.starts_with("libcuda.so.1 cannot be opened"), "{failure:?}");
    assert!(failure.detail.as_ref().unwrap().contains("invalid ELF header"), "{failure:?}");

    scene.request.gpu = GpuWish::First;
    let ran = scene.run();
    assert_eq!(ran.ends(), ["driver-ptx fail driver-init", "nvcc-ptx fail driver-init"]);
    assert_eq!((ran.status, ran.hellos()), (Some(0), 1));
    assert!(ran.results().iter().all(|result| result.reason.as_ref() == Some(&failure.reason)));
}

#[test]
fn a_library_that_is_no_driver_is_named_with_what_it_lacks() {
    // Any library will do; this process has one loaded.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libgcc_s"));
    let scene = Scene::new(&[]).libcuda(&fs::read(library.unwrap()).unwrap());
    let hello = scene.probe();
    let path = scene.folder.join("driver/libcuda.so.1").canonicalize().unwrap().display().to_string();
    let failure = hello.failure.unwrap();
    assert_eq!((failure.stage, hello.gpu_mode), (Stage::DriverInit, GpuMode::None));
    assert!(failure.reason.starts_with(&format!("{path} has no `cuInit`")), "{failure:?}");
    assert_eq!(hello.driver.unwrap().path, path);
}

#[test]
fn a_worker_that_is_killed_costs_its_path_and_the_next_ones_go_on() {
    let scene = Scene::new(&["driver-ptx", "nvcc-ptx", "driver-fatbin"]);
    let pid = scene.folder.join("pid");
    let scene = scene.nvcc("12.4.131", &format!("echo $$ > {}; exec sleep 60", pid.display()));
    let child = scene.start();
    let compiler = eventually("the compiler's start", || pid_in(&pid));
    let worker = child_of(child.id()).unwrap();
    assert_ne!(worker, compiler);
    kill_process(worker, Signal::ABORT).unwrap();
    let ran = Ran::new(child.wait_with_output().unwrap());
    assert_eq!(ran.ends(), ["driver-ptx built", "nvcc-ptx crashed build SIGABRT (6)", "driver-fatbin built"]);
    assert_eq!((ran.status, ran.hellos(), ran.frames.last()), (Some(0), 2, Some(&Frame::Final { count: 3 })));
    assert!(!runs(compiler), "the compiler outlived its worker");
}

#[test]
fn a_path_that_passes_its_deadline_is_ended_with_its_compiler() {
    let scene = Scene::new(&["nvcc-ptx", "driver-ptx"]);
    let pid = scene.folder.join("pid");
    let mut scene = scene.nvcc("12.4.131", &format!("echo $$ > {}; exec sleep 60", pid.display()));
    scene.request.path_timeout_ms = 1500;
    let started = Instant::now();
    let ran = scene.run();
    assert_eq!(ran.ends(), ["nvcc-ptx timeout build", "driver-ptx built"]);
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(!runs(pid_in(&pid).unwrap()), "the compiler outlived its deadline");
}

#[test]
fn a_signal_to_end_ends_everything_quickly() {
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let scene = Scene::new(&["driver-ptx", "nvcc-ptx"]);
        let pid = scene.folder.join("pid");
        let scene = scene.nvcc("12.4.131", &format!("echo $$ > {}; exec sleep 60", pid.display()));
        let child = scene.start();
        let compiler = eventually("the compiler's start", || pid_in(&pid));
        let worker = child_of(child.id()).unwrap();
        let asked = Instant::now();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ran = Ran::new(child.wait_with_output().unwrap());
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        assert_eq!((ran.status, ran.ends()), (Some(status), vec!["driver-ptx built".to_owned()]));
        assert!(!ran.frames.iter().any(|frame| matches!(frame, Frame::Final { .. })));
        eventually("the end of worker and compiler", || (!runs(worker) && !runs(compiler)).then_some(()));
    }
}

#[test]
fn a_supervisor_that_is_killed_takes_its_worker_with_it() {
    let scene = Scene::new(&["nvcc-ptx"]);
    let pid = scene.folder.join("pid");
    let scene = scene.nvcc("12.4.131", &format!("echo $$ > {}; exec sleep 3", pid.display()));
    let mut child = scene.start();
    eventually("the compiler's start", || pid_in(&pid));
    let worker = child_of(child.id()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the worker's end", || (!runs(worker)).then_some(()));
}

#[test]
fn an_nvcc_is_run_with_the_right_words_in_an_environment_of_its_own() {
    // What it was run with becomes the artifact: a comment and a PTX header.
    let body = r#"while [ $# -gt 0 ]; do case $1 in -o) out=$2; shift;; *) words="$words $1";; esac; shift; done
{ echo "//$words"; echo "// $TMPDIR ${NVCC_APPEND_FLAGS-none}"; printf '.version 8.4\n.target sm_90\n.address_size 64\n'; } > "$out""#;
    let mut scene = Scene::new(&["nvcc-ptx"]).nvcc("12.4.131", body);
    scene.request.kernel.options = vec!["-lineinfo".into()];
    let ran = scene.run();
    let result = ran.results()[0];
    assert_eq!(result.outcome, Outcome::Built, "{result:?}");
    let bytes = base64::engine::general_purpose::STANDARD.decode(result.artifact_base64.as_ref().unwrap()).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("// -ptx -arch=compute_90 -lineinfo vector_add.cu"));
    let environment = lines.next().unwrap();
    let work = scene.request.work.display().to_string();
    assert!(environment.starts_with(&format!("// {work}/")) && environment.ends_with(" none"), "{environment}");
    assert_eq!(fs::read_dir(&scene.request.work).unwrap().count(), 0, "the work folder is not empty");
    let nvcc = result.loaded.nvcc.clone().unwrap();
    assert_eq!((nvcc.version.as_str(), nvcc.sha256.len()), ("12.4.131", 64));
    assert_eq!(result.artifact.clone().unwrap().producer, "nvcc 12.4.131");
    assert!(result.timings.build_ms.unwrap() > 0.0);
}

#[test]
fn a_compiler_of_another_version_or_without_its_libraries_is_a_failure_that_names_it() {
    let scene = Scene::new(&["nvcc-cubin", "nvrtc-ptx"]).nvcc("12.6.85", "exit 1");
    let library = scene.folder.join("toolkit/lib64/libnvrtc.so.12");
    fs::create_dir_all(library.parent().unwrap()).unwrap();
    fs::write(&library, b"\x7fELF but cut short").unwrap();
    let ran = scene.run();
    assert_eq!(ran.ends(), ["nvcc-cubin fail build", "nvrtc-ptx fail build"]);
    let reasons: Vec<_> = ran.results().iter().map(|result| result.reason.clone().unwrap()).collect();
    let nvcc = scene.folder.join("toolkit/bin/nvcc");
    assert_eq!(reasons[0], format!("{} is nvcc 12.6.85, and the toolkit is to be 12.4", nvcc.display()));
    assert!(reasons[1].starts_with(&format!("{} cannot be opened: ", library.display())), "{}", reasons[1]);
}

#[test]
fn a_compiler_that_fails_gives_its_status_and_its_text() {
    let body = "echo 'gcc: No such file or directory' >&2; \
                echo 'nvcc fatal   : Failed to preprocess host compiler properties.' >&2; exit 1";
    let ran = Scene::new(&["nvcc-fatbin"]).nvcc("12.4.131", body).run();
    assert_eq!(ran.ends(), ["nvcc-fatbin fail build EXIT (1)"]);
    let result = ran.results()[0];
    assert_eq!(result.reason.as_deref(), Some("nvcc finds no host compiler: this userland has no gcc in its path"));
    assert!(result.detail.as_ref().unwrap().contains("Failed to preprocess"));
}

#[test]
fn a_damaged_cubin_is_refused_with_its_reason() {
    let mut scene = Scene::new(&["driver-cubin"]);
    // The opening of the first cubin in the shipped fatbin, cut off in the middle.
    let start = FATBIN.windows(4).position(|window| window == b"\x7fELF").unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.encode(&FATBIN[start..start + 1000]);
    scene.request.kernel.prebuilt.insert(Form::Cubin, Prebuilt { origin: "cut.cubin".into(), base64: bytes });
    let ran = scene.run();
    assert_eq!(ran.ends(), ["driver-cubin fail build"]);
    assert!(ran.results()[0].reason.as_ref().unwrap().contains("cut short"), "{:?}", ran.results()[0].reason);
}

#[test]
fn frames_arrive_while_the_run_goes_on() {
    let scene = Scene::new(&["driver-ptx", "nvcc-ptx"]).nvcc("12.4.131", "exec sleep 60");
    let mut child = scene.start();
    let mut pipe = child.stdout.take().unwrap();
    let mut decoder = Decoder::new(NONCE);
    let mut chunk = [0; 4096];
    let mut seen = Vec::new();
    while !seen.contains(&Piece::Frame(Box::new(Frame::Stage { cell: "nvcc-ptx".into(), stage: Stage::Build }))) {
        let read = pipe.read(&mut chunk).unwrap();
        assert_ne!(read, 0, "it ended after {seen:?}");
        seen.extend(decoder.push(&chunk[..read]));
    }
    assert!(seen.iter().any(|piece| matches!(piece, Piece::Frame(frame) if matches!(**frame, Frame::Path(_)))));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}
