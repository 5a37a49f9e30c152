//! The driver refuses what it is given.

use ctk_matrix::compat::codes;
use ctk_matrix::compat::predict::{build, surroundings};
use ctk_matrix::model::outcome::Stage;
use ctk_matrix::model::path::Form;

use super::{cubin, explained, loads, machine, ptx, refused, remedy, version};

/// Rust-GPU/rust-cuda#212: the project's own vecadd example ends in `UnsupportedPtxVersion`. The PTX is that of a
/// toolkit newer than the driver; the numbers here are one such pair.
#[test]
fn rust_cuda_212_an_example_s_ptx_is_newer_than_the_driver() {
    refused(Form::Ptx, &[ptx("8.8", "7.5")], &machine("550.54.14", "T4"), 222, "ptx-isa");
    remedy(Some("ptx-isa"), "ptx-isa", "machine code");
    explained(Some(Stage::Load), Some(&codes::driver(222)), "", "cubin");
}

/// NVIDIA/numba-cuda#163: toolkit 12.8 writes PTX 8.7 and the cluster's driver stops at 8.4 (branch 550); linking
/// through an older nvJitLink ends in the same text.
#[test]
fn numba_cuda_163_ptx_of_12_8_on_a_driver_of_12_4_and_in_an_older_linker() {
    refused(Form::Ptx, &[ptx("8.7", "8.0")], &machine("550.90.07", "A100"), 222, "ptx-isa");
    remedy(build::linker(version("12.4"), version("8.7")), "linker-isa", "nvJitLink");
    assert_eq!(build::linker(version("12.8"), version("8.7")), None);
}

/// dartsim/dart#3475: built for `sm_75` alone by nvcc 13.3, run on an `sm_89` GPU with a driver of 13.2: the machine code
/// does not fit, so the PTX is compiled, and is too new. Until then the GPU tests had not run at all.
#[test]
fn dart_3475_machine_code_for_another_gpu_leaves_ptx_that_is_too_new() {
    let built = [cubin("13.3", "7.5"), ptx("9.3", "7.5")];
    refused(Form::Fatbin, &built, &machine("595.58.03", "L4"), 222, "ptx-isa");
    assert!(loads(Form::Fatbin, &[cubin("13.3", "8.9")], &machine("595.58.03", "L4")));
    remedy(surroundings::tests(0, true), "tests-ran", "--gpu required");
}

/// EricLBuehler/mistral.rs#1571: a container of 12.9.1 fails with 222 for some models only, those whose kernels come
/// as PTX. The driver's version is not in the report; one of 12.8 is taken here.
#[test]
fn mistral_rs_1571_only_what_is_ptx_fails_in_a_container_newer_than_the_driver() {
    let host = machine("570.124.06", "A100");
    refused(Form::Ptx, &[ptx("8.8", "8.0")], &host, 222, "ptx-isa");
    assert!(loads(Form::Cubin, &[cubin("12.9", "8.0")], &host));
}

/// filecoin-project/rust-gpu-tools#79: a K80 (3.7) and a fatbin whose lowest part is `compute_52`.
#[test]
fn rust_gpu_tools_79_the_fatbin_starts_above_the_gpu() {
    let built = [cubin("11.8", "5.2"), cubin("11.8", "7.5"), ptx("7.8", "5.2")];
    let k80 = machine("470.82.01", "K80");
    refused(Form::Fatbin, &built, &k80, 209, "fatbin-none");
    remedy(Some("fatbin-none"), "fatbin-none", "-gencode");
    explained(Some(Stage::Load), Some(&codes::driver(209)), "", "");
}

/// jax-ml/jax#19821: the ptxas that ships with the program is newer than the driver.
#[test]
fn jax_19821_a_ptxas_that_is_newer_than_the_driver() {
    refused(Form::Ptx, &[ptx("8.3", "8.0")], &machine("525.60.13", "A100"), 222, "ptx-isa");
    assert!(loads(Form::Cubin, &[cubin("12.3", "8.0")], &machine("525.60.13", "A100")));
}

/// chelsea0x3b/cudarc#464, pegainfer-project/pegainfer#263: every function is looked up at start, and this driver has
/// not got `cuCtxCreate_v4` and others of 12.5.
#[test]
fn cudarc_464_pegainfer_263_a_function_that_this_driver_has_not_got() {
    remedy(surroundings::symbol("cuCtxCreate_v4", version("12.2")), "symbol-floor", "one by one");
    assert_eq!(surroundings::symbol("cuCtxCreate_v4", version("12.5")), None);
    assert_eq!(surroundings::symbol("cuInit", version("11.0")), None);
}

/// chelsea0x3b/cudarc#490: `nvrtcGetNVVM` is gone from NVRTC 13.
#[test]
fn cudarc_490_a_function_that_a_newer_nvrtc_has_not_got_any_more() {
    remedy(surroundings::symbol("nvrtcGetNVVM", version("13.0")), "symbol-floor", "one by one");
    assert_eq!(surroundings::symbol("nvrtcGetNVVM", version("12.9")), None);
}
