//! The toolkit, its host compiler or the C library refuse.

use ctk_matrix::compat::codes;
use ctk_matrix::compat::predict::build::{HostCompiler, glibc_floor, host_compiler, host_headers, nvrtc_headers};
use ctk_matrix::compat::predict::image::Variant;
use ctk_matrix::compat::predict::surroundings;
use ctk_matrix::model::outcome::{Outcome, Stage};

use super::{cell, explained, remedy, version};

/// NVIDIA/cutlass#3166: the compiler of 13.0 refuses SM 70 and 72, which 12.x took.
#[test]
fn cutlass_3166_an_architecture_that_13_0_dropped() {
    for arch in ["7.0", "7.2"] {
        let predicted = cell("13.0", "nvcc-cubin", arch, None);
        assert_eq!((predicted.outcome, predicted.stage), (Outcome::Fail, Some(Stage::Build)));
        remedy(Some(&predicted.rule), "toolkit-arch-dropped", "12.9");
        assert_eq!(cell("12.9", "nvcc-cubin", arch, None).outcome, Outcome::Built);
    }
    explained(Some(Stage::Build), None, "nvcc fatal   : Unsupported gpu architecture 'sm_70'", "");
}

/// NVIDIA/cuda-python#839: an old NVRTC of the system was opened, 11.2 and then 12.0, where 13.0.48 was installed.
#[test]
fn cuda_python_839_another_nvrtc_was_opened() {
    for opened in ["11.2", "12.0"] {
        remedy(surroundings::nvrtc(version("13.0"), version(opened)), "nvrtc-library", "absolute path");
    }
    assert_eq!(surroundings::nvrtc(version("13.0"), version("13.0")), None);
}

/// cupy/cupy#8466: from 12.2 on `cuda_fp16.h` includes headers of the runtime, which are not there.
#[test]
fn cupy_8466_a_header_of_nvrtc_needs_the_runtime_s() {
    remedy(nvrtc_headers(version("12.2"), false), "nvrtc-headers", "-I");
    assert_eq!((nvrtc_headers(version("12.1"), false), nvrtc_headers(version("12.2"), true)), (None, None));
    let log = "cuda_fp16.h(4025): catastrophic error: cannot open source file \"vector_types.h\"";
    explained(Some(Stage::Build), Some(&codes::nvrtc(6)), log, "");
}

/// NVIDIA/cuda-samples#378 (and nccl#1700): Ubuntu 25.04's glibc 2.41 against the headers of 12.9.
#[test]
fn cuda_samples_378_headers_of_glibc_2_41_and_of_12_9() {
    remedy(host_headers(version("12.9"), version("2.41")), "host-headers", "13.0");
    assert_eq!(host_headers(version("12.9"), version("2.39")), None);
    assert_eq!(host_headers(version("13.0"), version("2.41")), None);
}

/// NVlabs/instant-ngp#1562: Ubuntu 24.04's gcc 13 with CUDA 12.1.
#[test]
fn instant_ngp_1562_a_gcc_that_is_newer_than_12_1_takes() {
    remedy(host_compiler(version("12.1"), HostCompiler::Gcc(13)), "host-compiler", "-ccbin");
    assert_eq!(host_compiler(version("12.1"), HostCompiler::Gcc(12)), None);
    assert_eq!(host_compiler(version("12.4"), HostCompiler::Gcc(13)), None);
    let text = "host_config.h:132:2: error: #error -- unsupported GNU version! gcc versions later than 12 are not \
                supported!";
    explained(Some(Stage::Build), None, text, "gcc");
}

/// NVIDIA/cccl#10: an image whose nvcc is older than its gcc 10. The oldest nvcc that is known here takes gcc 11, so
/// that the scene is the same one release later.
#[test]
fn cccl_10_the_image_s_own_gcc_is_too_new_for_its_nvcc() {
    remedy(host_compiler(version("11.8"), HostCompiler::Gcc(12)), "host-compiler", "older gcc");
}

/// chelsea0x3b/cudarc#274: a runtime image has `libnvrtc.so.12` and no `libnvrtc.so`.
#[test]
fn cudarc_274_a_runtime_image_has_versioned_names_only() {
    let image = Variant::of_reference("nvidia/cuda:12.4.1-runtime-ubuntu22.04").unwrap();
    assert!(image.has_library("libnvrtc.so.12") && !image.has_library("libnvrtc.so"));
    remedy(Some("library-names"), "library-names", "versioned name");
}

/// cupy/cupy#7560, pytorch/TensorRT#3893: the builtins that NVRTC looks for by its own version are not there.
#[test]
fn cupy_7560_tensorrt_3893_nvrtc_finds_no_builtins_of_its_own() {
    for found in [None, Some(version("12.8"))] {
        remedy(surroundings::builtins(version("13.0"), found), "nvrtc-builtins", "LD_LIBRARY_PATH");
    }
    assert_eq!(surroundings::builtins(version("13.0"), Some(version("13.0"))), None);
    let log = "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.";
    explained(Some(Stage::Build), Some(&codes::nvrtc(7)), log, "");
}

/// abetlen/llama-cpp-python#1840: a library that asks for `GLIBC_2.32` on Ubuntu 20.04, which has 2.31.
#[test]
fn llama_cpp_python_1840_a_library_is_newer_than_the_c_library() {
    remedy(glibc_floor(version("2.32"), version("2.31")), "glibc-floor", "2.17");
    assert_eq!(glibc_floor(version("2.17"), version("2.31")), None);
    let text = "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found";
    explained(None, None, text, "");
}
