//! Matrix files, good and bad, through the public way in. Here: files that are sound, and what is planned from them.
//! `refused` has whole errors as a user sees them, `limits` files made to be slow or large, `random` whatever comes.
#![cfg(feature = "host")]

mod limits;
mod random;
mod refused;

use std::io;
use std::path::Path;

use ctk_matrix::model::arch::Arch;
use ctk_matrix::model::expand::{self, Selection};
use ctk_matrix::model::matrix::{ArchChoice, Expectation, Matrix, Toolkit, ToolkitSource};
use ctk_matrix::model::outcome::{Outcome, Stage};
use ctk_matrix::model::plan::Plan;
use ctk_matrix::model::spec::{self, Input, Known, SpecErrors, builtin};
use ctk_matrix::model::version::Version;

/// The example of the format's description, character for character.
const EXAMPLE: &str = r#"version: 1
toolkits: ["12.0", "12.4", {name: "12.4-dir", version: "12.4", dir: /usr/local/cuda-12.4}, {name: "12.6-image", version: "12.6", image: "nvidia/cuda:12.6.3-devel-ubuntu22.04"}]
paths: [driver, nvrtc, nvcc-cubin]          # families or exact paths
kernels: [vector_add]                       # kernels/NAME.cu beside this file, else the one built in; or {file, entry, options}
arch: native                                # or ["7.5", "9.0"]
exclude: [{toolkit: "12.0", path: nvcc, reason: "why", link: "optional"}]
include: [{toolkit: "13.5", path: nvrtc-cubin}]
expect:  [{toolkit: ">=13.1", path: [nvrtc-ptx, nvcc-ptx], outcome: fail, stage: load, code: CUDA_ERROR_UNSUPPORTED_PTX_VERSION, reason: "driver 580 stops at PTX 9.0"}]
measure: {warmup: 3, timed: 10}
limits:  {timeout: 120s, memory: 8GiB, pids: 256}
"#;

/// The versions that the tests know.
fn versions() -> Vec<Version> {
    let list = "11.8 12.0 12.1 12.2 12.3 12.4 12.5 12.6 12.8 12.9 13.0 13.1 13.2 13.3 13.4 13.5";
    list.split(' ').map(|text| text.parse().unwrap()).collect()
}

/// Files beside the matrix file, which lies in `/project`.
fn files(path: &Path) -> io::Result<Vec<u8>> {
    let text: &[u8] = match path.to_str().unwrap() {
        "/project/saxpy.cu" => b"extern \"C\" __global__ void saxpy(float* x) {}\n",
        "/project/sub/saxpy.ptx" => b".version 8.0\n",
        "/project/empty.ptx" => b"",
        "/project/latin.cu" => b"// caf\xe9\n",
        "/project/kernels/marked.cu" => b"// snippet: kernel\n__global__ void marked(int n) {}\n// end snippet\n",
        "/project/kernels/prebuilt/marked.cubin" => b"\x7fELF",
        "/project/kernels/unmarked.cu" => b"__global__ void f() {}\n",
        "/project/kernels/two.cu" => {
            b"// snippet: kernel\n__global__ void f() {}\n__global__ void g() {}\n// end snippet\n"
        }
        "/project/secret.cu" => return Err(io::ErrorKind::PermissionDenied.into()),
        _ => return Err(io::ErrorKind::NotFound.into()),
    };
    Ok(text.to_vec())
}

fn read(bytes: &[u8]) -> Result<Matrix, SpecErrors> {
    let versions = versions();
    let not_published = |version: Version| {
        (version == Version::new(12, 7)).then(|| "565 drivers speak of it, but no toolkit followed".into())
    };
    let known = Known { versions: &versions, not_published: &not_published };
    spec::read(&Input { origin: "matrix.yaml", bytes, dir: Path::new("/project"), read: &files }, &known)
}

fn sound(text: &str) -> Matrix {
    read(text.as_bytes()).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

fn plan(matrix: &Matrix) -> Plan {
    expand::expand(matrix, &Selection::default(), Arch::WITHOUT_GPU).unwrap()
}

fn ids(plan: &Plan) -> Vec<String> {
    plan.cells.iter().map(|cell| cell.id.clone()).collect()
}

#[test]
fn the_example_of_the_format_means_what_it_says() {
    let matrix = sound(EXAMPLE);
    let toolkit = |name: &str, version: &str, source: ToolkitSource| Toolkit {
        name: name.into(),
        version: version.parse().unwrap(),
        source,
        base: None,
    };
    assert_eq!(
        matrix.toolkits,
        [
            toolkit("12.0", "12.0", ToolkitSource::Unsaid),
            toolkit("12.4", "12.4", ToolkitSource::Unsaid),
            toolkit("12.4-dir", "12.4", ToolkitSource::Dir("/usr/local/cuda-12.4".into())),
            toolkit("12.6-image", "12.6", ToolkitSource::Image("nvidia/cuda:12.6.3-devel-ubuntu22.04".into())),
        ]
    );
    assert_eq!(matrix.kernels, [builtin::builtin_kernel()]);
    assert_eq!(matrix.arch, ArchChoice::Native);
    assert_eq!((matrix.measure.warmup, matrix.measure.timed), (3, 10));
    assert_eq!((matrix.limits.timeout_ms, matrix.limits.memory, matrix.limits.pids), (120_000, 8 << 30, 256));
    assert_eq!(
        matrix.expect[0].expectation,
        Expectation {
            outcome: Outcome::Fail,
            stage: Some(Stage::Load),
            code: Some("CUDA_ERROR_UNSUPPORTED_PTX_VERSION".into()),
            reason: "driver 580 stops at PTX 9.0".into(),
        }
    );
    let plan = plan(&matrix);
    insta::assert_json_snapshot!("the_plan_of_the_example", expand::to_json(&plan));
}

#[test]
fn the_shipped_matrix_is_sound_and_has_every_path_on_five_toolkits() {
    let versions = versions();
    let known = Known { versions: &versions, not_published: &|_| None };
    let matrix = builtin::matrix(&known).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let plan = plan(&matrix);
    let mut expected = Vec::new();
    for toolkit in ["12.0", "12.4", "12.6", "12.9", "13.0"] {
        for path in ["driver-ptx", "driver-fatbin", "nvrtc-ptx", "nvrtc-cubin", "nvcc-ptx", "nvcc-cubin", "nvcc-fatbin"]
        {
            expected.push(format!("arch=7.5,kernel=vector_add,path={path},toolkit={toolkit}"));
        }
    }
    assert_eq!(ids(&plan), expected);
    assert_eq!(plan.excluded, []);
}

#[test]
fn what_the_shipped_matrix_shows_in_comments_is_sound() {
    // A newcomer takes the marks off these lines.
    let mut text = Vec::new();
    let mut rules = false;
    for line in builtin::MATRIX_YAML.lines() {
        rules |= line.starts_with("# exclude:");
        let shown = line.strip_prefix("# ").filter(|_| rules).unwrap_or(line);
        text.push(shown);
    }
    let matrix = sound(&text.join("\n"));
    assert_eq!((matrix.exclude.len(), matrix.include.len(), matrix.expect.len()), (1, 1, 1));
}

#[test]
fn what_is_left_out_takes_its_usual_value() {
    let short = sound("version: 1\ntoolkits: \"12.6\"\n");
    let long = sound(
        "version: 1\ntoolkits: ['12.6']\npaths: [nvcc, driver, nvrtc]\nkernels: [vector_add]\narch: [native]\n\
         exclude: []\ninclude: []\nexpect: []\nmeasure: {warmup: 3}\nlimits: {memory: 8192MiB, timeout: 2m}\n",
    );
    assert_eq!(short, long);
}

#[test]
fn a_folder_is_found_from_the_matrix_file_and_ranges_stand_for_their_versions() {
    let matrix = sound("version: 1\ntoolkits: [oldest, '>=12.8 <13', newest, {version: '12.4', dir: cuda}]\n");
    let names: Vec<_> = matrix.toolkits.iter().map(|toolkit| toolkit.name.as_str()).collect();
    assert_eq!(names, ["11.8", "12.8", "12.9", "13.5", "12.4"]);
    assert_eq!(matrix.toolkits[4].source, ToolkitSource::Dir("/project/cuda".into()));
}

#[test]
fn kernels_of_ones_own_are_taken_from_files_beside_the_matrix() {
    let matrix = sound(
        "version: 1\ntoolkits: ['12.6']\npaths: [driver, nvrtc-ptx]\nkernels:\n\
         - marked\n- {file: saxpy.cu, entry: saxpy, options: ['-DN=1']}\n- {file: sub/saxpy.ptx, entry: saxpy, name: art}\n",
    );
    let shown: Vec<_> = matrix
        .kernels
        .iter()
        .map(|kernel| {
            let forms: Vec<_> = kernel.prebuilt.iter().map(|(form, one)| format!("{form} {}", one.origin)).collect();
            (&*kernel.name, &*kernel.entry, kernel.options.join(" "), kernel.source.as_deref(), forms.join(" "))
        })
        .collect();
    assert_eq!(
        shown,
        [
            (
                "marked",
                "marked",
                String::new(),
                Some("extern \"C\" {\n__global__ void marked(int n) {}\n}\n"),
                "cubin kernels/prebuilt/marked.cubin".into()
            ),
            (
                "saxpy",
                "saxpy",
                "-DN=1".into(),
                Some("extern \"C\" __global__ void saxpy(float* x) {}\n"),
                String::new()
            ),
            ("art", "saxpy", String::new(), None, "ptx sub/saxpy.ptx".into()),
        ]
    );
    assert!(matrix.kernels.iter().all(|kernel| kernel.launch.is_none()));
    insta::assert_json_snapshot!("the_plan_of_ones_own_kernels", expand::to_json(&plan(&matrix)));
}

#[test]
fn the_committed_schema_is_the_one_that_the_types_make() {
    let made = serde_json::to_string_pretty(&spec::json_schema()).unwrap() + "\n";
    let committed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/matrix.schema.json")).unwrap();
    assert_eq!(committed, made, "write it anew: ctk-matrix schema > docs/matrix.schema.json");
}
