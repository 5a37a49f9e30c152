//! Tests of what a build is told, and of what is made of its words.

use std::sync::atomic::AtomicU64;

use super::super::super::cache::Cache;
use super::*;
use crate::model::locked_stack::{LockedPackage, LockedPackages};
use crate::model::matrix::{Toolkit, ToolkitSource};
use crate::model::place::Provisioned;
use crate::model::record::{Source, SourceKind};
use crate::model::stack::{Python, Stack};
use crate::model::version::Version;

fn stack(packages: &[&str]) -> Stack {
    Stack {
        name: "s".into(),
        python: Python::Version("3.12".into()),
        packages: packages.iter().map(ToString::to_string).collect(),
        base: None,
    }
}

fn with<T>(packages: &[&str], root: &str, locked: Option<&LockedPackages>, then: impl FnOnce(&StackAsk<'_>) -> T) -> T {
    let scratch = tempfile::tempdir().unwrap();
    let stack = stack(packages);
    let toolkit = Provisioned {
        toolkit: Toolkit {
            name: "12.6".into(),
            version: Version::new(12, 6),
            source: ToolkitSource::Image("cuda".into()),
            base: None,
        },
        source: Source { kind: SourceKind::Image, reference: "cuda".into(), digest: None, image: None },
        place: Place::Image { id: "sha256:1".into(), reference: "cuda".into() },
        dir: None,
        roots: vec![root.into()],
        hashes: BTreeMap::new(),
        absent: Vec::new(),
        notes: Vec::new(),
    };
    let (cache, pip) = (Cache::at(scratch.path()).unwrap(), Pip::default());
    then(&StackAsk {
        stack: &stack,
        toolkit: &toolkit,
        cache: &cache,
        pip: &pip,
        by_everyone: true,
        locked,
        image: None,
        budget: None,
        progress: &drop,
        note: &drop,
    })
}

#[test]
fn with_a_limit_only_what_is_locked_with_known_sizes_that_fit_is_fetched() {
    let of = |locked: Option<&LockedPackages>, budget: Option<u64>| {
        let left = budget.map(AtomicU64::new);
        let result = with(&["numpy==2.4.6"], "/c", locked, |ask| {
            afford(&StackAsk { budget: left.as_ref(), ..*ask }).map_err(|error| error.to_string())
        });
        (result, left.map(AtomicU64::into_inner))
    };
    let refused =
        |result: Result<(), String>, word: &str| assert!(result.as_ref().unwrap_err().contains(word), "{result:?}");
    let untold = held(&["numpy"], &["pycuda"]);
    let mut told = untold.clone();
    told.packages[0].bytes = Some(600);
    refused(of(Some(&told), Some(1000)).0, "nobody knows");
    told.sources[0].bytes = Some(300);
    assert_eq!(of(None, None), (Ok(()), None));
    assert_eq!(of(Some(&untold), None), (Ok(()), None));
    refused(
        of(None, Some(u64::MAX)).0,
        "nobody knows what the build of an image fetches: leave it out, or say --locked",
    );
    refused(of(Some(&untold), Some(u64::MAX)).0, "nobody knows");
    assert_eq!(of(Some(&told), Some(1000)), (Ok(()), Some(100)));
    let (result, left) = of(Some(&told), Some(899));
    refused(result, "--max-download leaves 899");
    assert_eq!(left, Some(899));
}

fn recipe(packages: &[&str], version: &str, base: &str) -> Recipe {
    with(packages, "/usr/local/cuda-12.6", None, |ask| Recipe::of(ask, version, base)).unwrap()
}

fn held(names: &[&str], sources: &[&str]) -> LockedPackages {
    let package = |name: &&str| LockedPackage {
        name: (*name).into(),
        version: "1.0".into(),
        bytes: None,
        sha256: Some("00ff".into()),
    };
    let of = |names: &[&str]| names.iter().map(package).collect();
    LockedPackages { python: "3.12".into(), packages: of(names), sources: of(sources) }
}

#[test]
fn whatever_goes_in_makes_another_tag_and_the_order_of_packages_does_not() {
    let first = recipe(&["numpy==2.4.6", "pycuda==2026.1"], "3.12", "sha256:1");
    let others = [
        recipe(&["numpy==2.4.6"], "3.12", "sha256:1"),
        recipe(&["numpy==2.4.5", "pycuda==2026.1"], "3.12", "sha256:1"),
        recipe(&["numpy==2.4.6", "pycuda==2026.1"], "3.13", "sha256:1"),
        recipe(&["numpy==2.4.6", "pycuda==2026.1"], "3.12", "sha256:2"),
        with(&["numpy==2.4.6", "pycuda==2026.1"], "/opt/cuda", None, |ask| Recipe::of(ask, "3.12", "sha256:1"))
            .unwrap(),
        with(
            &["numpy==2.4.6", "pycuda==2026.1"],
            "/usr/local/cuda-12.6",
            Some(&held(&["numpy"], &["pycuda"])),
            |ask| Recipe::of(ask, "3.12", "sha256:1"),
        )
        .unwrap(),
    ];
    let mut tags: Vec<_> = others.iter().chain([&first]).map(|recipe| recipe.tag.as_str()).collect();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), others.len() + 1, "{tags:?}");
    assert_eq!(recipe(&["pycuda==2026.1", "numpy==2.4.6"], "3.12", "sha256:1"), first);
    assert!(first.tag.starts_with("ctk-matrix/python:") && first.key.starts_with(&first.tag[18..]), "{}", first.tag);
}

#[test]
fn wheels_and_what_is_built_from_source_come_apart() {
    let recipe = recipe(&["pycuda==2026.1", "numpy==2.4.6", "cupy-cuda12x==14.2.0"], "3.12", "sha256:1");
    let text = |name: &str| {
        let file = recipe.files.iter().find(|(file, _)| file == name).unwrap();
        String::from_utf8(file.1.clone()).unwrap()
    };
    assert_eq!(text("requirements.txt"), "cupy-cuda12x==14.2.0\nnumpy==2.4.6\n");
    assert_eq!(text("sources.txt"), "pycuda==2026.1\n");
    assert_eq!(recipe.arguments["CUDA"], "/usr/local/cuda-12.6");
}

#[test]
fn in_a_locked_run_the_lock_goes_in_with_its_hashes_or_nothing_does() {
    let asked = ["numpy==2.4.6", "pycuda==2026.1"];
    let of = |held: LockedPackages| with(&asked, "/opt/cuda", Some(&held), |ask| Recipe::of(ask, "3.12", "sha256:1"));
    let files = of(held(&["numpy", "extra"], &["pycuda", "pytools"])).unwrap().files;
    let text = |name: &str| String::from_utf8(files.iter().find(|(file, _)| file == name).unwrap().1.clone()).unwrap();
    assert_eq!(text("requirements.txt"), "numpy==1.0 --hash=sha256:00ff\nextra==1.0 --hash=sha256:00ff\n");
    assert_eq!(text("sources.txt"), "pycuda==1.0 --hash=sha256:00ff\npytools==1.0 --hash=sha256:00ff\n");
    let error = of(held(&["numpy"], &[])).unwrap_err().to_string();
    assert!(error.starts_with("ctk.lock does not hold what is built of pycuda==2026.1"), "{error}");
}

#[test]
fn what_the_dockerfile_and_this_program_agree_on_is_in_both() {
    for text in [
        "ARG BASE=",
        "ARG PYTHON=",
        "ARG CUDA=",
        "ARG KEEP_GOING=",
        "ARG CTK_STAGE=",
        "ARG CTK_OWNER=",
        "LABEL ctk-matrix.stage=${CTK_STAGE} ctk-matrix.owner=${CTK_OWNER}",
        "COPY requirements.txt sources.txt* pip.conf* ca.pem* /ctk/",
        "PIP_CONFIG_FILE=/ctk/pip.conf",
        "ENVIRONMENT=/opt/ctk-matrix/python\n",
        "\"$ENVIRONMENT/ctk-stack.json\"",
        "COPY --from=build /opt/ctk-matrix/python /opt/ctk-matrix/python\n",
    ] {
        assert!(DOCKERFILE.contains(text), "{text}");
    }
    // Nothing of the stage `build` but the environment is in the last one.
    let last = DOCKERFILE.rsplit("\nFROM ").next().unwrap();
    assert!(last.starts_with("python\n") && !last.contains("/ctk/") && !last.contains("RUN"), "{last}");
    assert_eq!(FACTS, format!("{ENVIRONMENT}/ctk-stack.json"));
}

#[test]
fn a_build_that_failed_is_told_by_its_own_words() {
    let packages = ["numpy==9.9.9".to_owned()];
    let step = "The command '/bin/sh -c set -eu; ...' returned a non-zero code: 1";
    let says = |text: &str, log: &str| failed("3.12", &packages, "cuda", text, log).to_string();
    assert_eq!(
        says(step, "Step 4/20 : RUN fail() { echo \"ctk-error: $1\"; }\nctk-error: the image has no python3.12\n"),
        "no image with these packages can be made from cuda: the image has no python3.12"
    );
    assert_eq!(
        says(
            step,
            "ERROR: Could not find a version that satisfies the requirement numpy==9.9.9 (from versions: 2.3.0, 2.4.0)\n\
             ERROR: No matching distribution found for numpy==9.9.9\n"
        ),
        "pip's index has no numpy==9.9.9 for Python 3.12: there is 2.3.0, 2.4.0"
    );
    assert_eq!(
        says("failed to create: write /x: no space left on device", ""),
        "no image with these packages can be made from cuda: the engine's disk is full: `docker system prune` frees some"
    );
    assert_eq!(
        says("pull access denied for cuda", "Step 1/20 : ARG BASE\n"),
        "no image with these packages can be made from cuda: pull access denied for cuda"
    );
    let broken = "WARNING: Retrying after connection broken by 'NewConnectionError()'\nERROR: Could not find a version \
                  that satisfies the requirement numpy==9.9.9 (from versions: none)\n";
    let error = failed("3.12", &packages, "cuda", step, broken);
    assert!(error.to_string().contains("pip cannot reach its package index from the build"), "{error}");
    assert!(error.detail().unwrap().contains("(from versions: none)"));
}

#[test]
fn what_is_in_the_image_becomes_the_record_and_what_is_not_costs_its_own_path() {
    let text = r#"{"python": "3.12.3", "program": "/usr/bin/python3.12", "check": "No broken requirements found.",
        "packages": [{"name": "numpy", "version": "2.4.6", "sha256": "aa", "requires": []},
                     {"name": "pycuda", "version": "2026.1", "sha256": null, "requires": ["pytools"]}],
        "lacks": null, "failed": null}"#;
    let facts = Facts::read(text.as_bytes(), "i").unwrap();
    let image = InImage { id: "sha256:1".into(), reference: "cuda".into(), ..InImage::default() };
    let made = |facts: Facts| {
        with(&["numpy==2.4.6", "pycuda==2026.1"], "/c", None, |ask| {
            ready(ask, &image, "sha256:2".into(), "ctk-matrix/python:x".into(), facts)
        })
    };
    let whole = made(facts.clone());
    assert!(whole.failed.is_empty() && facts.is_final());
    assert_eq!(whole.place, Some(Place::Image { id: "sha256:2".into(), reference: "ctk-matrix/python:x".into() }));
    assert_eq!(whole.files.python, PathBuf::from("/opt/ctk-matrix/python/bin/python3"));
    let record = &whole.record;
    assert_eq!((record.python_version.as_str(), record.resolved.len()), ("3.12.3", 1));
    assert_eq!(record.built[0].packages[0].name, "pycuda");
    let said = &record.images[0];
    assert_eq!((said.base_id.as_str(), said.built.as_ref().unwrap().id.as_str()), ("sha256:1", "sha256:2"));

    let log =
        "src/cpp/cuda.hpp:14:10: fatal error: cudaProfiler.h: No such file\nERROR: Failed building wheel for pycuda\n";
    let failing = Facts { failed: Some(log.into()), ..facts.clone() };
    assert!(!failing.is_final());
    let failing = made(failing).failed;
    assert_eq!(failing[0].0, Family::Pycuda);
    assert!(failing[0].1.starts_with("pycuda cannot be built from source: src/cpp/cuda.hpp:14:10"), "{failing:?}");
    let lacking = made(Facts { lacks: Some("include/cudaProfiler.h".into()), ..facts });
    assert!(lacking.failed.is_empty());
    assert!(lacking.absent.iter().any(|(family, why)| *family == Family::Pycuda && why.contains("no include/cuda")));
}
