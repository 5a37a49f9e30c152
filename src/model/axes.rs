//! Where a cell lies in the matrix. Its main type is [`Axes`]; the cell's id is its sorted `axis=value` pairs.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::arch::Arch;
use super::path::PathId;

/// The coordinates of one cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Axes {
    /// The toolkit entry's name, by default its version.
    pub toolkit: String,
    /// How the kernel gets onto the GPU.
    pub path: PathId,
    /// The kernel's name.
    pub kernel: String,
    /// The compute capability built for.
    pub arch: Arch,
    /// The set of pinned Python packages, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stack: Option<String>,
}

/// The axis names, as `--select` and `exclude:` take them.
pub const AXIS_NAMES: [&str; 5] = ["arch", "kernel", "path", "stack", "toolkit"];

impl Axes {
    /// The cell's id: its `axis=value` pairs, sorted by axis name and joined by commas.
    #[must_use]
    pub fn id(&self) -> String {
        let mut id = format!("arch={},kernel={},path={}", self.arch, self.kernel, self.path);
        if let Some(stack) = &self.stack {
            let _ = write!(id, ",stack={stack}");
        }
        let _ = write!(id, ",toolkit={}", self.toolkit);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_the_sorted_pairs() {
        let axes = Axes {
            toolkit: "12.6".into(),
            path: "nvrtc-cubin".parse().unwrap(),
            kernel: "vector_add".into(),
            arch: Arch::new(9, 0),
            stack: None,
        };
        assert_eq!(axes.id(), "arch=9.0,kernel=vector_add,path=nvrtc-cubin,toolkit=12.6");
        let axes = Axes { stack: Some("s".into()), ..axes };
        assert_eq!(axes.id(), "arch=9.0,kernel=vector_add,path=nvrtc-cubin,stack=s,toolkit=12.6");
    }
}
