//! A call of the driver that failed. The main type is [`CudaError`].

use crate::model::outcome::{Code, Stage};
use crate::model::wire::Failure;

/// A call of the driver that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) struct CudaError {
    /// The function's name.
    pub(super) call: &'static str,
    /// What it returned.
    pub(super) code: u32,
    /// The code's name, as the driver has it.
    pub(super) name: String,
    /// The driver's sentence for the code.
    pub(super) text: Option<String>,
    /// The JIT compiler's log, where it wrote one.
    pub(super) log: Option<String>,
}

impl CudaError {
    /// Whether the code leaves the context unusable, so that every later call returns it too: cuda.h says of these
    /// that the process must be ended to go on.
    pub(in crate::bench) fn is_sticky(&self) -> bool {
        matches!(
            self.code,
            // DEINITIALIZED, ECC_UNCORRECTABLE, NVLINK_UNCORRECTABLE, CONTAINED
            4 | 214 | 220 | 226
            // ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, CONTEXT_IS_DESTROYED, ASSERT
            | 700 | 702 | 709 | 710
            // HARDWARE_STACK_ERROR, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS, INVALID_ADDRESS_SPACE, INVALID_PC,
            // LAUNCH_FAILED, TENSOR_MEMORY_LEAK
            | 714
                ..=719 | 721
            // UNKNOWN
            | 999
        )
    }

    /// The failure of a stage.
    pub(in crate::bench) fn at(self, stage: Stage) -> Failure {
        let text = self.text.unwrap_or_else(|| self.name.clone());
        // ptxas's first complaint says more than the driver's sentence for the code.
        let complaint = self.log.as_deref().and_then(first_complaint).map(|line| format!(": {line}"));
        Failure {
            stage,
            code: Some(Code { name: self.name, number: self.code.into() }),
            reason: format!("{}: {}{}", self.call, text.trim_end_matches('.'), complaint.unwrap_or_default()),
            detail: self.log,
        }
    }
}

fn first_complaint(log: &str) -> Option<&str> {
    log.lines().map(str::trim).find(|line| !line.is_empty())
}

/// Names of codes that a libcuda may return before it can name them: a stub exports `cuGetErrorName` and answers it
/// with an error.
pub(super) fn fallback_name(code: u32) -> String {
    let name = match code {
        1 => "CUDA_ERROR_INVALID_VALUE",
        2 => "CUDA_ERROR_OUT_OF_MEMORY",
        3 => "CUDA_ERROR_NOT_INITIALIZED",
        34 => "CUDA_ERROR_STUB_LIBRARY",
        46 => "CUDA_ERROR_DEVICE_UNAVAILABLE",
        100 => "CUDA_ERROR_NO_DEVICE",
        101 => "CUDA_ERROR_INVALID_DEVICE",
        304 => "CUDA_ERROR_OPERATING_SYSTEM",
        802 => "CUDA_ERROR_SYSTEM_NOT_READY",
        803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        804 => "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        999 => "CUDA_ERROR_UNKNOWN",
        other => return format!("CUDA_ERROR_{other}"),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_the_call_and_the_first_line_of_the_log() {
        let error = CudaError {
            call: "cuModuleLoadDataEx",
            code: 222,
            name: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION".into(),
            text: Some("the provided PTX was compiled with an unsupported toolchain.".into()),
            log: Some("\nptxas x, line 9; fatal : Unsupported .version 9.1; current version is '9.0'\n".into()),
        };
        let failure = error.at(Stage::Load);
        assert_eq!(
            failure.reason,
            "cuModuleLoadDataEx: the provided PTX was compiled with an unsupported toolchain: \
             ptxas x, line 9; fatal : Unsupported .version 9.1; current version is '9.0'"
        );
        assert_eq!(failure.code.unwrap().to_string(), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)");
    }

    #[test]
    fn only_codes_that_end_a_context_are_sticky() {
        let sticky = |code| CudaError { call: "", code, name: String::new(), text: None, log: None }.is_sticky();
        let found: Vec<u32> = (0..1000).filter(|code| sticky(*code)).collect();
        assert_eq!(found, [4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999]);
    }
}
