//! Stacks in `ctk.lock`, as a user locks and runs them: the real pip against an index of the test's own, which changes in
//! between. Source packages are built against a folder that looks like a toolkit.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ctk_matrix::model::locked_stack::{LockedPackage, LockedPackages};
use ctk_matrix::model::matrix::{Toolkit, ToolkitSource};
use ctk_matrix::model::place::{Place, Provisioned};
use ctk_matrix::model::record::{Source, SourceKind};
use ctk_matrix::model::stack::{Python, Stack};
use ctk_matrix::model::version::Version;
use ctk_matrix::toolkit::stack::{self, LockAsk, LockPlace, ReadyStack, StackAsk, StackError};
use ctk_matrix::toolkit::{Cache, Pip};
use serde_json::{Value, json};
use support::index::{Index, settings};
use support::{Ran, Scene, cache};

const ENGINE: [&str; 4] = ["--engine", "process", "--source", "wheels"];

/// The machine's Python, `3.11`.
fn series() -> String {
    let ask = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new("python3").args(["-c", ask]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A matrix with these stacks, in a cache of its own that has the toolkit already.
fn scene(stacks: &str, url: &str) -> Scene {
    Scene::new().ctk_matrix(&["toolkit", "fetch", "12.6", "--quiet"]).assert_code(0);
    let matrix = format!("version: 1\ntoolkits: [\"12.6\"]\npaths: [driver-ptx, cupy]\nstacks:\n{stacks}");
    let scene = Scene::new().matrix(&matrix.replace("SERIES", &series()));
    let own = scene.path().join("cache");
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::symlink(cache().join("toolkits"), own.join("toolkits")).unwrap();
    let scene = scene.env("CTK_MATRIX_CACHE", own.to_str().unwrap());
    settings(url).into_iter().fold(scene, |scene, (name, value)| scene.env(name, value))
}

fn lock(scene: &Scene, more: &[&str]) -> Ran {
    scene.ctk_matrix(&[&["lock"], &ENGINE[..], more].concat())
}

fn run(scene: &Scene, out: &str, more: &[&str]) -> Ran {
    let mut ran = scene.ctk_matrix(&[&["run", "--gpu", "none", "--out", out], &ENGINE[..], more].concat());
    ran.out = scene.path().join(out);
    ran
}

fn locked(scene: &Scene) -> Value {
    serde_json::from_str(&std::fs::read_to_string(scene.path().join("ctk.lock")).unwrap()).unwrap()
}

/// Changes the lock by hand.
fn edit(scene: &Scene, change: impl FnOnce(&mut Value)) {
    let mut value = locked(scene);
    change(&mut value);
    std::fs::write(scene.path().join("ctk.lock"), value.to_string()).unwrap();
}

/// What was asked of wheels themselves, and not of what is said about them.
fn wheels(index: &Index) -> Vec<String> {
    let of_wheel = |request: &String| request.contains(".whl") && !request.contains(".metadata");
    index.requests().into_iter().filter(of_wheel).collect()
}

/// `lib 2.0.1, user 1.0`.
fn resolved(ran: &Ran) -> String {
    let report = ran.report();
    let packages = report["runs"][0]["stacks"][0]["resolved"].as_array().unwrap().clone();
    let line =
        |package: &Value| format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
    packages.iter().map(line).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_locked_run_has_the_same_packages_after_a_newer_version_appeared() {
    let index = Index::serve();
    let scene = scene("- {name: s, python: \"SERIES\", packages: [user]}\n", &index.url);
    let ran = lock(&scene, &[]).assert_code(0);
    assert!(
        ran.stderr.ends_with("ctk.lock holds 1 toolkits and 1 stacks: commit it, and run with --locked\n"),
        "{}",
        ran.stderr
    );
    // pip was content with what the index says of the wheels; the size is asked for, the wheel is not.
    let (lib, user) = ("/simple/lib/lib-2.0.1-py3-none-any.whl", "/simple/user/user-1.0-py3-none-any.whl");
    assert_eq!(wheels(&index), [format!("HEAD {user}"), format!("HEAD {lib}")]);
    let held = locked(&scene)["stacks"]["s"].clone();
    assert_eq!((&held["python"], &held["asked"]), (&json!(series()), &json!(["user"])));
    assert_eq!(held["machine"]["packages"][0]["name"], "lib");
    assert_eq!(held["machine"]["packages"][0]["version"], "2.0.1");
    assert_eq!(held["machine"]["packages"][0]["sha256"].as_str().unwrap().len(), 64);

    // A size that was not told then is no difference, and is added.
    edit(&scene, |lock| {
        lock["stacks"]["s"]["machine"]["packages"][0].as_object_mut().unwrap().remove("bytes").unwrap();
    });
    let same = lock(&scene, &[]).assert_code(0);
    assert!(same.stderr.ends_with("ctk.lock holds already what this matrix stands for\n"), "{}", same.stderr);
    assert_eq!(locked(&scene)["stacks"]["s"], held);

    index.publish("lib", "2.3", &[]);
    let differs = lock(&scene, &[]).assert_code(3);
    assert!(differs.stdout.contains("~ stack s: machine.packages.lib.version: 2.0.1 -> 2.3\n"), "{}", differs.stdout);
    let ran = run(&scene, "locked", &["--locked"]).assert_code(0);
    assert_eq!(resolved(&ran), "lib 2.0.1, user 1.0");
    let size: u64 =
        held["machine"]["packages"].as_array().unwrap().iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
    let said = format!("stack s: 2 packages, {:.2} kB to fetch (less what pip has cached)\n", size as f64 / 1000.0);
    assert!(ran.stderr.contains(&said), "{said} is not in\n{}", ran.stderr);
    assert_eq!(resolved(&run(&scene, "free", &[]).assert_code(0)), "lib 2.3, user 1.0");

    let updated = lock(&scene, &["--update"]).assert_code(0);
    assert_eq!(updated.stdout, differs.stdout);
    assert_eq!(resolved(&run(&scene, "updated", &["--locked"]).assert_code(0)), "lib 2.3, user 1.0");
    // What is in the cache needs no index.
    let url = "http://127.0.0.1:9/simple/";
    let scene = scene.env("PIP_INDEX_URL", url);
    assert_eq!(resolved(&run(&scene, "again", &["--locked"]).assert_code(0)), "lib 2.3, user 1.0");
    let plan = scene.ctk_matrix(&["plan"]).assert_code(0);
    let line = format!("\nstacks\n  s: Python {} with user: in the cache\n", series());
    assert!(plan.stdout.contains(&line), "{}", plan.stdout);
}

#[test]
fn a_file_with_another_hash_is_refused_and_named_with_the_cure() {
    let index = Index::serve();
    let scene = scene("- {name: s, python: \"SERIES\", packages: [user]}\n", &index.url);
    lock(&scene, &[]).assert_code(0);
    edit(&scene, |lock| lock["stacks"]["s"]["machine"]["packages"][0]["sha256"] = json!("0".repeat(64)));
    let ran = run(&scene, "out", &["--locked"]).assert_code(1);
    let cell = ran.cell(&["path=cupy"]);
    assert_eq!((&cell["outcome"], &cell["stage"]), (&json!("fail"), &json!("provision")));
    assert_eq!(
        cell["reason"],
        "stack s: lib==2.0.1 is not the file that ctk.lock holds: its SHA-256 differs; if the index was to change it, \
         `ctk-matrix lock --update` takes what it has now, else ask who runs the index"
    );
    assert_eq!(ran.cell(&["path=driver-ptx"])["outcome"], "built");
}

#[test]
fn drift_of_a_stack_ends_a_run_before_it_starts_with_a_line_for_each_difference() {
    let index = Index::serve();
    let stacks = "- {name: asked, python: \"SERIES\", packages: [lib==2.0, user==1.0]}\n\
                  - {name: new, python: host}\n\
                  - {name: nowhere, python: host}\n\
                  - {name: old, python: host}\n\
                  - {name: own, python: host}\n";
    let scene = scene(stacks, &index.url);
    lock(&scene, &[]).assert_code(0);
    run(&scene, "same", &["--locked", "--select", "stack=own"]).assert_code(0);
    edit(&scene, |lock| {
        let stacks = lock["stacks"].as_object_mut().unwrap();
        stacks["asked"]["asked"] = json!(["lib==1.9", "strict"]);
        stacks.remove("new");
        stacks["nowhere"].as_object_mut().unwrap().remove("machine");
        stacks["old"]["python"] = json!("3.6");
        let packages = stacks["own"]["machine"]["packages"].as_array_mut().unwrap();
        packages.retain(|package| package["name"] != "pip");
        packages.push(json!({"name": "zz-not-here", "version": "1"}));
    });
    let ran = run(&scene, "out", &["--locked"]).assert_code(3);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let expected = [
        "error: --locked: this run would not be the one that ctk.lock holds".to_owned(),
        "  stack asked: the matrix asks for lib==2.0, ctk.lock holds lib==1.9".into(),
        "  stack asked: the matrix asks for user==1.0, ctk.lock does not".into(),
        "  stack asked: ctk.lock holds strict, the matrix does not ask for it".into(),
        "  stack new: it is not in ctk.lock".into(),
        "  stack nowhere: ctk.lock does not hold it for the machine's Python".into(),
        "  stack old: the matrix says Python host, ctk.lock holds 3.6".into(),
        "  stack own: zz-not-here is not installed, ctk.lock holds 1".into(),
    ];
    assert_eq!(lines[..expected.len()], expected);
    assert!(
        lines[8].starts_with("  stack own: pip ") && lines[8].ends_with(" is installed, ctk.lock does not hold it")
    );
    assert_eq!(lines[9..], ["`ctk-matrix lock --update` shows the difference and writes it"]);
    assert!(!ran.out.exists());
    // What is not selected keeps what it has.
    lock(&scene, &["--update", "--select", "stack=new"]).assert_code(0);
    let held = locked(&scene);
    assert_eq!((&held["stacks"]["old"]["python"], &held["stacks"]["new"]["asked"]), (&json!("3.6"), &json!([])));
}

#[test]
fn packages_count_against_what_may_be_downloaded() {
    let index = Index::serve();
    let scene = scene("- {name: s, python: \"SERIES\", packages: [user]}\n", &index.url);
    let ran = run(&scene, "out", &["--max-download", "1kB"]).assert_code(1);
    let reason = ran.cell(&["path=cupy"])["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("stack s: --max-download leaves 1.00 kB, and 1."), "{reason}");
    assert!(wheels(&index).iter().all(|request| request.starts_with("HEAD ")), "{:?}", wheels(&index));
    run(&scene, "more", &["--max-download", "2kB"]).assert_code(0);
}

/// A folder that a source package can be built against, as far as it is looked at.
fn toolkit(root: &Path) -> Provisioned {
    for file in ["include/cudaProfiler.h", "lib64/stubs/libcuda.so"] {
        let file = root.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }
    let version = Version::new(12, 6);
    Provisioned {
        toolkit: Toolkit { name: "12.6".into(), version, source: ToolkitSource::Unsaid, base: None },
        source: Source { kind: SourceKind::Wheels, reference: "none".into(), digest: None, image: None },
        place: Place::Userland,
        dir: None,
        roots: vec![root.to_owned()],
        hashes: BTreeMap::new(),
        absent: Vec::new(),
        notes: Vec::new(),
    }
}

#[tokio::test]
async fn sizes_that_are_long_in_coming_are_done_without() {
    let index = Index::serve();
    index.slow_down(9);
    let scratch = tempfile::tempdir().unwrap();
    let cache = Cache::at(&scratch.path().join("cache")).unwrap();
    let env = settings(&index.url).map(|(name, value)| (name.into(), value.into())).into();
    let pip = Pip { env, idle: Duration::from_secs(12), ..Pip::default() };
    let (name, python) = ("s".into(), Python::Version(series()));
    let stack = Stack { name, python, packages: vec!["user".into(), "strict".into()], base: None };
    let ask = LockAsk { stack: &stack, place: LockPlace::Machine, cache: &cache, pip: &pip, note: &drop };
    let held = stack::lock(&ask).await.unwrap();
    let names: Vec<String> = held.packages.iter().map(LockedPackage::requirement).collect();
    assert_eq!(names, ["lib==2.0.1", "strict==1.0", "user==1.0"]);
    assert!(held.packages.iter().all(|package| package.bytes.is_none()), "{held:?}");
}

#[tokio::test]
async fn source_packages_and_what_comes_along_are_held_too() {
    let index = Index::serve();
    let scratch = tempfile::tempdir().unwrap();
    let cache = Cache::at(&scratch.path().join("cache")).unwrap();
    // The index is named where a user names it, in part at an older place, and so is its password, not in the environment.
    index.lock_up("me:secret");
    let home = scratch.path().join("home");
    for (file, text) in [
        (".config/pip/pip.conf", "[global]\nno-cache-dir = true\n".to_owned()),
        (".pip/pip.conf", format!("[global]\nindex-url = {}\n", index.url)),
        (".netrc", "machine 127.0.0.1 login me password secret\n".into()),
    ] {
        let file = home.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    // pip takes no notice of settings that are empty.
    let empty = ["XDG_CONFIG_HOME", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"].map(|name| (name, ""));
    let env = [("HOME", home.to_str().unwrap())].into_iter().chain(empty);
    let env = env.map(|(name, value)| (name.into(), value.into())).collect();
    let pip = Pip { env, ..Pip::default() };
    let stack = Stack {
        name: "s".into(),
        python: Python::Version(series()),
        packages: vec!["lib==2.0".into(), "pycuda==1.0".into()],
        base: None,
    };
    let note: &(dyn Fn(String) + Send + Sync) = &drop;
    let ask = LockAsk { stack: &stack, place: LockPlace::Machine, cache: &cache, pip: &pip, note };
    let held = stack::lock(&ask).await.unwrap();
    let names =
        |held: &LockedPackages| -> Vec<String> { held.sources.iter().map(LockedPackage::requirement).collect() };
    assert_eq!(names(&held), ["pycuda==1.0", "pytools==1.0"]);
    assert!(held.sources.iter().all(|package| package.sha256.is_some() && package.bytes.is_some()), "{held:?}");

    index.publish("pytools", "2.0", &[]);
    let toolkit = toolkit(&scratch.path().join("toolkit"));
    let provide = async |locked: Option<&LockedPackages>| -> Result<ReadyStack, StackError> {
        let (toolkit, stack, cache, pip, budget, progress) = (&toolkit, &stack, &cache, &pip, None, &drop);
        stack::provide(&StackAsk {
            stack,
            toolkit,
            cache,
            pip,
            by_everyone: true,
            locked,
            image: None,
            budget,
            progress,
            note,
        })
        .await
    };
    let built = |ready: &ReadyStack| -> Vec<String> {
        let packages = ready.record.built.iter().flat_map(|built| &built.packages);
        packages.map(|package| format!("{} {}", package.name, package.version)).collect()
    };
    assert_eq!(built(&provide(Some(&held)).await.unwrap()), ["pycuda 1.0", "pytools 1.0"]);
    assert_eq!(built(&provide(None).await.unwrap()), ["pycuda 1.0", "pytools 2.0"]);

    let mut other = held.clone();
    other.sources[0].sha256 = Some("0".repeat(64));
    let failed = provide(Some(&other)).await.unwrap().failed;
    assert!(
        failed[0].1.starts_with("pycuda==1.0 is not the file that ctk.lock holds: its SHA-256 differs; "),
        "{failed:?}"
    );
    other.sources.clear();
    let failed = provide(Some(&other)).await.unwrap().failed;
    let cure = format!("`ctk-matrix lock --update`, with a Python {} on the machine", series());
    assert_eq!(failed[0].1, format!("ctk.lock does not hold what is built of pycuda==1.0: {cure}"));
}
