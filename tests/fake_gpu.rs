//! The main job on the test suite's driver, by child processes: what each thing that can go wrong on a GPU comes to.
//! The driver parses what it is handed by itself, so a pass here is the work of the whole chain.

mod support;

use support::Scene;

/// One toolkit, and a deadline that a hang does not stretch.
const MATRIX: &str = r#"
version: 1
toolkits: ["12.6"]
paths: [driver-ptx, driver-fatbin, nvrtc-ptx, nvrtc-cubin]
limits: {timeout: 6s}
"#;

fn scene(faults: &str) -> Scene {
    Scene::new().matrix(MATRIX).fake_gpu(faults)
}

const PROCESS: [&str; 3] = ["--engine", "process", "--quiet"];

#[test]
fn every_path_passes_and_says_that_it_was_no_gpu() {
    let ran = scene("").run(&PROCESS).assert_code(0);
    assert_eq!(
        ran.outcomes(),
        ["driver-ptx 12.6: pass", "driver-fatbin 12.6: pass", "nvrtc-ptx 12.6: pass", "nvrtc-cubin 12.6: pass"]
    );
    let report = ran.report();
    let run = &report["runs"][0];
    assert_eq!(run["gpu_mode"], "fake");
    assert_eq!(run["gpu"]["cc"], "9.0");
    assert_eq!(run["gpu"]["driver"], "580.159.04");
    assert!(ran.stdout.contains("TEST DRIVER, NOT A GPU"), "{}", ran.stdout);
    let cell = ran.cell(&["path=nvrtc-cubin"]);
    assert_eq!(cell["id"], "arch=9.0,kernel=vector_add,path=nvrtc-cubin,toolkit=12.6");
    assert_eq!(cell["bits"]["checked"], 4_194_915);
    assert_eq!(cell["bits"]["mismatches"], 0);
    assert_eq!(cell["bits"]["sha256"], "11d347a4e363c4fe2a3d89bdaa23574198fda2e1a01d819d249c465b7f4d895d");
    assert_eq!(cell["loaded"]["nvrtc"]["version"], "12.6");
    assert!(cell["loaded"]["nvrtc"]["path"].as_str().unwrap().starts_with("$CACHE/"), "{cell}");
    assert_eq!(cell["artifact"]["archs"][0], "sm_90");
    assert!(cell["gpu"].as_str().unwrap().starts_with("GPU-"));
    for timing in ["build_ms", "load_ms", "first_ms", "mean_ms", "gbps", "launch_ms"] {
        assert!(cell["timings"][timing].as_f64().unwrap() > 0.0, "{timing}");
    }
    let driver = ran.cell(&["path=driver-ptx"]);
    assert_eq!(driver["source"]["kind"], "prebuilt");
    assert!(driver["timings"].get("build_ms").is_none());
}

#[test]
fn a_process_for_each_path_gives_each_its_own_time_to_a_result() {
    let times = |measure: &str| -> Vec<bool> {
        let scene = Scene::new().matrix(&format!("{MATRIX}measure: {measure}\n")).fake_gpu("");
        let ran = scene.run(&PROCESS).assert_code(0);
        let cells = ran.report()["cells"].as_array().unwrap().clone();
        let compared = ran.stdout.contains("Against each other: toolkit 12.6, kernel vector_add, arch 9.0");
        let times = cells.iter().map(|cell| cell["timings"]["result_ms"].as_f64().is_some_and(|time| time > 0.0));
        times.chain([compared]).collect()
    };
    assert_eq!(times("{process: each}"), [true; 5]);
    // One process: only the first path paid for its start, and nothing can be compared.
    assert_eq!(times("{process: shared}"), [true, false, false, false, false]);
}

#[test]
fn the_report_command_prints_the_same_bytes_and_every_artifact_has_its_hash() {
    let scene = scene("");
    let ran = scene.run(&PROCESS).assert_code(0);
    let again = scene.ctk_matrix(&["report", "out"]).assert_code(0);
    assert_eq!(ran.stdout, again.stdout);
    let artifacts: Vec<_> = std::fs::read_dir(ran.out.join("artifacts")).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(artifacts.len(), 4);
    for artifact in artifacts {
        let hex = support::sha256(&std::fs::read(artifact.path()).unwrap());
        assert_eq!(artifact.file_name().to_str(), Some(hex.as_str()));
    }
    assert_eq!(std::fs::read_to_string(ran.out.join("records.jsonl")).unwrap().lines().count(), 4);
}

#[test]
fn a_wrong_bit_is_shown_with_index_got_and_want() {
    let ran = scene("wrong-bit:1234567@cubin").run(&PROCESS).assert_code(1);
    assert_eq!(ran.cell(&["path=nvrtc-ptx"])["outcome"], "pass");
    let cell = ran.cell(&["path=nvrtc-cubin"]);
    assert_eq!((cell["outcome"].as_str(), cell["stage"].as_str()), (Some("wrong-result"), Some("verify")));
    assert_eq!(cell["bits"]["mismatches"], 1);
    assert_eq!(cell["bits"]["first"]["index"], 1_234_567);
    let (got, want) = (cell["bits"]["first"]["got"].as_str().unwrap(), cell["bits"]["first"]["want"].as_str().unwrap());
    assert!(got != want && got.len() >= 10 && ran.stdout.contains(got) && ran.stdout.contains(want), "{got} {want}");
}

#[test]
fn wrong_bits_in_the_timed_launches_alone_are_found_afterwards() {
    let ran = scene("wrong-bit-late@ptx").run(&PROCESS).assert_code(1);
    let cell = ran.cell(&["path=nvrtc-ptx"]);
    assert_eq!((cell["outcome"].as_str(), cell["stage"].as_str()), (Some("wrong-result"), Some("verify-after")));
    assert_eq!(ran.cell(&["path=nvrtc-cubin"])["outcome"], "pass");
}

#[test]
fn nothing_is_launched_between_the_timed_launches_and_their_comparison() {
    // A later launch of few elements would write over the wrong one.
    let ran = scene("wrong-bit-large:5@ptx").run(&PROCESS).assert_code(1);
    let cell = ran.cell(&["path=nvrtc-ptx"]);
    assert_eq!((cell["outcome"].as_str(), cell["stage"].as_str()), (Some("wrong-result"), Some("verify-after")));
    assert_eq!((&cell["bits"]["first"]["index"], cell["timings"].get("launch_ms")), (&5.into(), None));
}

#[test]
fn a_launch_that_writes_nothing_leaves_the_poison_and_is_wrong() {
    let ran = scene("no-write@cubin").run(&PROCESS).assert_code(1);
    let cell = ran.cell(&["path=nvrtc-cubin"]);
    assert_eq!(cell["outcome"], "wrong-result");
    assert_eq!(cell["bits"]["mismatches"], 4_194_915);
    assert!(cell["bits"]["first"]["got"].as_str().unwrap().contains("NaN"), "{cell}");
}

#[test]
fn ptx_that_is_too_new_for_the_driver_fails_at_load_and_its_machine_code_passes() {
    let ran = scene("").env("CTK_FAKE_DRIVER", "550.54.14").run(&PROCESS).assert_code(1);
    assert_eq!(
        ran.outcomes(),
        [
            "driver-ptx 12.6: pass",
            "driver-fatbin 12.6: pass",
            "nvrtc-ptx 12.6: fail load CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            "nvrtc-cubin 12.6: pass"
        ]
    );
    let cell = ran.cell(&["path=nvrtc-ptx"]);
    assert_eq!(cell["code"]["number"], 222);
    assert!(cell["detail"].as_str().unwrap().contains("Unsupported .version 8.5"), "{cell}");
    assert!(cell["explanation"]["remedy"].as_str().is_some_and(|text| !text.is_empty()), "{cell}");
}

#[test]
fn an_expected_failure_is_as_expected_and_one_that_passes_is_not() {
    let expecting = format!(
        "{MATRIX}expect: [{{path: nvrtc-ptx, outcome: fail, stage: load, code: CUDA_ERROR_UNSUPPORTED_PTX_VERSION, \
         reason: driver 550 stops at PTX 8.4}}]\n"
    );
    let old = Scene::new().matrix(&expecting).fake_gpu("").env("CTK_FAKE_DRIVER", "550.54.14");
    let ran = old.run(&PROCESS).assert_code(0);
    assert_eq!(ran.cell(&["path=nvrtc-ptx"])["outcome"], "expected-fail");
    let ran = Scene::new().matrix(&expecting).fake_gpu("").run(&PROCESS).assert_code(1);
    assert_eq!(ran.cell(&["path=nvrtc-ptx"])["outcome"], "unexpected-pass");
}

#[test]
fn code_for_another_architecture_is_refused_by_the_driver() {
    let matrix = "version: 1\ntoolkits: [\"12.6\"]\npaths: [nvrtc]\narch: [\"8.0\", \"8.9\"]\n";
    let ran = Scene::new().matrix(matrix).fake_gpu("").run(&PROCESS).assert_code(1);
    let cubin = ran.cell(&["path=nvrtc-cubin", "arch=8.0"]);
    assert_eq!((cubin["stage"].as_str(), cubin["code"]["number"].as_i64()), (Some("load"), Some(209)));
    assert_eq!(ran.cell(&["path=nvrtc-ptx", "arch=8.9"])["outcome"], "pass");
}

#[test]
fn a_hang_ends_at_the_paths_deadline_and_the_other_paths_go_on() {
    let ran = scene("hang-load@cubin").run(&PROCESS).assert_code(1);
    let cell = ran.cell(&["path=nvrtc-cubin"]);
    assert_eq!((cell["outcome"].as_str(), cell["stage"].as_str()), (Some("timeout"), Some("load")));
    assert_eq!(ran.cell(&["path=nvrtc-ptx"])["outcome"], "pass");
}

#[test]
fn a_crash_takes_none_of_the_other_paths_along() {
    let ran = scene("crash-load@ptx").run(&PROCESS).assert_code(1);
    assert_eq!(
        ran.outcomes(),
        [
            "driver-ptx 12.6: crashed load SIGSEGV",
            "driver-fatbin 12.6: pass",
            "nvrtc-ptx 12.6: crashed load SIGSEGV",
            "nvrtc-cubin 12.6: pass"
        ]
    );
}

#[test]
fn a_sticky_error_spoils_its_own_path_alone() {
    let ran = scene("sticky@fatbin").run(&PROCESS).assert_code(1);
    let cell = ran.cell(&["path=driver-fatbin"]);
    assert_eq!((cell["outcome"].as_str(), cell["code"]["number"].as_i64()), (Some("fail"), Some(700)));
    assert_eq!(ran.cell(&["path=nvrtc-ptx"])["outcome"], "pass");
    assert_eq!(ran.cell(&["path=nvrtc-cubin"])["outcome"], "pass");
}

#[test]
fn what_a_driver_prints_is_logged_and_disturbs_nothing() {
    let ran = scene("noise").run(&PROCESS).assert_code(0);
    let logs: String = std::fs::read_dir(ran.out.join("logs"))
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!logs.trim().is_empty());
}

#[test]
fn no_device_is_said_and_nothing_is_launched_unless_a_gpu_is_required() {
    let scene = scene("no-device");
    let ran = scene.run(&PROCESS).assert_code(0);
    assert_eq!(ran.report()["runs"][0]["gpu_mode"], "none");
    assert!(ran.stdout.contains("nothing was launched"), "{}", ran.stdout);
    assert!(ran.stdout.contains("CUDA_ERROR_NO_DEVICE"), "{}", ran.stdout);
    let ran = scene.ctk_matrix(&["run", "--engine", "process", "--gpu", "required"]).assert_code(5);
    assert!(ran.stderr.contains("CUDA_ERROR_NO_DEVICE"), "{}", ran.stderr);
}

#[test]
fn a_driver_that_cannot_start_is_named_by_its_code() {
    for (fault, code) in [("stub", "CUDA_ERROR_STUB_LIBRARY"), ("mismatch", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")] {
        let ran = scene(fault).ctk_matrix(&["run", "--engine", "process", "--gpu", "required"]).assert_code(5);
        assert!(ran.stderr.contains(code), "{}", ran.stderr);
    }
}

#[test]
fn a_kernel_of_ones_own_is_built_and_loaded_and_not_launched() {
    let matrix = r#"
version: 1
toolkits: ["12.6"]
paths: [driver, nvrtc]
kernels: [{file: mine/scale.cu, entry: scale, options: ["-DFACTOR=3"]}]
"#;
    let source = "extern \"C\" __global__ void scale(float* x) { x[threadIdx.x] *= FACTOR; }\n";
    let scene = Scene::new().matrix(matrix).file("mine/scale.cu", source).fake_gpu("");
    let ran = scene.run(&PROCESS).assert_code(0);
    assert_eq!(ran.outcomes(), ["nvrtc-ptx 12.6: loaded", "nvrtc-cubin 12.6: loaded"]);
    assert!(ran.report()["excluded"].as_array().unwrap().iter().all(|left_out| left_out["reason"].is_string()));

    let misnamed = matrix.replace("entry: scale", "entry: scald");
    let scene = Scene::new().matrix(&misnamed).file("mine/scale.cu", source).fake_gpu("");
    let cell = scene.run(&PROCESS).assert_code(1).cell(&["path=nvrtc-ptx"]);
    assert_eq!((cell["stage"].as_str(), cell["code"]["number"].as_i64()), (Some("get-function"), Some(500)));
}

#[test]
fn a_kernel_that_does_not_compile_fails_at_build_with_the_compilers_words() {
    let matrix = "version: 1\ntoolkits: [\"12.6\"]\npaths: [nvrtc-ptx]\nkernels: [{file: bad.cu, entry: bad}]\n";
    let source = "extern \"C\" __global__ void bad() { undeclared_name = 1; }\n";
    let ran = Scene::new().matrix(matrix).file("bad.cu", source).fake_gpu("").run(&PROCESS).assert_code(1);
    let cell = ran.cell(&["path=nvrtc-ptx"]);
    assert_eq!(cell["stage"], "build");
    assert_eq!(cell["code"]["name"], "NVRTC_ERROR_COMPILATION");
    assert!(cell["detail"].as_str().unwrap().contains("undeclared_name"), "{cell}");
}

#[test]
fn two_runs_do_not_measure_on_one_gpu_at_a_time() {
    let scene = scene("");
    let quiet = || std::process::Stdio::null();
    let mut first = scene.command(&["run", "--engine", "process", "--out", "a"]);
    let mut first = first.stdout(quiet()).stderr(quiet()).spawn().unwrap();
    // The lock is taken right after the folder is made, and held for seconds.
    while !scene.path().join("a/run.json").exists() {
        assert!(first.try_wait().unwrap().is_none(), "the first run ended before it began");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let second = scene.ctk_matrix(&["run", "--engine", "process", "--out", "b"]).assert_code(0);
    assert!(first.wait().unwrap().success());
    assert!(second.stderr.contains("measures on it"), "{}", second.stderr);
}
