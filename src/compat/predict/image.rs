//! What an image brings and asks for. Its main types are [`Variant`], which says what is in it, and [`Moved`], what
//! changed under a tag.

use super::Absent;
use super::machine::Machine;
use crate::compat::require::{Answer, Host, Requirement, brand};
use crate::model::path::Family;
use crate::model::version::Version;

/// Which of NVIDIA's three kinds an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The runtime library and forward compatibility.
    Base,
    /// Libraries too, NVRTC among them.
    Runtime,
    /// Compilers and headers too.
    Devel,
}

impl Variant {
    /// The variant that a reference names: `nvidia/cuda:12.6.3-devel-ubuntu22.04`.
    #[must_use]
    pub fn of_reference(reference: &str) -> Option<Self> {
        let tag = reference.rsplit_once(':').map_or("", |(_, tag)| tag);
        tag.split('-').find_map(|part| match part {
            "base" => Some(Self::Base),
            "runtime" => Some(Self::Runtime),
            "devel" => Some(Self::Devel),
            _ => None,
        })
    }

    /// The families that an image of this variant cannot carry out.
    #[must_use]
    pub fn absent(self) -> Vec<Absent> {
        match self {
            Self::Base => vec![(Family::Nvrtc, "image-variant"), (Family::Nvcc, "image-variant")],
            Self::Runtime => vec![(Family::Nvcc, "image-variant")],
            Self::Devel => Vec::new(),
        }
    }

    /// Whether an image of this variant has the library under this name. Names without a version are for linking.
    #[must_use]
    pub fn has_library(self, name: &str) -> bool {
        let versioned = name.split_once(".so").is_some_and(|(_, rest)| rest.starts_with('.'));
        match self {
            Self::Base => name.starts_with("libcudart") && versioned,
            Self::Runtime => versioned,
            Self::Devel => true,
        }
    }
}

/// Whether the machine is what an image requires.
#[must_use]
pub fn requires(requirement: &Requirement, machine: &Machine, gpu: &str) -> Answer {
    requirement.answer(&Host { cuda: machine.cuda, driver: machine.driver, cc: Some(machine.cc), brand: brand(gpu) })
}

/// An image under a tag, at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagged {
    /// Its digest; none where the registry has no such tag any more.
    pub digest: Option<String>,
    /// Its `NVIDIA_REQUIRE_CUDA`.
    pub requires: String,
}

/// What changed under a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The rule.
    pub rule: &'static str,
    /// Whether what it requires changed too.
    pub requirement: bool,
}

/// What changed under a tag since it was locked, if anything did.
#[must_use]
pub fn moved(locked: &Tagged, now: &Tagged) -> Option<Moved> {
    if now.digest.is_none() {
        return Some(Moved { rule: "image-deleted", requirement: false });
    }
    (locked.digest != now.digest).then(|| Moved { rule: "image-moved", requirement: locked.requires != now.requires })
}

/// The rule by which an image is not what it is labelled, where the library that is loaded is of another major version.
#[must_use]
pub fn content(labelled: Version, loaded: Version) -> Option<&'static str> {
    (labelled.major != loaded.major).then_some("image-content")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variant_is_read_off_the_tag_and_says_what_is_in_the_image() {
        let of = |tag: &str| Variant::of_reference(&format!("registry:5000/nvidia/cuda:{tag}"));
        assert_eq!(of("12.6.3-devel-ubuntu22.04"), Some(Variant::Devel));
        assert_eq!(of("12.4.1-cudnn-runtime-rockylinux8"), Some(Variant::Runtime));
        assert_eq!(of("13.0.1-base-ubuntu24.04"), Some(Variant::Base));
        assert_eq!(of("latest"), None);
        let families = |variant: Variant| variant.absent().into_iter().map(|(family, _)| family).collect::<Vec<_>>();
        assert_eq!(families(Variant::Base), [Family::Nvrtc, Family::Nvcc]);
        assert_eq!(families(Variant::Runtime), [Family::Nvcc]);
        assert_eq!(families(Variant::Devel), []);
        assert!(Variant::Runtime.has_library("libnvrtc.so.12") && !Variant::Runtime.has_library("libnvrtc.so"));
        assert!(!Variant::Base.has_library("libnvrtc.so.12") && Variant::Devel.has_library("libnvrtc.so"));
    }

    #[test]
    fn a_tag_that_is_gone_is_told_from_one_that_moved() {
        let tagged =
            |digest: Option<&str>, requires: &str| Tagged { digest: digest.map(Into::into), requires: requires.into() };
        let locked = tagged(Some("sha256:1"), "cuda>=11.8");
        assert_eq!(moved(&locked, &locked), None);
        let moved = |now: &Tagged| super::moved(&locked, now).map(|moved| (moved.rule, moved.requirement));
        assert_eq!(moved(&tagged(None, "")), Some(("image-deleted", false)));
        assert_eq!(moved(&tagged(Some("sha256:2"), "cuda>=11.8")), Some(("image-moved", false)));
        assert_eq!(moved(&tagged(Some("sha256:2"), "cuda>=11.8 driver>=450")), Some(("image-moved", true)));
    }
}
