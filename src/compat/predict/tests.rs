//! The rules against what was seen on a GPU, and the artifacts of this repository.

use super::load::{Load, Piece, PieceKind, load};
use super::machine::{Jit, Machine};
use super::*;
use crate::model::arch::Arch;
use crate::model::kernel::Launch;

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn arch(text: &str) -> Arch {
    text.parse().unwrap()
}

fn machine(driver: &str, gpu: &str) -> Machine {
    Machine::of_fleet(&FleetEntry { driver: driver.into(), gpu: gpu.into() }).unwrap()
}

/// The GPU that was asked.
fn h200() -> Machine {
    machine("580.159.04", "H200")
}

fn ptx(isa: &str, target: &str) -> Piece {
    Piece { kind: PieceKind::Ptx(version(isa)), arch: arch(target), zstd: false }
}

fn cubin(toolkit: &str, target: &str) -> Piece {
    Piece { kind: PieceKind::Cubin(version(toolkit)), arch: arch(target), zstd: false }
}

/// `loads`, or `refused CODE`, or `refused`.
fn said(load: Load) -> String {
    match (load.loads, load.error) {
        (true, _) => "loads".into(),
        (false, Some(code)) => format!("refused {code}"),
        (false, None) => "refused".into(),
    }
}

fn on_h200(form: Form, pieces: &[Piece]) -> String {
    said(load(form, pieces, &h200()))
}

#[test]
fn everything_that_an_h200_with_driver_580_was_asked_is_predicted() {
    for isa in ["8.0", "8.5", "8.8", "9.0"] {
        for target in ["5.2", "8.0", "9.0", "9.0a"] {
            assert_eq!(on_h200(Form::Ptx, &[ptx(isa, target)]), "loads", "{isa} {target}");
        }
        for target in ["10.0", "10.0a"] {
            assert_eq!(on_h200(Form::Ptx, &[ptx(isa, target)]), "refused 218", "{isa} {target}");
        }
    }
    for isa in ["8.9", "9.1", "9.2", "9.5", "10.0"] {
        assert_eq!(on_h200(Form::Ptx, &[ptx(isa, "9.0")]), "refused 222", "{isa}");
    }
    for toolkit in ["12.0", "12.6", "12.9", "13.0", "13.1", "13.5"] {
        assert_eq!(on_h200(Form::Cubin, &[cubin(toolkit, "9.0")]), "loads", "{toolkit}");
    }
    assert_eq!(on_h200(Form::Cubin, &[cubin("12.6", "9.0a")]), "loads");
    for (toolkit, target) in [("12.6", "7.5"), ("12.6", "8.0"), ("12.6", "8.9"), ("12.9", "10.0"), ("13.0", "12.0")] {
        assert_eq!(on_h200(Form::Cubin, &[cubin(toolkit, target)]), "refused 209", "{target}");
    }
    assert_eq!(on_h200(Form::Fatbin, &[cubin("12.4", "9.0")]), "loads");
    assert_eq!(on_h200(Form::Fatbin, &[cubin("13.5", "9.0"), ptx("9.5", "9.0")]), "loads");
    assert_eq!(on_h200(Form::Fatbin, &[ptx("9.5", "9.0")]), "refused 222");
    assert_eq!(on_h200(Form::Fatbin, &[cubin("13.5", "8.0")]), "refused 209");
    assert_eq!(on_h200(Form::Cubin, &[]), "refused 200");
}

#[test]
fn marks_tie_code_to_a_chip_or_a_family() {
    let b300 = machine("580", "B300");
    let rule = |form, piece| {
        let load = load(form, &[piece], &b300);
        (load.loads, load.rule)
    };
    assert_eq!(rule(Form::Ptx, ptx("8.8", "10.0f")), (true, "ptx-isa"));
    assert_eq!(rule(Form::Ptx, ptx("8.8", "10.0a")), (false, "ptx-specific"));
    assert_eq!(rule(Form::Ptx, ptx("8.8", "9.0a")), (false, "ptx-specific"));
    assert_eq!(rule(Form::Ptx, ptx("8.8", "12.0f")), (false, "ptx-target"));
    assert_eq!(rule(Form::Cubin, cubin("12.9", "10.0")), (true, "backward"));
    assert_eq!(rule(Form::Cubin, cubin("12.9", "10.0f")), (true, "backward"));
    assert_eq!(rule(Form::Cubin, cubin("12.9", "10.0a")), (false, "cubin-specific"));
    assert_eq!(rule(Form::Cubin, cubin("12.9", "9.0")), (false, "cubin-arch"));
    assert_eq!(rule(Form::Cubin, cubin("13.1", "10.3")), (true, "minor-version"));
}

#[test]
fn machine_code_of_the_next_major_and_zstd_are_beyond_old_drivers() {
    let old = machine("535.104.05", "T4");
    assert_eq!(load(Form::Cubin, &[cubin("12.9", "7.5")], &old).rule, "minor-version");
    assert_eq!(
        load(Form::Cubin, &[cubin("13.0", "7.5")], &old),
        Load { error: None, loads: false, rule: "cuda-major" }
    );
    // The machine code is out of reach, and the PTX beside it too new.
    let both = [cubin("13.0", "7.5"), ptx("9.0", "7.5")];
    assert_eq!(load(Form::Fatbin, &both, &old), Load { error: Some(222), loads: false, rule: "ptx-isa" });
    let packed = [Piece { zstd: true, ..cubin("12.9", "7.5") }];
    assert_eq!(load(Form::Fatbin, &packed, &old), Load { error: Some(200), loads: false, rule: "fatbin-zstd" });
    for driver in ["550.54.14", "580"] {
        assert!(load(Form::Fatbin, &packed, &machine(driver, "T4")).loads, "{driver}");
    }
}

#[test]
fn the_environment_of_the_process_counts() {
    let with = |jit, form, pieces: &[Piece]| {
        let load = load(form, pieces, &Machine { jit, ..h200() });
        format!("{} {}", said(load), load.rule)
    };
    assert_eq!(with(Jit::Disabled, Form::Ptx, &[ptx("8.0", "5.2")]), "refused 223 jit-disabled");
    assert_eq!(with(Jit::Disabled, Form::Cubin, &[cubin("12.6", "9.0")]), "loads backward");
    assert_eq!(with(Jit::Missing, Form::Ptx, &[ptx("8.0", "5.2")]), "refused 221 jit-missing");
    assert_eq!(with(Jit::Forced, Form::Cubin, &[cubin("12.6", "9.0")]), "loads backward");
    assert_eq!(with(Jit::Forced, Form::Fatbin, &[cubin("12.6", "9.0")]), "refused 209 jit-forced");
    assert_eq!(with(Jit::Forced, Form::Fatbin, &[cubin("12.6", "9.0"), ptx("8.5", "9.0")]), "loads ptx-isa");
    assert_eq!(with(Jit::Forced, Form::Fatbin, &[cubin("13.5", "9.0"), ptx("9.5", "9.0")]), "refused 222 ptx-isa");
}

fn kernel() -> Kernel {
    let file = |bytes: &[u8]| Prebuilt { origin: "x".into(), base64: STANDARD.encode(bytes) };
    Kernel {
        name: "k".into(),
        entry: "vectorAdd".into(),
        options: Vec::new(),
        source: Some(String::new()),
        prebuilt: BTreeMap::from([
            (Form::Ptx, file(include_bytes!("../../../kernels/prebuilt/vector_add.ptx"))),
            (Form::Fatbin, file(include_bytes!("../../../kernels/prebuilt/vector_add.fatbin"))),
            (Form::Cubin, file(include_bytes!("../../../tests/artifacts/vector_add-13.0-sm_90a.cubin"))),
        ]),
        launch: Some(Launch::VECTOR_ADD),
    }
}

fn axes(toolkit: &str, path: &str, target: &str) -> Axes {
    let (path, arch) = (path.parse().unwrap(), arch(target));
    Axes { toolkit: toolkit.into(), path, kernel: "k".into(), arch, stack: None }
}

/// `outcome[ stage][ code] rule`.
fn cell(toolkit: &str, path: &str, target: &str, machine: Option<&Machine>) -> String {
    let found = Predictor::new(&[kernel()])
        .cell(&axes(toolkit, path, target), &ToolkitSide::whole(version(toolkit)), machine)
        .unwrap();
    let stage = found.stage.map(|stage| format!(" {stage}")).unwrap_or_default();
    let code = found.code.map(|code| format!(" {}", code.number)).unwrap_or_default();
    format!("{}{stage}{code} {}", found.outcome, found.rule)
}

#[test]
fn the_driver_family_follows_its_own_artifact_and_the_others_their_toolkit() {
    let old = machine("535.104.05", "T4");
    for toolkit in ["12.0", "12.6", "13.5"] {
        assert_eq!(cell(toolkit, "driver-ptx", "7.5", Some(&old)), "pass ptx-isa");
        assert_eq!(cell(toolkit, "driver-fatbin", "7.5", Some(&old)), "pass minor-version");
        assert_eq!(cell(toolkit, "driver-cubin", "7.5", Some(&old)), "fail load 209 cubin-arch");
        assert_eq!(cell(toolkit, "driver-cubin", "9.0", Some(&h200())), "pass backward");
    }
    for (toolkit, expected) in [("12.0", "pass ptx-isa"), ("12.2", "pass ptx-isa"), ("12.3", "fail load 222 ptx-isa")] {
        assert_eq!(cell(toolkit, "nvrtc-ptx", "7.5", Some(&old)), expected);
        assert_eq!(cell(toolkit, "nvcc-ptx", "7.5", Some(&old)), expected);
        assert!(cell(toolkit, "nvrtc-cubin", "7.5", Some(&old)).starts_with("pass "), "{toolkit}");
    }
    assert_eq!(cell("13.0", "nvrtc-cubin", "7.5", Some(&old)), "fail load cuda-major");
    assert_eq!(cell("13.0", "nvcc-fatbin", "7.5", Some(&old)), "fail load 222 ptx-isa");
    assert_eq!(cell("13.5", "nvrtc-ptx", "9.0", Some(&h200())), "fail load 222 ptx-isa");
    assert_eq!(cell("13.5", "nvrtc-cubin", "9.0", Some(&h200())), "pass minor-version");
}

#[test]
fn what_a_toolkit_does_not_build_fails_at_build_with_or_without_a_gpu() {
    for machine in [None, Some(&h200())] {
        assert_eq!(cell("12.6", "nvrtc-cubin", "10.0", machine), "fail build 5 toolkit-arch");
        assert_eq!(cell("13.0", "nvrtc-ptx", "7.0", machine), "fail build 5 toolkit-arch-dropped");
        assert_eq!(cell("13.0", "nvcc-ptx", "5.2", machine), "fail build 1 toolkit-arch-dropped");
        assert_eq!(cell("12.9", "nvrtc-ptx", "9.0f", machine), "fail build 6 family-arch");
        assert_eq!(cell("12.0", "nvrtc-ptx", "9.0f", machine), "fail build 5 toolkit-arch");
    }
    assert_eq!(cell("12.6", "nvrtc-cubin", "9.0", None), "built no-gpu");
}

#[test]
fn a_gpu_that_the_driver_does_not_know_is_not_there() {
    assert_eq!(cell("12.6", "driver-ptx", "10.0", Some(&machine("550", "B200"))), "fail driver-init 100 gpu-too-new");
    assert_eq!(cell("12.6", "driver-ptx", "7.0", Some(&machine("590", "V100"))), "fail driver-init 100 gpu-dropped");
}

#[test]
fn what_the_source_lacks_is_skipped() {
    let absent = [(Family::Nvcc, "wheels-carry")];
    let without = ToolkitSide { absent: &absent, ..ToolkitSide::whole(version("12.6")) };
    let predictor = Predictor::new(&[kernel()]);
    let found = predictor.cell(&axes("12.6", "nvcc-ptx", "9.0"), &without, Some(&h200())).unwrap();
    assert_eq!((found.outcome, found.rule.as_str()), (Outcome::Skip, "wheels-carry"));
    let found = predictor.cell(&axes("12.6", "nvrtc-ptx", "9.0"), &without, Some(&h200())).unwrap();
    assert_eq!(found.outcome, Outcome::Pass);
}

#[test]
fn an_artifact_that_was_built_is_judged_for_the_fleet() {
    let fleet = [("535.104.05", "T4"), ("580", "9.0"), ("390", "T4")];
    let fleet = fleet.map(|(driver, gpu)| FleetEntry { driver: driver.into(), gpu: gpu.into() });
    let said = |bytes: &[u8]| {
        let said = fleet_of_artifact(bytes, true, &fleet);
        said.into_iter()
            .map(|one| format!("{} {} {}", one.gpu, one.predicted.outcome, one.predicted.rule))
            .collect::<Vec<_>>()
    };
    let cubin = include_bytes!("../../../tests/artifacts/vector_add-13.0-sm_90a.cubin");
    assert_eq!(said(cubin), ["T4 fail cubin-arch", "9.0 pass backward"]);
    assert_eq!(said(&cubin[..1000]), ["T4 fail artifact-whole", "9.0 fail artifact-whole"]);
    assert_eq!(said(b"text"), ["T4 fail artifact-form", "9.0 fail artifact-form"]);
}

#[test]
fn every_rule_that_decides_is_in_the_table() {
    let predictor = Predictor::new(&[kernel()]);
    let fleets = ["450", "535", "550", "580", "590", "620"]
        .iter()
        .flat_map(|driver| ["K80", "V100", "T4", "L4", "H200", "B300", "RTX 5090"].map(|gpu| machine(driver, gpu)));
    for machine in fleets {
        for toolkit in crate::compat::catalogue::toolkits() {
            for path in crate::model::path::PathId::ALL.into_iter().filter(|path| !path.family.is_python()) {
                for target in toolkit.targets.value.all() {
                    let axes = axes("t", &path.to_string(), &target.to_string());
                    let found = predictor.cell(&axes, &ToolkitSide::whole(toolkit.version), Some(&machine)).unwrap();
                    assert!(find(&found.rule).is_some(), "{}", found.rule);
                }
            }
        }
    }
}

#[test]
fn a_toolkit_that_is_not_in_the_catalogue_is_judged_by_what_was_measured_of_it() {
    let measured = Measured { ptx_isa: version("9.6"), targets: vec![arch("9.0")], soname: "libnvrtc.so.13".into() };
    let toolkit = ToolkitSide { measured: Some(&measured), ..ToolkitSide::whole(version("13.6")) };
    let said = |path: &str, target: &str, toolkit: &ToolkitSide<'_>, machine: &Machine| {
        let found = Predictor::new(&[kernel()]).cell(&axes("13.6", path, target), toolkit, Some(machine)).unwrap();
        format!("{} {}", found.outcome, found.rule)
    };
    let newest = Machine { cuda: version("13.6"), ..h200() };
    assert_eq!(said("nvrtc-ptx", "9.0", &toolkit, &h200()), "fail ptx-isa");
    assert_eq!(said("nvrtc-ptx", "9.0", &toolkit, &newest), "pass ptx-isa");
    assert_eq!(said("nvrtc-cubin", "9.0", &toolkit, &h200()), "pass minor-version");
    assert_eq!(said("nvrtc-cubin", "12.0", &toolkit, &h200()), "fail toolkit-arch");
    assert_eq!(said("nvrtc-cubin", "12.0", &ToolkitSide::whole(version("13.6")), &h200()), "fail cubin-arch");
}

/// The aim is 100 ms in a release build; the bound here is for a debug build on a busy machine.
#[test]
fn ten_thousand_cells_are_predicted_in_the_blink_of_an_eye() {
    let predictor = Predictor::new(&[kernel()]);
    let toolkits = crate::compat::catalogue::toolkits();
    let paths = crate::model::path::PathId::ALL;
    let cells: Vec<_> = (0..10_000)
        .map(|at| (axes("t", &paths[at % paths.len()].to_string(), "9.0"), toolkits[at % toolkits.len()].version))
        .collect();
    let h200 = h200();
    let once = || {
        let started = std::time::Instant::now();
        let rules: usize = cells
            .iter()
            .map(|(axes, version)| {
                predictor.cell(axes, &ToolkitSide::whole(*version), Some(&h200)).map_or(0, |found| found.rule.len())
            })
            .sum();
        assert!(rules > 0);
        started.elapsed()
    };
    let best = (0..5).map(|_| once()).min().unwrap();
    println!("10,000 cells predicted in {best:?}");
    assert!(best < std::time::Duration::from_secs(1), "{best:?}");
}
