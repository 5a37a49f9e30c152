//! What the first stage of a path gives. The main type is [`Built`]; [`NotBuilt`] is why there is none.

use crate::model::outcome::Code;

/// An artifact, ready to be read and loaded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Built {
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// What made it; none where only the artifact itself can say so.
    pub(super) producer: Option<String>,
    /// Wall clock round the compile step, milliseconds; none where nothing was compiled.
    pub(super) build_ms: Option<f64>,
}

/// Why there is no artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotBuilt {
    /// The path cannot run here.
    Skip(String),
    /// The path runs here, and failed.
    Fail {
        /// The code, where there is one.
        code: Option<Code>,
        /// One line.
        reason: String,
        /// The compiler's text.
        detail: Option<String>,
    },
}

impl NotBuilt {
    /// A failure without a code.
    pub(super) fn fail(reason: impl Into<String>) -> Self {
        Self::Fail { code: None, reason: reason.into(), detail: None }
    }
}
