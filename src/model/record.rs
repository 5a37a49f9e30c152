//! What came out: one [`Record`] for every planned cell, and the [`Report`] that holds them.
//! The field names are `report.json`'s, which others rely on: renaming one raises [`SCHEMA`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::axes::Axes;
use super::outcome::{Code, Outcome, Stage};
use super::version::Version;

/// The version of `report.json`, `run.json` and `records.jsonl`.
pub const SCHEMA: u32 = 1;

/// `report.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Whether every planned cell ran to its end: false after an interruption.
    pub complete: bool,
    /// How many cells ended how, by outcome name.
    pub counts: BTreeMap<String, usize>,
    /// The runs that were merged; one for a live run.
    pub runs: Vec<Run>,
    /// Every planned cell, in plan order.
    pub cells: Vec<Record>,
    /// Combinations that are not cells, each with its reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<super::plan::Excluded>,
    /// Earlier attempts at a cell on the same GPU and driver, which a newer run of a merged report replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<Record>,
    /// What a note claims, and what came of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<super::claim::ClaimResult>,
}

/// One run of `ctk-matrix run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Unguessable, sorts by time.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC; none while the run goes on and after a kill.
    #[serde(default)]
    pub finished: Option<String>,
    /// The command line, with paths shortened.
    pub command: String,
    /// The version of `ctk-matrix`.
    pub version: String,
    /// Jobs side by side.
    pub jobs: usize,
    /// Whether a GPU launched anything.
    pub gpu_mode: GpuMode,
    /// What ran the jobs.
    pub engine: EngineInfo,
    /// How the GPU reached the containers: one mode, several joined by `+`, or `none`.
    pub attach: String,
    /// The machine.
    pub host: Host,
    /// The GPU, as the driver inside the container described it.
    pub gpu: Option<Gpu>,
    /// The two cells outside the matrix that show whether a failure would be noticed; none without a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<super::canary::Canary>,
    /// Where the matrix was read from: a path, or `built-in`.
    #[serde(default)]
    pub matrix: String,
    /// Remarks on the whole run, one line each: where toolkits came from, what was not limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What became of each stack of Python packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<super::stack::StackRecord>,
}

/// Whether a GPU launched anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuMode {
    /// NVIDIA's driver.
    Real,
    /// The test suite's stand-in for the driver: nothing that it says is a pass on a GPU.
    Fake,
    /// Nothing was launched.
    None,
}

/// What ran the jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// Containers, or child processes.
    pub kind: EngineKind,
    /// The engine's own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version of its API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
}

/// Containers, or child processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// A Docker-compatible engine.
    Docker,
    /// Child processes of `ctk-matrix`.
    Process,
}

/// The machine, without its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// `linux`.
    pub os: String,
    /// `x86_64`.
    pub arch: String,
    /// The C library's version, where it is glibc.
    #[serde(default)]
    pub glibc: Option<String>,
    /// The kernel's release.
    #[serde(default)]
    pub kernel: String,
    /// Logical processors.
    #[serde(default)]
    pub cpus: usize,
}

/// A GPU and its driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// `NVIDIA H200`.
    pub name: String,
    /// `GPU-…`.
    pub uuid: String,
    /// Compute capability, `9.0`.
    pub cc: super::arch::Arch,
    /// The driver's version, `580.159.04`; empty if it could not be read.
    pub driver: String,
    /// The CUDA version that the driver implements (`cuDriverGetVersion`).
    pub cuda: Version,
    /// Level-2 cache, bytes.
    pub l2_bytes: u64,
    /// Theoretical memory bandwidth, GB/s: 2 x memory clock x bus width. None where an attribute is 0.
    pub peak_gbps: Option<f64>,
}

/// How one cell ended, and everything that was learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The run's id.
    pub run: String,
    /// The cell's id.
    pub id: String,
    /// Its coordinates.
    pub axes: Axes,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether that is what was expected of it.
    pub expected: bool,
    /// Where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// What it failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// One line: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The raw text behind the reason: a compiler's log, an engine's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Where the toolkit came from; for the driver family, the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// How the GPU reached the container, as verified inside; none without a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach: Option<String>,
    /// The UUID of the GPU that launched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// The libraries and programs that were really used.
    #[serde(default)]
    pub loaded: Loaded,
    /// What was handed to the driver, or would have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// Milliseconds, each absent where it was not measured.
    #[serde(default)]
    pub timings: Timings,
    /// The caches of compiled kernels that the times of a Python library depend on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<super::kernel_cache::KernelCache>,
    /// The comparison, where something was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<Bits>,
    /// What the rules said beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
    /// What the rules say of machines that are not here, from the artifact that was built.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fleet: Vec<FleetPrediction>,
    /// What the failure means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// What `expect:` said, where it said something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expectation: Option<super::matrix::Expectation>,
}

impl Record {
    /// A record with nothing learned yet, and not as expected.
    #[must_use]
    pub fn new(run: &str, axes: Axes, outcome: Outcome) -> Self {
        Self {
            run: run.into(),
            id: axes.id(),
            axes,
            outcome,
            expected: false,
            stage: None,
            code: None,
            reason: None,
            detail: None,
            attempts: 0,
            source: None,
            attach: None,
            gpu: None,
            loaded: Loaded::default(),
            artifact: None,
            timings: Timings::default(),
            caches: Vec::new(),
            bits: None,
            predicted: None,
            fleet: Vec::new(),
            explanation: None,
            expectation: None,
        }
    }
}

/// Where a toolkit or an artifact came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The kind of place.
    pub kind: SourceKind,
    /// An image reference, wheel pins joined by spaces, a folder, or a file of this project.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The image's id or digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What is known of the image, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
}

/// The image that a toolkit came from: what its containers were created from, and what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImageSource {
    /// The id by which containers were created. On an engine with the containerd store it is a manifest's digest.
    pub id: String,
    /// What the tag stood for in its registry: the digest of an index over platforms, or of one manifest. None for an
    /// image that was built or loaded here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_digest: Option<String>,
    /// The digest of this platform's manifest, where the registry was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_digest: Option<String>,
    /// The C library's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// `NVIDIA_REQUIRE_CUDA`, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_cuda: Option<String>,
    /// The folder of forward-compatibility libraries in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compat: Option<String>,
}

/// The kind of place that a toolkit came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// A container image.
    Image,
    /// NVIDIA's Python packages.
    Wheels,
    /// A folder on the host.
    Dir,
    /// An artifact made beforehand.
    Prebuilt,
}

/// The libraries and programs that were really used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Loaded {
    /// libcuda.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<LoadedFile>,
    /// libnvrtc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvrtc: Option<LoadedFile>,
    /// nvcc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvcc: Option<LoadedFile>,
    /// The Python library, by the file of its package's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<LoadedFile>,
    /// The Python interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<LoadedFile>,
}

/// One file that was loaded or run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedFile {
    /// Its path, from `$CACHE`, `$HOME` or the container's root.
    pub path: String,
    /// The version that it gave of itself.
    pub version: String,
    /// The SHA-256 of its bytes.
    pub sha256: String,
}

/// What was handed to the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// PTX, cubin or fatbin.
    pub kind: super::path::Form,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes, under which it is kept.
    pub sha256: String,
    /// What made it: `NVRTC 12.6`, `nvcc 12.4.131`, or what the artifact says of itself.
    pub producer: String,
    /// The PTX ISA of the PTX in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptx_isa: Option<Version>,
    /// The architectures in it: `sm_90` for machine code, `compute_90` for PTX.
    pub archs: Vec<String>,
    /// Registers a thread, as the driver or the machine code says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Bytes of local memory a thread that the compiler spilled or kept on the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill_bytes: Option<u32>,
    /// Bytes of static shared memory a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<u32>,
}

/// Milliseconds and rates, each absent where it was not measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timings {
    /// Wall clock round the compile step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_ms: Option<f64>,
    /// Wall clock round module load and get function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_ms: Option<f64>,
    /// Wall clock round the first launch to its synchronisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<f64>,
    /// From the start of the worker process to the first verified result, by the clock of the process that started it.
    /// Only the first path of a process has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_ms: Option<f64>,
    /// CUDA events round the timed launches, divided by their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// What one launch costs the host: wall clock round the launches of a small grid into an idle stream, not
    /// synchronised, divided by their number; the median of several such batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_ms: Option<f64>,
    /// Bytes that must move, over `mean_ms`; 1 GB is 1e9 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gbps: Option<f64>,
    /// Launches before the timed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u32>,
    /// Timed launches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed: Option<u32>,
    /// Whether other jobs ran at the same time: such a `build_ms` compares with nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contended: Option<bool>,
}

/// The bit-for-bit comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bits {
    /// Elements compared.
    pub checked: u64,
    /// Elements that differ.
    pub mismatches: u64,
    /// The first that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Mismatch>,
    /// The SHA-256 of the output's little-endian bytes.
    pub sha256: String,
}

/// One element with the wrong bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Its index.
    pub index: u64,
    /// What was read back: nine significant digits, which tell every float32 apart, or `NaN (0x7fc00000)`.
    pub got: String,
    /// What one float32 addition gives.
    pub want: String,
}

/// What the rules said beforehand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predicted {
    /// The outcome.
    pub outcome: Outcome,
    /// The stage at which it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// What it fails with; none where that is not known beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The id of the rule that decided.
    pub rule: String,
    /// Whether that is what happened; none before it has, and where the end says nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agrees: Option<bool>,
}

/// What the rules say of one machine of `fleet:`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetPrediction {
    /// The driver, as the matrix has it.
    pub driver: String,
    /// The GPU, as the matrix has it.
    pub gpu: String,
    /// What the rules say.
    #[serde(flatten)]
    pub predicted: Predicted,
}

/// What a failure means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// What it says.
    pub what: String,
    /// Why it happens in containers.
    pub why: String,
    /// What to do.
    pub remedy: String,
    /// Where that is known from.
    pub source: String,
}
