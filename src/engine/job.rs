//! What an engine is asked to run and what it answers. Its main types are [`JobSpec`] and [`JobEnd`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::attach::Attach;
use crate::model::matrix::Limits;
use crate::model::place::Place;
use crate::model::wire::Request;

/// What is to run.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// The run's id, for the label `ctk-matrix.run`.
    pub run: String,
    /// The job's id, for the label `ctk-matrix.job`.
    pub job: String,
    /// The file system that it sees.
    pub place: Place,
    /// What `ctk-bench` is told to do.
    pub task: BenchTask,
    /// How the GPU reaches it.
    pub attach: Attach,
    /// What it may use.
    pub limits: Limits,
    /// The deadline of the whole job. Paths have their own, inside.
    pub deadline: Duration,
    /// Environment beyond what the engine itself sets. Nothing is inherited.
    pub env: BTreeMap<String, String>,
}

/// What `ctk-bench` is told to do.
#[derive(Debug, Clone)]
pub enum BenchTask {
    /// `ctk-bench run`: a request whose paths are the host's; the engine maps them.
    Run {
        /// The request. `work` is filled in by the engine.
        request: Box<Request>,
        /// The host's folder that holds the toolkit, to be bound; none if it is in the image.
        toolkit_dir: Option<PathBuf>,
        /// Further folders of the host that the job reads, and where a container sees each.
        folders: Vec<(PathBuf, PathBuf)>,
    },
    /// `ctk-bench probe --nonce NONCE`: one hello frame, then the final frame.
    Probe {
        /// The frame's nonce.
        nonce: String,
        /// The GPU to look for, by index or UUID.
        device: Option<String>,
    },
}

/// What happens while a job runs. For display only: the truth is in [`JobEnd`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// It was started.
    Started,
    /// A piece of its standard output.
    Output(Vec<u8>),
}

/// What came of a job.
#[derive(Debug, Clone)]
pub struct JobEnd {
    /// How it ended.
    pub exit: JobExit,
    /// Its standard output, read again after the end.
    pub stdout: Vec<u8>,
    /// Whether there was more than the engine keeps.
    pub stdout_cut: bool,
    /// The last of its standard error.
    pub stderr: String,
    /// Folders as the job saw them, and as they are on the host, so that paths can be translated back.
    pub mapped: Vec<(PathBuf, PathBuf)>,
    /// What the engine could not do as asked, one line each: `memory is not limited: cgroup v1`.
    pub notes: Vec<String>,
    /// Milliseconds from the call to the start of the program.
    pub start_ms: f64,
    /// Milliseconds that it ran.
    pub run_ms: f64,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobExit {
    /// It exited by itself.
    Code(i64),
    /// A signal ended it.
    Signal(i32),
    /// It was killed for its memory, or a process in it was.
    Oom {
        /// The exit status all the same: a child may have been killed, and the job gone on.
        code: i64,
    },
    /// Its deadline passed, and it was ended.
    Timeout,
    /// The run was interrupted, and it was ended.
    Cancelled,
}

/// Why a job could not be run, or what became of it is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// There is no engine at the address.
    #[error("{0}")]
    Absent(String),
    /// There is one, and it refuses, or it is too old.
    #[error("{0}")]
    Refuses(String),
    /// The container could not be created or started. For an attach mode, the next one may do.
    #[error("{text}")]
    Start {
        /// The engine's own text.
        text: String,
    },
    /// Something that the job needs is missing on the host.
    #[error("{0}")]
    Setup(String),
    /// The engine stopped answering in mid-job.
    #[error("{0}")]
    Lost(String),
}
