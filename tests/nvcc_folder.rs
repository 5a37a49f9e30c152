//! A toolkit from a folder that has nvcc: CUDA 12.4, as `scripts/toolkit-12.4.sh` makes it.
//! `.ci/run` makes the folder; elsewhere the tests say that they did not run, unless `CTK_TEST_REQUIRE_NVCC=1`.

mod support;

use std::path::PathBuf;

use support::{Scene, docker};

/// The folder; none if it was not made.
fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("toolkit-12.4");
    if folder.join("bin/nvcc").exists() {
        return Some(folder);
    }
    let cure = format!("scripts/toolkit-12.4.sh {}", folder.display());
    let required = std::env::var_os("CTK_TEST_REQUIRE_NVCC").is_some_and(|value| value == "1");
    assert!(!required, "CTK_TEST_REQUIRE_NVCC is set, and there is no toolkit: {cure}");
    eprintln!("did not run: {cure}");
    None
}

fn scene() -> Option<Scene> {
    let matrix = format!(
        "version: 1\ntoolkits: [{{name: \"12.4-dir\", version: \"12.4\", dir: {}}}]\npaths: [nvrtc, nvcc]\n",
        folder()?.display()
    );
    Some(Scene::new().matrix(&matrix))
}

const ALL: [&str; 5] = ["nvrtc-ptx", "nvrtc-cubin", "nvcc-ptx", "nvcc-cubin", "nvcc-fatbin"];

#[test]
fn every_compiled_path_of_a_folder_is_built_in_a_container() {
    let Some(scene) = scene() else { return };
    if !docker() {
        return;
    }
    let ran = scene.run(&["--engine", "docker", "--gpu", "none"]).assert_code(0);
    assert_eq!(ran.outcomes(), ALL.map(|path| format!("{path} 12.4-dir: built")));
    let cell = ran.cell(&["path=nvcc-fatbin"]);
    assert_eq!(cell["loaded"]["nvcc"]["version"], "12.4.131");
    assert_eq!(cell["source"]["kind"], "dir");
    assert_eq!(cell["artifact"]["ptx_isa"], "8.4");
    assert_eq!(cell["artifact"]["archs"], serde_json::json!(["sm_75", "compute_75"]));
}

#[test]
fn every_compiled_path_of_a_folder_passes_on_the_test_driver() {
    let Some(scene) = scene() else { return };
    let ran = scene.fake_gpu("").run(&["--engine", "process"]).assert_code(0);
    assert_eq!(ran.outcomes(), ALL.map(|path| format!("{path} 12.4-dir: pass")));
}

#[test]
fn a_folder_of_another_version_than_its_entry_says_is_refused() {
    let Some(folder) = folder() else { return };
    let matrix = format!("version: 1\ntoolkits: [{{version: \"12.6\", dir: {}}}]\n", folder.display());
    let ran = Scene::new().matrix(&matrix).run(&["--engine", "process", "--gpu", "none"]).assert_code(1);
    let cell = ran.cell(&["path=nvcc-cubin"]);
    assert_eq!((cell["outcome"].as_str(), cell["stage"].as_str()), (Some("fail"), Some("provision")));
    assert!(cell["reason"].as_str().unwrap().contains("12.4"), "{cell}");
}
