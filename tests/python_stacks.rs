//! Stacks as a user runs them, without a GPU: the real cuda.core beside a Rust path in both engines, and what is left of
//! a run when a package cannot be built or had. pip is the machine's own; what fails comes from an index of the test's own.

mod support;

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use support::index::Index;
use support::{Ran, Scene, cache, containers_of, docker};

/// The machine's Python, `3.11`.
fn python() -> String {
    let print = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new("python3").args(["-I", "-c", print]).output().expect("there is a python3");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// cuda.core with what it needs to compile for toolkit 12.6.
const CORE: &str = r#""cuda-core==1.1.1", "cuda-bindings==12.9.4", "numpy==2.2.6", "nvidia-cuda-nvrtc-cu12==12.6.85""#;

fn stack(packages: &str) -> String {
    format!("stacks: [{{name: s, python: \"{}\", packages: [{packages}]}}]\n", python())
}

fn run(scene: &Scene, engine: &str) -> Ran {
    scene.run(&["--engine", engine, "--gpu", "none", "--quiet"])
}

/// The one stack of the run, as `report.json` has it.
fn recorded(ran: &Ran) -> Value {
    let report = ran.report();
    let stacks = report["runs"][0]["stacks"].as_array().expect("the run has stacks").clone();
    assert_eq!(stacks.len(), 1, "{stacks:?}");
    stacks[0].clone()
}

/// What holds of a run with the real cuda.core, whatever the engine.
fn builds_with_cuda_core(engine: &str) {
    let matrix = format!("version: 1\ntoolkits: [\"12.6\"]\npaths: [nvrtc-cubin, cuda-core, pycuda]\n{}", stack(CORE));
    let scene = Scene::new().matrix(&matrix);
    let ran = run(&scene, engine).assert_code(0);
    assert_eq!(ran.outcomes(), ["nvrtc-cubin 12.6: built", "cuda-core 12.6: built", "pycuda 12.6: skip"]);
    assert_eq!(ran.cell(&["path=pycuda"])["reason"], "stack s does not name pycuda");
    let cell = ran.cell(&["path=cuda-core"]);
    assert_eq!(cell["loaded"]["library"]["version"], "1.1.1");
    assert_eq!(cell["loaded"]["nvrtc"]["version"], "12.6");
    assert_eq!(cell["artifact"]["producer"], "cuda-core 1.1.1");
    assert_eq!(cell["artifact"]["archs"], serde_json::json!(["sm_75"]));
    assert_eq!(cell["caches"], serde_json::json!([{"of": "the driver", "state": "off", "found": 0, "kept": 0}]));
    // The bytes that were kept, as a user looks at them.
    let sha256 = cell["artifact"]["sha256"].as_str().unwrap();
    let bytes = std::fs::read(ran.out.join("artifacts").join(sha256)).unwrap();
    assert_eq!(support::sha256(&bytes), sha256);
    let artifact = format!("out/artifacts/{sha256}");
    let seen = scene.ctk_matrix(&["inspect", "--json", &artifact]).assert_code(0);
    assert!(seen.stdout.contains("vectorAdd") && seen.stdout.contains("sm_75"), "{}", seen.stdout);
    let stack = recorded(&ran);
    assert_eq!(stack["check"], "No broken requirements found.");
    let resolved: Vec<String> = stack["resolved"].as_array().unwrap().iter().map(version).collect();
    for package in ["cuda-bindings 12.9.4", "cuda-core 1.1.1", "numpy 2.2.6", "nvidia-cuda-nvrtc-cu12 12.6.85"] {
        assert!(resolved.iter().any(|found| found == package), "{resolved:?}");
    }
    assert!(ran.stdout.contains("── Stacks (1)\ns: Python "), "{}", ran.stdout);
    assert!(ran.stdout.contains("  caches     off: the driver's"), "{}", ran.stdout);
    let id = ran.report()["runs"][0]["id"].as_str().unwrap().to_owned();
    if engine == "docker" {
        assert_eq!(containers_of(&id), [""; 0]);
    }
}

fn version(package: &Value) -> String {
    format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap())
}

#[test]
fn cuda_core_builds_beside_a_rust_path_in_a_child_process() {
    builds_with_cuda_core("process");
}

#[test]
fn cuda_core_builds_beside_a_rust_path_in_a_container() {
    if docker() {
        builds_with_cuda_core("docker");
    }
}

/// A folder with the NVRTC of toolkit 12.6, and the header and link-time driver that a source package needs.
fn full_toolkit(scene: &Scene) -> PathBuf {
    Scene::new().ctk_matrix(&["toolkit", "fetch", "12.6", "--quiet"]).assert_code(0);
    let entries = std::fs::read_dir(cache().join("toolkits")).unwrap().map(|entry| entry.unwrap().path());
    let is_12_6 = |path: &PathBuf| path.is_dir() && path.file_name().unwrap().to_string_lossy().starts_with("12.6-");
    let nvrtc = entries.filter(is_12_6).map(|entry| entry.join("nvidia/cuda_nvrtc")).next().unwrap();
    let folder = scene.path().join("toolkit");
    for (path, text) in [("include/cudaProfiler.h", ""), ("lib64/stubs/libcuda.so", "")] {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for library in std::fs::read_dir(nvrtc.join("lib")).unwrap().map(|entry| entry.unwrap().path()) {
        if library.is_file() {
            std::os::unix::fs::symlink(&library, folder.join("lib64").join(library.file_name().unwrap())).unwrap();
        }
    }
    folder
}

/// A run of a Rust path, cuda.core and `PyCUDA` with a toolkit that `pycuda` can be built against.
fn with_pycuda(pycuda: &str) -> Ran {
    let index = Index::serve();
    let scene = Scene::new();
    let folder = full_toolkit(&scene);
    let matrix = format!(
        "version: 1\ntoolkits: [{{name: full, version: \"12.6\", dir: {}}}]\npaths: [nvrtc-cubin, cuda-core, pycuda]\n{}",
        folder.display(),
        stack(&format!("{CORE}, \"{pycuda}\""))
    );
    run(&scene.matrix(&matrix).env("PIP_EXTRA_INDEX_URL", &index.url), "process")
}

#[test]
fn a_source_package_that_does_not_compile_costs_its_own_library_and_has_the_compilers_line() {
    let ran = with_pycuda("pycuda==9999.1").assert_code(1);
    assert_eq!(ran.outcomes(), ["nvrtc-cubin full: built", "cuda-core full: built", "pycuda full: fail provision"]);
    let cell = ran.cell(&["path=pycuda"]);
    assert_eq!(cell["expected"], false);
    let reason = cell["reason"].as_str().unwrap();
    assert!(reason.starts_with("pycuda cannot be built from source: wrapper.c:2:"), "{reason}");
    assert!(reason.contains("error: ") && reason.contains("NO_SUCH_NAME"), "{reason}");
    assert!(cell["detail"].as_str().unwrap().contains("NO_SUCH_NAME"), "{cell}");
    let stack = recorded(&ran);
    assert!(stack.get("built").is_none() && stack["resolved"].as_array().unwrap().len() >= 4, "{stack}");
    assert!(ran.stdout.contains("  missing    pycuda on full (stack s): pycuda cannot be built"), "{}", ran.stdout);
    assert!(ran.stdout.contains("✗ 1 cell not as expected (2 built, 1 fail)"), "{}", ran.stdout);
}

#[test]
fn a_library_that_only_a_gpu_can_try_is_a_skip_that_leaves_the_run_green() {
    let ran = with_pycuda("pycuda==9999.2").assert_code(0);
    assert_eq!(ran.outcomes(), ["nvrtc-cubin full: built", "cuda-core full: built", "pycuda full: skip"]);
    let cell = ran.cell(&["path=pycuda"]);
    assert_eq!(cell["expected"], true);
    let reason = cell["reason"].as_str().unwrap();
    assert!(reason.starts_with("not tested here: PyCUDA opens libcuda"), "{reason}");
    let stack = recorded(&ran);
    assert_eq!(stack["built"][0]["toolkit"], "full");
    assert_eq!(version(&stack["built"][0]["packages"][0]), "pycuda 9999.2");
    assert!(ran.stdout.contains("  built      against toolkit full: pycuda 9999.2"), "{}", ran.stdout);
}

#[test]
fn a_stack_that_cannot_be_had_fails_its_libraries_and_leaves_the_rust_paths_alone() {
    let index = Index::serve();
    let matrix = format!(
        "version: 1\ntoolkits: [\"12.6\"]\npaths: [nvrtc-cubin, cuda-core]\n{}",
        stack("\"lib==9\", \"cuda-core==0.0.404\"")
    );
    Scene::new().ctk_matrix(&["toolkit", "fetch", "12.6", "--quiet"]).assert_code(0);
    let scene = Scene::new().matrix(&matrix).env("PIP_INDEX_URL", &index.url).env("PIP_CONFIG_FILE", "/dev/null");
    let ran = run(&scene, "process").assert_code(1);
    assert_eq!(ran.outcomes(), ["nvrtc-cubin 12.6: built", "cuda-core 12.6: fail provision"]);
    let reason = ran.cell(&["path=cuda-core"])["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("stack s: pip's index has no lib==9 for Python"), "{reason}");
    assert!(ran.report()["runs"][0].get("stacks").is_none());
    assert!(ran.stdout.contains("s: it could not be put together\n  missing    cuda-core on 12.6"), "{}", ran.stdout);
}
