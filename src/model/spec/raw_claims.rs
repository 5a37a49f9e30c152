//! `claims:` as the user writes it. Its main type is [`RawClaim`]; which keys of it go together is looked at in
//! `claims.rs`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::raw::OneOrMany;
use super::schema;

/// A sentence, and how it is put to the test: by `cells` and `observe`, or by one of `resolve`, `import`, `compile` and
/// `boundary`, which need no GPU.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawClaim {
    /// The sentence. The report says of it: holds, does not hold, or not tested.
    pub says: String,
    /// The cells that it speaks of. An axis that is not named matches everything.
    #[serde(default)]
    pub cells: Option<RawClaimCells>,
    /// What must be observed of each of these cells.
    #[serde(default)]
    pub observe: Option<RawObserve>,
    /// pip chooses versions among what its index gives today, with `run --locked` too, and installs nothing.
    #[serde(default)]
    pub resolve: Option<RawResolve>,
    /// A module is imported in a throw-away environment.
    #[serde(default)]
    pub import: Option<RawImport>,
    /// A kernel is compiled in a throw-away environment, for a named compute capability.
    #[serde(default)]
    pub compile: Option<RawCompile>,
    /// The version of one package at which the test turns is looked for by bisection.
    #[serde(default)]
    pub boundary: Option<RawBoundary>,
}

/// The cells of a claim.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawClaimCells {
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
}

/// What must be observed of a cell.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawObserve {
    /// The outcome, as the cell itself has it: `pass`, `built`, `fail`, `skip`, …
    #[schemars(schema_with = "schema::outcome")]
    pub outcome: String,
    /// The stage at which it must fail: `build`, `load`, …
    #[serde(default)]
    #[schemars(schema_with = "schema::stage")]
    pub stage: Option<String>,
    /// The name of the code that it must fail with.
    #[serde(default)]
    pub code: Option<String>,
    /// Text that the reason or the log must hold.
    #[serde(default)]
    pub text: Option<String>,
}

/// pip chooses versions, and installs nothing.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawResolve {
    /// The Python to choose for, `"3.12"`; that of this machine if not said.
    #[serde(default)]
    pub python: Option<String>,
    /// What is asked for, as pip takes it: `"cupy-cuda12x==14.2.0"`.
    #[serde(default)]
    pub packages: OneOrMany<String>,
    /// Text with which it must fail; it must succeed if not said.
    #[serde(default)]
    pub fails_with: Option<String>,
    /// What the choice must meet: `"numpy>=2.5"`.
    #[serde(default)]
    pub gives: OneOrMany<String>,
}

/// A module is imported.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawImport {
    /// The Python, `"3.12"`; `host` for this machine's with what is installed for it; this machine's alone if not said.
    #[serde(default)]
    pub python: Option<String>,
    /// What is installed, as pip takes it.
    #[serde(default)]
    pub packages: OneOrMany<String>,
    /// Text with which it must fail; it must succeed if not said.
    #[serde(default)]
    pub fails_with: Option<String>,
    /// The module: `numba.cuda`.
    pub module: String,
}

/// A kernel is compiled.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawCompile {
    /// The Python, `"3.12"`; `host` for this machine's with what is installed for it; this machine's alone if not said.
    #[serde(default)]
    pub python: Option<String>,
    /// What is installed, as pip takes it.
    #[serde(default)]
    pub packages: OneOrMany<String>,
    /// Text with which it must fail; it must succeed if not said.
    #[serde(default)]
    pub fails_with: Option<String>,
    /// The library that compiles: `numba`.
    #[schemars(extend("enum" = ["numba"]))]
    pub with: String,
    /// The compute capability; `"7.5"` if not said.
    #[serde(default)]
    pub capability: Option<String>,
}

/// A boundary is looked for.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawBoundary {
    /// The Python, `"3.12"`; `host` for this machine's with what is installed for it; this machine's alone if not said.
    #[serde(default)]
    pub python: Option<String>,
    /// What is installed beside the pin, as pip takes it.
    #[serde(default)]
    pub packages: OneOrMany<String>,
    /// Text by which a failure is a bad version; any failure if not said.
    #[serde(default)]
    pub fails_with: Option<String>,
    /// The module to import. Without this and without `with`, it is pip's choice that succeeds or fails.
    #[serde(default)]
    pub module: Option<String>,
    /// The library that compiles a kernel: `numba`.
    #[serde(default)]
    #[schemars(extend("enum" = ["numba"]))]
    pub with: Option<String>,
    /// The compute capability; `"7.5"` if not said.
    #[serde(default)]
    pub capability: Option<String>,
    /// The package whose versions are tried, and which of them: `"numpy>=2.0"`.
    pub pin: String,
    /// The claimed last good version: `"2.4.6"`, or `"2.4"` for any 2.4.
    #[serde(default)]
    pub last_good: Option<String>,
    /// The claimed first bad version.
    #[serde(default)]
    pub first_bad: Option<String>,
}
