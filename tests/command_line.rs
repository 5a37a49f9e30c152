//! What is typed wrong, what is missing on the machine, and which exit code says so.

mod support;

use std::time::{Duration, Instant};

use support::{Scene, docker};

#[test]
fn a_wrong_option_is_usage() {
    for arguments in [
        &["run", "--gpu", "maybe"][..],
        &["run", "--engine", "podman"],
        &["run", "--jobs", "0"],
        &["run", "--select", "colour=red", "--engine", "process"],
        &["frobnicate"],
        &["report"],
        &["report", "no/such/folder"],
    ] {
        let ran = Scene::new().ctk_matrix(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_wrong_matrix_names_line_and_column_of_every_error() {
    let text = "version: 1\ntoolkits: [\"12.7\", 12.10]\npath: [nvrtc]\npaths: [nvrct]\n";
    let ran = Scene::new().matrix(text).ctk_matrix(&["plan"]).assert_code(3);
    for part in ["matrix.yaml:2:12", "matrix.yaml:2:20", "matrix.yaml:3:1", "matrix.yaml:4:9", "nvrtc"] {
        assert!(ran.stderr.contains(part), "{part} is not in\n{}", ran.stderr);
    }
    assert!(ran.stdout.is_empty());
}

#[test]
fn nothing_selected_has_a_code_of_its_own_and_says_what_there_is() {
    let ran = Scene::new().ctk_matrix(&["plan", "--select", "toolkit=12.7"]).assert_code(4);
    assert!(ran.stderr.contains("12.6"), "{}", ran.stderr);
    Scene::new().matrix("version: 1\ntoolkits: []\n").ctk_matrix(&["plan"]).assert_code(4);
}

#[test]
fn a_matrix_of_any_kind_is_refused_quickly() {
    let bombs = [
        "[".repeat(60_000),
        format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(1000), "*a,".repeat(1000)),
        "x".repeat(70_000),
        "\u{0}\u{1}\u{2}".into(),
    ];
    for bomb in bombs {
        let started = Instant::now();
        let ran = Scene::new().matrix(&bomb).ctk_matrix(&["plan"]);
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        assert!(ran.stderr.len() < 20_000);
    }
}

#[test]
fn an_absent_daemon_is_said_at_once_and_auto_goes_on_without_it() {
    let none = |scene: Scene| scene.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let started = Instant::now();
    let ran = none(Scene::new()).ctk_matrix(&["run", "--engine", "docker", "--gpu", "none"]).assert_code(5);
    assert!(started.elapsed() < Duration::from_secs(2));
    assert!(ran.stderr.contains("/nonexistent/docker.sock"), "{}", ran.stderr);
    let matrix = "version: 1\ntoolkits: [\"12.0\"]\npaths: [driver]\n";
    let ran = none(Scene::new().matrix(matrix)).run(&["--gpu", "none"]).assert_code(0);
    assert_eq!(ran.report()["runs"][0]["engine"]["kind"], "process");
}

#[test]
fn a_gpu_that_is_required_and_not_there_is_said_before_anything_is_fetched() {
    let scene = Scene::new().env("CTK_MATRIX_CACHE", "cache");
    let ran = scene.run(&["--engine", "process", "--gpu", "required"]).assert_code(5);
    assert!(ran.stderr.contains("--gpu required"), "{}", ran.stderr);
    assert!(!scene.path().join("cache").exists() && !scene.path().join("out").exists());
}

#[test]
fn a_missing_bench_is_named_with_its_cure() {
    let ran = Scene::new().ctk_matrix(&["run", "--engine", "process", "--gpu", "none", "--bench", "nowhere"]);
    let ran = ran.assert_code(5);
    assert!(ran.stderr.contains("nowhere") && ran.stderr.contains("cargo build"), "{}", ran.stderr);
}

#[test]
fn a_report_that_cannot_be_written_is_printed_all_the_same() {
    let scene = Scene::new().file("out", "a file, not a folder");
    let ran = scene.run(&["--engine", "process", "--gpu", "none", "--select", "toolkit=12.0"]).assert_code(110);
    assert!(ran.stderr.contains("out"), "{}", ran.stderr);
}

#[test]
fn the_plan_is_data_for_programs() {
    let ran = Scene::new().ctk_matrix(&["plan", "--format", "json", "--select", "path=nvrtc"]).assert_code(0);
    let plan: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(plan["schema"], 1);
    assert_eq!(plan["cells"].as_array().unwrap().len(), 10);
    assert_eq!(plan["cells"][0]["id"], "arch=7.5,kernel=vector_add,path=nvrtc-ptx,toolkit=12.0");
    assert_eq!(plan["cells"][0]["axes"]["path"], "nvrtc-ptx");
}

#[test]
fn the_schema_and_the_completions_are_printed() {
    let schema = Scene::new().ctk_matrix(&["schema"]).assert_code(0);
    assert_eq!(schema.stdout, include_str!("../docs/matrix.schema.json"));
    let bash = Scene::new().ctk_matrix(&["completions", "bash"]).assert_code(0);
    assert!(bash.stdout.contains("ctk-matrix"));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::process::Stdio;
    let scene = Scene::new();
    let mut child = scene.command(&["schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn gc_leaves_what_others_own() {
    if docker() {
        Scene::new().ctk_matrix(&["gc", "--dry-run"]).assert_code(0);
    }
}
