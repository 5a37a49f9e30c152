//! `kill -9` of `ctk-matrix` at any moment: every record is readable, `gc` leaves nothing of it, and a run that goes on
//! meanwhile is not touched. And what a run that stopped is worth: `run --resume`.

mod support;

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::stand_in::stand_in;
use support::{Scene, containers_of, docker};

fn spawn(scene: &Scene, engine: &str, bench: &str, further: &[&str]) -> Child {
    let fixed = ["run", "--engine", engine, "--gpu", "none", "--source", "wheels", "--quiet", "--bench", bench];
    let arguments = [&fixed[..], further].concat();
    scene.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// The lines of `records.jsonl`; one that a kill tore is not among them.
fn records(scene: &Scene) -> Vec<Value> {
    let text = std::fs::read_to_string(scene.path().join("out/records.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |at| &text[..=at]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a whole line is a record")).collect()
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_mins(1);
    while !there() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn whenever_a_run_is_killed_its_records_are_readable_and_gc_leaves_nothing_of_it() {
    if !docker() {
        return;
    }
    let matrix = "version: 1\ntoolkits: [\"12.0\", \"12.6\"]\npaths: [nvrtc]\n";
    Scene::new().ctk_matrix(&["toolkit", "fetch", "12.0", "12.6", "--quiet"]).assert_code(0);
    // It goes on all the while.
    let living = Scene::new().matrix(matrix);
    let bench = stand_in(&living, "sleep 60; all").display().to_string();
    let mut other = spawn(&living, "docker", &bench, &["--out", "out", "--jobs", "1"]);
    let run_file = living.path().join("out/run.json");
    wait_for("the other run started", || json(&run_file).is_some());
    let other_id = json(&run_file).unwrap()["run"]["id"].as_str().unwrap().to_owned();
    wait_for("the other run has its container", || !containers_of(&other_id).is_empty());
    let container = containers_of(&other_id);

    let (mut orphans, mut kept, mut ids) = (0, 0, Vec::new());
    for step in 0..20_u64 {
        // Folders of its own, so that what it leaves there can be counted.
        let scene = Scene::new().matrix(matrix);
        let folders = scene.path().join("tmp");
        std::fs::create_dir(&folders).unwrap();
        let scene = scene.env("TMPDIR", &folders.display().to_string());
        let bench = stand_in(&scene, "sleep 0.4; all").display().to_string();
        let mut run = spawn(&scene, "docker", &bench, &["--out", "out"]);
        std::thread::sleep(Duration::from_millis(step * 80));
        run.kill().unwrap();
        run.wait().unwrap();
        let found = records(&scene);
        kept += found.len();
        if let Some(plan) = json(&scene.path().join("out/run.json")) {
            let ran = scene.ctk_matrix(&["report", "out", "--format", "json"]);
            let report: Value = serde_json::from_str(&ran.stdout).expect("the report is whole");
            assert_eq!(report["cells"].as_array().unwrap().len(), 4, "step {step}");
            let not_run = report["counts"]["not-run"].as_u64().unwrap_or_default();
            assert_eq!(not_run + found.len() as u64, 4, "step {step}");
            let id = plan["run"]["id"].as_str().unwrap().to_owned();
            // What was asked of the daemon before the kill may still be on its way.
            std::thread::sleep(Duration::from_millis(300));
            orphans += containers_of(&id).len();
            ids.push(id);
        }
        scene.ctk_matrix(&["gc"]).assert_code(0);
        assert_eq!(std::fs::read_dir(&folders).unwrap().count(), 0, "step {step}: a folder is left");
        assert_eq!(containers_of(&other_id), container, "step {step}: the living run was touched");
    }
    let left: Vec<String> = ids.iter().flat_map(|id| containers_of(id)).collect();
    assert_eq!(left, [""; 0], "containers are left");
    eprintln!("20 kills: {kept} records kept, {orphans} containers orphaned and removed");
    assert!(orphans > 3 && kept > 3, "{orphans} orphans and {kept} records: the kills met no run that was going on");
    rustix::process::kill_process(rustix::process::Pid::from_child(&other), rustix::process::Signal::INT).unwrap();
    assert_eq!(other.wait().unwrap().code(), Some(130));
    assert_eq!(containers_of(&other_id), [""; 0]);
}

/// Kills a run of three toolkits after its first, and gives what it had recorded.
fn killed(scene: &Scene, bench: &str) -> Vec<Value> {
    let mut run = spawn(scene, "process", bench, &["--out", "out", "--jobs", "1"]);
    wait_for("two cells ended", || records(scene).len() >= 2);
    run.kill().unwrap();
    run.wait().unwrap();
    records(scene)
}

const THREE: &str =
    "version: 1\ntoolkits: [\"12.0\", {name: b, version: \"12.0\"}, {name: c, version: \"12.0\"}]\npaths: [nvrtc]\n";

#[test]
fn a_killed_run_is_taken_up_where_it_stopped() {
    let scene = Scene::new().matrix(THREE);
    let bench = stand_in(&scene, "sleep 1; all").display().to_string();
    let before = killed(&scene, &bench);
    assert_eq!(before.len(), 2);
    // A job in its middle was torn, and so was the line of its record.
    let path = scene.path().join("out/records.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + "{\"run\":\"").unwrap();

    let options = ["--engine", "process", "--gpu", "none", "--source", "wheels", "--bench", &bench];
    let resume = |further: &[&str]| scene.ctk_matrix(&[&["run", "--resume", "out"], &options[..], further].concat());
    let ran = resume(&["--jobs", "1"]).assert_code(0);
    let after = records(&scene);
    assert_eq!((&after[..2], after.len()), (&before[..], 6));
    let report = ran.report();
    assert_eq!((report["complete"].as_bool(), &report["counts"]), (Some(true), &serde_json::json!({"built": 6})));
    assert!(report["cells"].as_array().unwrap().iter().all(|cell| cell["attempts"] == 1), "{report}");
    let notes = report["runs"][0]["notes"].to_string();
    assert!(notes.contains("resumed at ") && notes.contains("2 of 6 cells were kept"), "{notes}");
    assert_eq!(report["runs"][0]["id"], before[0]["run"]);
    assert_eq!(scene.ctk_matrix(&["report", "out"]).stdout, ran.stdout);

    // Nothing is left to do: the same report once more, and not a container.
    let again = resume(&["--jobs", "1"]).assert_code(0);
    assert_eq!(again.report()["counts"], report["counts"]);
    assert_eq!(records(&scene).len(), 6);
}

#[test]
fn cells_without_a_final_outcome_are_tried_again_and_their_attempts_counted() {
    let scene = Scene::new().matrix("version: 1\ntoolkits: [\"12.0\"]\npaths: [nvrtc]\n");
    let bench = stand_in(&scene, "set -- $cells; result $1 built; exit 0").display().to_string();
    let options = ["--engine", "process", "--gpu", "none", "--source", "wheels", "--bench", &bench];
    let first = scene.ctk_matrix(&[&["run", "--out", "out"], &options[..]].concat()).assert_code(1);
    assert_eq!(first.report()["counts"], serde_json::json!({"built": 1, "truncated": 1}));
    stand_in(&scene, "all");
    let ran = scene.ctk_matrix(&[&["run", "--resume", "out"], &options[..]].concat()).assert_code(0);
    let report = ran.report();
    let cells: Vec<_> = report["cells"].as_array().unwrap().iter().map(|c| (&c["outcome"], &c["attempts"])).collect();
    assert_eq!(cells, [(&"built".into(), &1.into()), (&"built".into(), &2.into())]);
}

#[test]
fn a_run_of_another_plan_and_one_that_goes_on_are_not_resumed() {
    let scene = Scene::new().matrix(THREE);
    let bench = stand_in(&scene, "sleep 1; all").display().to_string();
    let before = killed(&scene, &bench);
    let options = ["--gpu", "none", "--source", "wheels", "--bench", &bench];
    let refused = |further: &[&str], parts: &[&str]| {
        let ran = scene.ctk_matrix(&[&["run", "--resume", "out"], &options[..], further].concat()).assert_code(2);
        for part in parts {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
        assert_eq!(records(&scene), before);
    };
    let one = [
        "arch=7.5,kernel=vector_add,path=nvrtc-ptx,toolkit=12.0 was planned, and is not",
        "and is absent",
        "and 1 more",
        "It was started as `ctk-matrix run ",
    ];
    refused(&["--engine", "process", "--select", "toolkit=b"], &one);
    std::fs::write(scene.path().join("matrix.yaml"), format!("{THREE}measure: {{timed: 5}}\n")).unwrap();
    let measure = "measure: it was {\"warmup\":3,\"timed\":10}, and is {\"warmup\":3,\"timed\":5}";
    refused(&["--engine", "process"], &[measure]);
    std::fs::write(scene.path().join("matrix.yaml"), THREE).unwrap();
    if docker() {
        refused(&["--engine", "docker"], &["engine: it was process, and is docker"]);
    }
    let none = scene.ctk_matrix(&[&["run", "--resume", "none"], &options[..]].concat()).assert_code(2);
    assert!(none.stderr.contains("none is not the folder of a run"), "{}", none.stderr);

    let mut living = spawn(&scene, "process", &bench, &["--resume", "out", "--jobs", "1"]);
    wait_for("it is resumed", || records(&scene).len() > 2);
    let second = scene.ctk_matrix(&[&["run", "--resume", "out", "--engine", "process"], &options[..]].concat());
    assert!(second.assert_code(2).stderr.contains("the run in out still goes on"));
    assert!(living.wait().unwrap().success());
}
