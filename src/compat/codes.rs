//! The names of error codes: the driver's `CUresult`, NVRTC's `nvrtcResult`, and Linux signals.
//! They come from here and not from the library that failed, because an old driver does not know the names of newer
//! codes, and the program without a driver has none to ask.

use crate::model::outcome::Code;

/// `CUresult` without `CUDA_ERROR_`, as of CUDA 13.5's `cuda.h`, by number.
const DRIVER: [(u32, &str); 105] = [
    (1, "INVALID_VALUE"),
    (2, "OUT_OF_MEMORY"),
    (3, "NOT_INITIALIZED"),
    (4, "DEINITIALIZED"),
    (5, "PROFILER_DISABLED"),
    (6, "PROFILER_NOT_INITIALIZED"),
    (7, "PROFILER_ALREADY_STARTED"),
    (8, "PROFILER_ALREADY_STOPPED"),
    (34, "STUB_LIBRARY"),
    (36, "CALL_REQUIRES_NEWER_DRIVER"),
    (46, "DEVICE_UNAVAILABLE"),
    (47, "MULTICAST_RESOURCE_FULL"),
    (100, "NO_DEVICE"),
    (101, "INVALID_DEVICE"),
    (102, "DEVICE_NOT_LICENSED"),
    (200, "INVALID_IMAGE"),
    (201, "INVALID_CONTEXT"),
    (202, "CONTEXT_ALREADY_CURRENT"),
    (205, "MAP_FAILED"),
    (206, "UNMAP_FAILED"),
    (207, "ARRAY_IS_MAPPED"),
    (208, "ALREADY_MAPPED"),
    (209, "NO_BINARY_FOR_GPU"),
    (210, "ALREADY_ACQUIRED"),
    (211, "NOT_MAPPED"),
    (212, "NOT_MAPPED_AS_ARRAY"),
    (213, "NOT_MAPPED_AS_POINTER"),
    (214, "ECC_UNCORRECTABLE"),
    (215, "UNSUPPORTED_LIMIT"),
    (216, "CONTEXT_ALREADY_IN_USE"),
    (217, "PEER_ACCESS_UNSUPPORTED"),
    (218, "INVALID_PTX"),
    (219, "INVALID_GRAPHICS_CONTEXT"),
    (220, "NVLINK_UNCORRECTABLE"),
    (221, "JIT_COMPILER_NOT_FOUND"),
    (222, "UNSUPPORTED_PTX_VERSION"),
    (223, "JIT_COMPILATION_DISABLED"),
    (224, "UNSUPPORTED_EXEC_AFFINITY"),
    (225, "UNSUPPORTED_DEVSIDE_SYNC"),
    (226, "CONTAINED"),
    (227, "INSUFFICIENT_LOADER_VERSION"),
    (300, "INVALID_SOURCE"),
    (301, "FILE_NOT_FOUND"),
    (302, "SHARED_OBJECT_SYMBOL_NOT_FOUND"),
    (303, "SHARED_OBJECT_INIT_FAILED"),
    (304, "OPERATING_SYSTEM"),
    (400, "INVALID_HANDLE"),
    (401, "ILLEGAL_STATE"),
    (402, "LOSSY_QUERY"),
    (500, "NOT_FOUND"),
    (600, "NOT_READY"),
    (700, "ILLEGAL_ADDRESS"),
    (701, "LAUNCH_OUT_OF_RESOURCES"),
    (702, "LAUNCH_TIMEOUT"),
    (703, "LAUNCH_INCOMPATIBLE_TEXTURING"),
    (704, "PEER_ACCESS_ALREADY_ENABLED"),
    (705, "PEER_ACCESS_NOT_ENABLED"),
    (708, "PRIMARY_CONTEXT_ACTIVE"),
    (709, "CONTEXT_IS_DESTROYED"),
    (710, "ASSERT"),
    (711, "TOO_MANY_PEERS"),
    (712, "HOST_MEMORY_ALREADY_REGISTERED"),
    (713, "HOST_MEMORY_NOT_REGISTERED"),
    (714, "HARDWARE_STACK_ERROR"),
    (715, "ILLEGAL_INSTRUCTION"),
    (716, "MISALIGNED_ADDRESS"),
    (717, "INVALID_ADDRESS_SPACE"),
    (718, "INVALID_PC"),
    (719, "LAUNCH_FAILED"),
    (720, "COOPERATIVE_LAUNCH_TOO_LARGE"),
    (721, "TENSOR_MEMORY_LEAK"),
    (800, "NOT_PERMITTED"),
    (801, "NOT_SUPPORTED"),
    (802, "SYSTEM_NOT_READY"),
    (803, "SYSTEM_DRIVER_MISMATCH"),
    (804, "COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    (805, "MPS_CONNECTION_FAILED"),
    (806, "MPS_RPC_FAILURE"),
    (807, "MPS_SERVER_NOT_READY"),
    (808, "MPS_MAX_CLIENTS_REACHED"),
    (809, "MPS_MAX_CONNECTIONS_REACHED"),
    (810, "MPS_CLIENT_TERMINATED"),
    (811, "CDP_NOT_SUPPORTED"),
    (812, "CDP_VERSION_MISMATCH"),
    (900, "STREAM_CAPTURE_UNSUPPORTED"),
    (901, "STREAM_CAPTURE_INVALIDATED"),
    (902, "STREAM_CAPTURE_MERGE"),
    (903, "STREAM_CAPTURE_UNMATCHED"),
    (904, "STREAM_CAPTURE_UNJOINED"),
    (905, "STREAM_CAPTURE_ISOLATION"),
    (906, "STREAM_CAPTURE_IMPLICIT"),
    (907, "CAPTURED_EVENT"),
    (908, "STREAM_CAPTURE_WRONG_THREAD"),
    (909, "TIMEOUT"),
    (910, "GRAPH_EXEC_UPDATE_FAILURE"),
    (911, "EXTERNAL_DEVICE"),
    (912, "INVALID_CLUSTER_SIZE"),
    (913, "FUNCTION_NOT_LOADED"),
    (914, "INVALID_RESOURCE_TYPE"),
    (915, "INVALID_RESOURCE_CONFIGURATION"),
    (916, "KEY_ROTATION"),
    (917, "STREAM_DETACHED"),
    (918, "GRAPH_RECAPTURE_FAILURE"),
    (919, "FABRIC_NOT_READY"),
    (999, "UNKNOWN"),
];

/// `nvrtcResult` without `NVRTC_ERROR_`, as of NVRTC 13.5, from 1 on.
const NVRTC: [&str; 18] = [
    "OUT_OF_MEMORY",
    "PROGRAM_CREATION_FAILURE",
    "INVALID_INPUT",
    "INVALID_PROGRAM",
    "INVALID_OPTION",
    "COMPILATION",
    "BUILTIN_OPERATION_FAILURE",
    "NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
    "NO_LOWERED_NAMES_BEFORE_COMPILATION",
    "NAME_EXPRESSION_NOT_VALID",
    "INTERNAL_ERROR",
    "TIME_FILE_WRITE_FAILED",
    "NO_PCH_CREATE_ATTEMPTED",
    "PCH_CREATE_HEAP_EXHAUSTED",
    "PCH_CREATE",
    "CANCELLED",
    "TIME_TRACE_FILE_WRITE_FAILED",
    "BUSY",
];

/// Linux signals without `SIG`, as numbered on x86-64 and aarch64, from 1 on.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];

/// The driver's code `number`; `CUDA_ERROR_<number>` if it is not known.
#[must_use]
pub fn driver(number: u32) -> Code {
    let name = if number == 0 {
        "CUDA_SUCCESS".into()
    } else {
        let known = DRIVER.binary_search_by_key(&number, |(number, _)| *number).ok();
        match known.and_then(|at| DRIVER.get(at)) {
            Some((_, name)) => format!("CUDA_ERROR_{name}"),
            None => format!("CUDA_ERROR_{number}"),
        }
    };
    Code { name, number: i64::from(number) }
}

/// NVRTC's code `number`; `NVRTC_ERROR_<number>` if it is not known.
#[must_use]
pub fn nvrtc(number: i32) -> Code {
    let name = match nth(&NVRTC, number) {
        _ if number == 0 => "NVRTC_SUCCESS".into(),
        Some(name) => format!("NVRTC_ERROR_{name}"),
        None => format!("NVRTC_ERROR_{number}"),
    };
    Code { name, number: i64::from(number) }
}

/// The signal `number`; `SIG<number>` if it is not known, real-time signals included.
#[must_use]
pub fn signal(number: i32) -> Code {
    let name = match nth(&SIGNALS, number) {
        Some(name) => format!("SIG{name}"),
        None => format!("SIG{number}"),
    };
    Code { name, number: i64::from(number) }
}

/// The code of the driver or of NVRTC that is called `name`: `CUDA_ERROR_NOT_FOUND`, `NVRTC_ERROR_COMPILATION`.
#[must_use]
pub fn named(name: &str) -> Option<Code> {
    if let Some(short) = name.strip_prefix("CUDA_ERROR_") {
        return DRIVER.iter().find(|(_, known)| *known == short).map(|(number, _)| driver(*number));
    }
    let short = name.strip_prefix("NVRTC_ERROR_")?;
    let at = NVRTC.iter().position(|known| *known == short)?;
    Some(nvrtc(i32::try_from(at + 1).ok()?))
}

/// Every code of the driver but success, by number.
pub fn every_driver_code() -> impl Iterator<Item = Code> {
    DRIVER.iter().map(|(number, _)| driver(*number))
}

/// Whether the driver's header has a name for `number`, other than success.
#[must_use]
pub fn is_driver(number: u32) -> bool {
    DRIVER.binary_search_by_key(&number, |(number, _)| *number).is_ok()
}

/// Whether NVRTC's header has a name for `number`, other than success.
#[must_use]
pub fn is_nvrtc(number: u32) -> bool {
    (1..=NVRTC.len()).contains(&usize::try_from(number).unwrap_or(usize::MAX))
}

fn nth(names: &[&'static str], number: i32) -> Option<&'static str> {
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    names.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_the_headers() {
        let shown = |code: Code| code.to_string();
        assert_eq!(shown(driver(222)), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)");
        assert_eq!(shown(driver(209)), "CUDA_ERROR_NO_BINARY_FOR_GPU (209)");
        assert_eq!(shown(driver(999)), "CUDA_ERROR_UNKNOWN (999)");
        assert_eq!(shown(driver(0)), "CUDA_SUCCESS (0)");
        assert_eq!(shown(nvrtc(6)), "NVRTC_ERROR_COMPILATION (6)");
        assert_eq!(shown(nvrtc(18)), "NVRTC_ERROR_BUSY (18)");
        assert_eq!(shown(nvrtc(0)), "NVRTC_SUCCESS (0)");
        assert_eq!(shown(signal(9)), "SIGKILL (9)");
        assert_eq!(shown(signal(11)), "SIGSEGV (11)");
        assert_eq!(shown(signal(31)), "SIGSYS (31)");
    }

    #[test]
    fn unknown_numbers_keep_their_number() {
        // 35 is a code of the runtime library only.
        let names = [driver(35), driver(u32::MAX), nvrtc(-1), nvrtc(19), signal(0), signal(64)].map(|code| code.name);
        let expected = ["CUDA_ERROR_35", "CUDA_ERROR_4294967295", "NVRTC_ERROR_-1", "NVRTC_ERROR_19", "SIG0", "SIG64"];
        assert_eq!(names, expected);
    }

    #[test]
    fn every_name_leads_back_to_its_number() {
        for code in every_driver_code().chain((1..=18).map(nvrtc)) {
            assert_eq!(named(&code.name), Some(code));
        }
        assert_eq!(
            [named("CUDA_ERROR_35"), named("NVRTC_ERROR_19"), named("CUDA_SUCCESS"), named("222")],
            [const { None }; 4]
        );
        assert_eq!([0, 35, 222, 999].map(is_driver), [false, false, true, true]);
        assert_eq!([0, 1, 18, 19].map(is_nvrtc), [false, true, true, false]);
    }

    #[test]
    fn the_driver_s_table_is_sorted_so_that_every_code_is_found() {
        assert!(DRIVER.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (number, name) in DRIVER {
            assert_eq!(driver(number).name, format!("CUDA_ERROR_{name}"));
        }
    }
}
