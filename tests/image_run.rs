//! The main job on images that are pulled: stand-ins with nvidia/cuda's layout, environment and entrypoint, from a
//! registry of the test's own. What each variant carries, what is recorded, what is refused, and a tag that moves.

mod engine_support;
mod registry_support;
mod support;

use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine as _;
use engine_support::Tar;
use registry_support::{Digests, Fault, REQUIRE, Registry, base_layer, nvidia, user_space};
use serde_json::json;
use support::{Ran, Scene, cache, docker, program};

const CUDA: &str = "nvidia/cuda";
const DEVEL: &str = "12.6.3-devel-ubuntu22.04";
const RUNTIME: &str = "12.6.3-runtime-ubuntu22.04";
const BASE: &str = "12.6.3-base-ubuntu22.04";

/// NVRTC of 12.6, out of the wheel that every test program shares.
fn nvrtc() -> Vec<PathBuf> {
    let scene = Scene::new();
    scene.ctk_matrix(&["toolkit", "fetch", "12.6", "--quiet"]).assert_code(0);
    let entries = std::fs::read_dir(cache().join("toolkits")).unwrap().map(|entry| entry.unwrap().path());
    let entry = entries
        .filter(|path| path.is_dir())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("12.6-"))
        .unwrap();
    let found = std::fs::read_dir(entry.join("nvidia/cuda_nvrtc/lib")).unwrap().map(|file| file.unwrap().path());
    let libraries: Vec<PathBuf> = found
        .filter(|path| path.file_name().unwrap().to_string_lossy().contains(".so."))
        .filter(|path| !path.to_string_lossy().contains(".alt."))
        .collect();
    assert_eq!(libraries.len(), 2, "{libraries:?}");
    libraries
}

/// A registry with a user space that `ctk-bench` starts in, in each of its images.
fn registry() -> (Registry, Vec<u8>) {
    (Registry::start(), user_space(&[program("ctk-bench").to_str().unwrap()]))
}

fn source(ran: &Ran, toolkit: &str, path: &str) -> serde_json::Value {
    ran.cell(&[&format!("toolkit={toolkit}"), &format!("path={path}")])["source"].clone()
}

/// A matrix of one toolkit in one image.
fn one(image: &str, paths: &str) -> String {
    format!("version: 1\ntoolkits: [{{name: it, version: \"12.6\", image: \"{image}\"}}]\npaths: [{paths}]\n")
}

const PULLED: [&str; 6] = ["--engine", "docker", "--gpu", "none", "--source", "image"];

#[test]
fn base_runtime_and_devel_images_are_pulled_and_each_skips_what_it_does_not_carry() {
    if !docker() {
        return;
    }
    let registry = Registry::start();
    // Its builtins need a C++ library, which a Debian or Ubuntu image has.
    let nvrtc = nvrtc();
    let mut programs = vec![program("ctk-bench").display().to_string()];
    programs.extend(nvrtc.iter().map(|file| file.display().to_string()));
    let user_space = user_space(&programs.iter().map(String::as_str).collect::<Vec<_>>());
    let libraries = "usr/local/cuda-12.6/targets/x86_64-linux/lib";
    let runtime = nvrtc.iter().fold(Tar::default(), |tar, file| {
        let name = file.file_name().unwrap().to_str().unwrap();
        tar.file(&format!("{libraries}/{name}"), &std::fs::read(file).unwrap())
    });
    let runtime = runtime.finish();
    // A compiler that fails: the machine's own would bring half a distribution along.
    let devel = Tar::default().file("usr/local/cuda-12.6/bin/nvcc", b"#!/bin/sh\necho no >&2\nexit 1\n").finish();
    let layers = [user_space, base_layer().finish(), runtime, devel];
    registry.push(CUDA, BASE, &layers[..2], &nvidia(&[]));
    registry.push(CUDA, RUNTIME, &layers[..3], &nvidia(&[]));
    let digests = registry.push(CUDA, DEVEL, &layers, &nvidia(&["LIBRARY_PATH=/usr/local/cuda/lib64/stubs"]));
    let named = |name: &str, tag: &str| {
        format!("{{name: {name}, version: \"12.6\", image: \"{}:{tag}\"}}", registry.name(CUDA))
    };
    let matrix = format!(
        "version: 1\ntoolkits: [\"12.6\", {}, {}]\npaths: [driver-ptx, nvrtc-cubin, nvcc-cubin]\n\
         expect: [{{toolkit: \"12.6\", path: nvcc-cubin, outcome: fail, stage: build, reason: \"it is a stand-in\"}}]\n",
        named("base", BASE),
        named("runtime", RUNTIME)
    );
    // The name `12.6` in `expect` is the version too, which all three have: only the devel image has a compiler.
    let scene = Scene::new().matrix(&matrix);
    let mut arguments = PULLED.to_vec();
    let repository = registry.name(CUDA);
    arguments.extend(["--image-repository", &repository]);
    let ran = scene.run(&arguments);
    assert_eq!(
        ran.outcomes(),
        [
            "driver-ptx 12.6: built",
            "nvrtc-cubin 12.6: built",
            "nvcc-cubin 12.6: expected-fail build EXIT",
            "driver-ptx base: built",
            "nvrtc-cubin base: skip",
            "nvcc-cubin base: skip",
            "driver-ptx runtime: built",
            "nvrtc-cubin runtime: built",
            "nvcc-cubin runtime: skip",
        ],
        "{}\n{}",
        ran.stdout,
        ran.stderr
    );
    for (name, path, reason) in [
        ("base", "nvrtc-cubin", "a base image carries no libnvrtc"),
        ("base", "nvcc-cubin", "a base or runtime image carries no nvcc"),
        ("runtime", "nvcc-cubin", "a base or runtime image carries no nvcc"),
    ] {
        let cell = ran.cell(&[&format!("toolkit={name}"), &format!("path={path}")]);
        assert!(cell["reason"].as_str().unwrap().contains(reason), "{cell}");
    }
    assert_eq!(
        source(&ran, "12.6", "nvrtc-cubin"),
        json!({
            "kind": "image",
            "ref": format!("{}:{DEVEL}", registry.name(CUDA)),
            "digest": format!("{}@{}", registry.name(CUDA), digests.index),
            "image": {
                "id": digests.id,
                "index_digest": digests.index,
                "glibc": source(&ran, "12.6", "nvrtc-cubin")["image"]["glibc"],
                "require_cuda": REQUIRE.split_once('=').unwrap().1,
                "compat": "/usr/local/cuda-12.6/compat",
            }
        })
    );
    let loaded = ran.cell(&["toolkit=12.6", "path=nvrtc-cubin"])["loaded"]["nvrtc"].clone();
    assert_eq!(
        (loaded["version"].as_str(), loaded["path"].as_str().unwrap().starts_with("/usr/local/cuda")),
        (Some("12.6"), true)
    );
    let unknown = format!("to pull: {}:{DEVEL}, of a size that is not known beforehand", registry.name(CUDA));
    assert!(ran.stderr.contains(&unknown), "{}", ran.stderr);
    for entry in std::fs::read_dir(ran.out.join("logs")).into_iter().flatten() {
        let log = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!log.contains("== CUDA =="), "the entrypoint ran: {log}");
    }
    // Now that they are here, nothing is asked of the registry.
    let asked = registry.requests().len();
    let again =
        Scene::new().matrix(&matrix).run(&[&arguments[..], &["--select", "path=driver"]].concat()).assert_code(0);
    assert_eq!(registry.requests().len(), asked);
    assert!(!again.stderr.contains("to pull"), "{}", again.stderr);
}

#[test]
fn an_image_that_would_interfere_or_is_too_old_is_refused_before_a_container_starts() {
    if !docker() {
        return;
    }
    let (registry, user_space) = registry();
    registry.push("preload", "1", &[user_space, base_layer().finish()], &nvidia(&["LD_PRELOAD=/x.so"]));
    let libc = b"\x7fELF GNU C Library (GNU libc) stable release version 2.17, by Roland McGrath et al.\n";
    let old = base_layer().file("lib64/libc.so.6", libc).finish();
    registry.push("old", "1", &[old], &nvidia(&[]));
    for (repository, texts) in [
        ("preload", &["sets LD_PRELOAD=/x.so"][..]),
        ("old", &["ctk-bench needs glibc 2.", "has 2.17", "scripts/bench-glibc-2.17.sh"]),
    ] {
        let image = format!("{}:1", registry.name(repository));
        let ran = Scene::new().matrix(&one(&image, "driver-ptx")).run(&PULLED).assert_code(1);
        assert_eq!(ran.outcomes(), ["driver-ptx it: fail provision"]);
        let cell = ran.cell(&[]);
        for text in texts {
            assert!(cell["reason"].as_str().unwrap().contains(text), "{cell}");
        }
        assert_eq!(cell["attempts"], 0);
    }
}

#[test]
fn an_image_is_not_pulled_unasked_and_not_beyond_what_is_allowed() {
    if !docker() {
        return;
    }
    let (registry, user_space) = registry();
    registry.push("cuda", "1", &[user_space], &nvidia(&[]));
    let image = format!("{}:1", registry.name("cuda"));
    let scene = || Scene::new().matrix(&one(&image, "driver-ptx"));
    let ran = scene().run(&PULLED[..4]).assert_code(1);
    let reason = ran.cell(&[])["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("is not on this machine: say --source image to have it pulled"), "{reason}");
    assert_eq!(registry.requests(), [""; 0]);
    let ran = scene().run(&[&PULLED[..], &["--max-download", "1MB"]].concat()).assert_code(1);
    let reason = ran.cell(&[])["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("is larger than --max-download allows"), "{reason}");
    let wheels = Scene::new().env("CTK_MATRIX_CACHE", "none");
    let ran =
        wheels.run(&["--engine", "process", "--gpu", "none", "--select", "toolkit=12.0", "--max-download", "1MB"]);
    let ran = ran.assert_code(2);
    let refusal = "error: --max-download is 1.00 MB, and ";
    assert!(ran.stderr.starts_with(refusal) && ran.stderr.contains(" would be fetched (12.0 "), "{}", ran.stderr);
    assert!(!ran.out.exists());
}

#[test]
fn credentials_of_docker_login_open_a_registry_and_are_nowhere_in_the_report() {
    if !docker() {
        return;
    }
    let (registry, user_space) = registry();
    registry.push("cuda", "1", &[user_space, base_layer().finish()], &nvidia(&[]));
    registry.fault("cuda", Fault::Password("user", "canary-secret"));
    let image = format!("{}:1", registry.name("cuda"));
    let ran = Scene::new()
        .matrix(&one(&image, "driver-ptx"))
        .env("DOCKER_CONFIG", "/nonexistent")
        .run(&PULLED)
        .assert_code(1);
    let reason = ran.cell(&[])["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("may not be pulled (") && reason.contains("`docker login 127.0.0.1:"), "{reason}");
    let auth = base64::engine::general_purpose::STANDARD.encode("user:canary-secret");
    let host = registry.name("");
    let config = json!({"auths": {host.trim_end_matches('/'): {"auth": auth}}}).to_string();
    let scene = Scene::new().matrix(&one(&image, "driver-ptx")).file("login/config.json", &config);
    let folder = scene.path().join("login").display().to_string();
    let ran = scene.env("DOCKER_CONFIG", &folder).run(&PULLED).assert_code(0);
    assert_eq!(ran.outcomes(), ["driver-ptx it: built"]);
    for name in ["report.json", "report.md", "junit.xml", "records.jsonl", "run.json"] {
        let text = std::fs::read_to_string(ran.out.join(name)).unwrap() + &ran.stderr + &ran.stdout;
        assert!(!text.contains("canary-secret") && !text.contains(&auth), "{name}");
    }
}

#[test]
fn a_tag_that_moves_in_mid_run_does_not_mix_images() {
    if !docker() {
        return;
    }
    let (registry, user_space) = registry();
    let before = registry.push("cuda", "1", &[user_space, base_layer().finish()], &nvidia(&[]));
    // What the tag moves to could not run anything.
    registry.push("cuda", "2", &[base_layer().file("x", b"").finish()], &nvidia(&[]));
    let image = format!("{}:1", registry.name("cuda"));
    let other = format!("{}:2", registry.name("cuda"));
    assert!(Command::new("docker").args(["pull", "--quiet", &other]).stdout(Stdio::null()).status().unwrap().success());
    let kernel = "extern \"C\" __global__ void k(int n) {}\n";
    let kernels = "kernels: [vector_add, {file: k.cu, entry: k}, {file: l.cu, entry: k}]\n";
    let scene = Scene::new().matrix(&(one(&image, "driver-ptx, nvrtc-ptx") + kernels));
    let scene = scene.file("k.cu", kernel).file("l.cu", kernel);
    let mut command = scene.command(&[&["run", "--out", "out", "--jobs", "1"], &PULLED[..]].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut moved = false;
    for line in std::io::BufReader::new(child.stderr.take().unwrap()).lines() {
        if line.unwrap().ends_with(": started") && !std::mem::replace(&mut moved, true) {
            assert!(Command::new("docker").args(["tag", &other, &image]).status().unwrap().success());
        }
    }
    child.wait().unwrap();
    let text = std::fs::read_to_string(scene.path().join("out/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cells = report["cells"].as_array().unwrap();
    let ran: Vec<_> = cells.iter().map(|cell| cell["outcome"].as_str().unwrap()).collect();
    // The image carries no NVRTC; had it been the other one, nothing would have started.
    assert!(ran.iter().all(|outcome| ["built", "skip"].contains(outcome)), "{ran:?}\n{text}");
    let ids: Vec<_> = cells.iter().filter_map(|cell| cell["source"]["image"]["id"].as_str()).collect();
    assert!(ids.len() >= 3 && ids.iter().all(|id| *id == before.id), "{ids:?}");
    let notes = report["runs"][0]["notes"].to_string();
    assert!(
        notes
            .contains(&format!("the tag {image} moved during the run: its containers were created from {}", before.id)),
        "{notes}"
    );
}

#[test]
fn where_the_docker_program_is_answered_the_total_is_said_first_and_the_platform_recorded() {
    if !docker() {
        return;
    }
    let (registry, certificate) = Registry::start_with_tls();
    let layers = [user_space(&[program("ctk-bench").to_str().unwrap()]), base_layer().file("a", b"1").finish()];
    let digests = registry.push("cuda", "1", &layers, &nvidia(&[]));
    let image = format!("{}:1", registry.name("cuda"));
    // Go's own variable for what is to be trusted.
    let matrix = one(&image, "driver-ptx, nvrtc-ptx");
    let scene = || Scene::new().matrix(&matrix).env("SSL_CERT_FILE", &certificate);
    let total: usize = layers.iter().map(Vec::len).sum();
    let total = ctk_matrix::model::units::bytes(total as u64);
    let ran = scene().run(&[&PULLED[..], &["--max-download", "1MB"]].concat()).assert_code(2);
    assert_eq!(
        ran.stderr,
        format!(
            "error: --max-download is 1.00 MB, and {total} would be fetched (it {total}): allow more, or narrow the run \
             with --select\n"
        )
    );
    let locking = scene();
    locking.ctk_matrix(&["lock", "--engine", "docker", "--source", "image"]).assert_code(0);
    let lock = std::fs::read_to_string(locking.path().join("ctk.lock")).unwrap();
    let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
    let Digests { index, platform, id } = digests;
    assert_eq!(
        lock["toolkits"]["it"]["image"],
        json!({"ref": image, "index_digest": index, "platform_digest": platform, "image_id": id})
    );
    assert!(!registry.gave_layers(), "{:?}", registry.requests());
    let ran = scene().run(&PULLED).assert_code(0);
    let said = format!("to pull: {total} of images ({image} {total}), about ");
    assert!(ran.stderr.contains(&said) && ran.stderr.contains(" of disk"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("toolkit it: fetching {total}")), "{}", ran.stderr);
    let found = source(&ran, "it", "nvrtc-ptx")["image"].clone();
    assert_eq!(
        (&found["id"], &found["index_digest"], &found["platform_digest"]),
        (&json!(id), &json!(index), &json!(platform))
    );
}
