//! The main job without a GPU, as a user runs it: wheels through pip, both engines, the report and what it is worth.

mod support;

use support::{Ran, Scene, cache, containers_of, docker};

/// Three toolkits of the built-in matrix: one whose compiler is not in its wheels, one of 12.6, one that has it.
const THREE: [&str; 6] = ["--select", "toolkit=12.0", "--select", "toolkit=12.6", "--select", "toolkit=13.0"];

fn run(engine: &str) -> (Scene, Ran) {
    let scene = Scene::new();
    let mut arguments = vec!["--engine", engine, "--gpu", "none"];
    arguments.extend(THREE);
    let ran = scene.run(&arguments).assert_code(0);
    (scene, ran)
}

/// What holds of a run without a GPU, whatever the engine.
fn assert_built(ran: &Ran, engine: &str) {
    let report = ran.report();
    assert_eq!(report["schema"], 1);
    assert_eq!(report["complete"], true);
    assert_eq!(report["runs"][0]["engine"]["kind"], engine);
    assert_eq!(report["runs"][0]["gpu_mode"], "none");
    assert_eq!(report["runs"][0]["gpu"], serde_json::Value::Null);
    assert_eq!(report["cells"].as_array().unwrap().len(), 21);
    assert_eq!(report["counts"], serde_json::json!({"built": 15, "skip": 6}));
    for toolkit in ["12.0", "12.6", "13.0"] {
        for path in ["nvrtc-ptx", "nvrtc-cubin"] {
            let cell = ran.cell(&[&format!("toolkit={toolkit}"), &format!("path={path}"), "arch=7.5"]);
            assert_eq!((cell["outcome"].as_str(), cell["expected"].as_bool()), (Some("built"), Some(true)), "{cell}");
            assert_eq!(cell["loaded"]["nvrtc"]["version"], toolkit);
            assert!(cell.get("bits").is_none() && cell["timings"].get("mean_ms").is_none());
        }
        for path in ["nvcc-ptx", "nvcc-cubin", "nvcc-fatbin"] {
            let cell = ran.cell(&[&format!("toolkit={toolkit}"), &format!("path={path}")]);
            if toolkit == "13.0" {
                assert_eq!(cell["outcome"], "built", "{cell}");
                assert!(cell["loaded"]["nvcc"]["version"].as_str().unwrap().starts_with("13.0."), "{cell}");
            } else {
                assert_eq!((cell["outcome"].as_str(), cell["expected"].as_bool()), (Some("skip"), Some(true)));
                assert!(cell["reason"].as_str().unwrap().contains("no nvcc"), "{cell}");
            }
        }
    }
    for cell in report["cells"].as_array().unwrap().iter().filter(|cell| cell["outcome"] == "built") {
        let sha256 = cell["artifact"]["sha256"].as_str().unwrap();
        let bytes = std::fs::read(ran.out.join("artifacts").join(sha256)).unwrap();
        assert_eq!(cell["artifact"]["bytes"], bytes.len());
        assert_eq!(support::sha256(&bytes), sha256);
    }
    assert!(ran.stdout.contains("nothing was launched"), "{}", ran.stdout);
    let cached = cache().display().to_string();
    for name in ["report.json", "report.md", "junit.xml", "records.jsonl", "run.json"] {
        let text = std::fs::read_to_string(ran.out.join(name)).unwrap();
        assert!(!text.contains(&cached), "{name} holds a path of this machine");
    }
}

#[test]
fn child_processes_build_every_path_of_three_toolkits() {
    let (_scene, ran) = run("process");
    assert_built(&ran, "process");
}

#[test]
fn containers_build_every_path_of_three_toolkits_and_none_is_left() {
    if !docker() {
        return;
    }
    let (_scene, ran) = run("docker");
    assert_built(&ran, "docker");
    let id = ran.report()["runs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(containers_of(&id), [""; 0]);
}

#[test]
fn the_driver_paths_hand_over_the_same_bytes_under_every_toolkit() {
    let scene = Scene::new();
    let mut arguments = vec!["--engine", "process", "--gpu", "none", "--select", "path=driver"];
    arguments.extend(THREE);
    let ran = scene.run(&arguments).assert_code(0);
    for path in ["driver-ptx", "driver-fatbin"] {
        let hash = |toolkit: &str| {
            let cell = ran.cell(&[&format!("path={path}"), &format!("toolkit={toolkit}")]);
            assert_eq!(cell["source"]["kind"], "prebuilt");
            cell["artifact"]["sha256"].as_str().unwrap().to_owned()
        };
        assert_eq!(hash("12.0"), hash("13.0"));
    }
}

#[test]
fn a_toolkit_that_was_named_for_paths_that_it_skips_is_no_green() {
    let matrix = "version: 1\ntoolkits: [\"12.0\"]\npaths: [nvcc]\n";
    let ran = Scene::new().matrix(matrix).run(&["--engine", "process", "--gpu", "none"]).assert_code(1);
    assert_eq!(ran.report()["counts"], serde_json::json!({"skip": 3}));
    assert!(ran.stdout.contains("nothing but skips"), "{}", ran.stdout);
}

#[test]
fn a_folder_without_its_compiler_is_a_skip_that_nobody_foresaw() {
    // A folder with NVRTC alone: the unpacked 12.6 wheel, made by an earlier run.
    let (_scene, _) = run("process");
    let toolkits = std::fs::read_dir(cache().join("toolkits")).unwrap().map(|entry| entry.unwrap().path());
    let entry = toolkits
        .filter(|path| path.is_dir())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("12.6-"))
        .unwrap();
    let folder = entry.join("nvidia/cuda_nvrtc");
    let matrix = format!(
        "version: 1\ntoolkits: [{{name: mine, version: \"12.6\", dir: {}}}]\npaths: [nvrtc-cubin, nvcc-cubin]\n",
        folder.display()
    );
    let ran = Scene::new().matrix(&matrix).run(&["--engine", "process", "--gpu", "none"]).assert_code(1);
    assert_eq!(ran.outcomes(), ["nvrtc-cubin mine: built", "nvcc-cubin mine: skip"]);
    assert_eq!(ran.cell(&["path=nvcc-cubin"])["expected"], false);
}

#[test]
fn formats_are_rendered_from_the_folder_alone() {
    let (scene, ran) = run("process");
    let json = scene.ctk_matrix(&["report", "out", "--format", "json"]).assert_code(0);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json.stdout).unwrap(), ran.report());
    let markdown = scene.ctk_matrix(&["report", "out", "--format", "markdown"]).assert_code(0);
    assert_eq!(markdown.stdout, std::fs::read_to_string(ran.out.join("report.md")).unwrap());
    let junit = scene.ctk_matrix(&["report", "out", "--format", "junit"]).assert_code(0);
    assert_eq!(junit.stdout, std::fs::read_to_string(ran.out.join("junit.xml")).unwrap());
    roxmltree::Document::parse(&junit.stdout).unwrap();
}

#[test]
fn a_run_whose_folder_is_taken_is_refused_and_the_old_report_kept() {
    let (scene, ran) = run("process");
    let before = std::fs::read(ran.out.join("report.json")).unwrap();
    let again = scene.run(&["--engine", "process", "--gpu", "none"]).assert_code(2);
    assert!(again.stderr.contains("already holds a run"), "{}", again.stderr);
    assert_eq!(std::fs::read(ran.out.join("report.json")).unwrap(), before);
}
