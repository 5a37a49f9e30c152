//! Python packages that do not go together.

use ctk_matrix::compat::predict::{image, surroundings};

use super::{remedy, version};

fn only(rules: &[&'static str]) -> Option<&'static str> {
    assert!(rules.len() < 2, "{rules:?}");
    rules.first().copied()
}

/// scikit-hep/awkward#4313, NVIDIA/numba-cuda#907: a fresh solve took `NumPy` 2.5.2, which has no `row_stack` any more,
/// beside numba-cuda 0.30.4, which uses it and sets no bound.
#[test]
fn awkward_4313_numba_cuda_907_a_bound_that_is_missing() {
    remedy(only(&surroundings::packages(&[("numba-cuda", "0.30.4"), ("numpy", "2.5.2")])), "pin-cap", "numpy<2.5");
    // The note's "NumPy 2" is 2.5: 2.4.6 works.
    assert_eq!(surroundings::packages(&[("numba-cuda", "0.30.4"), ("numpy", "2.4.6")]), [""; 0]);
}

/// cupy/cupy#9719: `CuPy` 14 for one CUDA major in an environment of another.
#[test]
fn cupy_9719_packages_of_two_cuda_majors() {
    let resolved = [("cupy-cuda12x", "14.2.0"), ("cuda-bindings", "13.5.0"), ("numpy", "2.4.6")];
    remedy(only(&surroundings::packages(&resolved)), "cuda-majors-mixed", "one major");
    let resolved = [("cupy-cuda12x", "14.2.0"), ("nvidia-cuda-nvrtc-cu12", "12.6.85"), ("cuda-bindings", "12.9.4")];
    assert_eq!(surroundings::packages(&resolved), [""; 0]);
}

/// scverse/rapids-singlecell#677: an image labelled cu12 with libraries of CUDA 13 inside.
#[test]
fn rapids_singlecell_677_an_image_holds_other_libraries_than_its_label_says() {
    remedy(image::content(version("12.8"), version("13.0")), "image-content", "one major version");
    assert_eq!(image::content(version("12.8"), version("12.9")), None);
}
