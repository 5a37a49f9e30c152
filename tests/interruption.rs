//! Ctrl-C and SIGTERM at any moment: no container is left, and the report says that it is not complete.

mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Scene, containers_of, docker};

struct End {
    code: Option<i32>,
    took: Duration,
    report: Option<Value>,
}

/// Starts a run, sends the signal after `delay`, and looks at what is left.
fn interrupt(scene: &Scene, engine: &str, signal: Signal, delay: Duration) -> End {
    let mut child = scene
        .command(&["run", "--out", "out", "--engine", engine, "--gpu", "none", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(delay);
    kill_process(Pid::from_child(&child), signal).unwrap();
    let signalled = Instant::now();
    let status = child.wait().unwrap();
    let report = std::fs::read_to_string(scene.path().join("out/report.json")).ok();
    End {
        code: status.code(),
        took: signalled.elapsed(),
        report: report.map(|text| serde_json::from_str(&text).expect("the report is whole")),
    }
}

/// Twenty moments between the first and the last step of a run that takes some two seconds.
fn moments() -> impl Iterator<Item = Duration> {
    (0..20).map(|step| Duration::from_millis(step * step * 6))
}

#[test]
fn no_container_is_left_whenever_a_run_is_interrupted() {
    if !docker() {
        return;
    }
    // The cache is warm after this.
    Scene::new().ctk_matrix(&["toolkit", "fetch", "12.0", "12.6", "--quiet"]).assert_code(0);
    let matrix = "version: 1\ntoolkits: [\"12.0\", \"12.6\"]\n";
    let mut incomplete = 0;
    for (number, delay) in moments().enumerate() {
        let (signal, code) = if number % 2 == 0 { (Signal::INT, 130) } else { (Signal::TERM, 143) };
        let scene = Scene::new().matrix(matrix);
        let end = interrupt(&scene, "docker", signal, delay);
        assert!(end.took < Duration::from_secs(7), "{delay:?}: it took {:?}", end.took);
        let Some(report) = end.report else {
            // Before the report's folder was made, or before the program listened for signals.
            assert!(matches!(end.code, None | Some(130 | 143)), "{delay:?}: {:?}", end.code);
            continue;
        };
        let cells = report["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 14, "{delay:?}");
        let unfinished = cells.iter().filter(|cell| matches!(cell["outcome"].as_str(), Some("cancelled" | "not-run")));
        let unfinished = unfinished.count();
        assert_eq!(report["complete"].as_bool(), Some(unfinished == 0), "{delay:?}");
        assert!(end.code == Some(code) || (unfinished == 0 && end.code == Some(0)), "{delay:?}: {:?}", end.code);
        incomplete += usize::from(unfinished > 0);
        let run = report["runs"][0]["id"].as_str().unwrap();
        assert_eq!(containers_of(run), [""; 0], "{delay:?}");
    }
    assert!(incomplete > 3, "only {incomplete} of 20 signals met a run that was going on");
}

#[test]
fn an_interrupted_child_process_is_gone_and_its_cells_say_so() {
    // A driver that hangs keeps the run going until the signal.
    let matrix = "version: 1\ntoolkits: [\"12.0\"]\npaths: [driver-ptx, nvrtc-cubin]\n";
    let scene = Scene::new().matrix(matrix).fake_gpu("hang-launch");
    let mut child = scene
        .command(&["run", "--out", "out", "--engine", "process", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let signalled = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(signalled.elapsed() < Duration::from_secs(7), "{:?}", signalled.elapsed());
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(scene.path().join("out/report.json")).unwrap()).unwrap();
    assert_eq!(report["complete"], false);
    assert_eq!(report["cells"][0]["outcome"], "cancelled");
    assert_eq!(report["cells"][0]["stage"], "first-launch");
    assert_eq!(report["cells"][1]["outcome"], "not-run");
    assert_eq!(report["runs"][0]["gpu_mode"], "fake");
    let marker = scene.path().display().to_string();
    let left = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let environment = std::fs::read(entry.ok()?.path().join("environ")).ok()?;
        String::from_utf8_lossy(&environment).contains(&marker).then_some(())
    });
    assert_eq!(left.count(), 0, "a process of the run is left");
}
