//! The host, its driver and the engine are not what an image needs.

use ctk_matrix::compat::codes;
use ctk_matrix::compat::predict::image::{self, Moved, Tagged};
use ctk_matrix::compat::predict::surroundings::{self, Compat, with_compat};
use ctk_matrix::compat::require::{Answer, Requirement, Way, enforced};
use ctk_matrix::model::outcome::Stage;

use super::{explained, machine, remedy, version};

/// ggml-org/llama.cpp#9665: an image that requires `cuda>=12.6` is refused on a driver of branch 550.
#[test]
fn llama_cpp_9665_an_image_requires_more_than_the_driver() {
    let required = Requirement::parse("cuda>=12.6").unwrap();
    let answer = image::requires(&required, &machine("550.90.07", "RTX 4090"), "RTX 4090");
    let failing = vec!["cuda>=12.6".to_owned()];
    assert_eq!(answer, Answer::Unsatisfied { named: "cuda>=12.6".into(), failing });
    assert_eq!(enforced(Way::Request { docker: Some((27, 1)) }, false), Some(true));
    // By CDI the same image starts, and fails later.
    assert_eq!(enforced(Way::Cdi, false), Some(false));
    remedy(Some("require-cuda"), "require-cuda", "update the driver");
    let text = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.6, please update your driver \
                to a newer version, or use an earlier cuda container: unknown";
    explained(Some(Stage::Start), None, text, "driver");
}

/// NVIDIA/nvidia-container-toolkit#152: the images of 11.8 were published again under their tags, and ask for more.
#[test]
fn nvidia_container_toolkit_152_a_tag_moved_and_asks_for_more() {
    let tagged = |digest: &str, requires: &str| Tagged { digest: Some(digest.into()), requires: requires.into() };
    let before = tagged("sha256:aaaa", "cuda>=11.8 brand=tesla,driver>=450,driver<451");
    let after = tagged("sha256:bbbb", "cuda>=11.8 brand=tesla,driver>=470,driver<471");
    assert_eq!(image::moved(&before, &after), Some(Moved { rule: "image-moved", requirement: true }));
    let host = machine("450.80.02", "T4");
    let answer = |tagged: &Tagged| image::requires(&Requirement::parse(&tagged.requires).unwrap(), &host, "T4");
    assert_eq!(answer(&before), Answer::Satisfied);
    assert!(matches!(answer(&after), Answer::Unsatisfied { .. }));
    remedy(Some("image-moved"), "image-moved", "digest");
}

/// replicate/cog#1162: the tags of an old release were deleted, and every build on them failed that day.
#[test]
fn cog_1162_a_tag_was_deleted() {
    let locked = Tagged { digest: Some("sha256:aaaa".into()), requires: "cuda>=11.2".into() };
    let gone = Tagged { digest: None, requires: String::new() };
    remedy(image::moved(&locked, &gone).map(|moved| moved.rule), "image-deleted", "copy");
}

/// NVIDIA/nvidia-docker#1515: a GTX 1080 Ti with driver 460 (11.2) and an image of 11.3, whose compat libraries came
/// first after an update of the container toolkit.
#[test]
fn nvidia_docker_1515_compat_libraries_on_a_geforce() {
    let host = machine("460.39", "GeForce GTX 1080 Ti");
    let refused = with_compat(version("11.3"), &host).unwrap_err();
    assert_eq!((refused.stage, refused.code), (Some(Stage::DriverInit), Some(codes::driver(804))));
    remedy(Some(&refused.rule), "forward-compat-hardware", "/usr/local/cuda-*/compat");
    explained(Some(Stage::DriverInit), Some(&codes::driver(804)), "", "compat");
    // A data-centre GPU is allowed to.
    let works = with_compat(version("12.9"), &machine("535.104.05", "T4")).unwrap();
    assert_eq!((works.cuda, works.max_ptx_isa()), (version("12.9"), version("8.8")));
}

/// gpustack/gpustack#4678: an image whose ld.so.conf names its compat folder, on driver 580 and later: 803 with the
/// nvidia runtime and by CDI, and not with `--gpus all`.
#[test]
fn gpustack_4678_an_image_s_own_libcuda_hides_the_host_s() {
    let rule = surroundings::libcuda("/usr/local/cuda-12.9/compat/libcuda.so.575.57.08", None, None);
    remedy(rule, "libcuda-path", "ld.so.conf.d");
    assert_eq!(surroundings::compat(version("12.9"), 580), Compat::NotSupported);
    let refused = with_compat(version("12.9"), &machine("580.82.07", "H100")).unwrap_err();
    assert_eq!((refused.code, refused.rule.as_str()), (Some(codes::driver(803)), "forward-compat"));
    explained(Some(Stage::DriverInit), Some(&codes::driver(803)), "", "");
    assert_eq!(surroundings::libcuda("/usr/lib/x86_64-linux-gnu/libcuda.so.1", None, None), None);
}

/// NVIDIA/warp#219, tensorflow/tensorflow#36974: the stub for linking is loaded, and answers 34.
#[test]
fn warp_219_tensorflow_36974_a_stub_is_loaded_instead_of_the_driver() {
    let rule = surroundings::libcuda("/usr/local/cuda/lib64/stubs/libcuda.so", None, None);
    remedy(rule, "stub-libcuda", "stubs");
    explained(Some(Stage::DriverInit), Some(&codes::driver(34)), "", "stubs");
}

/// lablup/backend.ai#13820: the container starts through an engine that ignores the device request.
#[test]
fn backend_ai_13820_the_container_starts_without_the_gpu_that_was_asked_for() {
    remedy(surroundings::visible(true, 0), "gpu-visible", "verify inside");
    assert_eq!((surroundings::visible(true, 1), surroundings::visible(false, 0)), (None, None));
}

/// apache/tvm#7536: the driver was updated under a running container: NVML's versions differ.
#[test]
fn tvm_7536_driver_and_libraries_of_two_versions() {
    let driver = |text: &str| text.parse().ok();
    let rule = surroundings::libcuda("/usr/lib/libcuda.so.460.39", driver("460.39"), driver("460.32.03"));
    remedy(rule, "driver-mismatch", "restart the container");
    explained(None, None, "Failed to initialize NVML: Driver/library version mismatch", "");
}

/// huggingface/candle#1516: a build script asks nvidia-smi for the GPU while an image is being built.
#[test]
fn candle_1516_no_gpu_while_an_image_is_built() {
    remedy(Some("build-without-gpu"), "build-without-gpu", "CUDA_COMPUTE_CAP");
    explained(
        None,
        None,
        "thread 'main' panicked: `nvidia-smi` failed. Ensure that you have CUDA installed",
        "CUDA_COMPUTE_CAP",
    );
}
