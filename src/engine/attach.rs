//! How a GPU reaches a job. Its main type is [`Attach`].

use std::path::PathBuf;

/// One way for a GPU to reach a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attach {
    /// It does not.
    None,
    /// A device request: `docker run --gpus`.
    Request {
        /// The GPU's UUID; none for all.
        uuid: Option<String>,
    },
    /// The `nvidia` runtime.
    Runtime {
        /// The GPU's UUID; none for all.
        uuid: Option<String>,
    },
    /// A CDI device.
    Cdi {
        /// `nvidia.com/gpu=0`.
        device: String,
    },
    /// Device nodes, and the driver's libraries mounted read-only.
    Devices {
        /// `/dev/nvidiactl` and its like.
        nodes: Vec<PathBuf>,
        /// The driver's libraries on the host.
        libraries: Vec<PathBuf>,
    },
}

impl Attach {
    /// The word used on the command line and in reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Request { .. } => "request",
            Self::Runtime { .. } => "runtime",
            Self::Cdi { .. } => "cdi",
            Self::Devices { .. } => "devices",
        }
    }
}
