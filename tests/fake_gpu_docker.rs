//! The main job on the test suite's driver, in real containers: the driver's library is mounted as `--gpu devices`
//! mounts NVIDIA's, and what goes wrong inside is told outside.

mod support;

use support::{Ran, Scene, containers_of, docker};

const MATRIX: &str = r#"
version: 1
toolkits: ["12.0", "12.6"]
paths: [driver-ptx, nvrtc-ptx, nvrtc-cubin]
limits: {timeout: 6s, memory: 1GiB}
"#;

fn run(faults: &str, arguments: &[&str]) -> Option<(Scene, Ran)> {
    if !docker() {
        return None;
    }
    let scene = Scene::new().matrix(MATRIX).fake_gpu(faults);
    let mut all = vec!["--engine", "docker", "--quiet"];
    all.extend(arguments);
    let ran = scene.run(&all);
    let id = ran.report()["runs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(containers_of(&id), [""; 0]);
    Some((scene, ran))
}

#[test]
fn every_path_of_two_toolkits_gives_the_same_bits_through_mounted_libraries() {
    let Some((_scene, ran)) = run("", &[]) else { return };
    let ran = ran.assert_code(0);
    let report = ran.report();
    assert_eq!(report["counts"], serde_json::json!({"pass": 6}));
    assert_eq!(
        (report["runs"][0]["attach"].as_str(), report["runs"][0]["gpu_mode"].as_str()),
        (Some("devices"), Some("fake"))
    );
    for cell in report["cells"].as_array().unwrap() {
        assert_eq!(cell["attach"], "devices");
        assert_eq!(cell["bits"]["sha256"], "11d347a4e363c4fe2a3d89bdaa23574198fda2e1a01d819d249c465b7f4d895d");
        let toolkit = cell["axes"]["toolkit"].as_str().unwrap();
        if cell["axes"]["path"] != "driver-ptx" {
            assert_eq!(cell["loaded"]["nvrtc"]["version"], toolkit);
        }
    }
    assert!(ran.stdout.contains("3 paths over 2 toolkits produced bit-identical output"), "{}", ran.stdout);
}

#[test]
fn a_wrong_bit_a_crash_and_a_hang_inside_are_each_told_outside() {
    let Some((_scene, ran)) = run("wrong-bit@cubin,crash-launch@ptx@producer:12.6", &["--select", "toolkit=12.6"])
    else {
        return;
    };
    let ran = ran.assert_code(1);
    assert_eq!(
        ran.outcomes(),
        [
            "driver-ptx 12.6: pass",
            "nvrtc-ptx 12.6: crashed first-launch SIGABRT",
            "nvrtc-cubin 12.6: wrong-result verify"
        ]
    );
    let hang = ["--select", "toolkit=12.6", "--select", "path=nvrtc"];
    let Some((_scene, ran)) = run("hang-launch@ptx", &hang) else { return };
    let ran = ran.assert_code(1);
    assert_eq!(ran.outcomes(), ["nvrtc-ptx 12.6: timeout first-launch", "nvrtc-cubin 12.6: pass"]);
}

#[test]
fn a_mode_that_this_engine_does_not_have_ends_the_run_with_what_it_came_to() {
    let Some((_scene, ran)) = run("", &["--gpu", "request", "--select", "toolkit=12.0"]) else { return };
    let ran = ran.assert_code(5);
    let cell = ran.cell(&["path=nvrtc-ptx"]);
    assert!(cell["reason"].as_str().unwrap().contains("request: could not select device driver"), "{cell}");
    assert_eq!(cell["stage"], "start");
    assert_eq!(ran.report()["counts"], serde_json::json!({"fail": 3}));
}
