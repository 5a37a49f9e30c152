//! Notes as a user runs them: claims about cells on the test driver and without a GPU, and claims about packages with
//! the real pip against a small index of the test's own.

mod support;

use std::process::Command;

use support::index::Index;
use support::{Ran, Scene};

/// A note of these claims, beside one cell whose toolkit is there before the index is changed.
fn note(claims: &str) -> Scene {
    Scene::new().ctk_matrix(&["toolkit", "fetch", "12.6", "--quiet"]).assert_code(0);
    let matrix = format!("version: 1\ntoolkits: [\"12.6\"]\npaths: [driver-ptx]\nclaims:\n{claims}");
    Scene::new().matrix(&matrix)
}

fn run(scene: Scene, url: &str) -> Ran {
    // The machine's own pip settings may name further places.
    let scene = scene.env("PIP_INDEX_URL", url).env("PIP_CONFIG_FILE", "/dev/null").env("PIP_NO_CACHE_DIR", "1");
    scene.run(&["--engine", "process", "--gpu", "none", "--quiet"])
}

/// Each claim as `verdict: reason`, in order.
fn claims(ran: &Ran) -> Vec<String> {
    let report = ran.report();
    let line = |claim: &serde_json::Value| {
        format!("{}: {}", claim["verdict"].as_str().unwrap(), claim["reason"].as_str().unwrap())
    };
    report["claims"].as_array().unwrap().iter().map(line).collect()
}

/// The machine's Python, `3.11`.
fn series() -> String {
    let ask = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new("python3").args(["-c", ask]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn what_pip_chooses_and_refuses_is_held_against_the_note() {
    let index = Index::serve();
    let scene = note(
        "- {says: strict needs lib 2, resolve: {packages: [strict==1.0, 'lib==1.10'], fails_with: depends on lib}}\n\
         - {says: user gets the newest, resolve: {packages: [user==1.0], gives: [lib==2.0.1]}}\n\
         - {says: user gets lib 1, resolve: {packages: [user==1.0], gives: [lib<2]}}\n\
         - {says: there is a lib 9, resolve: {packages: [lib==9]}}\n",
    );
    let ran = run(scene, &index.url).assert_code(1);
    assert_eq!(
        claims(&ran),
        [
            "holds: resolve fails: The user requested lib==1.10; strict 1.0 depends on lib>=2.0",
            "holds: resolve: pip finds a choice that fits",
            "does-not-hold: resolve: the choice does not meet lib<2",
            "does-not-hold: resolve fails: No matching distribution found for lib==9",
        ]
    );
    let report = ran.report();
    assert_eq!(report["claims"][1]["evidence"][0], "lib 2.0.1, user 1.0");
    assert!(report["claims"][3]["detail"].as_str().unwrap().contains("1.9, 1.10, 1.10.1"), "{report}");
    assert!(ran.stdout.contains("✗ 2 claims do not hold"), "{}", ran.stdout);
    assert!(ran.stdout.contains("Of 4 claims, 2 hold, 2 do not hold."), "{}", ran.stdout);
    let junit = std::fs::read_to_string(ran.out.join("junit.xml")).unwrap();
    let junit = roxmltree::Document::parse(&junit).unwrap();
    let failures = junit.descendants().filter(|node| node.has_tag_name("failure")).count();
    assert_eq!(failures, 2);
}

#[test]
fn imports_happen_in_an_environment_that_is_gone_afterwards() {
    let index = Index::serve();
    let scene = note(
        "- {says: it works with lib 1, import: {module: user, packages: [user==1.0, lib==1.10.1]}}\n\
         - {says: it does not with lib 2, import: {module: user, packages: [user==1.0, lib==2.0], fails_with: no attribute 'row_stack'}}\n\
         - {says: it does with lib 2, import: {module: user, packages: [user==1.0, lib==2.0]}}\n\
         - {says: driver can be imported, import: {module: driver, packages: [driver]}}\n\
         - {says: crash can be imported, import: {module: crash, packages: [crash]}}\n\
         - {says: loud cannot answer for itself, import: {module: loud, packages: [loud]}}\n\
         - {says: on a Python from the future, import: {python: '3.98', module: user, packages: [user]}}\n",
    );
    let ran = run(scene, &index.url).assert_code(1);
    let gone = "AttributeError: module 'lib' has no attribute 'row_stack'";
    assert_eq!(
        claims(&ran),
        [
            "holds: import user: user".to_owned(),
            format!("holds: import user fails: at import: {gone}"),
            format!("does-not-hold: import user fails: at import: {gone}"),
            "not-tested: import driver needs NVIDIA's driver, which is not here: at import: ImportError: libcuda.so.1: \
             cannot open shared object file"
                .into(),
            "does-not-hold: import crash fails: signal 11 ended Python".into(),
            "holds: import loud: loud 1.0".into(),
            "not-tested: Python 3.98 is not on this machine: there is no `python3.98` in PATH".into(),
        ]
    );
    let report = ran.report();
    assert_eq!(report["claims"][0]["evidence"][0], "lib 1.10.1, user 1.0");
    let cache = support::cache();
    let text = std::fs::read_to_string(ran.out.join("report.json")).unwrap();
    assert!(text.contains("$CACHE/staging/") && !text.contains(&cache.display().to_string()), "{text}");
    let staged = text.split("$CACHE/staging/").nth(1).unwrap().split('/').next().unwrap();
    assert!(!cache.join("staging").join(staged).exists());
}

#[test]
fn the_hosts_python_keeps_its_packages_also_where_it_is_an_environment() {
    let index = Index::serve();
    let scene = note("- {says: it is there, import: {python: host, module: only_here}}\n");
    let env = scene.path().join("env");
    let made = std::process::Command::new("python3").args(["-m", "venv"]).arg(&env).status().unwrap();
    assert!(made.success());
    let site = std::fs::read_dir(env.join("lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    // As numba-cuda's is, the module is found by a `.pth` file alone.
    std::fs::create_dir(site.join("elsewhere")).unwrap();
    std::fs::write(site.join("elsewhere/only_here.py"), "").unwrap();
    std::fs::write(site.join("only_here.pth"), "elsewhere\n").unwrap();
    let path = format!("{}:{}", env.join("bin").display(), std::env::var("PATH").unwrap());
    let ran = run(scene.env("PATH", &path), &index.url).assert_code(0);
    assert_eq!(claims(&ran), ["holds: import only_here: only_here"]);
}

#[test]
fn a_boundary_is_found_among_the_versions_that_this_python_can_have() {
    let index = Index::serve();
    let scene = note(
        "- says: user works up to lib 1.10\n  boundary: {pin: lib, packages: [user==1.0], module: user, \
         fails_with: row_stack, last_good: '1.10', first_bad: '2.0'}\n\
         - says: strict takes lib 2\n  boundary: {pin: lib, packages: [strict==1.0], last_good: '2.0', first_bad: '1.9'}\n",
    );
    let ran = run(scene, &index.url).assert_code(1);
    let without = format!("; 3.0 exists and has no wheel for Python {}", series());
    assert_eq!(
        claims(&ran),
        [
            format!("holds: lib 1.10.1 is the last good version, 2.0 the first bad{without}"),
            format!(
                "does-not-hold: lib 1.10.1 is the last bad version, 2.0 the first good{without}; the first bad version \
                 was to be 1.9"
            ),
        ]
    );
    let boundary = &ran.report()["claims"][0]["boundary"];
    assert_eq!(boundary["newest"], "2.0.1");
    assert_eq!(boundary["without_wheel"], serde_json::json!(["3.0"]));
    let tried: Vec<_> = boundary["tried"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tried| format!("{} {}", tried["version"].as_str().unwrap(), tried["verdict"].as_str().unwrap()))
        .collect();
    // 1.9 is refused by pip, since `user` needs 1.10: that tells nothing of `row_stack`.
    assert_eq!(tried, ["2.0.1 bad", "1.9 untestable", "1.10 good", "1.10.1 good", "2.0 bad"]);
}

#[test]
fn an_index_that_cannot_be_reached_is_no_green() {
    let scene = note("- {says: it can be had, resolve: {packages: [lib]}}\n").env("PIP_RETRIES", "1");
    let ran = run(scene, "http://127.0.0.1:9/simple/").assert_code(1);
    let said = claims(&ran);
    assert!(said[0].starts_with("not-tested: pip cannot reach its package index"), "{said:?}");
    assert!(ran.stdout.contains("✗ 1 claim could not be tested"), "{}", ran.stdout);
}

const CELLS: &str = r#"
version: 1
toolkits: ["12.6"]
paths: [nvrtc]
claims:
- {says: both forms pass, cells: {path: nvrtc}, observe: {outcome: pass}}
- {says: machine code is taken by every driver, cells: {path: nvrtc-cubin}, observe: {outcome: pass}}
- {says: PTX is built, cells: {path: nvrtc-ptx}, observe: {outcome: built}}
- says: PTX of 12.6 is too new for driver 550
  cells: {path: nvrtc-ptx}
  observe: {outcome: fail, stage: load, code: CUDA_ERROR_UNSUPPORTED_PTX_VERSION}
"#;

fn verdicts(ran: &Ran) -> Vec<String> {
    claims(ran).iter().map(|claim| claim.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn cells_decide_and_a_claimed_failure_need_not_be_expected_a_second_time() {
    let scene = Scene::new().matrix(CELLS).fake_gpu("").env("CTK_FAKE_DRIVER", "550.54.14");
    let ran = scene.run(&["--engine", "process", "--quiet"]).assert_code(1);
    assert_eq!(verdicts(&ran), ["does-not-hold", "holds", "holds", "holds"]);
    assert_eq!(ran.cell(&["path=nvrtc-ptx"])["outcome"], "expected-fail");
    let claim = &ran.report()["claims"][3];
    assert_eq!(claim["cells"], serde_json::json!(["arch=9.0,kernel=vector_add,path=nvrtc-ptx,toolkit=12.6"]));
    assert!(ran.stdout.contains("✓ holds (fake): PTX of 12.6 is too new"), "{}", ran.stdout);
    // The same bytes from the folder alone.
    assert_eq!(scene.ctk_matrix(&["report", "out"]).assert_code(1).stdout, ran.stdout);
}

#[test]
fn a_failure_that_is_claimed_and_does_not_come_is_no_green() {
    let scene = Scene::new().matrix(CELLS).fake_gpu("");
    let ran = scene.run(&["--engine", "process", "--quiet"]).assert_code(1);
    assert_eq!(verdicts(&ran), ["holds", "holds", "holds", "does-not-hold"]);
    assert_eq!(ran.cell(&["path=nvrtc-ptx"])["outcome"], "unexpected-pass");
}

#[test]
fn without_a_gpu_launches_are_not_tested_and_builds_are() {
    let arguments = ["--engine", "process", "--gpu", "none", "--quiet"];
    let ran = Scene::new().matrix(CELLS).run(&arguments).assert_code(0);
    assert_eq!(verdicts(&ran), ["not-tested", "not-tested", "holds", "not-tested"]);
    assert!(claims(&ran)[0].ends_with("no GPU: it was built, and not launched"));
    let selected = [&arguments[..], &["--select", "path=nvrtc-cubin"]].concat();
    let ran = Scene::new().matrix(CELLS).run(&selected).assert_code(0);
    assert_eq!(claims(&ran)[2], "not-tested: none of its cells is part of this run");
}

#[test]
fn a_claim_that_names_no_cell_is_refused_with_its_line() {
    let text = "version: 1\ntoolkits: [\"12.6\"]\npaths: [nvrtc]\nclaims:\n\
        - {says: nvcc works, cells: {path: nvcc}, observe: {outcome: pass}}\n";
    let ran = Scene::new().matrix(text).ctk_matrix(&["plan"]).assert_code(3);
    assert_eq!(
        ran.stderr.trim_end(),
        "error: matrix.yaml: no cell is what these claims speak of: line 5: `nvcc works`; `ctk-matrix plan` lists \
         the cells"
    );
}

/// Every note that is shipped, as far as it can be read without running it.
#[test]
fn the_shipped_notes_are_sound() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/notes");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // A note may need what this version of the format does not have.
        let needs_stacks = std::fs::read_to_string(&path).unwrap().contains("\nstacks:");
        if needs_stacks && !include_str!("../docs/matrix.schema.json").contains("\"stacks\"") {
            continue;
        }
        let ran = Scene::new().ctk_matrix(&["plan", "--matrix", path.to_str().unwrap()]).assert_code(0);
        assert!(ran.stdout.contains("\nclaims\n"), "{}", ran.stdout);
        count += 1;
    }
    assert!(count >= 2);
}

#[test]
#[ignore = "fetches some 400 MB of packages; run by hand where the index has them"]
fn the_shipped_notes_hold_here() {
    for name in ["cupy-14-needs-numpy-2", "numba-cuda-row-stack"] {
        let path = format!("{}/notes/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let ran = Scene::new().run(&["--matrix", &path, "--engine", "process", "--gpu", "none"]).assert_code(0);
        assert!(ran.stdout.contains("✓ holds"), "{}", ran.stdout);
        assert!(!ran.stdout.contains("does not hold"), "{}", ran.stdout);
    }
}
