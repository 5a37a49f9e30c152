//! `ctk-matrix lock` and `run --locked`: what the file holds, what a locked run uses, and how drift is told.

mod engine_support;
mod registry_support;
mod support;

use std::process::{Command, Stdio};

use registry_support::{Registry, base_layer, nvidia, user_space};
use serde_json::{Value, json};
use support::{Scene, docker, program};

const WHEELS: [&str; 6] = ["--engine", "process", "--source", "wheels", "--select", "toolkit=12.0"];

fn lock(scene: &Scene) -> Value {
    serde_json::from_str(&std::fs::read_to_string(scene.path().join("ctk.lock")).unwrap()).unwrap()
}

/// Changes the lock by hand.
fn edit(scene: &Scene, change: impl FnOnce(&mut Value)) {
    let mut value = lock(scene);
    change(&mut value);
    std::fs::write(scene.path().join("ctk.lock"), value.to_string()).unwrap();
}

#[test]
fn wheels_are_locked_by_version_and_hash_and_a_locked_run_installs_these() {
    let scene = Scene::new();
    let ran = scene.ctk_matrix(&[&["lock"], &WHEELS[..]].concat()).assert_code(0);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("ctk.lock holds 1 toolkits"), "{}", ran.stderr);
    let held = lock(&scene);
    assert_eq!((&held["schema"], &held["toolkits"]["12.0"]["source"]), (&json!(1), &json!("wheels")));
    let nvrtc = &held["toolkits"]["12.0"]["wheels"][0];
    assert_eq!((&nvrtc["name"], &nvrtc["version"]), (&json!("nvidia-cuda-nvrtc-cu12"), &json!("12.0.140")));
    assert_eq!(nvrtc["sha256"].as_str().unwrap().len(), 64);
    let again = scene.ctk_matrix(&[&["lock"], &WHEELS[..]].concat()).assert_code(0);
    assert!(again.stderr.contains("holds already what this matrix stands for"), "{}", again.stderr);
    let run = ["--locked", "--gpu", "none", "--select", "path=nvrtc-ptx"];
    let ran = scene.run(&[&WHEELS[..], &run].concat()).assert_code(0);
    assert_eq!(ran.cell(&[])["source"]["ref"], "nvidia-cuda-nvrtc-cu12==12.0.140");
    // Another hash is another file: pip refuses what the index serves.
    edit(&scene, |lock| lock["toolkits"]["12.0"]["wheels"][0]["sha256"] = json!("0".repeat(64)));
    let other = scene.ctk_matrix(&[&["run", "--out", "other"], &WHEELS[..], &run].concat()).assert_code(1);
    assert!(
        other.stdout.contains("nvidia-cuda-nvrtc-cu12==12.0.140 is not the file that is pinned"),
        "{}",
        other.stdout
    );
}

#[test]
fn drift_ends_a_run_before_it_starts_with_a_line_for_each_entry() {
    let scene = Scene::new();
    let arguments = ["--engine", "process", "--source", "wheels"];
    let none = scene.run(&[&arguments[..], &["--gpu", "none", "--locked"]].concat()).assert_code(3);
    assert_eq!(none.stderr, "error: --locked: there is no ctk.lock: `ctk-matrix lock` makes it\n");
    scene.ctk_matrix(&[&["lock"], &arguments[..]].concat()).assert_code(0);
    edit(&scene, |lock| {
        let toolkits = lock["toolkits"].as_object_mut().unwrap();
        toolkits.remove("12.4");
        toolkits["12.6"]["version"] = json!("12.5");
        toolkits.insert("13.0".into(), json!({"source": "dir", "version": "13.0"}));
    });
    let ran = scene.run(&[&arguments[..], &["--gpu", "none", "--locked"]].concat()).assert_code(3);
    assert_eq!(
        ran.stderr,
        "error: --locked: this run would not be the one that ctk.lock holds\n  \
         toolkit 12.4: it is not in ctk.lock\n  \
         toolkit 12.6: the matrix says version 12.6, ctk.lock holds 12.5\n  \
         toolkit 13.0: this run wants it from wheels, ctk.lock holds it from a folder\n\
         `ctk-matrix lock --update` shows the difference and writes it\n"
    );
    assert!(!ran.out.exists() && ran.stdout.is_empty());
    let differs = scene.ctk_matrix(&[&["lock"], &arguments[..]].concat()).assert_code(3);
    assert!(differs.stderr.contains("ctk.lock holds something else: --update writes the above"), "{}", differs.stderr);
    let updated = scene.ctk_matrix(&[&["lock", "--update"], &arguments[..]].concat()).assert_code(0);
    assert_eq!(updated.stdout, differs.stdout);
    for line in [
        "+ toolkit 12.4: source: wheels\n",
        "~ toolkit 12.6: version: 12.5 -> 12.6\n",
        "~ toolkit 13.0: source: dir -> wheels\n",
        "+ toolkit 13.0: wheels.nvidia-cuda-nvcc.version: 13.0.88\n",
    ] {
        assert!(updated.stdout.contains(line), "{line} is not in\n{}", updated.stdout);
    }
    scene.ctk_matrix(&[&["lock"], &arguments[..]].concat()).assert_code(0);
    std::fs::write(scene.path().join("ctk.lock"), "{\"schema\": 1, \"toolkit\": {}}").unwrap();
    let broken = scene.run(&[&arguments[..], &["--gpu", "none", "--locked"]].concat()).assert_code(3);
    assert!(
        broken.stderr.contains("ctk.lock is no lock of this program (unknown field `toolkit`"),
        "{}",
        broken.stderr
    );
}

fn quietly(arguments: &[&str]) {
    let status = Command::new("docker").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.unwrap().success(), "{arguments:?}");
}

#[test]
fn an_image_is_locked_by_digest_and_a_tag_that_moved_on_changes_nothing() {
    if !docker() {
        return;
    }
    let registry = Registry::start();
    let user_space = user_space(&[program("ctk-bench").to_str().unwrap()]);
    let layers = [user_space, base_layer().finish()];
    let old = registry.push("cuda", "1", &layers, &nvidia(&[]));
    let image = format!("{}:1", registry.name("cuda"));
    let by_digest = format!("{}@{}", registry.name("cuda"), old.index);
    let matrix =
        format!("version: 1\ntoolkits: [{{name: it, version: \"12.6\", image: \"{image}\"}}]\npaths: [driver-ptx]\n");
    let scene = Scene::new().matrix(&matrix);
    // Nothing is pulled for it: the registry is asked.
    scene.ctk_matrix(&["lock", "--engine", "docker", "--source", "image"]).assert_code(0);
    let entry = json!({"source": "image", "version": "12.6", "image": {"ref": image, "index_digest": old.index}});
    assert_eq!(lock(&scene)["toolkits"]["it"], entry);
    assert!(!registry.gave_layers(), "{:?}", registry.requests());
    // The tag moves before anything was pulled.
    let new = registry.push("cuda", "1", &layers, &nvidia(&["NEWER=1"]));
    quietly(&["pull", "--quiet", &image]);
    let locked = |out: &str, source: &str| {
        scene.ctk_matrix(&["run", "--out", out, "--engine", "docker", "--gpu", "none", "--locked", "--source", source])
    };
    let drift = locked("drift", "auto").assert_code(3);
    let expected = format!(
        "error: --locked: this run would not be the one that ctk.lock holds\n  toolkit it: image {image} is here as {}@{}, \
         ctk.lock holds {by_digest}: `docker pull {by_digest}`, or say --source image to have it pulled\n\
         `ctk-matrix lock --update` shows the difference and writes it\n",
        registry.name("cuda"),
        new.index
    );
    assert_eq!(drift.stderr, expected);
    for (out, source) in [("pulled", "image"), ("here", "auto")] {
        locked(out, source).assert_code(0);
        let text = std::fs::read_to_string(scene.path().join(out).join("records.jsonl")).unwrap();
        // The driver family's own source is its artifact; the engine was asked for the old image.
        assert!(text.contains("\"built\""), "{text}");
    }
    assert!(registry.requests().iter().any(|request| request.ends_with(&format!("/blobs/{}", old.id))));
    let updated = scene.ctk_matrix(&["lock", "--engine", "docker", "--update"]).assert_code(0);
    assert_eq!(
        updated.stdout,
        format!(
            "+ toolkit it: image.image_id: {}\n~ toolkit it: image.index_digest: {} -> {}\n",
            new.id, old.index, new.index
        )
    );
    // An image that no registry knows is held by its id.
    quietly(&["tag", &by_digest, "ctk-matrix-test-locked:1"]);
    let local = Scene::new().matrix(&matrix.replace(&image, "ctk-matrix-test-locked:1"));
    local.ctk_matrix(&["lock", "--engine", "docker"]).assert_code(0);
    edit(&local, |lock| {
        let image = &mut lock["toolkits"]["it"]["image"];
        image["image_id"] = json!("sha256:0");
        image.as_object_mut().unwrap().remove("index_digest");
    });
    let drift = local.run(&["--engine", "docker", "--gpu", "none", "--locked"]).assert_code(3);
    quietly(&["image", "rm", "ctk-matrix-test-locked:1"]);
    assert!(drift.stderr.contains("ctk.lock holds sha256:0: it was built or loaded anew"), "{}", drift.stderr);
}
