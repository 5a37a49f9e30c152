//! The kernel and what every path does with it. Its main type is [`Kernel`].
//!
//! The kernel text exists once, in `kernels/vector_add.cu`, between two marker lines; every path compiles those
//! characters, wrapped by [`wrap`]. The inputs and the expected output are defined here, so that the program in the
//! container and the tests read one definition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::path::Form;

/// Opens the part of a kernel file that is compiled.
pub const SNIPPET_OPENS: &str = "// snippet: kernel";
/// Closes it.
pub const SNIPPET_CLOSES: &str = "// end snippet";

/// A kernel that is to be built, and perhaps launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The name on the `kernel` axis.
    pub name: String,
    /// The entry's unmangled name, as `cuModuleGetFunction` takes it.
    pub entry: String,
    /// Further compiler options, the same for NVRTC and nvcc.
    pub options: Vec<String>,
    /// CUDA C++ to compile, already wrapped; none for a kernel that exists only as artifacts.
    pub source: Option<String>,
    /// Artifacts made beforehand, for the driver family: file bytes in base64.
    pub prebuilt: BTreeMap<Form, Prebuilt>,
    /// How to launch and check it. Without this manifest a kernel is built and loaded, and not launched.
    pub launch: Option<Launch>,
}

/// An artifact made beforehand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prebuilt {
    /// Where it comes from, as reports show it: `kernels/prebuilt/vector_add.ptx`.
    pub origin: String,
    /// The file's bytes in base64.
    pub base64: String,
}

/// What a launch of the vector add needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Elements.
    pub n: u64,
    /// Threads a block.
    pub block: u32,
}

impl Launch {
    /// The lesson's launch: 4 Mi + 611 elements, so that the bounds check is live, and 256 threads a block.
    pub const VECTOR_ADD: Self = Self { n: 4_194_915, block: 256 };

    /// The SHA-256 of the output's little-endian bytes for [`Self::VECTOR_ADD`]. A pass without it is none.
    pub const VECTOR_ADD_OUT: &'static str = "11d347a4e363c4fe2a3d89bdaa23574198fda2e1a01d819d249c465b7f4d895d";

    /// Bytes that the algorithm must move: two reads and one write of four bytes an element.
    #[must_use]
    pub const fn bytes_moved(&self) -> u64 {
        12 * self.n
    }
}

/// Input value `k`: `h = k * 2654435761` mod 2^32, `h ^= h >> 15`, then `1 + (h & 0x7FFFFF) * 2^-23`, which is in
/// [1, 2) and exact. `a[i]` takes `k = 2i`, `b[i]` takes `k = 2i + 1`.
#[must_use]
pub fn input(k: u32) -> f32 {
    let mixed = k.wrapping_mul(2_654_435_761);
    let mixed = mixed ^ (mixed >> 15);
    // The bits of 1.0 with 23 mantissa bits filled in are that very sum.
    f32::from_bits(0x3F80_0000 | (mixed & 0x007F_FFFF))
}

/// Input `a` at index `i`.
#[must_use]
pub fn input_a(i: u32) -> f32 {
    input(i.wrapping_mul(2))
}

/// Input `b` at index `i`.
#[must_use]
pub fn input_b(i: u32) -> f32 {
    input(i.wrapping_mul(2).wrapping_add(1))
}

/// The expected output at index `i`: one float32 addition.
#[must_use]
pub fn expected(i: u32) -> f32 {
    input_a(i) + input_b(i)
}

/// The marker lines are missing or in the wrong order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSnippet {
    /// There is no opening line.
    #[error("there is no line `{SNIPPET_OPENS}`")]
    Opens,
    /// There is no closing line after the opening one.
    #[error("there is no line `{SNIPPET_CLOSES}` after `{SNIPPET_OPENS}`")]
    Closes,
    /// There is nothing between them.
    #[error("there is no text between `{SNIPPET_OPENS}` and `{SNIPPET_CLOSES}`")]
    Empty,
}

/// The characters between the marker lines of a kernel file.
pub fn snippet(file: &str) -> Result<&str, NoSnippet> {
    let mut start = None;
    let mut offset = 0;
    for line in file.split_inclusive('\n') {
        match (start, line.trim()) {
            (None, SNIPPET_OPENS) => start = Some(offset + line.len()),
            (Some(start), SNIPPET_CLOSES) => {
                let text = &file[start..offset];
                return if text.trim().is_empty() { Err(NoSnippet::Empty) } else { Ok(text) };
            }
            _ => {}
        }
        offset += line.len();
    }
    Err(if start.is_some() { NoSnippet::Closes } else { NoSnippet::Opens })
}

/// The snippet as every path compiles it: with C linkage, so that the entry keeps its name.
#[must_use]
pub fn wrap(snippet: &str) -> String {
    format!("extern \"C\" {{\n{snippet}}}\n")
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn sha256(value: fn(u32) -> f32) -> String {
        let mut hash = Sha256::new();
        for i in 0..u32::try_from(Launch::VECTOR_ADD.n).unwrap() {
            hash.update(value(i).to_le_bytes());
        }
        crate::model::wire::hex(&hash.finalize())
    }

    #[test]
    fn inputs_and_output_are_the_published_bytes() {
        assert_eq!(sha256(input_a), "22c6b177eb16ccdc59b0301b04550fc12e26850379e49b79b6fdfe238be060f4");
        assert_eq!(sha256(input_b), "0cf2a3b4cac5fcae0b43843b0fbd36b9c037bd0b5155b7fa20215537d2251470");
        assert_eq!(sha256(expected), Launch::VECTOR_ADD_OUT);
        assert_eq!(Launch::VECTOR_ADD_OUT, "11d347a4e363c4fe2a3d89bdaa23574198fda2e1a01d819d249c465b7f4d895d");
    }

    #[test]
    fn the_snippet_is_the_lines_between_the_markers() {
        let file = "x\n// snippet: kernel\nvoid f() {}\n// end snippet\ny\n";
        assert_eq!(snippet(file), Ok("void f() {}\n"));
        assert_eq!(wrap("void f() {}\n"), "extern \"C\" {\nvoid f() {}\n}\n");
    }

    #[test]
    fn a_missing_marker_is_named() {
        assert_eq!(snippet("void f() {}"), Err(NoSnippet::Opens));
        assert_eq!(snippet("// snippet: kernel\nvoid f() {}"), Err(NoSnippet::Closes));
        assert_eq!(snippet("// end snippet\n// snippet: kernel\n"), Err(NoSnippet::Closes));
        assert_eq!(snippet("// snippet: kernel\n \n// end snippet"), Err(NoSnippet::Empty));
    }
}
