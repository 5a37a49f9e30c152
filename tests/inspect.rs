//! `explain`, `inspect` and `doctor` as a user runs them: what they print, and which exit code says what.

mod support;

use std::process::Command;

use serde_json::Value;
use support::{Scene, docker};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn artifact(name: &str) -> String {
    format!("{}/tests/artifacts/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_code_is_explained_by_number_by_name_and_by_what_the_runtime_says() {
    let by_number = Scene::new().ctk_matrix(&["explain", "209"]).assert_code(0);
    let expected = "\
CUDA_ERROR_NO_BINARY_FOR_GPU (209)
  what    nothing in the artifact runs on this GPU
  why     machine code runs within its own major compute capability only, from its minor up, and there is no usable PTX beside it
  remedy  build for this GPU's architecture, or add PTX of an equal or lower one
  source  measured on an H200, driver 580.159
";
    assert_eq!(by_number.stdout, expected);
    let by_name = Scene::new().ctk_matrix(&["explain", "CUDA_ERROR_NO_BINARY_FOR_GPU"]).assert_code(0);
    assert_eq!(by_name.stdout, expected);
    let said = "no kernel image is available for execution on the device";
    let by_text = Scene::new().ctk_matrix(&["explain", said]).assert_code(0);
    assert_eq!(by_text.stdout.lines().skip(1).collect::<Vec<_>>(), expected.lines().skip(1).collect::<Vec<_>>());
}

#[test]
fn what_is_not_known_says_so_and_the_exit_code_with_it() {
    let ran = Scene::new().ctk_matrix(&["explain", "the", "flux", "is", "\u{1b}[31mlow"]).assert_code(1);
    assert_eq!(ran.stdout, "`the flux is \\u{1b}[31mlow`\n  nothing is known of this\n");
    let ran = Scene::new().ctk_matrix(&["explain", "402"]).assert_code(1);
    assert!(ran.stdout.starts_with("CUDA_ERROR_LOSSY_QUERY (402)\n"), "{}", ran.stdout);
    Scene::new().ctk_matrix(&["explain"]).assert_code(2);
    Scene::new().ctk_matrix(&["explain", "--log", "absent"]).assert_code(2);
}

#[test]
fn a_log_gives_each_finding_once_with_its_line() {
    let log = "building\n\
               nvcc fatal   : Unsupported gpu architecture 'compute_50'\n\
               ./a: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by ./a)\n\
               nvcc fatal   : Unsupported gpu architecture 'compute_52'\n";
    let ran = Scene::new().file("build.log", log).ctk_matrix(&["explain", "--log", "build.log"]).assert_code(0);
    let heads: Vec<_> = ran.stdout.lines().filter(|line| !line.starts_with("  ") || line.contains("said")).collect();
    let expected = [
        "build.log:2 (2 lines say so)",
        "  said    nvcc fatal   : Unsupported gpu architecture 'compute_50'",
        "build.log:3",
        "  said    ./a: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by ./a)",
    ];
    assert_eq!(heads, expected);
    let ran =
        Scene::new().file("quiet.log", "fine\nfine\n").ctk_matrix(&["explain", "--log", "quiet.log"]).assert_code(1);
    assert_eq!(ran.stdout, "quiet.log: nothing that is known in 2 lines\n");
}

#[test]
fn a_fatbin_says_what_is_in_it_and_where_it_runs() {
    let ran = Scene::new().ctk_matrix(&["inspect", &artifact("vector_add-12.4-lz4.fatbin")]).assert_code(0);
    let body: Vec<_> = ran.stdout.lines().skip(1).collect();
    let expected = "
kind    architecture  PTX ISA  ELF ABI  compression  count       size   unpacked  made by
cubin   sm_80         -        7        -                1    2.98 kB          -  CUDA 12.4
ptx     compute_80    8.4      -        LZ4              1      520 B      980 B  not said

1 kernel
  vectorAdd: 12 registers, 0 B stack, 0 B shared

runs on  drivers           by
8.0      525 and later     sm_80
8.6      525 and later     sm_80
8.7      550 and later     compute_80, PTX compiled by the driver
8.8      580 and later     compute_80, PTX compiled by the driver
8.9      525 and later     sm_80
9.0      550 and later     compute_80, PTX compiled by the driver
10.0     570 and later     compute_80, PTX compiled by the driver
10.3     575 and later     compute_80, PTX compiled by the driver
10.7     615 and later     compute_80, PTX compiled by the driver
11.0     580 and later     compute_80, PTX compiled by the driver
12.0     570 and later     compute_80, PTX compiled by the driver
12.1     575 and later     compute_80, PTX compiled by the driver
nothing in it runs on 3.5, 3.7, 5.0, 5.2, 5.3, 6.0, 6.1, 6.2, 7.0, 7.2, 7.5";
    assert_eq!(body.join("\n"), expected);
    let ran = Scene::new().ctk_matrix(&["inspect", "--json", &artifact("vector_add-13.0-sm_90a.cubin")]).assert_code(0);
    let found = json(&ran.stdout);
    assert_eq!(
        (&found["schema"], &found["form"], &found["parts"][0]["arch"]),
        (&1.into(), &"cubin".into(), &"sm_90a".into())
    );
    let runs = serde_json::json!([{
        "cc": "9.0", "fatbins": 1, "drivers_from": 580, "drivers_until": null, "by": ["sm_90a"], "compiled": false,
    }]);
    assert_eq!(found["runs_on"], runs);
}

#[test]
fn what_is_no_artifact_is_said_and_is_not_a_success() {
    let ran = Scene::new().file("k.cu", "__global__ void k() {}").ctk_matrix(&["inspect", "k.cu"]).assert_code(1);
    assert!(ran.stderr.contains("neither PTX, nor a cubin, nor a fatbin"), "{}", ran.stderr);
    let own = std::env::current_exe().unwrap();
    let ran = Scene::new().ctk_matrix(&["inspect", own.to_str().unwrap()]).assert_code(1);
    assert!(ran.stderr.contains("there is no fatbin in the ELF file (for machine 62)"), "{}", ran.stderr);
    Scene::new().ctk_matrix(&["inspect", "./absent"]).assert_code(2);
    Scene::new().ctk_matrix(&["inspect", "/"]).assert_code(2);
}

#[test]
fn a_linked_library_is_surveyed_as_the_linker_left_it() {
    let scene = Scene::new();
    let source = format!(
        ".section .nv_fatbin, \"a\"\n.align 8\n.incbin \"{}\"\n.align 8\n.incbin \"{}\"\n",
        artifact("vector_add-12.4-plain.fatbin"),
        artifact("vector_add-13.0-zstd.fatbin")
    );
    let scene = scene.file("f.s", &source).file("m.c", "int answer(void) { return 42; }\n");
    let linked = Command::new("cc").args(["-shared", "-o", "libf.so", "f.s", "m.c"]).current_dir(scene.path()).status();
    assert!(linked.unwrap().success());
    let found = json(&scene.ctk_matrix(&["inspect", "--json", "libf.so"]).assert_code(0).stdout);
    assert_eq!((&found["form"], &found["fatbins"]), (&"host".into(), &2.into()));
    let parts: Vec<_> = found["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| format!("{} {} {}", part["arch"], part["compression"], part["producer"]))
        .collect();
    let expected = [
        r#""sm_80" null "CUDA 12.4""#,
        r#""sm_80" "zstd" "CUDA 13.0.88""#,
        r#""compute_80" null null"#,
        r#""compute_80" "zstd" null"#,
    ];
    assert_eq!(parts, expected);
    let ampere = &found["runs_on"][0];
    assert_eq!((&ampere["cc"], &ampere["fatbins"], &ampere["drivers_from"]), (&"8.0".into(), &2.into(), &580.into()));
}

#[test]
fn an_image_says_what_it_asks_for_and_what_it_carries() {
    if !docker() {
        return;
    }
    let scene = Scene::new();
    std::fs::create_dir_all(scene.path().join("root/usr/local/cuda-12.6/bin")).unwrap();
    std::fs::create_dir_all(scene.path().join("root/usr/local/cuda-12.6/compat")).unwrap();
    std::fs::write(scene.path().join("root/usr/local/cuda-12.6/bin/nvcc"), "").unwrap();
    let tag = format!("ctk-matrix-inspect-test:{}", std::process::id());
    let import = format!(
        "tar -C root -c . | docker import -c 'ENV CUDA_VERSION=12.6.3' \
         -c 'ENV NVIDIA_REQUIRE_CUDA=\"cuda>=12.6 brand=tesla,driver>=470,driver<471\"' - {tag}"
    );
    let made = Command::new("sh").args(["-c", &import]).current_dir(scene.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = scene.ctk_matrix(&["inspect", &tag]);
    let ran = scene.ctk_matrix(&["inspect", "--json", &tag]);
    let removed = Command::new("docker").args(["rmi", "-f", &tag]).output().unwrap();
    assert!(removed.status.success());
    let found = json(&ran.assert_code(0).stdout);
    let carries = serde_json::json!({
        "toolkit": "12.6", "folders": ["/usr/local/cuda-12.6"], "nvcc": true, "nvrtc": false,
        "compat": "/usr/local/cuda-12.6/compat",
    });
    assert_eq!(found["carries"], carries);
    assert_eq!(found["requires_cuda"], "12.6");
    assert_eq!(found["drivers"], serde_json::json!({ "full": "560.28.03", "floor": "525.60.13" }));
    let text = text.assert_code(0).stdout;
    assert!(text.contains("  NVIDIA_REQUIRE_CUDA=cuda>=12.6 brand=tesla,driver>=470,driver<471\n"), "{text}");
    assert!(text.contains("drivers from 560.28.03 on in full, from 525.60.13 on under minor-version"), "{text}");
    scene.ctk_matrix(&["inspect", "ctk-matrix-inspect-test:absent"]).assert_code(2);
}

#[test]
fn the_doctor_says_whether_the_main_job_can_run() {
    let matrix = "version: 1\ntoolkits: [{name: mine, version: \"12.4\", dir: \"/nonexistent\"}]\npaths: [driver]\n";
    let none = |scene: Scene| scene.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let ran = none(Scene::new().matrix(matrix)).ctk_matrix(&["doctor", "--json"]).assert_code(0);
    let found = json(&ran.stdout);
    assert_eq!((&found["ready"], &found["engine"]), (&true.into(), &serde_json::json!({ "kind": "process" })));
    let ran = none(Scene::new().matrix("version: 2\n")).ctk_matrix(&["doctor"]).assert_code(5);
    assert!(ran.stdout.contains("problem  matrix     "), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("the main job cannot run: there is 1 problem\n"), "{}", ran.stdout);
}

#[test]
fn the_doctor_brings_the_gpu_into_a_container_and_says_by_which_way() {
    if !docker() {
        return;
    }
    let matrix = "version: 1\ntoolkits: [{name: mine, version: \"12.4\", dir: \"/nonexistent\"}]\npaths: [driver]\n";
    let ran = Scene::new().matrix(matrix).fake_gpu("").ctk_matrix(&["doctor", "--json"]).assert_code(0);
    let found = json(&ran.stdout);
    assert_eq!((&found["gpu_mode"], &found["gpu"]["cc"]), (&"fake".into(), &"9.0".into()));
    let works: Vec<_> = found["attach"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(works.contains(&"devices"), "{}", ran.stdout);
    let driver = found["findings"].as_array().unwrap().iter().find(|finding| finding["subject"] == "driver").unwrap();
    assert!(driver["says"].as_str().unwrap().contains("PTX up to ISA 9.0"), "{driver}");
}
