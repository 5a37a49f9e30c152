//! What the system's loader says when a program or a library does not start.

use super::rule::Rule;

const LOADER: &str = "ld.so";

/// Texts, the special before the general.
pub(super) const RULES: &[Rule] = &[
    Rule::text(
        &["version `glibc_"],
        [
            "a program is built for a newer C library than the container has",
            "a program takes the symbol versions of the machine on which it was built",
            "use the released ctk-bench (glibc 2.17), or an image with a newer C library",
            LOADER,
        ],
    ),
    Rule::text(
        &["version `glibcxx_", "version `cxxabi_"],
        [
            "a library is built for a newer C++ library than is there",
            "libstdc++ comes with gcc, and the image's is older than the one that the library was built with",
            "use an image with a newer libstdc++, or build the library in the oldest image that has to run it",
            LOADER,
        ],
    ),
    Rule::text(
        &["libnvrtc-builtins.so"],
        [
            "NVRTC's builtins are not where the loader looks",
            "libnvrtc opens libnvrtc-builtins of exactly its own version by name",
            "put the folder with both on LD_LIBRARY_PATH",
            "measured with NVRTC 11.8 to 13.5",
        ],
    ),
    Rule::text(
        &["libcudart.so.", "libcublas.so.", "libcublaslt.so.", "libcudnn.so.", "libcufft.so.", "libnvjitlink.so."],
        [
            "a library of the toolkit is not where the loader looks",
            "the name carries the toolkit's major version: the image holds another one, or is a base image",
            "use a runtime or devel image of that major version, or put the library's folder on LD_LIBRARY_PATH",
            "container-images repository",
        ],
    ),
    Rule::text(
        &["failed to map segment from shared object"],
        [
            "the library lies where nothing may be executed",
            "its folder is mounted noexec, or a policy forbids it",
            "move it to a folder that is mounted exec",
            LOADER,
        ],
    ),
    Rule::text(
        &["wrong elf class", "invalid elf header", "file too short"],
        [
            "the file is not a library for this program",
            "it is for 32 bit or another processor, cut short, or a Git LFS pointer in place of the file",
            "look at it with `file`, and fetch it again",
            LOADER,
        ],
    ),
    Rule::text(
        &["cannot allocate memory in static tls block"],
        [
            "a library was opened too late",
            "it needs thread-local storage that is laid out when the program starts",
            "name it in LD_PRELOAD, or import it first",
            LOADER,
        ],
    ),
    Rule::text(
        &["undefined symbol: cu"],
        [
            "a library of CUDA lacks a function that the program was built with",
            "an older libcuda or an older toolkit library was found first",
            "see which file is loaded (LD_DEBUG=libs), and use the version that the program was built for",
            LOADER,
        ],
    ),
    Rule::text(
        &["undefined symbol"],
        [
            "a library lacks a function that the program was built with",
            "another version of the library was found first",
            "see which file is loaded (LD_DEBUG=libs), and mend LD_LIBRARY_PATH",
            LOADER,
        ],
    ),
    Rule::text(
        &["cannot open shared object file"],
        [
            "a library is missing",
            "it is not in the container, or not where the loader looks",
            "look for the name in the image, and check the toolkit's folder",
            LOADER,
        ],
    ),
];
