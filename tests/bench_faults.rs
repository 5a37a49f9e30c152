//! Programs in the container that lie, flood, hang or are killed: what a run makes of them. `ctk-matrix` is run as a user
//! runs it, with a script or a starved `ctk-bench` in its containers.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::stand_in::stand_in;
use support::{Ran, Scene, containers_of, docker};

const MATRIX: &str = "version: 1\ntoolkits: [\"12.0\"]\npaths: [nvrtc]\n";

fn run(scene: &Scene, engine: &str, script: &str) -> Ran {
    let bench = stand_in(scene, script).display().to_string();
    let ran = scene.run(&["--engine", engine, "--gpu", "none", "--source", "wheels", "--bench", &bench]);
    if engine == "docker" {
        let report = ran.report();
        assert_eq!(containers_of(report["runs"][0]["id"].as_str().unwrap()), [""; 0], "a container is left");
    }
    ran
}

fn log(ran: &Ran) -> String {
    std::fs::read_to_string(ran.out.join("logs/kernel-vector_add+toolkit-12.0.log")).unwrap()
}

/// Every cell as `path outcome: reason`.
fn told(ran: &Ran) -> Vec<String> {
    let report = ran.report();
    let line = |cell: &Value| {
        let (path, outcome) = (cell["axes"]["path"].as_str().unwrap(), cell["outcome"].as_str().unwrap());
        format!("{path} {outcome}: {}", cell["reason"].as_str().unwrap_or_default())
    };
    report["cells"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn noise_between_frames_is_logged_and_harms_nothing() {
    if !docker() {
        return;
    }
    let script = r"
        echo 'a banner'; printf 'half a line'; set -- $cells; result $1 built
        printf '\000\033[31m\033]8;;http://x\007\342\200\256 ::error::x %s\n' '##[set-env]'
        head -c 300000 /dev/urandom; echo; result $2 built; final 2; echo 'after the end'
    ";
    let scene = Scene::new().matrix(MATRIX);
    let ran = run(&scene, "docker", script).assert_code(0);
    assert_eq!(told(&ran), ["nvrtc-ptx built: ", "nvrtc-cubin built: "]);
    let log = log(&ran);
    assert!(log.starts_with("a banner\nhalf a line\n") && log.ends_with("after the end\n"), "{} bytes", log.len());
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains("::error"), "{}", ran.stdout);
}

#[test]
fn forged_repeated_torn_and_miscounted_frames_never_make_a_cell_green() {
    let first = "set -- $cells; ";
    let cases = [
        // The nonce of another run.
        ("nonce=00000000000000000000000000000000; all", ["truncated: the container ended without its final frame"; 2]),
        // One result twice: which is true cannot be known.
        (
            "result $1 built; result $1 built; result $2 built; final 3",
            ["truncated: more than one result came for this cell", "built: "],
        ),
        ("result $1 built; final 2", ["built: ", "truncated: 2 results were sent and 1 arrived"]),
        (
            "result $1 built; result $2 built | cut -c1-300; final 2",
            ["built: ", "truncated: 2 results were sent and 1 arrived"],
        ),
        // A pass without a GPU has no proof; numbers that are none are no frame; a cell of nobody's is no cell.
        (
            "result $1 pass; result 'x=y' built; result $2 built; final 3",
            ["fail: a pass without its proof: nothing was compared", "built: "],
        ),
        (
            "frame '{\"kind\":\"final\",\"count\":1e999}'; exit 3",
            ["truncated: ctk-bench ended with exit status 3 and without this result"; 2],
        ),
        ("exit 0", ["truncated: the container ended without its final frame"; 2]),
    ];
    for (script, expected) in cases {
        let scene = Scene::new().matrix(MATRIX);
        let ran = run(&scene, "process", &format!("{first}{script}")).assert_code(1);
        let expected = [format!("nvrtc-ptx {}", expected[0]), format!("nvrtc-cubin {}", expected[1])];
        assert_eq!(told(&ran), expected, "{script}");
    }
}

/// Runs a script and gives its report and the most memory that `ctk-matrix` took, in bytes.
fn most_memory(scene: &Scene, engine: &str, script: &str) -> (Value, u64) {
    let bench = stand_in(scene, script).display().to_string();
    let arguments =
        ["run", "--out", "out", "--engine", engine, "--gpu", "none", "--source", "wheels", "--bench", &bench];
    let mut child = scene.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
        most = most.max(peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10);
        std::thread::sleep(Duration::from_millis(10));
    }
    let report = std::fs::read_to_string(scene.path().join("out/report.json")).unwrap();
    (serde_json::from_str(&report).unwrap(), most)
}

#[test]
fn two_hundred_megabytes_of_output_take_less_than_64_mb_of_memory() {
    // With line ends and without: half of it is one line.
    let flood = "head -c 100m /dev/zero | tr '\\0' x; echo; head -c 100m /dev/zero | tr '\\0' y | fold -w 4000; all";
    for engine in ["process", "docker"] {
        if engine == "docker" && !docker() {
            continue;
        }
        let scene = Scene::new().matrix(MATRIX);
        let (report, most) = most_memory(&scene, engine, flood);
        assert_eq!(report["counts"], serde_json::json!({"built": 2}), "{engine}");
        assert!(most > 1 << 20 && most < 64 << 20, "{engine}: {} MiB", most >> 20);
        eprintln!("{engine}: {} MiB", most >> 20);
        let logs: u64 = std::fs::read_dir(scene.path().join("out/logs"))
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(logs < 4 << 20, "{engine}: {logs}");
    }
}

#[test]
fn a_container_that_ignores_sigterm_ends_at_its_deadline() {
    if !docker() {
        return;
    }
    let scene = Scene::new().matrix(&format!("{MATRIX}limits: {{timeout: 1s}}\n"));
    // Interrupted rather than left to its deadline, which has a minute for the start and the end of a container.
    let bench = stand_in(&scene, "trap '' TERM INT; while :; do sleep 1; done").display().to_string();
    let arguments =
        ["run", "--out", "out", "--engine", "docker", "--gpu", "none", "--source", "wheels", "--bench", &bench];
    let mut child = scene.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let run_file = scene.path().join("out/run.json");
    let until = Instant::now() + Duration::from_mins(1);
    let id = loop {
        assert!(Instant::now() < until, "no container was started");
        std::thread::sleep(Duration::from_millis(50));
        let Ok(text) = std::fs::read_to_string(&run_file) else { continue };
        let run: Value = serde_json::from_str(&text).unwrap();
        let id = run["run"]["id"].as_str().unwrap().to_owned();
        if !containers_of(&id).is_empty() {
            break id;
        }
    };
    std::thread::sleep(Duration::from_millis(700));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let signalled = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(signalled.elapsed() < Duration::from_secs(7), "{:?}", signalled.elapsed());
    assert_eq!(containers_of(&id), [""; 0]);
}

#[test]
fn a_worker_that_is_killed_for_its_memory_is_told_and_a_child_only_noted() {
    if !docker() {
        return;
    }
    // The real program, whose three buffers of 16 MB the test driver takes from the container's memory.
    let matrix = "version: 1\ntoolkits: [\"12.0\"]\npaths: [driver-ptx]\nlimits: {memory: 32MiB}\n";
    let scene = Scene::new().matrix(matrix).fake_gpu("");
    let ran = scene.run(&["--engine", "docker", "--source", "wheels"]).assert_code(1);
    let cell = ran.cell(&["path=driver-ptx"]);
    assert_eq!((cell["outcome"].as_str(), cell["code"]["name"].as_str()), (Some("oom"), Some("SIGKILL")), "{cell}");
    assert_eq!(cell["reason"], "the worker was killed for its memory: raise `limits: memory`");
    let scene = Scene::new().matrix(&format!("{MATRIX}limits: {{memory: 64MiB}}\n"));
    let ran = run(&scene, "docker", "(head -c 300m /dev/zero | tail -n 1) > /dev/null; all").assert_code(0);
    assert_eq!(ran.report()["counts"], serde_json::json!({"built": 2}));
    assert!(ran.stdout.contains("a process was killed for its memory"), "{}", ran.stdout);
    let scene = Scene::new().matrix(&format!("{MATRIX}limits: {{memory: 64MiB}}\n"));
    let ran = run(&scene, "docker", "(head -c 300m /dev/zero | tail -n 1) > /dev/null; exit 0").assert_code(1);
    assert_eq!(ran.report()["counts"], serde_json::json!({"oom": 2}));
}

#[test]
fn a_program_that_is_missing_or_cannot_run_is_told_before_anything_is_fetched_or_as_a_failed_start() {
    let scene = Scene::new().matrix(MATRIX);
    let bench = stand_in(&scene, "all");
    let refused = |path: &Path, engine: &str, part: &str| {
        let path = path.display().to_string();
        let ran = scene.run(&["--engine", engine, "--gpu", "none", "--bench", &path]).assert_code(5);
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
        assert!(!ran.out.exists());
    };
    let engines = if docker() { &["process", "docker"][..] } else { &["process"] };
    for engine in engines {
        refused(&scene.path().join("none"), engine, "name it with --bench");
        refused(scene.path(), engine, "is not a file");
        std::fs::set_permissions(&bench, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        refused(&bench, engine, "`chmod ");
        // It may be run, and cannot: its interpreter is not there.
        let scene = Scene::new().matrix(MATRIX);
        let path = stand_in(&scene, "");
        std::fs::write(&path, "#!/none/such\n").unwrap();
        let path = path.display().to_string();
        let arguments = ["--engine", engine, "--gpu", "none", "--source", "wheels", "--bench", &path];
        let ran = scene.run(&arguments).assert_code(1);
        assert_eq!(ran.outcomes(), ["nvrtc-ptx 12.0: fail start", "nvrtc-cubin 12.0: fail start"], "{engine}");
    }
}

#[test]
fn a_full_disk_of_our_own_is_exit_110_with_the_report_on_stdout_and_the_old_one_kept() {
    let scene = Scene::new().matrix(MATRIX);
    let disk = scene.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=96k", "tmpfs"]).arg(&disk).status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("did not run: no tmpfs can be mounted");
        return;
    }
    let bench = stand_in(&scene, "all").display().to_string();
    let options = ["--engine", "process", "--gpu", "none", "--source", "wheels", "--bench", &bench, "--quiet"];
    let run = |further: &[&str]| scene.ctk_matrix(&[&["run"], further, &options].concat());
    // A run that stopped, and has a report; then the disk fills.
    let first = run(&["--out", "disk/out"]).assert_code(0);
    let old = std::fs::read(disk.join("out/report.json")).unwrap();
    let records = std::fs::read_to_string(disk.join("out/records.jsonl")).unwrap();
    std::fs::write(disk.join("out/records.jsonl"), records.lines().next().unwrap().to_owned() + "\n").unwrap();
    // While the run is taken up again, the disk fills.
    let full = disk.join("fill").display().to_string();
    let resumed_bench = stand_in(&scene, &format!("head -c 1m /dev/zero > {full} 2> /dev/null; all"));
    assert_eq!(resumed_bench.display().to_string(), bench);
    let resumed = run(&["--resume", "disk/out"]);
    let fresh = run(&["--out", "disk/other"]);
    let kept = std::fs::read(disk.join("out/report.json")).unwrap();
    let status = Command::new("umount").arg(&disk).status().unwrap();
    assert!(status.success());
    assert_eq!(kept, old);
    assert!(first.stdout.contains("2 built"), "{}", first.stdout);
    let resumed = resumed.assert_code(110);
    assert!(
        resumed.stderr.contains("no space is left, free some or give another folder with --out"),
        "{}",
        resumed.stderr
    );
    assert!(
        resumed.stdout.contains("2 built") && resumed.stdout.contains("1 of 2 cells were kept"),
        "{}",
        resumed.stdout
    );
    // Nothing could be written down, so nothing was started.
    assert_eq!(fresh.assert_code(110).stdout, "");
}

#[test]
fn of_two_runs_at_once_in_one_folder_one_is_refused_and_in_two_folders_both_go_on() {
    let scene = Scene::new().matrix(MATRIX);
    let bench = stand_in(&scene, "sleep 2; all").display().to_string();
    let engine = if docker() { "docker" } else { "process" };
    let start = |out: &str| {
        let arguments =
            ["run", "--out", out, "--engine", engine, "--gpu", "none", "--source", "wheels", "--bench", &bench];
        scene.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let runs = ["one", "one", "two"].map(start).map(|run| run.wait_with_output().unwrap());
    let mut codes: Vec<_> = runs[..2].iter().map(|run| run.status.code().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!((codes, runs[2].status.code()), (vec![0, 2], Some(0)));
    let refused = runs.iter().find(|run| run.status.code() == Some(2)).unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("already holds a run"));
}
