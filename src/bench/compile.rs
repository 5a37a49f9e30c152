//! `ctk-bench compile`: one artifact from one kernel file, by the same NVRTC code that the paths use. It exists so that
//! `kernels/prebuilt` can be made again.

use std::collections::BTreeMap;
use std::io::Write as _;

use sha2::{Digest as _, Sha256};

use super::args::CompileOrder;
use super::error::BenchError;
use super::nvrtc::{self, Nvrtc};
use crate::model::kernel;
use crate::model::path::Form;
use crate::model::wire;

/// Compiles as ordered, and prints one line of JSON: the hash of what was compiled, and by what.
pub(super) fn run(order: &CompileOrder) -> Result<(), BenchError> {
    let failed = |what: String| BenchError::Compile(what);
    let source = order.source.display();
    let text = std::fs::read_to_string(&order.source).map_err(|error| failed(format!("{source}: {error}")))?;
    let snippet = kernel::snippet(&text).map_err(|error| failed(format!("{source}: {error}")))?;
    let wrapped = kernel::wrap(snippet);

    let found =
        nvrtc::find(std::slice::from_ref(&order.roots), order.version).map_err(|error| failed(error.to_string()))?;
    let nvrtc = Nvrtc::open(&found, order.version, &BTreeMap::new()).1.map_err(|error| failed(error.to_string()))?;
    let target = if order.form == Form::Ptx { order.arch.compute() } else { order.arch.sm() };
    let name = order.source.file_name().unwrap_or_default().to_string_lossy();
    let artifact = nvrtc
        .compile(&name, &wrapped, &[format!("--gpu-architecture={target}")], order.form)
        .map_err(|error| failed(error.log.unwrap_or(error.reason)))?;
    let output = order.output.display();
    std::fs::write(&order.output, artifact).map_err(|error| failed(format!("{output}: {error}")))?;

    let line = serde_json::json!({
        "source_sha256": wire::hex(&Sha256::digest(wrapped.as_bytes())),
        "target": target,
        "producer": nvrtc.producer(),
        "nvrtc_sha256": nvrtc.file().sha256,
    });
    writeln!(std::io::stdout(), "{line}").map_err(BenchError::Output)
}
