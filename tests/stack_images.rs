//! Stacks of Python packages on images, as a user runs them: on a base image with its own Python, and baked into a
//! toolkit's image by a build. The images have this machine's Python, the packages come from an index of the test's own,
//! and CuPy is a stand-in that needs no GPU.

mod support;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use support::index::Index;
use support::python_image::{PythonImage, remove};
use support::{Ran, Scene, cache, docker, program};

const PACKAGES: &str = "[cupy-cuda12x==0.0.1, numpy==0.0.1]";

/// Held by each test that builds images: one of them compares what builds have left, which is the whole engine's.
static BUILDS: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    BUILDS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn image(name: &str, needs: &[PathBuf]) -> PythonImage {
    PythonImage::import(name, program("ctk-bench").to_str().unwrap(), needs)
}

/// NVRTC of 12.6 from the wheels that every test program shares.
fn nvrtc() -> Vec<PathBuf> {
    Scene::new().ctk_matrix(&["toolkit", "fetch", "12.6", "--quiet"]).assert_code(0);
    let entries = std::fs::read_dir(cache().join("toolkits")).unwrap().map(|entry| entry.unwrap().path());
    let folders = entries.map(|entry| entry.join("nvidia/cuda_nvrtc/lib"));
    let folder = folders.filter(|folder| folder.is_dir()).find(|folder| folder.to_string_lossy().contains("/12.6-"));
    let files = std::fs::read_dir(folder.unwrap()).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.to_string_lossy().contains(".so.")).collect()
}

/// The scene of a matrix, whose pip knows the test's index and no other.
fn scene(matrix: &str, url: &str) -> Scene {
    let scene = Scene::new().matrix(matrix).env("PIP_INDEX_URL", url).env("PIP_CONFIG_FILE", "/dev/null");
    // This machine's own settings may name further places.
    scene.env("PIP_FIND_LINKS", "").env("PIP_EXTRA_INDEX_URL", "")
}

fn reason(ran: &Ran, parts: &[&str]) -> String {
    ran.cell(parts)["reason"].as_str().unwrap_or_default().to_owned()
}

fn stack<'a>(report: &'a Value, name: &str) -> &'a Value {
    let stacks = report["runs"][0]["stacks"].as_array().unwrap();
    stacks.iter().find(|stack| stack["name"] == name).unwrap_or_else(|| panic!("no record of {name}: {report}"))
}

/// The names of a stack's packages.
fn resolved(stack: &Value) -> Vec<String> {
    let packages = stack["resolved"].as_array().unwrap().iter();
    packages.map(|package| package["name"].as_str().unwrap().to_owned()).collect()
}

/// What `docker ARGUMENTS` prints.
fn docker_says(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The nameless images that builds have left.
fn leftovers() -> BTreeSet<String> {
    let filters = ["images", "--quiet", "--filter", "dangling=true", "--filter", "label=ctk-matrix.stage"];
    docker_says(&filters).lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_stack_runs_on_an_image_with_that_images_own_python() {
    if !docker() {
        return;
    }
    let (index, image) = (Index::serve(), image("base", &nvrtc()));
    let PythonImage { name, version } = &image;
    let matrix = format!(
        "version: 1\ntoolkits: [\"12.6\"]\npaths: [nvrtc-cubin, cupy, numba]\nstacks:\n\
         - {{name: bound, python: \"{version}\", base: \"{name}\", packages: {PACKAGES}}}\n\
         - {{name: own, python: host, base: \"{name}\"}}\n\
         - {{name: other, python: \"3.98\", base: \"{name}\", packages: {PACKAGES}}}\n\
         - {{name: absent, python: \"3.98\", base: \"ctk-test/not-here:1\", packages: {PACKAGES}}}\n"
    );
    let scene = scene(&matrix, &index.url);
    let ran = scene.run(&["--engine", "docker", "--source", "wheels", "--gpu", "none"]).assert_code(1);
    assert_eq!(
        ran.outcomes(),
        [
            "nvrtc-cubin 12.6: built",
            "cupy 12.6: built",
            "numba 12.6: skip",
            "nvrtc-cubin 12.6: built",
            "cupy 12.6: skip",
            "numba 12.6: skip",
            "nvrtc-cubin 12.6: built",
            "cupy 12.6: fail provision",
            "numba 12.6: fail provision",
            "nvrtc-cubin 12.6: fail provision",
            "cupy 12.6: fail provision",
            "numba 12.6: fail provision",
        ],
        "{}",
        ran.stderr
    );
    // The library lies where a virtual environment has it, on the image's interpreter.
    let cell = ran.cell(&["stack=bound", "path=cupy"]);
    let library = cell["loaded"]["library"]["path"].as_str().unwrap();
    assert!(library.ends_with(&format!("/lib/python{version}/site-packages/cupy.py")), "{library}");
    let report = ran.report();
    let bound = stack(&report, "bound");
    let said = &bound["images"][0];
    let id = docker_says(&["image", "inspect", "--format", "{{.Id}}", name]);
    assert_eq!((said["base"].as_str(), said["base_id"].as_str()), (Some(name.as_str()), Some(id.trim())));
    // The cell's path is written from this machine's home folder, where the image has it at the same place.
    let python = cell["loaded"]["python"]["path"].as_str().unwrap();
    assert_eq!(said["python"].as_str().unwrap().rsplit('/').next(), python.rsplit('/').next());
    assert_eq!(bound["resolved"][0]["name"], "cupy-cuda12x");
    assert_eq!(reason(&ran, &["stack=own", "path=cupy"]), format!("the Python of image {name} has no cupy"));
    assert_eq!(
        reason(&ran, &["stack=other", "path=cupy"]),
        format!(
            "stack other: image {name} has no Python 3.98 (there is {version}): name the version that it has, or another \
             image"
        )
    );
    let absent = reason(&ran, &["stack=absent", "path=nvrtc-cubin"]);
    assert!(absent.starts_with("image ctk-test/not-here:1 is not on this machine"), "{absent}");

    let select = ["--engine", "process", "--gpu", "none", "--select", "stack=bound"];
    let ran = Scene::new().matrix(&matrix).run(&select).assert_code(0);
    assert_eq!(ran.outcomes(), ["nvrtc-cubin 12.6: built", "cupy 12.6: skip", "numba 12.6: skip"]);
    assert_eq!(
        reason(&ran, &["path=cupy"]),
        format!(
            "not tested here: stack bound runs on image {name}, and child processes have no images: say --engine docker"
        )
    );
}

#[test]
fn a_stack_is_baked_into_the_toolkits_image_once_and_nothing_else_stays_there() {
    if !docker() {
        return;
    }
    let _turn = turn();
    let (index, image) = (Index::serve(), image("toolkit", &[]));
    let PythonImage { name, version } = &image;
    let before = leftovers();
    let url = index.url.replace("http://", "http://me:canary-secret@");
    let matrix = format!(
        "version: 1\ntoolkits: [{{name: it, version: \"12.6\", image: \"{name}\"}}]\npaths: [driver-ptx, cupy, numba]\n\
         stacks:\n- {{name: baked, python: \"{version}\", packages: {PACKAGES}}}\n\
         - {{name: no-pin, python: \"{version}\", packages: [numpy==9.9]}}\n\
         - {{name: no-python, python: \"3.98\", packages: [numpy==0.0.1]}}\n"
    );
    let run = |select: &[&str]| {
        let options = ["--engine", "docker", "--gpu", "none", "--jobs", "1"];
        scene(&matrix, &url).run(&[&options[..], select].concat())
    };
    let ran = run(&["--select", "stack=baked", "--max-download", "1GB"]).assert_code(1);
    let refused = reason(&ran, &["path=cupy"]);
    assert!(refused.starts_with("stack baked: --max-download is set, and nobody knows what the build"), "{refused}");

    let ran = run(&[]).assert_code(1);
    assert_eq!(
        ran.outcomes(),
        [
            "driver-ptx it: built",
            "cupy it: built",
            "numba it: skip",
            "driver-ptx it: built",
            "cupy it: fail provision",
            "numba it: fail provision",
            "driver-ptx it: built",
            "cupy it: fail provision",
            "numba it: fail provision",
        ],
        "{}",
        ran.stderr
    );
    let library = ran.cell(&["stack=baked", "path=cupy"])["loaded"]["library"]["path"].as_str().unwrap().to_owned();
    assert_eq!(library, format!("/opt/ctk-matrix/python/lib/python{version}/site-packages/cupy.py"));
    let report = ran.report();
    let baked = stack(&report, "baked");
    assert_eq!(baked["check"], "No broken requirements found.");
    assert_eq!(resolved(baked), ["cupy-cuda12x", "numpy"]);
    let numpy = &baked["resolved"][1];
    assert_eq!((numpy["version"].as_str(), numpy["sha256"].as_str().map(str::len)), (Some("0.0.1"), Some(64)));
    let said = &baked["images"][0];
    assert_eq!(said["base"].as_str(), Some(name.as_str()));
    let (tag, id) = (said["built"]["ref"].as_str().unwrap(), said["built"]["id"].as_str().unwrap());
    assert_eq!(docker_says(&["image", "inspect", "--format", "{{.Id}}", tag]).trim(), id);
    assert_eq!(
        reason(&ran, &["stack=no-pin", "path=cupy"]),
        format!("stack no-pin: pip's index has no numpy==9.9 for Python {version}: there is 0.0.1")
    );
    assert_eq!(
        reason(&ran, &["stack=no-python", "path=cupy"]),
        format!(
            "stack no-python: no image with these packages can be made from {name}: the image has no python3.98 (it has \
             python{version} ) and no apt-get to install it with: put it into the image"
        )
    );
    // Neither the index's password nor the stages that knew it are kept, nor does the report show it.
    let archive = Command::new("docker").args(["save", tag]).output().unwrap().stdout;
    let secret = |bytes: &[u8]| bytes.windows(13).any(|window| window == b"canary-secret");
    assert!(archive.len() > 1 << 20 && !secret(&archive), "the image knows the index's password");
    for file in ["report.json", "report.md", "junit.xml", "records.jsonl", "run.json"] {
        assert!(!secret(&std::fs::read(ran.out.join(file)).unwrap()), "{file}");
    }
    assert_eq!(leftovers().difference(&before).collect::<Vec<_>>(), [""; 0]);

    // In an image that has a stack already, another one does not mix with it.
    let further = format!(
        "version: 1\ntoolkits: [{{name: it, version: \"12.6\", image: \"{tag}\"}}]\npaths: [cupy]\nstacks:\n\
         - {{name: further, python: \"{version}\", packages: [numpy==0.0.1]}}\n"
    );
    // A run of nothing but skips is not as expected.
    let ran = scene(&further, &url).run(&["--engine", "docker", "--gpu", "none"]).assert_code(1);
    assert_eq!(
        (ran.outcomes(), resolved(stack(&ran.report(), "further"))),
        (vec!["cupy it: skip".into()], vec!["numpy".into()])
    );
    for tag in built_images(&ran) {
        remove(&tag);
    }

    // The second time nothing is built, and no index is needed.
    drop(index);
    let again = run(&["--select", "stack=baked"]).assert_code(0);
    assert!(!again.stderr.contains("building image"), "{}", again.stderr);
    assert_eq!(stack(&again.report(), "baked"), baked);
    // By hand it is an image like any other, whose python3 is the environment's.
    let by_hand = format!(
        "version: 1\ntoolkits: [{{name: it, version: \"12.6\", image: \"{tag}\"}}]\npaths: [cupy]\nstacks: [{{name: h, \
         python: host}}]\n"
    );
    let ran = scene(&by_hand, &url).run(&["--engine", "docker", "--gpu", "none"]).assert_code(0);
    assert_eq!(ran.outcomes(), ["cupy it: built"]);
    assert_eq!(stack(&ran.report(), "h")["resolved"], baked["resolved"]);
    let listed = Scene::new().ctk_matrix(&["gc"]).assert_code(0).stdout;
    assert!(listed.contains("docker image prune --all --filter label=ctk-matrix.python"), "{listed}");
    remove(tag);
}

#[test]
fn an_image_without_its_source_package_is_built_once_a_run_and_again_in_the_next() {
    if !docker() {
        return;
    }
    let _turn = turn();
    let (index, image) = (Index::serve(), image("sources", &[]));
    let PythonImage { name, version } = &image;
    // What is asked for before a source package is built; the index then has no PyCUDA.
    let folder = tempfile::tempdir().unwrap();
    let ask = ["-I", "-c", "import sysconfig; print(sysconfig.get_path('include'))"];
    let include = String::from_utf8(Command::new("python3").args(ask).output().unwrap().stdout).unwrap();
    let header = format!("{}/Python.h", &include.trim()[1..]);
    let (cuda, stub) = ("usr/local/cuda/include/cudaProfiler.h", "usr/local/cuda/lib64/stubs/libcuda.so");
    for file in ["usr/local/bin/c++", cuda, stub, &header] {
        let path = folder.path().join("tree").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::write(folder.path().join("Dockerfile"), format!("FROM {name}\nCOPY tree /\n")).unwrap();
    assert!(Command::new("docker").args(["build", "-q", "-t", name]).arg(folder.path()).status().unwrap().success());
    let matrix = format!(
        "version: 1\ntoolkits: [{{name: a, version: \"12.6\", image: \"{name}\"}}, {{name: b, version: \"12.6\", image: \
         \"{name}\"}}]\npaths: [cupy, pycuda]\nstacks:\n\
         - {{name: s, python: \"{version}\", packages: [cupy-cuda12x==0.0.1, numpy==0.0.1, pycuda==2026.1]}}\n"
    );
    let builds = |ran: &Ran| ran.stderr.matches("stack s: building image ").count();
    let run = || scene(&matrix, &index.url).run(&["--engine", "docker", "--gpu", "none"]).assert_code(1);
    let first = run();
    let expected = ["cupy a: built", "pycuda a: fail provision", "cupy b: built", "pycuda b: fail provision"];
    assert_eq!(first.outcomes(), expected, "{}", first.stderr);
    assert_eq!(builds(&first), 1, "{}", first.stderr);
    let tag = &built_images(&first)[0];
    let id = || docker_says(&["image", "inspect", "--format", "{{.Id}}", tag]).trim().to_owned();
    let before = id();
    let nameless = ["images", "--quiet", "--no-trunc", "--filter", "dangling=true"];
    let is_there = |id: &str| docker_says(&nameless).contains(id);

    let second = run();
    assert_eq!((second.outcomes(), builds(&second)), (first.outcomes(), 1), "{}", second.stderr);
    assert_ne!(id(), before);
    // The run that built the first is over.
    assert!(!is_there(&before), "{before} stays without a name");
    // One that somebody named stays.
    let kept = format!("ctk-test/kept:{}", std::process::id());
    docker_says(&["tag", tag, &kept]);
    run();
    assert!(!docker_says(&["images", "--quiet", &kept]).is_empty());
    for tag in [tag, &kept] {
        remove(tag);
    }
}

#[test]
fn a_lock_holds_what_goes_onto_an_image_and_the_image() {
    if !docker() {
        return;
    }
    let _turn = turn();
    let (index, image) = (Index::serve(), image("locked", &[]));
    let PythonImage { name, version } = &image;
    // Without pins: the index of the day decides, and the lock afterwards.
    let matrix = format!(
        "version: 1\ntoolkits: [{{name: it, version: \"12.6\", image: \"{name}\"}}, {{name: bound, version: \"12.6\"}}]\n\
         paths: [driver-ptx, cupy]\nstacks:\n\
         - {{name: baked, python: \"{version}\", packages: [cupy-cuda12x, numpy]}}\n\
         - {{name: based, python: \"{version}\", base: \"{name}\", packages: [cupy-cuda12x, numpy]}}\n\
         exclude: [{{toolkit: bound, stack: baked, reason: \"that would be this machine's Python\"}},\n\
         \x20 {{toolkit: it, stack: based, reason: \"its own image has it\"}}]\n"
    );
    let scene = scene(&matrix, &index.url);
    scene.ctk_matrix(&["lock", "--engine", "docker", "--source", "wheels"]).assert_code(0);
    let lock: Value = serde_json::from_str(&std::fs::read_to_string(scene.path().join("ctk.lock")).unwrap()).unwrap();
    assert_eq!(lock["bases"][name]["ref"], name.as_str());
    for stack in ["baked", "based"] {
        let held = &lock["stacks"][stack]["image"]["packages"];
        assert_eq!((&held[1]["name"], &held[1]["version"]), (&"numpy".into(), &"0.0.1".into()), "{lock}");
        assert_eq!(lock["stacks"][stack].get("machine"), None);
    }

    index.publish("numpy", "0.0.2", &[]);
    let options = ["--engine", "docker", "--source", "wheels", "--gpu", "none"];
    let version_of = |ran: &Ran, name: &str| -> String {
        let report = ran.report();
        let packages = stack(&report, name)["resolved"].as_array().unwrap().clone();
        let numpy = packages.iter().find(|package| package["name"] == "numpy").unwrap();
        numpy["version"].as_str().unwrap().to_owned()
    };
    let run = |further: &[&str]| {
        let _ = std::fs::remove_dir_all(scene.path().join("out"));
        scene.run(&[&options[..], further].concat())
    };
    let ran = run(&["--locked"]).assert_code(0);
    assert_eq!(["baked", "based"].map(|name| version_of(&ran, name)), ["0.0.1", "0.0.1"]);
    for tag in built_images(&ran) {
        remove(&tag);
    }
    // Without the lock the index of the day decides again; the bound environment shows it, and takes no build.
    let ran = run(&["--select", "stack=based"]).assert_code(0);
    assert_eq!(version_of(&ran, "based"), "0.0.2");

    // The same tag for another image is not what was locked.
    let other = format!("FROM {name}\nLABEL another=one\n");
    let mut build =
        Command::new("docker").args(["build", "-q", "-t", name, "-"]).stdin(Stdio::piped()).spawn().unwrap();
    build.stdin.take().unwrap().write_all(other.as_bytes()).unwrap();
    assert!(build.wait().unwrap().success());
    let refused = run(&["--locked"]).assert_code(3);
    for owner in ["toolkit it: image", "stack based: image"] {
        assert!(refused.stderr.contains(&format!("{owner} {name} is here as sha256:")), "{}", refused.stderr);
    }
}

/// The images that a run baked stacks into.
fn built_images(ran: &Ran) -> Vec<String> {
    let report = ran.report();
    let images = report["runs"][0]["stacks"].as_array().unwrap().iter().filter_map(|stack| stack["images"].as_array());
    images.flatten().filter_map(|image| Some(image["built"]["ref"].as_str()?.to_owned())).collect()
}
