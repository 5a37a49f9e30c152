//! The driver's codes, and what the driver's library says when it cannot be opened.

use super::rule::Rule;

const HEADER: &str = "cuda.h of CUDA 13.5";
const MEASURED: &str = "measured on an H200, driver 580.159";
const REPORTS: &str = "public issue reports";

/// Codes, the special before the general.
pub(super) const RULES: &[Rule] = &[
    Rule::code(
        "CUDA_ERROR_INVALID_VALUE",
        [
            "an argument of the call is not valid",
            "the program calls the driver wrongly",
            "this is a fault of the caller: report it with the record",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_OUT_OF_MEMORY",
        [
            "the GPU has no memory left for this",
            "another process or container holds it",
            "end what else runs on the GPU, or choose another with --device",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_NOT_INITIALIZED",
        [
            "the driver is not initialised in this process",
            "cuInit was not called, failed, or the process was forked after it",
            "start the work in a fresh process and look at the first error",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_STUB_LIBRARY",
        [
            "a stub was opened in place of the driver",
            "a toolkit's lib64/stubs is on the library path; it is for linking only",
            "take lib64/stubs off LD_LIBRARY_PATH and let the real libcuda.so.1 be mounted",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_35",
        [
            "the runtime library finds no driver that is new enough (cudaErrorInsufficientDriver, a code of \
             the runtime only)",
            "the driver is older than the toolkit's floor, or libcuda is not in the container at all: both \
             give 35",
            "check that the GPU reaches the container, then use a newer driver or an older toolkit",
            "measured with libcudart 12.0 to 13.5",
        ],
    ),
    Rule::code(
        "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
        [
            "the driver is too old for this call",
            "minor-version compatibility gives a limited set of features",
            "use a newer driver, or ask for the feature before using it",
            "CUDA compatibility guide, minor-version compatibility",
        ],
    ),
    Rule::code(
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        [
            "the GPU is busy or may not be used",
            "its compute mode is exclusive or prohibited, and another process has it",
            "end the other process, or set the compute mode to default: nvidia-smi -c 0",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_NO_DEVICE",
        [
            "the driver sees no GPU",
            "no device node is in the container, CUDA_VISIBLE_DEVICES is empty, the cgroup denies access, or \
             the driver no longer supports the GPU (Maxwell to Volta from branch 590 on)",
            "give the container a GPU (--gpu request, cdi or devices), and run ctk-matrix doctor",
            MEASURED,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_INVALID_DEVICE",
        [
            "there is no GPU with this index",
            "indices count the GPUs that are visible in the container, not those of the host",
            "choose the GPU by UUID, or count from 0 within the container",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_INVALID_IMAGE",
        [
            "the driver does not recognise the file as code",
            "it is empty, or neither PTX, cubin nor fatbin",
            "look at the file with ctk-matrix inspect and make it again",
            MEASURED,
        ],
    )
    .with(&["binary format for key"]),
    Rule::code(
        "CUDA_ERROR_INVALID_IMAGE",
        [
            "the driver does not take the code",
            "it is damaged, or it is a zstd-compressed fatbin (nvcc 13's way) on a driver older than 550.54.14",
            "make it again; for older drivers compress with LZ4 or not at all, or load the cubin",
            "rapids-cmake documentation; ollama issue reports",
        ],
    ),
    Rule::code(
        "CUDA_ERROR_INVALID_CONTEXT",
        [
            "there is no context on this thread",
            "it was never made current, or it was destroyed",
            "make the primary context current before the call",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        [
            "nothing in the artifact runs on this GPU",
            "machine code runs within its own major compute capability only, from its minor up, and there is \
             no usable PTX beside it",
            "build for this GPU's architecture, or add PTX of an equal or lower one",
            MEASURED,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_INVALID_PTX",
        [
            "the PTX is for a higher architecture than the GPU's",
            "PTX runs on its own compute capability and on later ones, never on earlier ones",
            "build the PTX for the lowest architecture that has to run it",
            MEASURED,
        ],
    )
    .with(&["is higher than default sm version"]),
    Rule::code(
        "CUDA_ERROR_INVALID_PTX",
        [
            "the PTX is tied to another chip or family",
            "targets with the mark `a` run on exactly their chip, those with `f` within their family",
            "build generic PTX, or for this very GPU",
            "measured with ptxas 13.5",
        ],
    )
    .with(&["cannot be compiled to"]),
    Rule::code(
        "CUDA_ERROR_INVALID_PTX",
        [
            "the driver cannot compile the PTX",
            "the text is damaged or cut short, or for a target that this GPU is not",
            "read the compiler's log in the detail; make the PTX again",
            MEASURED,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        ["an error on NVLink could not be corrected", "hardware", "reset the GPU; look at dmesg for the Xid", HEADER],
    ),
    Rule::code(
        "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
        [
            "the driver's PTX compiler is not in the container",
            "libnvidia-ptxjitcompiler.so.1 was not mounted, which happens with hand-made mounts",
            "mount it with libcuda, from the same driver version; or load a cubin",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        [
            "the PTX is newer than the driver",
            "a toolkit writes its own PTX ISA whatever the target, and a driver compiles up to that of its \
             own CUDA version; minor-version compatibility does not cover PTX",
            "load a cubin (nvrtc-cubin works within the major version), or use a newer driver or an older toolkit",
            MEASURED,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_JIT_COMPILATION_DISABLED",
        ["compiling PTX is switched off", "CUDA_DISABLE_PTX_JIT is set", "unset it, or load a cubin", HEADER],
    ),
    Rule::code(
        "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY",
        [
            "the GPU or its mode has no such execution affinity",
            "a share of the multiprocessors was asked for where MPS or green contexts do not give one",
            "ask for the whole GPU",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC",
        [
            "the PTX waits for the device from device code",
            "cudaDeviceSynchronize in kernels was removed in CUDA 12",
            "port the kernel to the present form of dynamic parallelism",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_CONTAINED",
        [
            "an error on the GPU or on NVLink was contained",
            "hardware, or a peer's memory that was not to be accessed",
            "restart the process; look at dmesg for the Xid",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION",
        [
            "the fatbin is newer than the driver's loader",
            "the driver does not know this fatbin's layout or compression",
            "use a newer driver, or load the cubin alone",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_INVALID_SOURCE",
        [
            "the source that was handed to the driver is not valid",
            "the artifact is damaged or of the wrong kind",
            "look at it with ctk-matrix inspect and make it again",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_FILE_NOT_FOUND",
        [
            "the driver does not find the file",
            "its path is that of the host, or it was not mounted",
            "give the path as the container sees it",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND",
        [
            "a library lacks a symbol that the driver needs",
            "libraries of two driver versions are mixed in the container",
            "mount all driver libraries from the version that is loaded on the host",
            REPORTS,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
        [
            "a library of the driver does not start",
            "libraries of two driver versions are mixed in the container",
            "mount all driver libraries from the version that is loaded on the host",
            REPORTS,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_OPERATING_SYSTEM",
        [
            "a system call of the driver failed",
            "seccomp or the device cgroup refuses it, or a device node is missing",
            "allow the NVIDIA device nodes; strace shows the call",
            REPORTS,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_NOT_FOUND",
        [
            "the artifact has no kernel of this name",
            "the name is misspelt, or mangled because the kernel has no C linkage",
            "declare it extern \"C\", or give its mangled name as the entry",
            MEASURED,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        [
            "the kernel used an address that is not its own",
            "a fault in the kernel or in its arguments; the context is lost",
            "check bounds and arguments; compute-sanitizer names the access",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        [
            "the kernel used an address that is not aligned",
            "a fault in the kernel or in its arguments; the context is lost",
            "check pointer types and offsets; compute-sanitizer names the access",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_LAUNCH_FAILED",
        [
            "the kernel failed while it ran",
            "a fault in the kernel; the context is lost",
            "run it under compute-sanitizer",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_NOT_PERMITTED",
        [
            "the driver does not allow this",
            "profiling or sharing between processes needs rights that the container has not",
            "give the right on the host or as a capability",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_NOT_SUPPORTED",
        [
            "this GPU or system does not support it",
            "the feature is missing on the GPU, under WSL, or in forward compatibility",
            "do without it there",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_SYSTEM_NOT_READY",
        [
            "the system of GPUs is not ready",
            "on machines with NVSwitch, the fabric manager does not run or is of another version than the driver",
            "start nvidia-fabricmanager of the driver's version on the host",
            REPORTS,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        [
            "libcuda and the kernel module do not belong together",
            "the host's driver was updated and the module not reloaded, mounts or a CDI specification are \
             stale, or a compat libcuda is in the way",
            "reboot or reload the module, start the container anew, generate the CDI specification again",
            "CUDA compatibility guide, forward compatibility",
        ],
    ),
    Rule::code(
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        [
            "forward compatibility is not for this GPU",
            "the image's compat libcuda was taken, and it works on data-center GPUs only",
            "use a newer driver or an older image, or take /usr/local/cuda/compat out of the library path",
            "CUDA compatibility guide, forward compatibility",
        ],
    ),
    Rule::code(
        "CUDA_ERROR_MPS_CONNECTION_FAILED",
        [
            "the MPS server cannot be reached",
            "its pipe folder is not in the container",
            "mount CUDA_MPS_PIPE_DIRECTORY and share the host's IPC, or unset the variable",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_MPS_SERVER_NOT_READY",
        [
            "the MPS server is not ready",
            "it is starting, or recovering from a fault",
            "try again; restart the MPS daemon",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_FABRIC_NOT_READY",
        [
            "the GPU fabric is not ready",
            "its probe has not ended within the waiting time",
            "try again, or raise CUDA_FABRIC_INIT_TIMEOUT_MS",
            HEADER,
        ],
    ),
    Rule::code(
        "CUDA_ERROR_UNKNOWN",
        [
            "the driver gives no reason",
            "in containers mostly /dev/nvidia-uvm: the module nvidia_uvm is not loaded, or the node not passed",
            "modprobe nvidia_uvm on the host, and pass /dev/nvidia-uvm",
            REPORTS,
        ],
    ),
    Rule::code(
        "SIGKILL",
        [
            "the process was killed",
            "by the kernel for its memory, or by somebody",
            "raise limits.memory, and look at dmesg",
            "signal(7)",
        ],
    ),
    Rule::code(
        "SIGSEGV",
        [
            "the process accessed memory that is not its own",
            "a fault in a library, often two versions of one mixed",
            "look at the libraries in the record's `loaded`",
            "signal(7)",
        ],
    ),
    Rule::code(
        "SIGABRT",
        [
            "the process gave up by itself",
            "a library met a state that it cannot go on from",
            "read the end of the job's log",
            "signal(7)",
        ],
    ),
    Rule::text(
        &["libcuda.so.1: cannot open shared object file", "libcuda.so: cannot open shared object file"],
        [
            "there is no driver library in the container",
            "no GPU was attached, or NVIDIA_DRIVER_CAPABILITIES leaves out `compute`",
            "attach a GPU (--gpu), with the capability `compute`",
            "ld.so; libnvidia-container source",
        ],
    ),
];
