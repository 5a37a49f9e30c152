//! What engines, NVIDIA's container tools, the loader, pip and compilers are known to say, as whole texts from their
//! sources and from public reports, each with what has to be said of it.

use super::Findings;

/// What is said of each text: of its lines, each thing once.
fn said(text: &str) -> Vec<String> {
    let what = |finding: super::Finding| finding.explanation.map_or("-".into(), |explanation| explanation.what);
    Findings::of(text).into_iter().map(what).collect()
}

#[track_caller]
fn all_say(table: &[(&str, &str)]) {
    for (text, what) in table {
        assert_eq!(said(text), [*what], "{text}");
    }
}

#[test]
fn engines_and_nvidia_s_container_tools() {
    const LEGACY: &str = "Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime \
                          create failed: runc create failed: unable to start container process: error during container init: error \
                          running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\n";
    let legacy = |text: &str| format!("{LEGACY}nvidia-container-cli: {text}: unknown");
    let requirement = legacy("requirement error: unsatisfied condition: cuda>=12.8, please update your driver");
    let library = legacy(
        "initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory",
    );
    let module = legacy("initialization error: nvml error: driver not loaded");
    let mismatch = legacy("initialization error: nvml error: driver/library version mismatch");
    let device = legacy("device error: 1: unknown device");
    let cache = legacy("ldcache error: process /sbin/ldconfig.real failed with error code: 1");
    all_say(&[
        (
            r#"Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]"#,
            "the engine knows no way to give a GPU to a container",
        ),
        (r#"could not select device driver "cdi" with capabilities: []"#, "the engine's support for CDI is off"),
        (
            "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all",
            "the engine knows no such CDI device",
        ),
        ("setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all", "the engine knows no such CDI device"),
        (
            "CDI device injection failed: no CDI specification directories specified",
            "the engine looks nowhere for CDI specifications",
        ),
        ("CDI registry initialization failure: x", "the engine cannot read its CDI specifications"),
        (
            r#"no CDI device driver registered: could not select device driver "" with capabilities: [[gpu]]"#,
            "the engine found NVIDIA's CDI hook and has CDI switched off",
        ),
        ("cannot set both Count and DeviceIDs on device request", "the request for the GPU contradicts itself"),
        ("unknown or invalid runtime name: nvidia", "the engine has no such runtime"),
        (&requirement, "the image asks for a newer driver"),
        (&library, "the NVIDIA container tools find no driver on the host"),
        (&module, "the host's kernel module is not loaded"),
        (&mismatch, "the driver's library and its kernel module differ"),
        (&device, "there is no such GPU"),
        (&cache, "the library cache of the image could not be made"),
        (
            "could not apply required modification to OCI specification: error modifying OCI spec: failed to inject CDI \
             devices: unresolvable CDI devices runtime.nvidia.com/gpu=all",
            "the NVIDIA runtime could not describe the GPU",
        ),
        (
            "invoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) is not supported.",
            "the GPU was asked for in a way that this mode does not support",
        ),
        (
            "unsupported capabilities found in 'compute,utlity' (allowed 'compute,utility')",
            "NVIDIA_DRIVER_CAPABILITIES has an unknown word",
        ),
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124",
            "the driver's library and its kernel module differ",
        ),
        ("Failed to initialize NVML: Unknown Error", "the container has lost its access to the GPU"),
        (
            "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.",
            "the image's entrypoint found no driver",
        ),
        (
            "manifest for nvidia/cuda:12.4.0-devel-ubuntu22.04 not found: manifest unknown",
            "there is no image with this tag",
        ),
        ("exec /ctk/bench: exec format error", "the program is for another processor"),
    ]);
}

#[test]
fn the_loader() {
    all_say(&[
        (
            "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
            "there is no driver library in the container",
        ),
        (
            "libnvrtc.so.12: cannot open shared object file: No such file or directory",
            "there is no NVRTC where it was looked for",
        ),
        (
            "libcudart.so.11.0: cannot open shared object file: No such file or directory",
            "a library of the toolkit is not where the loader looks",
        ),
        ("libfoo.so.3: cannot open shared object file: No such file or directory", "a library is missing"),
        (
            "./ctk-bench: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by ./ctk-bench)",
            "a program is built for a newer C library than the container has",
        ),
        (
            "/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by ./a)",
            "a library is built for a newer C++ library than is there",
        ),
        ("nvrtc: error: failed to open libnvrtc-builtins.so.13.0.", "NVRTC does not find its builtins"),
        (
            "symbol lookup error: ./a: undefined symbol: cuLibraryLoadData",
            "a library of CUDA lacks a function that the program was built with",
        ),
        (
            "symbol lookup error: ./a: undefined symbol: foo",
            "a library lacks a function that the program was built with",
        ),
        ("libx.so: failed to map segment from shared object", "the library lies where nothing may be executed"),
    ]);
}

#[test]
fn pip() {
    all_say(&[
        ("/usr/bin/python3: No module named pip", "this Python has no pip"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        (
            "ERROR: No matching distribution found for nvidia-cuda-nvrtc-cu12==12.7.0",
            "the package index has no such wheel for this machine",
        ),
        (
            "ERROR: Ignored the following versions that require a different python version: 2.5.0 Requires-Python >=3.12\n\
             ERROR: No matching distribution found for numpy==2.5.0",
            "the package is not for this Python",
        ),
        (
            "ERROR: Cannot install a and b because these package versions have conflicting dependencies.\n\
             ERROR: ResolutionImpossible: for help visit x",
            "the pins contradict one another",
        ),
        ("error: externally-managed-environment", "this Python refuses packages from pip"),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            "a wheel is not the one that is pinned",
        ),
        ("  ERROR: Failed building wheel for pycuda", "a package could not be built from its source"),
        ("ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED]", "pip does not trust the package index"),
    ]);
}

#[test]
fn compilers() {
    all_say(&[
        (
            "/usr/local/cuda/include/crt/host_config.h:137:2: error: #error -- unsupported GNU version! gcc versions later than 12 \
             are not supported!",
            "the host's gcc is newer than this nvcc accepts",
        ),
        (
            "#error -- unsupported clang version! clang version must be less than 21 and greater than 3.2 .",
            "the host's clang is newer than this nvcc accepts",
        ),
        ("nvcc fatal   : Failed to preprocess host compiler properties.", "nvcc finds no host compiler"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_70'", "this toolkit does not know the architecture"),
        (
            "ptxas fatal   : Value 'sm_52' is not defined for option 'gpu-name'",
            "this toolkit does not know the architecture",
        ),
        (
            "ptxas x.ptx, line 1; fatal   : Unsupported .version 9.5; current version is '8.8'",
            "the PTX is newer than the compiler that reads it",
        ),
        (
            "/usr/include/x86_64-linux-gnu/bits/mathcalls.h(79): error: exception specification is incompatible with that of \
             previous function \"cospi\"",
            "the toolkit's headers and the C library's declare the same functions differently",
        ),
        (
            "k.cu(1): catastrophic error: cannot open source file \"cuda_fp16.h\"",
            "a header that the kernel includes is not found",
        ),
        ("sh: 1: nvcc: not found", "there is no nvcc"),
    ]);
}
