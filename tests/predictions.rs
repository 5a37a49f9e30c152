//! What is predicted of a run, on the test suite's driver, which has rules of its own: predicted against observed, the
//! canary, and machines that are not here.

mod support;

use serde_json::Value;
use support::{Ran, Scene};

const MATRIX: &str = r#"
version: 1
toolkits: ["12.6", "13.0"]
paths: [driver-ptx, driver-fatbin, nvrtc-ptx, nvrtc-cubin]
"#;

const PROCESS: [&str; 3] = ["--engine", "process", "--quiet"];

/// Every cell as `path toolkit: outcome; predicted outcome[ stage][ code] by rule[, agrees]`.
fn predictions(ran: &Ran) -> Vec<String> {
    let report = ran.report();
    let line = |cell: &Value| {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let predicted = &cell["predicted"];
        let mut said = word(&predicted["outcome"]);
        for part in [&predicted["stage"], &predicted["code"]["number"]] {
            if !part.is_null() {
                said = format!("{said} {}", part.to_string().trim_matches('"'));
            }
        }
        let (path, toolkit) = (word(&cell["axes"]["path"]), word(&cell["axes"]["toolkit"]));
        let outcome = word(&cell["outcome"]);
        let line = format!("{path} {toolkit}: {outcome}; predicted {said} by {}", word(&predicted["rule"]));
        match predicted["agrees"].as_bool() {
            Some(true) => line,
            Some(false) => line + ", WRONG",
            None => line + ", untested",
        }
    };
    report["cells"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn every_end_on_an_old_driver_is_predicted_and_can_be_adopted_as_expectation() {
    let scene = Scene::new().matrix(MATRIX).fake_gpu("").env("CTK_FAKE_DRIVER", "550.54.14");
    let ran = scene.run(&[&PROCESS[..], &["--expect", "predicted"]].concat()).assert_code(0);
    assert_eq!(
        predictions(&ran),
        [
            "driver-ptx 12.6: pass; predicted pass by ptx-isa",
            "driver-fatbin 12.6: pass; predicted pass by backward",
            "nvrtc-ptx 12.6: expected-fail; predicted fail load 222 by ptx-isa",
            "nvrtc-cubin 12.6: pass; predicted pass by minor-version",
            "driver-ptx 13.0: pass; predicted pass by ptx-isa",
            "driver-fatbin 13.0: pass; predicted pass by backward",
            "nvrtc-ptx 13.0: expected-fail; predicted fail load 222 by ptx-isa",
            "nvrtc-cubin 13.0: expected-fail; predicted fail load by cuda-major",
        ]
    );
    assert!(ran.stdout.contains("Predictions: 8 of 8 cells ended as the rules said."), "{}", ran.stdout);
    assert!(!ran.stdout.contains("PREDICTED OTHERWISE"), "{}", ran.stdout);
    let canary = &ran.report()["runs"][0]["canary"];
    assert_eq!(canary["valid"], true, "{canary}");
    assert_eq!(canary["must_fail"]["code"]["name"], "CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
    assert_eq!(canary["must_not_apply"]["outcome"], "skip");
}

#[test]
fn without_being_told_a_predicted_failure_is_a_failure_all_the_same() {
    let scene = Scene::new().matrix(MATRIX).fake_gpu("").env("CTK_FAKE_DRIVER", "550.54.14");
    let ran = scene.run(&[&PROCESS[..], &["--select", "path=nvrtc-ptx"]].concat()).assert_code(1);
    assert_eq!(ran.cell(&["toolkit=12.6"])["outcome"], "fail");
    assert!(ran.stdout.contains("by rule ptx-isa: that held"), "{}", ran.stdout);
}

#[test]
fn a_driver_that_takes_everything_kills_the_canary_and_contradicts_the_rules() {
    let scene = Scene::new().matrix(MATRIX).fake_gpu("blind").env("CTK_FAKE_DRIVER", "550.54.14");
    let ran = scene.run(&[&PROCESS[..], &["--expect", "predicted"]].concat()).assert_code(1);
    assert_eq!(ran.cell(&["path=nvrtc-ptx", "toolkit=12.6"])["outcome"], "unexpected-pass");
    let wrong: Vec<_> = predictions(&ran).into_iter().filter(|line| line.ends_with("WRONG")).collect();
    assert_eq!(
        wrong,
        [
            "nvrtc-ptx 12.6: unexpected-pass; predicted fail load 222 by ptx-isa, WRONG",
            "nvrtc-ptx 13.0: unexpected-pass; predicted fail load 222 by ptx-isa, WRONG",
            "nvrtc-cubin 13.0: unexpected-pass; predicted fail load by cuda-major, WRONG",
        ]
    );
    assert_eq!(ran.report()["runs"][0]["canary"]["valid"], false);
    let page = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "!! INVALID: the run is invalid: its canary, an artifact that no GPU can take, came out as `loaded`",
        "!! PREDICTED OTHERWISE: 3 of 8 cells did not end as the rules said",
        "── Not as predicted (3)",
        "Predictions: 5 of 8 cells ended as the rules said, 3 DID NOT.",
    ] {
        assert!(page.contains(said), "{said} is not in\n{}", ran.stdout);
    }
}

#[test]
fn a_run_whose_cells_all_pass_is_not_green_where_its_canary_lives_no_more() {
    let matrix = "version: 1\ntoolkits: [\"12.6\"]\npaths: [driver]\n";
    let scene = Scene::new().matrix(matrix).fake_gpu("blind");
    let ran = scene.run(&PROCESS).assert_code(1);
    assert!(ran.outcomes().iter().all(|line| line.ends_with(": pass")), "{:?}", ran.outcomes());
    let again = scene.ctk_matrix(&["report", "out"]).assert_code(1);
    assert_eq!(again.stdout, ran.stdout);
}

#[test]
fn a_run_without_a_gpu_builds_for_the_fleet_and_says_what_would_load_there() {
    let matrix = "version: 1\ntoolkits: [\"12.6\", \"13.0\"]\npaths: [nvrtc]\n\
                  fleet: [{driver: 535.104.05, gpu: T4}, {driver: \"570.26\", gpu: B200}]\n";
    let ran = Scene::new().matrix(matrix).run(&["--engine", "process", "--quiet", "--gpu", "none"]).assert_code(0);
    let report = ran.report();
    assert_eq!(report["runs"][0].get("canary"), None);
    let line = |cell: &Value| {
        let said: Vec<String> = cell["fleet"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                let code = one["code"]["number"].as_i64().map_or(String::new(), |code| format!(" {code}"));
                format!("{} {}{code} {}", one["gpu"].as_str().unwrap(), one["outcome"].as_str().unwrap(), one["rule"])
            })
            .collect();
        let id = cell["id"].as_str().unwrap().replace(",kernel=vector_add", "");
        format!("{id} {}: {}", cell["outcome"].as_str().unwrap(), said.join(", ").replace('"', ""))
    };
    let lines: Vec<_> = report["cells"].as_array().unwrap().iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "arch=7.5,path=nvrtc-ptx,toolkit=12.6 built: T4 fail 222 ptx-isa, B200 pass ptx-isa",
            "arch=7.5,path=nvrtc-cubin,toolkit=12.6 built: T4 pass minor-version, B200 fail 209 cubin-arch",
            "arch=10.0,path=nvrtc-ptx,toolkit=12.6 expected-fail: T4 fail 5 toolkit-arch, B200 fail 5 toolkit-arch",
            "arch=10.0,path=nvrtc-cubin,toolkit=12.6 expected-fail: T4 fail 5 toolkit-arch, B200 fail 5 toolkit-arch",
            "arch=7.5,path=nvrtc-ptx,toolkit=13.0 built: T4 fail 222 ptx-isa, B200 fail 222 ptx-isa",
            "arch=7.5,path=nvrtc-cubin,toolkit=13.0 built: T4 fail cuda-major, B200 fail 209 cubin-arch",
            "arch=10.0,path=nvrtc-ptx,toolkit=13.0 built: T4 fail 222 ptx-isa, B200 fail 222 ptx-isa",
            "arch=10.0,path=nvrtc-cubin,toolkit=13.0 built: T4 fail 209 cubin-arch, B200 fail cuda-major",
        ]
    );
}

#[test]
fn a_report_is_asked_of_a_fleet_by_the_artifacts_that_were_built() {
    let scene = Scene::new().matrix("version: 1\ntoolkits: [\"12.6\"]\npaths: [driver-ptx, nvrtc]\n").file(
        "fleet.yaml",
        "version: 1\ntoolkits: [\"12.6\"]\nfleet: [{driver: 535.104.05, gpu: T4}, {driver: 580.159.04, gpu: \"9.0\"}]\n",
    );
    scene.run(&["--engine", "process", "--quiet", "--gpu", "none"]).assert_code(0);
    let shown = scene.ctk_matrix(&["report", "out", "--fleet", "fleet.yaml"]).assert_code(0).stdout;
    for (title, row) in [
        ("── Predicted: T4 with driver 535.104.05: kernel vector_add, arch 7.5", "12.6 ✓ pass ◇ fail 222 ✓ pass"),
        ("── Predicted: 9.0 with driver 580.159.04: kernel vector_add, arch 7.5", "12.6 ✓ pass ✓ pass ◇ fail 209"),
    ] {
        let at = shown.lines().position(|line| line == title).unwrap_or_else(|| panic!("{title} is not in\n{shown}"));
        let found = shown.lines().nth(at + 3).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(found, row);
    }
}

/// NVRTC 11.7, which is older than the catalogue: as much unknown to it as one that is newer than the catalogue.
#[test]
fn a_toolkit_that_is_not_in_the_catalogue_is_measured_and_marked_so() {
    let folder = support::cache().join("unlisted");
    if !folder.join("nvidia").exists() {
        let pip = ["-m", "pip", "install", "-q", "--no-deps", "--target"];
        let mut command = std::process::Command::new("python3");
        command.args(pip).arg(&folder).arg("nvidia-cuda-nvrtc-cu11==11.7.99");
        assert!(command.status().unwrap().success());
    }
    let dir = folder.join("nvidia/cuda_nvrtc");
    let matrix = format!(
        "version: 1\ntoolkits: [{{version: \"11.7\", dir: \"{}\"}}]\npaths: [nvrtc]\narch: [\"7.5\", \"8.9\"]\n\
         expect: [{{toolkit: \"11.7\", arch: \"8.9\", outcome: fail, stage: build, reason: it is older than Ada}}]\n",
        dir.display()
    );
    let ran = Scene::new().matrix(&matrix).run(&["--engine", "process", "--quiet", "--gpu", "none"]).assert_code(0);
    assert_eq!(
        predictions(&ran),
        [
            "nvrtc-ptx 11.7: built; predicted built by no-gpu",
            "nvrtc-cubin 11.7: built; predicted built by no-gpu",
            "nvrtc-ptx 11.7: expected-fail; predicted fail build 5 by toolkit-arch",
            "nvrtc-cubin 11.7: expected-fail; predicted fail build 5 by toolkit-arch",
        ]
    );
    let notes = ran.report()["runs"][0]["notes"].to_string();
    let measured = "11.7: CUDA 11.7 is not in the catalogue; measured here: PTX ISA 7.7, libnvrtc.so.11.2, sm_35 sm_37 \
                    sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87";
    assert!(notes.contains(measured), "{notes}");
}

#[test]
fn the_plan_says_what_would_load_on_machines_that_are_not_here() {
    let matrix = "version: 1\ntoolkits: [\"12.x\", \"13.x\"]\npaths: [driver, nvrtc, nvcc]\n\
                  fleet: [{driver: \"535.104.05\", gpu: T4}]\n";
    let ran = Scene::new().matrix(matrix).ctk_matrix(&["plan", "--format", "json"]).assert_code(0);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    for cell in plan["cells"].as_array().unwrap() {
        let id = cell["id"].as_str().unwrap();
        let version = cell["axes"]["toolkit"].as_str().unwrap();
        let minor: u32 = version[3..].parse().unwrap();
        let [entry] = cell["fleet"].as_array().unwrap().as_slice() else { panic!("{cell}") };
        assert_eq!((entry["driver"].as_str(), entry["gpu"].as_str()), (Some("535.104.05"), Some("T4")));
        let path = cell["axes"]["path"].as_str().unwrap();
        let old_enough = version.starts_with("12.") && minor <= 2;
        let (outcome, code) = match path {
            "driver-ptx" | "driver-fatbin" => ("pass", None),
            _ if path.ends_with("-ptx") => {
                if old_enough {
                    ("pass", None)
                } else {
                    ("fail", Some(222))
                }
            }
            _ if version.starts_with("12.") => ("pass", None),
            "nvcc-fatbin" => ("fail", Some(222)),
            _ => ("fail", None),
        };
        assert_eq!(
            (entry["outcome"].as_str(), entry["code"]["number"].as_i64()),
            (Some(outcome), code),
            "{id}: {entry}"
        );
        assert!(cell["predicted"]["rule"].is_string(), "{id}");
    }
}
