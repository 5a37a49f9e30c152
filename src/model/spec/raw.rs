//! What the user wrote, key by key, before anything is looked up. Its main type is [`RawMatrix`].
//! The comments become the descriptions of the JSON schema (`ctk-matrix schema`) that editors show.

use schemars::JsonSchema;
use serde::Deserialize;

use super::schema;

/// One value, or a list of them.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum OneOrMany<T> {
    // The list stands first, because `serde` would also fill the fields of one map from a list.
    /// A list.
    Many(Vec<T>),
    /// One value.
    One(T),
}

impl<T> OneOrMany<T> {
    /// The values.
    pub fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(value) => vec![value],
            Self::Many(values) => values,
        }
    }
}

impl<T> Default for OneOrMany<T> {
    /// No values: an axis that is not named.
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

/// A ctk-matrix file: which kernel to load, by which paths, on which CUDA Toolkits.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The first pass holds both to be there; without them here, the rest of a faulty file can still be looked at.
#[schemars(title = "ctk-matrix", extend("required" = ["version", "toolkits"]))]
pub struct RawMatrix {
    /// The version of this format: 1.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// The CUDA Toolkits, in the order of the report.
    #[serde(default)]
    pub toolkits: OneOrMany<RawToolkit>,
    /// Families (`driver`, `nvrtc`, `nvcc`), exact paths (`nvrtc-cubin`), or Python libraries (`cupy`). All families if
    /// not said; the libraries only where there are `stacks`.
    #[serde(default)]
    #[schemars(schema_with = "schema::paths")]
    pub paths: Option<OneOrMany<String>>,
    /// Kernels: `kernels/NAME.cu` beside this file, else the one built in. `vector_add` if not said.
    #[serde(default)]
    pub kernels: Option<OneOrMany<RawKernel>>,
    /// Compute capabilities to build for, such as `"9.0"`, or `native`, which is also what holds if not said.
    #[serde(default)]
    pub arch: Option<OneOrMany<String>>,
    /// Sets of Python packages, for the paths `cuda-core`, `cupy`, `numba` and `pycuda`. With any, every path is run
    /// beside each.
    #[serde(default)]
    pub stacks: OneOrMany<RawStack>,
    /// Cells to leave out.
    #[serde(default)]
    pub exclude: Vec<RawExclude>,
    /// Cells to add after `exclude`. An axis that is not named takes the matrix's own values.
    #[serde(default)]
    pub include: Vec<RawInclude>,
    /// What is expected to happen instead of a pass.
    #[serde(default)]
    pub expect: Vec<RawExpect>,
    /// Sentences that the run puts to the test.
    #[serde(default)]
    pub claims: Vec<super::raw_claims::RawClaim>,
    /// Machines that are not here: what would load on each is predicted, and built for.
    #[serde(default)]
    pub fleet: Vec<RawFleetEntry>,
    /// How often to launch.
    #[serde(default)]
    pub measure: RawMeasure,
    /// What one job may use.
    #[serde(default)]
    pub limits: RawLimits,
}

/// A toolkit.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RawToolkit {
    /// A version (`"12.4"`) or a set of them: `"12.x"`, `">=12.4 <13"`, `oldest`, `newest`.
    Versions(String),
    /// One toolkit in full.
    Entry(RawToolkitEntry),
}

/// One toolkit in full.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawToolkitEntry {
    /// The name in reports; the version if not said.
    #[serde(default)]
    pub name: Option<String>,
    /// The version, `"12.4"`.
    pub version: String,
    /// A folder laid out as `/usr/local/cuda` is. A relative one starts at this file's folder.
    #[serde(default)]
    pub dir: Option<String>,
    /// An image that holds the toolkit.
    #[serde(default)]
    pub image: Option<String>,
    /// An image to run in, for a toolkit that comes from wheels or a folder.
    #[serde(default)]
    pub base: Option<String>,
}

/// A kernel.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RawKernel {
    /// `kernels/NAME.cu` beside this file, else the one built in.
    Name(String),
    /// A kernel of your own: it is built and loaded, and not launched.
    Entry(RawKernelEntry),
}

/// A kernel of the user's own.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawKernelEntry {
    /// The file, relative to this one: CUDA C++ (`.cu`, `.cuh`) or an artifact (`.ptx`, `.cubin`, `.fatbin`).
    pub file: String,
    /// The function's name as the driver looks it up: unmangled with `extern "C"`, else mangled.
    pub entry: String,
    /// Further compiler options, the same for NVRTC and nvcc.
    #[serde(default)]
    pub options: Vec<String>,
    /// The name in reports; the file's name without its ending if not said.
    #[serde(default)]
    pub name: Option<String>,
}

/// A set of Python packages.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawStack {
    /// The name in reports.
    pub name: String,
    /// The interpreter's version, `"3.11"`, or `host`: the machine's or the image's python3 with what is installed for it.
    pub python: String,
    /// What to install, as pip takes it: `numpy==1.26.4`, `cuda-core[cu12]==1.1.1`. None for `host`.
    #[serde(default)]
    pub packages: Vec<String>,
    /// An image to run on with its Python, for toolkits from wheels or a folder. With `host`, what is installed there.
    #[serde(default)]
    pub base: Option<String>,
}

/// Cells to leave out. An axis that is not named matches everything.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawExclude {
    /// Versions, sets of versions, or names of entries.
    #[serde(default)]
    pub toolkit: OneOrMany<String>,
    /// Families or exact paths.
    #[serde(default)]
    #[schemars(schema_with = "schema::paths")]
    pub path: OneOrMany<String>,
    /// Names of kernels.
    #[serde(default)]
    pub kernel: OneOrMany<String>,
    /// Compute capabilities.
    #[serde(default)]
    pub arch: OneOrMany<String>,
    /// Names of stacks.
    #[serde(default)]
    pub stack: OneOrMany<String>,
    /// Why they are left out; the report says it.
    pub reason: String,
    /// Where to read more.
    #[serde(default)]
    pub link: Option<String>,
}

/// Cells to add.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawInclude {
    /// Toolkits, as `toolkits` takes them, or names of entries there.
    #[serde(default)]
    pub toolkit: OneOrMany<RawToolkit>,
    /// Families or exact paths.
    #[serde(default)]
    #[schemars(schema_with = "schema::paths")]
    pub path: OneOrMany<String>,
    /// Names of kernels.
    #[serde(default)]
    pub kernel: OneOrMany<String>,
    /// Compute capabilities.
    #[serde(default)]
    pub arch: OneOrMany<String>,
}

/// What is expected to happen instead of a pass. An axis that is not named matches everything.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawExpect {
    /// Versions, sets of versions, or names of entries.
    #[serde(default)]
    pub toolkit: OneOrMany<String>,
    /// Families or exact paths.
    #[serde(default)]
    #[schemars(schema_with = "schema::paths")]
    pub path: OneOrMany<String>,
    /// Names of kernels.
    #[serde(default)]
    pub kernel: OneOrMany<String>,
    /// Compute capabilities.
    #[serde(default)]
    pub arch: OneOrMany<String>,
    /// Names of stacks.
    #[serde(default)]
    pub stack: OneOrMany<String>,
    /// What must happen, as the cell itself has it: `fail`, `skip`, `timeout`, …
    #[schemars(schema_with = "schema::outcome")]
    pub outcome: String,
    /// The stage at which it must fail: `build`, `load`, …
    #[serde(default)]
    #[schemars(schema_with = "schema::stage")]
    pub stage: Option<String>,
    /// The name of the code that it must fail with: `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`.
    #[serde(default)]
    pub code: Option<String>,
    /// Why; the report says it.
    pub reason: String,
}

/// A machine that is not here.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawFleetEntry {
    /// Its driver: `"535.104.05"`, or the branch, `"535"`.
    pub driver: String,
    /// Its GPU by name (`T4`, `H200`, `RTX 5090`), or its compute capability, `"7.5"`.
    pub gpu: String,
}

/// How often to launch.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawMeasure {
    /// Launches before the timed ones; 3 if not said.
    #[serde(default)]
    pub warmup: Option<u32>,
    /// Timed launches; 10 if not said.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub timed: Option<u32>,
    /// `shared` (if not said): the paths of a job share a process, and only the first of them pays for its start.
    /// `each`: every path has a process of its own, and the time from its start to its first verified result is measured.
    #[serde(default)]
    #[schemars(schema_with = "schema::process")]
    pub process: Option<String>,
}

/// What one job may use.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawLimits {
    /// The deadline of one path: `120s`, `2m`, `500ms`; `120s` if not said.
    #[serde(default)]
    pub timeout: Option<String>,
    /// Memory: `8GiB`, `512MiB`, `8GB`; `8GiB` if not said.
    #[serde(default)]
    pub memory: Option<String>,
    /// Processes and threads; 256 if not said.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub pids: Option<u32>,
}
