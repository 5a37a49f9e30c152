//! Why `ctk-bench` itself cannot go on. Its main type is [`BenchError`].
//! A path that fails is no error: it is a `PathResult`.

use std::io;
use std::path::PathBuf;

/// Why `ctk-bench` itself cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum BenchError {
    /// The command line.
    #[error("{0}; `ctk-bench --help` lists what there is")]
    Usage(String),
    /// The request's file.
    #[error("the request {} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The request's text.
    #[error("the request {} is not one: {why}", path.display())]
    Request { path: PathBuf, why: String },
    /// The frames have nowhere to go.
    #[error("standard output cannot be written: {0}")]
    Output(io::Error),
    /// Something that the system should give and does not.
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    /// `ctk-bench compile`.
    #[error("{0}")]
    Compile(String),
}

impl BenchError {
    /// The process's exit status: 2 for what the caller has to change, 1 for the rest.
    pub(super) fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Unreadable { .. } | Self::Request { .. } => 2,
            Self::Output(_) | Self::System { .. } | Self::Compile(_) => 1,
        }
    }
}
