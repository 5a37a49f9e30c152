//! What an artifact says of itself, and whether the driver may be given it. The only file here that knows the reader.

use sha2::{Digest as _, Sha256};

use super::built::Built;
use super::cuda::Resources;
use crate::compat::artifact::{self, ArtifactError};
use crate::model::path::Form;
use crate::model::record::Artifact;
use crate::model::wire;

/// An artifact, as far as it could be read.
#[derive(Debug)]
pub(super) struct Inspected {
    /// The record.
    pub(super) artifact: Artifact,
    /// Why it could not be read.
    pub(super) error: Option<ArtifactError>,
}

/// Reads what was built for `entry`.
pub(super) fn inspect(built: &Built, form: Form, entry: &str) -> Inspected {
    let mut artifact = Artifact {
        kind: form,
        bytes: built.bytes.len() as u64,
        sha256: wire::hex(&Sha256::digest(&built.bytes)),
        producer: built.producer.clone().unwrap_or_default(),
        ptx_isa: None,
        archs: Vec::new(),
        registers: None,
        spill_bytes: None,
        shared_bytes: None,
    };
    let error = match artifact::read(&built.bytes) {
        Ok(contents) => {
            artifact.kind = contents.form;
            artifact.ptx_isa = contents.ptx_isa;
            if let (Form::Cubin, Some(kernel)) = (contents.form, contents.kernel(entry)) {
                artifact.registers = kernel.registers;
                artifact.spill_bytes = kernel.stack_bytes;
                artifact.shared_bytes = kernel.shared_bytes;
            }
            artifact.archs = contents.archs;
            if built.producer.is_none() {
                artifact.producer = contents.producer.unwrap_or_else(|| "unknown".into());
            }
            None
        }
        Err(error) => Some(error),
    };
    Inspected { artifact, error }
}

impl Inspected {
    /// Why the driver must not be given it. Of a cubin that is cut short, `cuModuleLoadDataEx` never returns; what is
    /// no machine code at all, or in a layout that only a newer driver knows, is the driver's own to judge.
    pub(super) fn refusal(&self) -> Option<&ArtifactError> {
        self.error.as_ref().filter(|error| match error {
            ArtifactError::Truncated { .. } | ArtifactError::OtherMachine(_) => true,
            ArtifactError::Malformed { form, .. } => *form != "PTX",
            ArtifactError::Empty | ArtifactError::Unrecognised(_) | ArtifactError::OtherAbi { .. } => false,
        })
    }

    /// Puts in what the driver says of the loaded kernel.
    pub(super) fn learn(&mut self, resources: Resources) {
        self.artifact.registers = resources.registers.or(self.artifact.registers);
        self.artifact.spill_bytes = resources.local_bytes.or(self.artifact.spill_bytes);
        self.artifact.shared_bytes = resources.shared_bytes.or(self.artifact.shared_bytes);
    }
}
