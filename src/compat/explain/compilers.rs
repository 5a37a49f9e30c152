//! What nvcc, ptxas and the host's compiler say.

use super::rule::Rule;
use crate::model::outcome::Stage;

const MEASURED: &str = "measured with nvcc and ptxas 11.8 to 13.5";
const HEADER: &str = "crt/host_config.h of the toolkits";

/// Texts, the special before the general.
pub(super) const RULES: &[Rule] = &[
    Rule::text(
        &["unsupported gnu version"],
        [
            "the host's gcc is newer than this nvcc accepts",
            "nvcc compiles the host part with the gcc that it finds: 12.0 takes gcc up to 12, 12.4 up to 13, \
             12.8 up to 14, 13.0 up to 15, 13.4 up to 16",
            "use the toolkit's own devel image, or an older gcc with -ccbin",
            HEADER,
        ],
    ),
    Rule::text(
        &["unsupported clang version"],
        [
            "the host's clang is newer than this nvcc accepts",
            "nvcc compiles the host part with it: 12.0 takes clang up to 14, 12.4 up to 17, 12.8 up to 19, \
             13.0 up to 20, 13.4 up to 22",
            "use the toolkit's own devel image, or an older clang with -ccbin",
            HEADER,
        ],
    ),
    Rule::text(
        &["icc is not supported as a host compiler"],
        [
            "nvcc no longer takes Intel's classic compiler",
            "it was dropped in CUDA 13.0",
            "use gcc or clang with -ccbin",
            HEADER,
        ],
    ),
    Rule::text(
        &[
            "gcc: no such file or directory",
            "gcc: not found",
            "g++: not found",
            "failed to preprocess host compiler properties",
        ],
        [
            "nvcc finds no host compiler",
            "nvcc needs gcc or clang even where only device code is made, and the container has none",
            "use a devel image, or install gcc on the host whose user space is used",
            MEASURED,
        ],
    ),
    Rule::text(
        &["exception specification is incompatible with that of previous function"],
        [
            "the toolkit's headers and the C library's declare the same functions differently",
            "glibc 2.41 declares cospi, sinpi and their like noexcept, and headers of toolkits up to 12.9 do not",
            "build in an image with an older C library, or with a newer toolkit",
            "cuda-samples#378; nccl#1700",
        ],
    ),
    Rule::text(
        &["cannot open source file", "could not open source file", "cuda_fp16.h: no such file"],
        [
            "a header that the kernel includes is not found",
            "NVRTC has no include folder of its own before 13.3, and from 12.2 on cuda_fp16.h includes headers of the \
             runtime",
            "give the toolkit's include folder with -I (CUDA_PATH for CuPy), all of its headers in it",
            "cupy#8466",
        ],
    ),
    Rule::text(
        &["nvcc: command not found", "nvcc: not found", "no such file or directory: 'nvcc'"],
        [
            "there is no nvcc",
            "the image is a base or runtime image, or NVIDIA's wheels of 11.8 to 12.9, which carry none",
            "use a devel image, a toolkit folder, or wheels of 13.x",
            "container-images repository; measured with the wheels",
        ],
    ),
    Rule::text(
        &["cuda_runtime.h: no such file", "crt/host_config.h: no such file", "crt/host_config.h\": no such file"],
        [
            "nvcc does not find its headers",
            "the toolkit folder is not whole: 13.x wheels keep them in packages of their own (runtime, crt)",
            "fetch the toolkit again, or use a devel image",
            "measured with the 13.0 and 13.5 wheels",
        ],
    ),
    Rule::text(
        &["cicc: not found", "cicc: no such file", "libdevice.10.bc"],
        [
            "nvcc does not find its device compiler",
            "the toolkit folder is not whole: 13.x wheels keep it in the nvvm package",
            "fetch the toolkit again, or use a devel image",
            "measured with the 13.0 and 13.5 wheels",
        ],
    ),
    Rule::text(
        &["unsupported gpu architecture", "is not defined for option 'gpu-name'"],
        [
            "this toolkit does not know the architecture",
            "every toolkit has its list: 12.x begins at 5.0, 13.x at 7.5, and new GPUs need new toolkits",
            "choose an architecture that the toolkit knows, or another toolkit",
            MEASURED,
        ],
    ),
    Rule::text(
        &["incompatible code generation requested"],
        [
            "the machine code was asked for a lower architecture than the PTX",
            "in -gencode, `code` may not be below `arch`",
            "ask for both of the same architecture",
            MEASURED,
        ],
    ),
    Rule::text(
        &["unsupported .version"],
        [
            "the PTX is newer than the compiler that reads it",
            "each ptxas, and each driver, takes PTX up to its own CUDA version",
            "use a newer toolkit or driver, or make the PTX with an older toolkit",
            MEASURED,
        ],
    ),
    Rule::text(
        &["does not support .target"],
        [
            "the PTX's version is too old for its target",
            "every target has a lowest PTX ISA",
            "make the PTX with a toolkit that knows the target",
            MEASURED,
        ],
    ),
    Rule::text(
        &["is higher than default sm version"],
        [
            "the PTX is for a higher architecture than asked",
            "PTX runs on its own compute capability and on later ones, never on earlier ones",
            "build the PTX for the lowest architecture that has to run it",
            MEASURED,
        ],
    ),
    Rule::text(
        &[
            "cannot be compiled to future architecture",
            "cannot be compiled to different sm-family",
            "cannot be compiled for architecture",
        ],
        [
            "the PTX is tied to another chip or family",
            "targets with the mark `a` run on exactly their chip, those with `f` within their family",
            "build generic PTX, or for the very architecture",
            MEASURED,
        ],
    ),
    Rule::text(
        &["nvidia-smi` failed", "nvidia-smi: command not found", "nvidia-smi: not found"],
        [
            "a build asks nvidia-smi for the GPU, and there is none here",
            "while an image is being built no GPU is attached, and nvidia-smi comes with the driver, not with a toolkit",
            "name the compute capability in the build: CUDA_COMPUTE_CAP, TORCH_CUDA_ARCH_LIST or -arch",
            "candle#1516",
        ],
    ),
    Rule::text(
        &["no space left on device"],
        [
            "the work folder is full",
            "compilers keep their temporary files there, and its size is limited",
            "take what fills it out of the kernel's `options` (--keep, -G), or build less at once",
            "errno(3)",
        ],
    )
    .at(&[Stage::Build]),
];
