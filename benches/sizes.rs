//! How long a matrix of 10,000 cells takes to be planned and to be rendered, and how much memory: `cargo bench --bench
//! sizes`. It fails where a limit of [`LIMITS`] is passed. The journal's own file system calls are not part of it.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ctk_matrix::compat::catalogue;
use ctk_matrix::model::arch::Arch;
use ctk_matrix::model::expand::{Selection, expand};
use ctk_matrix::model::outcome::{Code, Outcome, Stage};
use ctk_matrix::model::path::Form;
use ctk_matrix::model::plan::{Cell, Plan};
use ctk_matrix::model::record::{Artifact, EngineInfo, EngineKind, GpuMode, Host, Record, Report, Run, Timings};
use ctk_matrix::model::spec::{self, Input, Known};
use ctk_matrix::report::read::assemble;
use ctk_matrix::report::summary::Summary;
use ctk_matrix::report::terminal::Terminal;
use ctk_matrix::report::{json, junit, markdown, terminal};

/// What is measured, and the most that it may take.
const LIMITS: [(&str, Duration); 6] = [
    ("plan", Duration::from_millis(200)),
    ("summary", Duration::from_secs(1)),
    ("terminal", Duration::from_secs(1)),
    ("markdown", Duration::from_secs(1)),
    ("json", Duration::from_secs(1)),
    ("junit", Duration::from_secs(1)),
];
/// Peak resident memory, in bytes.
const MEMORY: u64 = 200 << 20;

const KERNEL: &str = "// snippet: kernel\nextern void k(float* a) {}\n// end snippet\n";

fn main() -> ExitCode {
    let text = matrix();
    let mut times = Vec::new();
    let plan = timed(&mut times, || plan(&text));
    assert!(plan.cells.len() >= 10_000, "{} cells", plan.cells.len());
    let report = report(&plan);
    let summary = timed(&mut times, || Summary::new(&report, &[]));
    let wide = Terminal { width: 120, colour: false, runner: false };
    let rendered = [
        timed(&mut times, || terminal::render(&summary, &wide)),
        timed(&mut times, || markdown::render(&summary)),
        timed(&mut times, || json::render(&report)),
        timed(&mut times, || junit::render(&summary)),
    ];
    let mut well = true;
    println!("{} cells in {} jobs", plan.cells.len(), plan.jobs.len());
    for ((what, limit), took) in LIMITS.iter().zip(&times) {
        println!("{what:>9} {:8.1} ms, at most {} ms", took.as_secs_f64() * 1000.0, limit.as_millis());
        well &= took <= limit;
    }
    println!("rendered  {} bytes each", rendered.map(|text| text.len().to_string()).join(", "));
    let memory = peak();
    println!("   memory {:8.1} MiB, at most {} MiB", memory as f64 / f64::from(1 << 20), MEMORY >> 20);
    if well && memory <= MEMORY { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn timed<T>(times: &mut Vec<Duration>, work: impl FnOnce() -> T) -> T {
    let since = Instant::now();
    let made = work();
    times.push(since.elapsed());
    made
}

/// Forty kernels, every toolkit from 12.0 to 13.0, five architectures.
fn matrix() -> String {
    let mut text =
        "version: 1\npaths: [nvrtc, nvcc]\narch: [\"7.5\", \"8.0\", \"8.6\", \"8.9\", \"9.0\"]\nkernels:\n".to_owned();
    for number in 0..40 {
        let _ = writeln!(text, "  - {{name: k{number}, file: k.cu, entry: k}}");
    }
    text.push_str("toolkits: [\"12.0\", \"12.1\", \"12.2\", \"12.3\", \"12.4\", \"12.5\", \"12.6\", \"12.8\", \"12.9\", \"13.0\"]\n");
    text
}

fn plan(text: &str) -> Plan {
    let versions = catalogue::versions();
    let known = Known { versions: &versions, not_published: &catalogue::unknown };
    let read = |_: &std::path::Path| Ok(KERNEL.as_bytes().to_vec());
    let input = Input { origin: "bench", bytes: text.as_bytes(), dir: std::path::Path::new("/"), read: &read };
    let matrix = spec::read(&input, &known).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    expand(&matrix, &Selection::parse::<&str>(&[]).unwrap(), Arch::WITHOUT_GPU).unwrap()
}

/// Every fifth cell failed, with a page of a compiler's complaints.
fn report(plan: &Plan) -> Report {
    let run = Run {
        id: "r".into(),
        started: "2026-12-01T10:00:00Z".into(),
        finished: Some("2026-12-01T10:00:01Z".into()),
        command: "ctk-matrix run".into(),
        version: "0".into(),
        jobs: 1,
        gpu_mode: GpuMode::None,
        engine: EngineInfo { kind: EngineKind::Docker, version: None, api: None },
        attach: "none".into(),
        host: Host { os: "linux".into(), arch: "x86_64".into(), glibc: None, kernel: String::new(), cpus: 2 },
        gpu: None,
        matrix: "bench".into(),
        notes: Vec::new(),
        canary: None,
        stacks: Vec::new(),
    };
    let records = plan.cells.iter().enumerate().map(|(at, cell)| record(at, cell)).collect();
    assemble(run, &plan.cells, records, Vec::new(), Vec::new())
}

fn record(at: usize, cell: &Cell) -> Record {
    let failed = at.is_multiple_of(5);
    let outcome = if failed { Outcome::Fail } else { Outcome::Built };
    Record {
        expected: !failed,
        stage: failed.then_some(Stage::Build),
        code: failed.then(|| Code { name: "NVRTC_ERROR_COMPILATION".into(), number: 6 }),
        reason: failed.then(|| format!("k.cu({at}): error: identifier is undefined")),
        detail: failed.then(|| format!("k.cu({at}): error: identifier \"x\" is undefined\n").repeat(40)),
        attempts: 1,
        artifact: (!failed).then(artifact),
        timings: Timings { build_ms: Some(12.5), ..Timings::default() },
        ..Record::new("r", cell.axes.clone(), outcome)
    }
}

fn artifact() -> Artifact {
    Artifact {
        kind: Form::Ptx,
        bytes: 5115,
        sha256: "ab".repeat(32),
        producer: "NVRTC 12.6".into(),
        ptx_isa: None,
        archs: vec!["compute_75".into()],
        registers: None,
        spill_bytes: None,
        shared_bytes: None,
    }
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    peak.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kilobytes| kilobytes << 10)
}
