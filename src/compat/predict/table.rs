//! The rules as one table: what each says, what to do about it, how and where it is known from. Its one item is
//! [`RULES`].

use super::rules::Rule;
use crate::compat::catalogue::How::{self, Documented, Measured, Secondary};

/// The day on which documents were read and files measured, and the real driver was asked.
const READ: &str = "2026-12-01";

const fn rule(id: &'static str, how: How, [says, remedy, source]: [&'static str; 3]) -> Rule {
    Rule { id, says, remedy, how, source, date: READ }
}

/// Every rule, in the order in which a cell meets them.
pub(super) const RULES: &[Rule] = &[
    // What a source carries.
    rule(
        "wheels-carry",
        Measured,
        [
            "NVIDIA's 11.8 and 12.x wheels carry no nvcc although one is named after it; 13.x wheels do",
            "name a `dir` that holds nvcc, or a -devel- image",
            "the wheels of 11.8 to 13.5, unpacked",
        ],
    ),
    rule(
        "image-variant",
        Documented,
        [
            "a base image carries no NVRTC and no nvcc, a runtime image NVRTC and no nvcc, a devel image both",
            "take the -devel- image, or the -runtime- one for NVRTC alone",
            "Dockerfiles of NVIDIA's container-images repository, 11.8 to 13.2",
        ],
    ),
    rule(
        "library-names",
        Documented,
        [
            "a runtime image has libraries under their versioned names only, libnvrtc.so.12 and no libnvrtc.so",
            "open the library by its versioned name, or take the -devel- image",
            "container-images Dockerfiles; cudarc#274",
        ],
    ),
    rule(
        "image-content",
        Secondary,
        [
            "an image's label or tag can name another toolkit than the libraries that are in it and get loaded",
            "go by the version that the loaded library gives of itself, and make image and packages one major version",
            "rapids-singlecell#677",
        ],
    ),
    rule(
        "image-moved",
        Secondary,
        [
            "a tag of nvidia/cuda can be published again with other content and a stricter NVIDIA_REQUIRE_CUDA",
            "pin the image by its digest (`ctk-matrix lock`), and compare what it requires before changing the pin",
            "nvidia-container-toolkit#152, nvidia-docker#1030",
        ],
    ),
    rule(
        "image-deleted",
        Documented,
        [
            "NVIDIA deletes the tags of a release six months after its end of life",
            "name a tag of a supported release, or keep a copy in a registry of your own",
            "container-images support policy; cog#1162",
        ],
    ),
    // Building.
    rule(
        "no-gpu",
        Measured,
        [
            "without a GPU an artifact is built and inspected, and neither loaded nor launched",
            "run on a machine with a GPU, or list machines under `fleet:`",
            "this program",
        ],
    ),
    rule(
        "toolkit-arch",
        Measured,
        [
            "a toolkit compiles for the architectures that it knows: later ones came with later toolkits",
            "take a toolkit that knows the architecture; `ctk-matrix toolkit list` and docs/compatibility.md say which",
            "nvrtcGetSupportedArchs and ptxas --help of 11.8 to 13.5",
        ],
    ),
    rule(
        "toolkit-arch-dropped",
        Measured,
        [
            "toolkits drop old architectures: 12.0 sm_35 and sm_37, 13.0 everything below sm_75",
            "build with the last toolkit that knows the architecture (12.9 for sm_50 to sm_72)",
            "nvrtcGetSupportedArchs and ptxas --help of 11.8 to 13.5; cutlass#3166",
        ],
    ),
    rule(
        "family-arch",
        Measured,
        [
            "family targets (f) exist from sm_100 on; NVRTC takes compute_90f as an option and then fails to compile",
            "build for 9.0 or 9.0a",
            "NVRTC and ptxas of 12.9 to 13.5",
        ],
    ),
    rule(
        "host-compiler",
        Measured,
        [
            "nvcc refuses host compilers newer than its crt/host_config.h names",
            "install an older gcc and name it with -ccbin, or take a newer toolkit; overriding the check moves the errors",
            "crt/host_config.h of 11.8 to 13.5; instant-ngp#1562, cccl#10",
        ],
    ),
    rule(
        "host-headers",
        Secondary,
        [
            "glibc 2.41 declares cospi, sinpi and their like noexcept, which headers of toolkits before 13.0 contradict",
            "build in an image with an older glibc, or with toolkit 13.0 or newer",
            "cuda-samples#378, nccl#1700",
        ],
    ),
    rule(
        "glibc-floor",
        Measured,
        [
            "a program starts only where the C library is as new as the newest GLIBC version that it asks for",
            "build it against glibc 2.17, or run it in a newer image",
            "ld.so; llama-cpp-python#1840",
        ],
    ),
    rule(
        "nvrtc-library",
        Secondary,
        [
            "the NVRTC that is opened can be another than the toolkit's: unversioned names and system folders come first",
            "open NVRTC by its absolute path, and remove the old one from the loader's path",
            "cuda-python#839; seen on an H200 with 12.6 and 13.0",
        ],
    ),
    rule(
        "nvrtc-builtins",
        Measured,
        [
            "NVRTC opens libnvrtc-builtins of exactly its own major.minor by name, and ends in code 7 without it",
            "put the folder of that very toolkit on LD_LIBRARY_PATH (the 13.0 wheel does not find its own)",
            "NVRTC of 11.8 to 13.5; cupy#7560, TensorRT#3893",
        ],
    ),
    rule(
        "nvrtc-headers",
        Secondary,
        [
            "from 12.2 on cuda_fp16.h includes headers of the CUDA runtime, which NVRTC does not have by itself",
            "install the runtime's headers of the same toolkit, and give their folder to NVRTC with -I",
            "cupy#8466",
        ],
    ),
    rule(
        "build-without-gpu",
        Secondary,
        [
            "there is no GPU and no nvidia-smi while an image is being built, so a build script cannot ask for one",
            "name the compute capability in the build: CUDA_COMPUTE_CAP, TORCH_CUDA_ARCH_LIST, -arch",
            "candle#1516",
        ],
    ),
    // The driver, before anything is loaded.
    rule(
        "gpu-visible",
        Measured,
        [
            "a container that starts need not have a GPU: some engines take a device request and ignore it",
            "verify inside the container; take another attach mode (`ctk-matrix run --gpu cdi` or `devices`)",
            "seen on an H200; podman#22645, backend.ai#13820",
        ],
    ),
    rule(
        "gpu-dropped",
        Secondary,
        [
            "580 is the last driver branch for Maxwell, Pascal and Volta: newer ones see no such GPU",
            "stay on driver 580 for this GPU",
            "NVIDIA's UNIX driver deprecation schedule, as quoted by others",
        ],
    ),
    rule(
        "gpu-too-new",
        Documented,
        [
            "a driver older than a GPU does not see it",
            "install a driver of the GPU's time or later",
            "CUDA release notes; the first toolkit that compiles for the capability",
        ],
    ),
    rule(
        "driver-mismatch",
        Secondary,
        [
            "the driver's libraries in the container must be of the very version of the kernel module: else 803, or NVML's \
         driver/library version mismatch",
            "restart the container after a driver update, reload the module or reboot, make the CDI specification again",
            "cuda.h; tvm#7536, nvidia-container-toolkit#394",
        ],
    ),
    rule(
        "libcuda-path",
        Secondary,
        [
            "a libcuda that an image puts first on the loader's path hides the host's: error 803 or 804, by attach mode",
            "remove the image's compat folder from LD_LIBRARY_PATH and ld.so.conf.d, and run ldconfig",
            "gpustack#4678",
        ],
    ),
    rule(
        "stub-libcuda",
        Documented,
        [
            "the libcuda in lib64/stubs is for linking: loaded at run time it ends in error 34",
            "remove the stubs folder from LD_LIBRARY_PATH, and mount the real driver",
            "cuda.h; warp#219, tensorflow#36974",
        ],
    ),
    rule(
        "forward-compat",
        Documented,
        [
            "cuda-compat libraries serve listed driver branches, and are not needed or not supported on others",
            "take the cuda-compat package that NVIDIA lists for this driver branch, or none",
            "CUDA compatibility guide, forward compatibility",
        ],
    ),
    rule(
        "forward-compat-hardware",
        Documented,
        [
            "cuda-compat libraries work on data-centre GPUs and some workstation GPUs only: elsewhere error 804",
            "update the driver, take an older image, or remove /usr/local/cuda-*/compat from the image",
            "CUDA compatibility guide; nvidia-docker#1515",
        ],
    ),
    rule(
        "require-cuda",
        Documented,
        [
            "an image's NVIDIA_REQUIRE_CUDA refuses drivers and GPU brands at start, where the attach mode checks it: the \
         legacy hook does, CDI does not",
            "update the driver, or take an image of an older toolkit; NVIDIA_DISABLE_REQUIRE=1 moves the failure to the load",
            "libnvidia-container's dsl.c, nvidia-container-toolkit 1.18 to 1.20; llama.cpp#9665",
        ],
    ),
    rule(
        "runtime-floor",
        Documented,
        [
            "the CUDA runtime needs a driver of its major version's floor or newer, else error 35; no driver at all gives \
         the same code",
            "mount the driver; update it to 450.80.02 for 11.x, 525.60.13 for 12.x, 580 for 13.x",
            "CUDA compatibility guide, minor-version compatibility; libcudart of 12.0 to 13.5",
        ],
    ),
    rule(
        "symbol-floor",
        Measured,
        [
            "a program that looks every driver or NVRTC function up at start fails on a library that has not got one: new \
         functions came with new drivers, and old ones went",
            "look functions up one by one, or build against the oldest version to be supported",
            "cuda.h and NVRTC of 11.8 to 13.5; cudarc#464, cudarc#490, pegainfer#263",
        ],
    ),
    // Loading.
    rule(
        "lazy-loading",
        Documented,
        [
            "with lazy loading a kernel that does not fit fails at its lookup or first launch, not at the load",
            "fetch the function and launch it before calling a module good; CUDA_MODULE_LOADING=EAGER",
            "CUDA programming guide, lazy loading",
        ],
    ),
    rule(
        "ptx-isa",
        Measured,
        [
            "a driver compiles PTX up to the ISA of its own CUDA version, and refuses newer with 222; minor-version \
         compatibility does not cover PTX",
            "ship machine code (a cubin) for the GPU, take PTX of an older toolkit, or update the driver",
            "driver 580 on an H200: 9.0 is taken, 9.1 refused; ptxas of 11.8 to 13.5 for the other branches",
        ],
    ),
    rule(
        "ptx-unpublished",
        Measured,
        [
            "no compiler writes PTX ISA 8.9: there is none between 8.8 and 9.0, and drivers refuse it with 222",
            "write the version that the compiler wrote",
            "driver 580 on an H200; ptxas 13.x",
        ],
    ),
    rule(
        "linker-isa",
        Secondary,
        [
            "a linker that compiles PTX (nvJitLink) takes the ISA of its own toolkit and no newer, whatever the driver",
            "take nvJitLink of the compiler's toolkit or newer",
            "numba-cuda#163",
        ],
    ),
    rule(
        "ptx-target",
        Measured,
        [
            "PTX compiles for its target's capability and higher ones, and is refused with 218 below it",
            "build PTX for the lowest capability that is to be supported",
            "driver 580 on an H200; ptxas 13.5",
        ],
    ),
    rule(
        "ptx-specific",
        Measured,
        [
            "PTX for an `a` target compiles for exactly that capability, for an `f` target within the family",
            "build PTX without a mark for other GPUs",
            "ptxas 13.5 for every pair of targets",
        ],
    ),
    rule(
        "jit-disabled",
        Documented,
        [
            "with CUDA_DISABLE_PTX_JIT=1 the driver compiles no PTX: 223",
            "unset it, or ship machine code",
            "CUDA programming guide, environment variables",
        ],
    ),
    rule(
        "jit-forced",
        Measured,
        [
            "with CUDA_FORCE_PTX_JIT=1 the driver leaves the machine code of a fatbin aside, and one without PTX that fits is refused with 209; a cubin that is handed over by itself loads all the same",
            "unset it, or ship PTX too",
            "driver 580 on an H200",
        ],
    ),
    rule(
        "jit-missing",
        Documented,
        [
            "PTX needs libnvidia-ptxjitcompiler.so.1 beside libcuda: without it 221",
            "mount it too (capability `compute`)",
            "cuda.h; libnvidia-container's list of compute libraries",
        ],
    ),
    rule(
        "cubin-arch",
        Measured,
        [
            "machine code runs on its own capability and higher minor ones of the same major, and is refused with 209 on \
         others",
            "build for this GPU's capability too (-gencode), or ship PTX",
            "CUDA programming guide; driver 580 on an H200",
        ],
    ),
    rule(
        "cubin-specific",
        Measured,
        [
            "machine code for an `a` target runs on exactly that capability, for an `f` target within the family",
            "build without a mark for other GPUs",
            "NVIDIA's blog on family-specific features; ptxas 13.5",
        ],
    ),
    rule(
        "cuda-major",
        Documented,
        [
            "minor-version compatibility ends at the major version: machine code of CUDA 13 does not load on a driver of \
         CUDA 12",
            "update the driver to the toolkit's major version (580 for 13.x), or build with an older toolkit",
            "CUDA compatibility guide; which code the driver gives has not been seen",
        ],
    ),
    rule(
        "minor-version",
        Measured,
        [
            "machine code of a newer toolkit loads on any driver of the same major version",
            "nothing: this works",
            "CUDA compatibility guide; cubins of 13.1 and 13.5 on driver 580",
        ],
    ),
    rule(
        "backward",
        Measured,
        [
            "what an older toolkit made loads on every newer driver",
            "nothing: this works",
            "CUDA compatibility guide; cubins and PTX of 12.0 to 13.0 on driver 580",
        ],
    ),
    rule(
        "fatbin-zstd",
        Documented,
        [
            "drivers before 550.54.14 cannot unpack fatbins that are compressed with zstd: error 200",
            "compress with LZ4 or not at all (-compress-mode=none), or update the driver",
            "rapids-cmake's documentation; ollama#12258",
        ],
    ),
    rule(
        "fatbin-none",
        Measured,
        [
            "a fatbin without machine code for this GPU and without PTX for this or a lower capability is refused with 209",
            "add -gencode for this GPU, or PTX of the lowest capability that is to be supported",
            "driver 580 on an H200 (sm_80 only); rust-gpu-tools#79",
        ],
    ),
    rule(
        "artifact-whole",
        Measured,
        [
            "a driver never comes back from a cubin that is cut short, so it is not given one",
            "make the artifact again",
            "driver 580 on an H200, a cubin of 1000 bytes",
        ],
    ),
    rule(
        "artifact-form",
        Measured,
        [
            "what is neither PTX, cubin nor fatbin is refused with 200",
            "name an artifact",
            "driver 580 on an H200, an empty file and a text",
        ],
    ),
    // Around the runs.
    rule(
        "tests-ran",
        Secondary,
        [
            "tests that skip themselves without a GPU are green where they never ran",
            "make a run without a GPU, without cells or with a passing canary a failure: --gpu required",
            "dart#3475",
        ],
    ),
    rule(
        "pin-cap",
        Secondary,
        [
            "a package without an upper bound on another is broken by the other's next release: numba-cuda 0.30.4 uses \
         np.row_stack, which NumPy 2.5 removed",
            "pin the other package below the release that broke it: numpy<2.5",
            "awkward#4313, numba-cuda#907",
        ],
    ),
    rule(
        "cuda-majors-mixed",
        Secondary,
        [
            "packages of two CUDA majors in one environment do not agree on the libraries that they load",
            "choose one major for all: the -cu12 or the -cu13 packages",
            "cupy#9719, rapids-singlecell#677",
        ],
    ),
];
