//! Plans from small matrices that are built here, without a file.

use super::*;
use crate::model::kernel::Prebuilt;
use crate::model::matrix::{ArchChoice, Exclude, Include, Limits, Measure, Pattern, ToolkitPattern, ToolkitSource};
use crate::model::outcome::Outcome;
use crate::model::path::Form;

fn toolkit(name: &str, version: &str) -> Toolkit {
    Toolkit { name: name.into(), version: version.parse().unwrap(), source: ToolkitSource::Unsaid, base: None }
}

fn kernel(name: &str, source: bool, forms: &[Form]) -> Kernel {
    let prebuilt = |form: &Form| (*form, Prebuilt { origin: format!("{name}.{form}"), base64: String::new() });
    Kernel {
        name: name.into(),
        entry: name.into(),
        options: Vec::new(),
        source: source.then(|| "source".into()),
        prebuilt: forms.iter().map(prebuilt).collect(),
        launch: None,
    }
}

/// Two toolkits, one kernel with source and PTX, `driver` and `nvrtc-cubin`.
fn matrix() -> Matrix {
    Matrix {
        origin: "matrix.yaml".into(),
        toolkits: vec![toolkit("12.4", "12.4"), toolkit("new", "13.0")],
        paths: vec!["driver".parse().unwrap(), "nvrtc-cubin".parse().unwrap()],
        kernels: vec![kernel("k", true, &[Form::Ptx])],
        arch: ArchChoice::Native,
        stacks: Vec::new(),
        exclude: Vec::new(),
        include: Vec::new(),
        expect: Vec::new(),
        claims: Vec::new(),
        fleet: Vec::new(),
        measure: Measure::default(),
        limits: Limits::default(),
    }
}

fn pattern(toolkit: &str, path: &str) -> Pattern {
    let toolkit = if toolkit.is_empty() { vec![] } else { vec![ToolkitPattern::Versions(toolkit.parse().unwrap())] };
    let path = if path.is_empty() { vec![] } else { vec![path.parse().unwrap()] };
    Pattern { toolkit, path, ..Pattern::default() }
}

fn expects(toolkit: &str, path: &str, reason: &str) -> Expect {
    let expectation = Expectation { outcome: Outcome::Fail, stage: None, code: None, reason: reason.into() };
    Expect { pattern: pattern(toolkit, path), expectation }
}

fn planned(matrix: &Matrix, select: &[&str]) -> Result<Plan, String> {
    expand(matrix, &Selection::parse(select).unwrap(), Arch::new(9, 0)).map_err(|error| error.to_string())
}

/// `toolkit path kernel arch` of each cell.
fn cells(plan: &Plan) -> Vec<String> {
    plan.cells.iter().map(|cell| short(&cell.axes)).collect()
}

fn short(axes: &super::super::axes::Axes) -> String {
    format!("{} {} {} {}", axes.toolkit, axes.path, axes.kernel, axes.arch)
}

fn left_out(plan: &Plan) -> Vec<String> {
    plan.excluded.iter().map(|out| format!("{}: {}", short(&out.axes), out.reason)).collect()
}

#[test]
fn cells_are_sorted_by_toolkit_as_written_then_kernel_arch_and_path() {
    let mut matrix = matrix();
    matrix.toolkits.reverse();
    matrix.kernels.insert(0, kernel("z", true, &[Form::Ptx]));
    matrix.arch = ArchChoice::List(vec![Arch::new(9, 0), Arch::new(7, 5)]);
    matrix.paths = vec!["nvrtc-cubin".parse().unwrap(), "driver".parse().unwrap()];
    let plan = planned(&matrix, &[]).unwrap();
    let mut expected = Vec::new();
    for toolkit in ["new", "12.4"] {
        for kernel in ["z", "k"] {
            for arch in ["9.0", "7.5"] {
                for path in ["driver-ptx", "nvrtc-cubin"] {
                    expected.push(format!("{toolkit} {path} {kernel} {arch}"));
                }
            }
        }
    }
    assert_eq!(cells(&plan), expected);
    let jobs: Vec<_> = plan.jobs.iter().map(|job| (job.id.as_str(), job.toolkit, job.kernel, &job.cells[..])).collect();
    assert_eq!(
        jobs,
        [
            ("kernel=z,toolkit=new", 0, 0, &[0, 1, 2, 3][..]),
            ("kernel=k,toolkit=new", 0, 1, &[4, 5, 6, 7]),
            ("kernel=z,toolkit=12.4", 1, 0, &[8, 9, 10, 11]),
            ("kernel=k,toolkit=12.4", 1, 1, &[12, 13, 14, 15]),
        ]
    );
}

#[test]
fn what_a_kernel_has_no_artifact_or_source_for_is_left_out_with_the_reason() {
    let mut matrix = matrix();
    matrix.toolkits.truncate(1);
    matrix.paths = ["driver", "nvrtc-ptx"].map(|path| path.parse().unwrap()).into();
    matrix.kernels = vec![kernel("art", false, &[Form::Cubin]), kernel("src", true, &[])];
    let plan = planned(&matrix, &[]).unwrap();
    assert_eq!(cells(&plan), ["12.4 driver-cubin art 9.0", "12.4 nvrtc-ptx src 9.0"]);
    assert_eq!(
        left_out(&plan),
        [
            "12.4 nvrtc-ptx art 9.0: kernel art is an artifact without source; only the driver family loads it",
            "12.4 driver-ptx src 9.0: kernel src has no ptx made beforehand; name an artifact as {file: src.ptx, …}",
            "12.4 driver-cubin src 9.0: kernel src has no cubin made beforehand; name an artifact as {file: src.cubin, …}",
            "12.4 driver-fatbin src 9.0: kernel src has no fatbin made beforehand; name an artifact as {file: src.fatbin, …}",
        ]
    );
}

#[test]
fn an_exact_driver_path_without_its_artifact_is_left_out_with_the_reason() {
    let mut matrix = matrix();
    matrix.toolkits.truncate(1);
    matrix.paths = ["driver-ptx", "driver-cubin"].map(|path| path.parse().unwrap()).into();
    let plan = planned(&matrix, &[]).unwrap();
    assert_eq!(cells(&plan), ["12.4 driver-ptx k 9.0"]);
    assert_eq!(
        left_out(&plan),
        ["12.4 driver-cubin k 9.0: kernel k has no cubin made beforehand; name an artifact as {file: k.cubin, …}"]
    );
}

#[test]
fn exclude_takes_cells_out_with_its_reason_and_include_brings_them_back_and_adds_others() {
    let mut matrix = matrix();
    let exclude = |toolkit: &str, path: &str| Exclude {
        pattern: pattern(toolkit, path),
        reason: format!("no {path} on {toolkit}"),
        link: Some("https://example.org".into()),
    };
    matrix.exclude = vec![exclude("12.x", "nvrtc"), exclude("newest", "driver")];
    let include = |toolkit: Toolkit, path: &str, arch: Option<Arch>| Include {
        toolkit,
        path: path.parse().unwrap(),
        kernel: None,
        arch,
    };
    matrix.include = vec![
        include(toolkit("12.4", "12.4"), "nvrtc", None),
        include(toolkit("12.4", "12.4"), "driver-ptx", None),
        include(toolkit("12.9", "12.9"), "nvcc-cubin", Some(Arch::new(8, 0))),
    ];
    let plan = planned(&matrix, &[]).unwrap();
    assert_eq!(
        cells(&plan),
        [
            "12.4 driver-ptx k 9.0",
            "12.4 nvrtc-ptx k 9.0",
            "12.4 nvrtc-cubin k 9.0",
            "new nvrtc-cubin k 9.0",
            "12.9 nvcc-cubin k 8.0"
        ]
    );
    assert_eq!(left_out(&plan), ["new driver-ptx k 9.0: no driver on newest"]);
    assert_eq!(plan.excluded[0].link.as_deref(), Some("https://example.org"));
    assert_eq!(plan.toolkits.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["12.4", "new", "12.9"]);
}

#[test]
fn an_expectation_reaches_the_cells_that_its_rule_matches() {
    let mut matrix = matrix();
    matrix.expect = vec![expects(">=13", "nvrtc", "why"), expects("13.x", "nvrtc-cubin", "why")];
    let plan = planned(&matrix, &[]).unwrap();
    let expected: Vec<_> =
        plan.cells.iter().filter(|cell| cell.expectation.is_some()).map(|cell| short(&cell.axes)).collect();
    assert_eq!(expected, ["new nvrtc-cubin k 9.0"]);
    assert_eq!(plan.cells[3].expectation.as_ref(), Some(&matrix.expect[0].expectation));
}

#[test]
fn rules_that_expect_different_things_of_one_cell_are_refused_even_if_it_is_not_selected() {
    let mut matrix = matrix();
    matrix.expect = vec![expects("12.x", "", "why"), expects(">=13", "", "why"), expects("", "nvrtc", "other")];
    assert_eq!(
        planned(&matrix, &["path=driver"]).unwrap_err(),
        "`expect` rules 1 and 3 of matrix.yaml expect different things of \
         arch=9.0,kernel=k,path=nvrtc-cubin,toolkit=12.4; narrow one of them down"
    );
}

#[test]
fn values_of_one_axis_are_alternatives_and_axes_must_all_hold() {
    let matrix = matrix();
    let selected = |select: &[&str]| cells(&planned(&matrix, select).unwrap());
    assert_eq!(selected(&["toolkit=new"]), ["new driver-ptx k 9.0", "new nvrtc-cubin k 9.0"]);
    assert_eq!(selected(&["toolkit=oldest", "path=nvrtc"]), ["12.4 nvrtc-cubin k 9.0"]);
    assert_eq!(
        selected(&["path=driver-ptx", "toolkit=13.0", "toolkit=<13"]),
        ["12.4 driver-ptx k 9.0", "new driver-ptx k 9.0"]
    );
    assert_eq!(selected(&["arch=native", "kernel=k"]).len(), 4);
    let plan = planned(&matrix, &["toolkit=new"]).unwrap();
    assert_eq!((plan.toolkits.len(), plan.jobs[0].toolkit), (1, 0), "only what is used is kept");
}

#[test]
fn a_value_that_matches_nothing_is_told_with_what_there_is() {
    let mut matrix = matrix();
    let refused = |matrix: &Matrix, select: &[&str]| planned(matrix, select).unwrap_err();
    assert_eq!(
        refused(&matrix, &["toolkit=12.6"]),
        "--select toolkit=12.6 matches nothing: did you mean `12.4`? the matrix has toolkit `12.4`, `new`"
    );
    assert_eq!(
        refused(&matrix, &["path=nvrct"]),
        "--select path=nvrct matches nothing: did you mean `nvrtc`? the matrix has path `driver`, `driver-ptx`, \
         `nvrtc`, `nvrtc-cubin`"
    );
    assert_eq!(
        refused(&matrix, &["toolkit=new", "arch=7.5"]),
        "--select arch=7.5 matches nothing: the matrix has arch `9.0`"
    );
    assert_eq!(refused(&matrix, &["stack=s"]), "--select stack=s matches nothing: the matrix has no stack");
    matrix.exclude = vec![Exclude { pattern: pattern("12.4", "nvrtc"), reason: "why".into(), link: None }];
    assert_eq!(
        refused(&matrix, &["toolkit=12.4", "path=nvrtc"]),
        "--select toolkit=12.4 --select path=nvrtc match only what is excluded: why"
    );
}

#[test]
fn a_matrix_without_cells_is_told_apart_from_a_faulty_one() {
    let mut matrix = matrix();
    matrix.exclude = vec![Exclude { pattern: Pattern::default(), reason: "closed".into(), link: None }];
    let error = expand(&matrix, &Selection::default(), Arch::WITHOUT_GPU).unwrap_err();
    assert_eq!(error.to_string(), "the matrix matrix.yaml has no cells: all are excluded: closed");
    assert!(error.nothing_to_do());
    matrix.exclude.clear();
    matrix.toolkits = vec![toolkit("a", "12.4"), toolkit("a", "12.6")];
    let error = expand(&matrix, &Selection::default(), Arch::WITHOUT_GPU).unwrap_err();
    assert_eq!(
        error.to_string(),
        "two cells have the id arch=7.5,kernel=k,path=driver-ptx,toolkit=a: toolkit 12.4 of entry 1, and toolkit 12.6 \
         of entry 2; give one of them a `name`"
    );
    assert!(!error.nothing_to_do());
}

#[test]
fn the_plan_in_json_is_schema_1() {
    let mut matrix = matrix();
    matrix.toolkits.truncate(1);
    matrix.exclude = vec![Exclude { pattern: pattern("", "nvrtc"), reason: "why".into(), link: Some("there".into()) }];
    let plan = planned(&matrix, &[]).unwrap();
    let axes = |path: &str| serde_json::json!({"toolkit": "12.4", "path": path, "kernel": "k", "arch": "9.0"});
    assert_eq!(
        to_json(&plan),
        serde_json::json!({
            "schema": 1,
            "cells": [{"id": "arch=9.0,kernel=k,path=driver-ptx,toolkit=12.4", "axes": axes("driver-ptx")}],
            "excluded": [{"axes": axes("nvrtc-cubin"), "reason": "why", "link": "there"}],
        })
    );
}

fn stack(name: &str) -> crate::model::stack::Stack {
    let python = crate::model::stack::Python::Version("3.11".into());
    crate::model::stack::Stack { name: name.into(), python, packages: vec!["numpy==1.26.4".into()], base: None }
}

#[test]
fn every_path_is_run_beside_each_stack_in_a_job_of_its_own() {
    let mut matrix = matrix();
    matrix.paths.push("cupy".parse().unwrap());
    matrix.stacks = vec![stack("old"), stack("new")];
    let plan = planned(&matrix, &["toolkit=12.4"]).unwrap();
    let ids: Vec<_> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "arch=9.0,kernel=k,path=driver-ptx,stack=old,toolkit=12.4",
            "arch=9.0,kernel=k,path=nvrtc-cubin,stack=old,toolkit=12.4",
            "arch=9.0,kernel=k,path=cupy,stack=old,toolkit=12.4",
            "arch=9.0,kernel=k,path=driver-ptx,stack=new,toolkit=12.4",
            "arch=9.0,kernel=k,path=nvrtc-cubin,stack=new,toolkit=12.4",
            "arch=9.0,kernel=k,path=cupy,stack=new,toolkit=12.4",
        ]
    );
    let jobs: Vec<_> = plan.jobs.iter().map(|job| (job.id.as_str(), job.stack, job.cells.len())).collect();
    assert_eq!(
        jobs,
        [("kernel=k,stack=old,toolkit=12.4", Some(0), 3), ("kernel=k,stack=new,toolkit=12.4", Some(1), 3)]
    );
    let plan = planned(&matrix, &["stack=new"]).unwrap();
    assert_eq!((plan.stacks.len(), plan.jobs[0].stack), (1, Some(0)));
}

#[test]
fn a_library_without_a_stack_or_without_a_kernel_of_its_own_is_left_out_with_the_reason() {
    let mut matrix = matrix();
    matrix.paths = vec!["driver".parse().unwrap(), "numba".parse().unwrap()];
    let plan = planned(&matrix, &["toolkit=12.4"]).unwrap();
    assert_eq!(left_out(&plan), ["12.4 numba k 9.0: a Python library needs a stack: name one under `stacks`"]);
    matrix.stacks = vec![stack("s")];
    let plan = planned(&matrix, &["toolkit=12.4"]).unwrap();
    let reason = "Numba compiles Python, and kernel k is CUDA C++; only vector_add is written in both";
    assert_eq!(left_out(&plan), [format!("12.4 numba k 9.0: {reason}")]);
}

#[test]
fn a_stack_on_an_image_leaves_out_the_toolkits_that_are_in_others_and_says_so() {
    let mut matrix = matrix();
    matrix.paths = vec!["driver".parse().unwrap()];
    matrix.toolkits[0].source = crate::model::matrix::ToolkitSource::Image("cuda".into());
    let on_image = crate::model::stack::Stack { base: Some("my-python".into()), ..stack("s") };
    matrix.stacks = vec![on_image];
    let plan = planned(&matrix, &[]).unwrap();
    let name = matrix.toolkits[0].name.clone();
    let cells: Vec<_> = plan.cells.iter().map(|cell| cell.axes.toolkit.as_str()).collect();
    assert!(!cells.is_empty() && !cells.contains(&name.as_str()), "{cells:?}");
    assert_eq!(
        left_out(&plan),
        [format!(
            "{name} driver-ptx k 9.0: toolkit {name} is in image cuda, and stack s runs on image my-python: a stack \
             without `base` is built into the toolkit's image"
        )]
    );
    // What `include:` names does not share a container either.
    let rule = crate::model::matrix::Include {
        toolkit: matrix.toolkits[0].clone(),
        path: "driver".parse().unwrap(),
        kernel: None,
        arch: None,
    };
    matrix.include = vec![rule];
    assert_eq!(left_out(&planned(&matrix, &[]).unwrap()), left_out(&plan));
}
