//! Frames out, each in one write. Its main type is [`Emitter`].
//! Standard output is used without Rust's line buffer, so that a frame is whole in the pipe or not there at all.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use super::error::BenchError;
use crate::model::outcome::Stage;
use crate::model::wire::{self, Frame, PathResult};

/// Writes frames to standard output.
pub(super) struct Emitter {
    nonce: String,
    out: File,
}

impl Emitter {
    /// An emitter of frames with this nonce.
    pub(super) fn new(nonce: &str) -> Result<Self, BenchError> {
        let out = std::io::stdout().as_fd().try_clone_to_owned().map_err(BenchError::Output)?;
        Ok(Self { nonce: nonce.into(), out: out.into() })
    }

    /// Writes one frame.
    pub(super) fn send(&mut self, frame: &Frame) -> Result<(), BenchError> {
        self.out.write_all(wire::encode(&self.nonce, frame).as_bytes()).map_err(BenchError::Output)
    }

    /// Says that a path enters a stage.
    pub(super) fn stage(&mut self, cell: &str, stage: Stage) -> Result<(), BenchError> {
        self.send(&Frame::Stage { cell: cell.into(), stage })
    }

    /// Says how a path ended.
    pub(super) fn path(&mut self, result: PathResult) -> Result<(), BenchError> {
        self.send(&Frame::Path(Box::new(result)))
    }
}
