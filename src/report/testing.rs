//! Small builders for the tests of this folder. Its main function is [`record`].

use crate::model::arch::Arch;
use crate::model::axes::Axes;
use crate::model::outcome::Outcome;
use crate::model::plan::Cell;
use crate::model::record::{EngineInfo, EngineKind, Gpu, GpuMode, Host, Record, Run};
use crate::model::version::Version;

/// A run without a GPU.
pub(super) fn run(id: &str, started: &str) -> Run {
    Run {
        id: id.into(),
        started: started.into(),
        finished: Some(started.into()),
        command: "ctk-matrix run".into(),
        version: "0.1.0".into(),
        jobs: 1,
        gpu_mode: GpuMode::None,
        engine: EngineInfo { kind: EngineKind::Process, version: None, api: None },
        attach: "none".into(),
        host: Host { os: "linux".into(), arch: "x86_64".into(), glibc: None, kernel: String::new(), cpus: 0 },
        gpu: None,
        canary: None,
        matrix: "built-in".into(),
        notes: Vec::new(),
        stacks: Vec::new(),
    }
}

/// The GPU of this UUID, under a driver.
pub(super) fn gpu(uuid: &str, driver: &str) -> Gpu {
    Gpu {
        name: "NVIDIA H200".into(),
        uuid: uuid.into(),
        cc: Arch::new(9, 0),
        driver: driver.into(),
        cuda: Version::new(13, 0),
        l2_bytes: 62_914_560,
        peak_gbps: None,
    }
}

/// The nvrtc-cubin cell of a toolkit.
pub(super) fn cell(toolkit: &str) -> Cell {
    let axes = Axes {
        toolkit: toolkit.into(),
        path: "nvrtc-cubin".parse().unwrap(),
        kernel: "vector_add".into(),
        arch: Arch::new(9, 0),
        stack: None,
    };
    Cell { id: axes.id(), axes, expectation: None }
}

/// How that cell ended in a run, as expected.
pub(super) fn record(run: &str, toolkit: &str, outcome: Outcome) -> Record {
    let cell = cell(toolkit);
    Record { expected: true, attempts: 1, ..Record::new(run, cell.axes, outcome) }
}
