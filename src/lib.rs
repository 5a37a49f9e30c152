//! One CUDA kernel, every way to load it, on every toolkit: one command, one report.
//!
//! `ctk-matrix` (the host program) expands `matrix.yaml` into cells, starts one container per toolkit, runs the same
//! small program `ctk-bench` in each, and merges what comes back into one report. Data flows one way:
//!
//! ```text
//! matrix.yaml -> MatrixSpec -> Plan{cells, excluded} -> Runner -> Job -> ctk-bench -> frames
//!             -> dispatcher -> RunEvent -> Record (journal) -> Summary -> renderers
//! ```
//!
//! | folder | holds | may import |
//! |---|---|---|
//! | [`model`] | pure data: spec, plan, wire, event, record, units | nothing of the others |
//! | [`compat`] | pure rules: catalogue, artifact readers, expectations, explanations | `model` |
//! | `bench` | what runs in the container: supervisor, worker, driver, NVRTC, nvcc, verify, measure | `model`, `compat` |
//! | `toolkit` | catalogue entry to folder or image: wheels through pip, image inspection, folders | `model`, `compat` |
//! | `engine` | where a job runs: Docker (the only bollard), child process; attach, limits, userland | `model`, `compat` |
//! | `run` | carries a plan out: scheduler, dispatcher, worker, GPU lock; prints nothing | the above but `bench` |
//! | `report` | records in, text out: journal, progress, summary, renderers | `model`, `compat` |
//! | `cli` | clap types, one short function per subcommand, exit codes | all but `bench` |
//!
//! A test walks the tree and holds the last column, a header on every file, and 500 lines a file at most.
//! The words (toolkit, path, cell, job, attach) are those of the README's glossary.
//! Cargo features `host` and `bench` build each program alone.

#[cfg(feature = "bench")]
pub mod bench;
#[cfg(feature = "host")]
pub mod cli;
pub mod compat;
#[cfg(feature = "host")]
pub mod engine;
pub mod model;
#[cfg(feature = "host")]
pub mod report;
#[cfg(feature = "host")]
pub mod run;
#[cfg(feature = "host")]
pub mod toolkit;
