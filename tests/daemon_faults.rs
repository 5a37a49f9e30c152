//! What becomes of a run whose Docker daemon is killed, stopped, stalled or starved in mid-run: a real daemon of the
//! test's own, and `ctk-matrix` as a user runs it.

mod support;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::Scene;
use support::daemon::Daemon;
use support::stand_in::stand_in;

const MATRIX: &str = "version: 1\ntoolkits: [\"12.0\"]\npaths: [nvrtc]\n";

fn scene(daemon: &Daemon) -> Scene {
    Scene::new().matrix(MATRIX).env("DOCKER_HOST", &daemon.address())
}

/// Starts a run whose program is this script.
fn started(scene: &Scene, script: &str) -> Child {
    let bench = stand_in(scene, script).display().to_string();
    let arguments =
        ["run", "--out", "out", "--engine", "docker", "--gpu", "none", "--source", "wheels", "--bench", &bench];
    scene.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The run's end: exit code, and its report.
#[track_caller]
fn ended(scene: &Scene, run: Child, code: i32) -> Value {
    let output = run.wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout:\n{stdout}\nstderr:\n{stderr}");
    serde_json::from_str(&std::fs::read_to_string(scene.path().join("out/report.json")).unwrap()).unwrap()
}

/// Every cell as `outcome attempts`.
fn cells(report: &Value) -> Vec<String> {
    let cells = report["cells"].as_array().unwrap();
    cells.iter().map(|cell| format!("{} {}", cell["outcome"].as_str().unwrap(), cell["attempts"])).collect()
}

fn has_note(report: &Value, part: &str) -> bool {
    report["runs"][0]["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains(part))
}

/// A run in whose middle the daemon ends by this signal and is started again, and what was left in it.
fn run_over_a_restart(options: &[&str], signal: Signal) -> Option<Value> {
    let mut daemon = Daemon::start(options, None)?;
    let scene = scene(&daemon);
    let run = started(&scene, "sleep 4; all");
    daemon.has_started_one();
    daemon.ends(signal);
    assert!(daemon.spawn());
    let report = ended(&scene, run, 0);
    assert_eq!(daemon.containers(), "", "a container is left");
    Some(report)
}

#[test]
fn after_a_killed_daemon_is_back_the_job_is_run_once_more() {
    let Some(report) = run_over_a_restart(&[], Signal::KILL) else { return };
    assert_eq!(cells(&report), ["built 2", "built 2"]);
    assert!(has_note(&report, "the engine was lost, and tried once more"), "{report}");
}

#[test]
fn after_a_stopped_daemon_is_back_the_job_is_run_once_more() {
    let Some(report) = run_over_a_restart(&[], Signal::TERM) else { return };
    assert_eq!(cells(&report), ["built 2", "built 2"]);
}

#[test]
fn with_live_restore_the_job_goes_on_through_a_killed_daemon() {
    let Some(report) = run_over_a_restart(&["--live-restore"], Signal::KILL) else { return };
    assert_eq!(cells(&report), ["built 1", "built 1"]);
}

#[test]
fn a_daemon_that_stalls_is_lost_and_when_it_goes_on_the_job_is_run_once_more() {
    let Some(daemon) = Daemon::start(&[], None) else { return };
    let scene = scene(&daemon);
    let run = started(&scene, "sleep 4; all");
    daemon.has_started_one();
    daemon.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(10));
    daemon.signal(Signal::CONT);
    let report = ended(&scene, run, 0);
    assert_eq!(cells(&report), ["built 2", "built 2"]);
    assert_eq!(daemon.containers(), "", "a container is left");
}

#[test]
fn an_interruption_while_a_daemon_is_waited_for_is_obeyed_at_once() {
    let Some(mut daemon) = Daemon::start(&[], None) else { return };
    let scene = scene(&daemon);
    let run = started(&scene, "sleep 30; all");
    daemon.has_started_one();
    daemon.ends(Signal::KILL);
    std::thread::sleep(Duration::from_secs(3));
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let signalled = Instant::now();
    let report = ended(&scene, run, 130);
    assert!(signalled.elapsed() < Duration::from_secs(7), "{:?}", signalled.elapsed());
    assert!(cells(&report).iter().all(|cell| cell.starts_with("infra")), "{:?}", cells(&report));
    // The daemon kills what it finds when it starts, and `gc` removes it.
    assert!(daemon.spawn());
    assert_ne!(daemon.containers(), "");
    scene.ctk_matrix(&["gc"]).assert_code(0);
    assert_eq!(daemon.containers(), "", "a container is left");
}

#[test]
fn a_full_disk_under_the_daemon_is_never_taken_for_a_result() {
    let Some(daemon) = Daemon::start(&[], Some("40m")) else { return };
    let scene = scene(&daemon);
    // The program ends with 0, and what it wrote last finds no room in the log. What came before counts.
    let flood =
        "set -- $cells; result $1 built; head -c 60m /dev/zero | tr '\\0' x | fold -w 4000; result $2 built; final 2";
    let report = ended(&scene, started(&scene, flood), 1);
    assert_eq!(cells(&report), ["built 1", "truncated 1"]);
    assert_eq!(daemon.containers(), "", "a container is left");
    // Now there is no room for a container either.
    let filled = std::fs::File::create(daemon.data().join("fill"))
        .and_then(|mut file| std::io::copy(&mut std::io::Read::take(std::io::repeat(1), 1 << 30), &mut file));
    assert!(filled.is_err(), "the disk is not full");
    std::fs::remove_dir_all(scene.path().join("out")).unwrap();
    let report = ended(&scene, started(&scene, "all"), 1);
    let cell = &report["cells"][0];
    assert_eq!((cell["outcome"].as_str(), cell["stage"].as_str()), (Some("fail"), Some("start")), "{cell}");
    assert!(cell["reason"].as_str().unwrap().contains("no space left on device"), "{cell}");
    assert!(cell["explanation"]["remedy"].as_str().unwrap().contains("docker system df"), "{cell}");
    std::fs::remove_file(daemon.data().join("fill")).unwrap();
    assert_eq!(daemon.containers(), "", "a container is left");
}

#[test]
fn a_daemon_that_is_absent_dead_or_forbidden_is_one_line_with_its_cure_within_a_second() {
    let scene = Scene::new().matrix(MATRIX);
    let dead = scene.path().join("dead");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    for (socket, part) in [("none", "there is no socket at "), ("dead", "nothing listens at ")] {
        let address = format!("unix://{}", scene.path().join(socket).display());
        let asked = Instant::now();
        let mut command = scene.command(&["run", "--out", "out", "--engine", "docker", "--gpu", "none"]);
        let output = command.env("DOCKER_HOST", &address).output().unwrap();
        let took = asked.elapsed();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{stderr}");
        assert!(stderr.contains(part) && stderr.contains("start Docker, or use --engine process"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert!(!scene.path().join("out").exists());
    }
}
