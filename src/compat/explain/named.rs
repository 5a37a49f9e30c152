//! Which codes a text names: `CUDA_ERROR_…`, `NVRTC_ERROR_…`, the runtime's `cudaError…`, the CamelCase of Rust
//! bindings, a number behind the word `error`, or the runtime's own sentence. The main functions are [`codes_in`], for
//! a line of a log, and [`query`], for what somebody typed.

use crate::compat::codes;
use crate::model::outcome::Code;

/// The runtime's names, without `cudaError`, that are not the driver's own in other letters; as of CUDA 13.5.
const RUNTIME: [(&str, u32); 14] = [
    ("MemoryAllocation", 2),
    ("InitializationError", 3),
    ("InsufficientDriver", 35),
    ("DevicesUnavailable", 46),
    ("InvalidKernelImage", 200),
    ("DeviceUninitialized", 201),
    ("NoKernelImageForDevice", 209),
    ("NvlinkUncorrectable", 220),
    ("JitCompilerNotFound", 221),
    ("UnsupportedDevSideSync", 225),
    ("SharedObjectInitFailed", 303),
    ("SymbolNotFound", 500),
    ("LaunchFailure", 719),
    ("UnsupportedExecAffinity", 224),
];

/// What `cudaGetErrorString` of 13.5 says, in lower case, where it can mean nothing else.
const SENTENCES: [(&str, u32); 30] = [
    ("cuda driver is a stub library", 34),
    ("cuda driver version is insufficient for cuda runtime version", 35),
    ("api call is not supported in the installed cuda driver", 36),
    ("cuda-capable device(s) is/are busy or unavailable", 46),
    ("no cuda-capable device is detected", 100),
    ("invalid device ordinal", 101),
    ("device kernel image is invalid", 200),
    ("invalid device context", 201),
    ("no kernel image is available for execution on the device", 209),
    ("a ptx jit compilation failed", 218),
    ("uncorrectable nvlink error detected", 220),
    ("ptx jit compiler library not found", 221),
    ("the provided ptx was compiled with an unsupported toolchain", 222),
    ("ptx jit compilation was disabled", 223),
    ("the provided execution affinity is not supported", 224),
    ("the provided ptx contains unsupported call to cudadevicesynchronize", 225),
    ("invalid access of peer gpu memory over nvlink", 226),
    ("loader version is insufficient for fatbin", 227),
    ("shared object symbol not found", 302),
    ("shared object initialization failed", 303),
    ("os call failed or operation not supported on this os", 304),
    ("named symbol not found", 500),
    ("an illegal memory access was encountered", 700),
    ("misaligned address", 716),
    ("unspecified launch failure", 719),
    ("system not yet initialized", 802),
    ("system has unsupported display driver / cuda driver combination", 803),
    ("forward compatibility was attempted on non supported hw", 804),
    ("mps client failed to connect to the mps control daemon", 805),
    ("gpu fabric is not ready within the probe wait budget", 919),
];

/// Words before a number that make it a code.
const BEFORE_A_NUMBER: [&str; 7] = ["error", "code", "returned", "status", "result", "rc", "curesult"];

/// The codes that a line names, each once, in their order.
#[must_use]
pub fn codes_in(line: &str) -> Vec<Code> {
    let mut found: Vec<Code> = Vec::new();
    let mut add = |code: Code| {
        if !found.contains(&code) {
            found.push(code);
        }
    };
    words(line).filter_map(by_name).for_each(&mut add);
    let lower = line.to_lowercase();
    numbered(&lower).into_iter().for_each(&mut add);
    SENTENCES.iter().filter(|(text, _)| lower.contains(text)).for_each(|(_, number)| add(codes::driver(*number)));
    found
}

/// The codes that somebody may mean by one word: a name, or a number, which the driver and NVRTC may both have.
/// Empty if it is neither.
#[must_use]
pub fn query(word: &str) -> Vec<Code> {
    let word = word.trim();
    if let Ok(number) = word.parse::<u32>() {
        let driver = (codes::is_driver(number) || number == 35).then(|| codes::driver(number));
        let nvrtc = i32::try_from(number).ok().filter(|_| codes::is_nvrtc(number)).map(codes::nvrtc);
        return driver.into_iter().chain(nvrtc).collect();
    }
    let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !plain {
        return Vec::new();
    }
    if let Some(code) = by_name(word) {
        return vec![code];
    }
    // `no_binary_for_gpu`, and any CamelCase: nothing else was typed that it could be.
    let upper = word.to_uppercase();
    let full = [upper.clone(), format!("CUDA_ERROR_{upper}"), format!("NVRTC_ERROR_{upper}")];
    let named = full.iter().find_map(|name| codes::named(name));
    named.or_else(|| codes::every_driver_code().find(|code| camel(code) == word)).into_iter().collect()
}

/// Runs of letters, digits and underscores.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.len() > 6)
}

fn by_name(word: &str) -> Option<Code> {
    if let Some(code) = codes::named(word) {
        return Some(code);
    }
    if let Some(name) = word.strip_prefix("cudaError") {
        if let Some((_, number)) = RUNTIME.iter().find(|(known, _)| *known == name) {
            return Some(codes::driver(*number));
        }
        return codes::every_driver_code().find(|code| camel(code) == name);
    }
    // Fewer parts would be an everyday word: NotFound, InvalidValue.
    let parts = word.bytes().filter(u8::is_ascii_uppercase).count();
    (parts >= 3
        && word != "OutOfMemory"
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.bytes().any(|b| b.is_ascii_lowercase()))
    .then(|| codes::every_driver_code().find(|code| camel(code) == word))
    .flatten()
}

/// `UnsupportedPtxVersion` for `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`.
fn camel(code: &Code) -> String {
    let short = code.name.strip_prefix("CUDA_ERROR_").unwrap_or(&code.name);
    let part = |part: &str| {
        let (first, rest) = part.split_at_checked(1).unwrap_or((part, ""));
        format!("{first}{}", rest.to_lowercase())
    };
    short.split('_').map(part).collect()
}

/// Numbers behind a word such as `error`, in a line that speaks of CUDA or of NVRTC.
fn numbered(lower: &str) -> Vec<Code> {
    let nvrtc = lower.contains("nvrtc");
    if !nvrtc && !lower.contains("cuda") && !lower.contains("curesult") && !lower.contains("cumodule") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let parts: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect();
    for pair in parts.windows(2) {
        let [before, number] = pair else { continue };
        let Ok(number) = number.parse::<u32>() else { continue };
        if !BEFORE_A_NUMBER.contains(before) {
            continue;
        }
        if nvrtc && codes::is_nvrtc(number) {
            found.extend(i32::try_from(number).ok().map(codes::nvrtc));
        } else if !nvrtc && (codes::is_driver(number) || number == 35) {
            found.push(codes::driver(number));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(line: &str) -> Vec<String> {
        codes_in(line).into_iter().map(|code| code.to_string()).collect()
    }

    #[test]
    fn a_code_is_found_under_each_of_its_names() {
        for line in [
            "numba: [222] Call to cuLinkAddData results in CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            "RuntimeError: cudaErrorUnsupportedPtxVersion: the provided PTX was compiled with an unsupported toolchain.",
            "thread 'main' panicked: called `Result::unwrap()` on an `Err` value: UnsupportedPtxVersion",
            "CUDA driver error: 222",
            "cuModuleLoadDataEx returned 222",
            "the provided PTX was compiled with an unsupported toolchain.",
        ] {
            assert_eq!(numbers(line), ["CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)"], "{line}");
        }
        assert_eq!(numbers("cudaErrorInsufficientDriver"), ["CUDA_ERROR_35 (35)"]);
        assert_eq!(numbers("cudaErrorNoKernelImageForDevice"), ["CUDA_ERROR_NO_BINARY_FOR_GPU (209)"]);
        assert_eq!(numbers("NVRTC error 7"), ["NVRTC_ERROR_BUILTIN_OPERATION_FAILURE (7)"]);
        assert_eq!(
            numbers("NVRTC_ERROR_COMPILATION, then CUDA_ERROR_NOT_FOUND"),
            ["NVRTC_ERROR_COMPILATION (6)", "CUDA_ERROR_NOT_FOUND (500)"]
        );
    }

    #[test]
    fn everyday_words_and_numbers_are_no_codes() {
        for line in
            ["NotFound", "InvalidValue: 222", "error 404: page not found", "cuda 12.6 on port 222", "OutOfMemory"]
        {
            assert_eq!(numbers(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn what_is_typed_may_be_a_number_of_two_libraries_or_a_name_in_any_letters() {
        let names = |word| query(word).into_iter().map(|code| code.name).collect::<Vec<_>>();
        assert_eq!(names("222"), ["CUDA_ERROR_UNSUPPORTED_PTX_VERSION"]);
        assert_eq!(names("6"), ["CUDA_ERROR_PROFILER_NOT_INITIALIZED", "NVRTC_ERROR_COMPILATION"]);
        assert_eq!(names("no_binary_for_gpu"), ["CUDA_ERROR_NO_BINARY_FOR_GPU"]);
        assert_eq!(names("NotFound"), ["CUDA_ERROR_NOT_FOUND"]);
        assert_eq!(names("nvrtc_error_busy"), ["NVRTC_ERROR_BUSY"]);
        assert_eq!([names("12345"), names("could not"), names("")], [const { Vec::<String>::new() }; 3]);
    }

    #[test]
    fn every_sentence_and_runtime_name_belongs_to_a_code() {
        for (text, number) in SENTENCES {
            assert!(codes::is_driver(number) || number == 35, "{text}");
            assert_eq!(text, text.to_lowercase());
        }
        assert!(RUNTIME.iter().all(|(_, number)| codes::is_driver(*number) || *number == 35));
    }
}
