//! How a cell can end. Its main type is [`Outcome`]; a failure also has a [`Stage`] and often a [`Code`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a cell ended. Every planned cell has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Launched on a GPU, every element compared bit for bit, before and after the timing.
    Pass,
    /// Launched, and at least one element has the wrong bits.
    WrongResult,
    /// A stage failed; the record has the stage and, where there is one, the code.
    Fail,
    /// A kernel without a manifest: built, loaded, its function fetched, not launched.
    Loaded,
    /// Compiled and inspected; there was no GPU to load it on.
    Built,
    /// The path cannot run here, for the reason given.
    Skip,
    /// Failed exactly as `expect:` said.
    ExpectedFail,
    /// `expect:` said that it fails, and it did not.
    UnexpectedPass,
    /// The path's deadline passed.
    Timeout,
    /// The process that ran the path died of a signal.
    Crashed,
    /// The kernel killed a process of the container for its memory.
    Oom,
    /// The container ended without the final frame, or a frame was damaged.
    Truncated,
    /// The engine failed, not the cell.
    Infra,
    /// Interrupted while it ran.
    Cancelled,
    /// Never started.
    NotRun,
}

impl Outcome {
    /// Every outcome, in the order in which counts are listed.
    pub const ALL: [Self; 15] = [
        Self::Pass,
        Self::Built,
        Self::Loaded,
        Self::ExpectedFail,
        Self::Skip,
        Self::WrongResult,
        Self::Fail,
        Self::UnexpectedPass,
        Self::Timeout,
        Self::Crashed,
        Self::Oom,
        Self::Truncated,
        Self::Infra,
        Self::Cancelled,
        Self::NotRun,
    ];

    /// The word used in reports and in `expect:`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::WrongResult => "wrong-result",
            Self::Fail => "fail",
            Self::Loaded => "loaded",
            Self::Built => "built",
            Self::Skip => "skip",
            Self::ExpectedFail => "expected-fail",
            Self::UnexpectedPass => "unexpected-pass",
            Self::Timeout => "timeout",
            Self::Crashed => "crashed",
            Self::Oom => "oom",
            Self::Truncated => "truncated",
            Self::Infra => "infra",
            Self::Cancelled => "cancelled",
            Self::NotRun => "not-run",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The stages of one path, in order. A failure names its stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The toolkit is put on this machine.
    Provision,
    /// The container or process starts.
    Start,
    /// libcuda is opened and `cuInit` called; the primary context and the buffers are made.
    DriverInit,
    /// A Python library is imported.
    Import,
    /// The artifact is made or read.
    Build,
    /// `cuModuleLoadDataEx`.
    Load,
    /// `cuModuleGetFunction`.
    GetFunction,
    /// The first launch, up to its synchronisation.
    FirstLaunch,
    /// Every element is compared.
    Verify,
    /// Warm-up and timed launches.
    Steady,
    /// Every element is compared again.
    VerifyAfter,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 11] = [
        Self::Provision,
        Self::Start,
        Self::DriverInit,
        Self::Import,
        Self::Build,
        Self::Load,
        Self::GetFunction,
        Self::FirstLaunch,
        Self::Verify,
        Self::Steady,
        Self::VerifyAfter,
    ];

    /// The word used in reports and in `expect:`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Start => "start",
            Self::DriverInit => "driver-init",
            Self::Import => "import",
            Self::Build => "build",
            Self::Load => "load",
            Self::GetFunction => "get-function",
            Self::FirstLaunch => "first-launch",
            Self::Verify => "verify",
            Self::Steady => "steady",
            Self::VerifyAfter => "verify-after",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An error code of the CUDA driver, of NVRTC, of a process, or of the system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Code {
    /// The name in the field's own spelling: `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`, `NVRTC_ERROR_COMPILATION`,
    /// `SIGSEGV`, `ENOENT`, or `EXIT` for a process's exit status.
    pub name: String,
    /// The number behind the name.
    pub number: i64,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_json_holds() {
        for outcome in Outcome::ALL {
            assert_eq!(serde_json::to_string(&outcome).unwrap(), format!("\"{}\"", outcome.name()));
        }
        for stage in Stage::ALL {
            assert_eq!(serde_json::to_string(&stage).unwrap(), format!("\"{}\"", stage.name()));
        }
    }
}
