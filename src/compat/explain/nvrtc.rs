//! NVRTC's codes, and what is said when its library cannot be opened.

use super::rule::Rule;

const HEADER: &str = "nvrtc.h of CUDA 13.5";
const MEASURED: &str = "measured with NVRTC 11.8 to 13.5";
const REPORT: &str = "this is a fault of the caller: report it with the record";

/// Codes, the special before the general.
pub(super) const RULES: &[Rule] = &[
    Rule::code(
        "NVRTC_ERROR_OUT_OF_MEMORY",
        [
            "NVRTC has no memory left",
            "the container's memory limit is too low for the compiler",
            "raise limits.memory",
            HEADER,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
        [
            "NVRTC could not take the source",
            "the library does not start as it should",
            "look at the libraries in the record's `loaded`",
            HEADER,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_INVALID_INPUT",
        ["an argument of the call is not valid", "the program calls NVRTC wrongly", REPORT, HEADER],
    ),
    Rule::code(
        "NVRTC_ERROR_INVALID_PROGRAM",
        ["the compilation does not exist", "the program calls NVRTC wrongly", REPORT, HEADER],
    ),
    Rule::code(
        "NVRTC_ERROR_INVALID_OPTION",
        [
            "this NVRTC does not know the architecture",
            "every toolkit has its list: 12.0 to 12.9 begin at 5.0, 13.x at 7.5; 9.0a needs toolkit 12.0, \
             10.0 and 12.0 need toolkit 12.8",
            "choose an architecture that the toolkit knows, or another toolkit",
            MEASURED,
        ],
    )
    .with(&["--gpu-architecture"]),
    Rule::code(
        "NVRTC_ERROR_INVALID_OPTION",
        [
            "NVRTC does not take one of the options",
            "an option of nvcc, or of a newer toolkit",
            "take it out of the kernel's `options`; the log names it",
            MEASURED,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_COMPILATION",
        [
            "the kernel does not compile",
            "the source has an error, or includes a header that is not there: NVRTC has no include folder of \
             its own before 13.3",
            "read the compiler's log in the detail",
            HEADER,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
        [
            "NVRTC does not find its builtins",
            "libnvrtc-builtins of exactly the same version has to be on the library path, and the library of \
             the 13.0 wheel does not look beside itself",
            "keep both libraries together, and open the builtins first or set LD_LIBRARY_PATH",
            MEASURED,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
        ["a name expression was added too late", "names are added before the compilation", REPORT, HEADER],
    ),
    Rule::code(
        "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
        ["a lowered name was asked for too early", "names are known after the compilation", REPORT, HEADER],
    ),
    Rule::code(
        "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
        [
            "the source has nothing of this name",
            "the name expression does not match a kernel or a variable",
            "check the kernel's `entry`",
            HEADER,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_INTERNAL_ERROR",
        [
            "NVRTC failed in itself",
            "a fault of the compiler",
            "try another patch level of the toolkit, and report it to NVIDIA",
            HEADER,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_TIME_FILE_WRITE_FAILED",
        [
            "NVRTC cannot write its timing file",
            "the folder is not writable",
            "take the option --time out, or name a writable file",
            HEADER,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED",
        [
            "no precompiled header was made",
            "none was asked for, or the source has no part that could be one",
            "take the options for precompiled headers out",
            HEADER,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED",
        [
            "the space for precompiled headers is used up",
            "its default is small",
            "raise it with nvrtcSetPCHHeapSize, or do without",
            HEADER,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_PCH_CREATE",
        [
            "the precompiled header could not be made",
            "its folder is not writable, or the source does not allow one",
            "take the options for precompiled headers out",
            HEADER,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_CANCELLED",
        ["the compilation was cancelled", "the caller's callback asked for it", "start it again", HEADER],
    ),
    Rule::code(
        "NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED",
        [
            "NVRTC cannot write its trace file",
            "the folder is not writable",
            "take the trace option out, or name a writable file",
            HEADER,
        ],
    ),
    Rule::code(
        "NVRTC_ERROR_BUSY",
        ["NVRTC is busy with another compilation", "two threads use one program", REPORT, HEADER],
    ),
    Rule::text(
        &["failed to open libnvrtc-builtins"],
        [
            "NVRTC does not find its builtins",
            "libnvrtc-builtins of exactly the same version has to be on the library path",
            "keep both libraries together, and open the builtins first or set LD_LIBRARY_PATH",
            MEASURED,
        ],
    ),
    Rule::text(
        &[
            "libnvrtc.so.11.2: cannot open shared object file",
            "libnvrtc.so.12: cannot open shared object file",
            "libnvrtc.so.13: cannot open shared object file",
            "libnvrtc.so: cannot open shared object file",
        ],
        [
            "there is no NVRTC where it was looked for",
            "the image is a base image, or the toolkit folder is not whole",
            "use a runtime or devel image, wheels, or a whole toolkit folder",
            "container-images repository",
        ],
    ),
];
