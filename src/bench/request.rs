//! Reads and checks the request file, for the supervisor and again for each worker.

use std::path::Path;

use serde::Deserialize;

use super::error::BenchError;
use crate::model::wire::{Request, WIRE};

/// The part that every version of the protocol has.
#[derive(Deserialize)]
struct Opening {
    wire: u32,
}

/// The largest block that any GPU takes (`CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK`).
const MAX_BLOCK: u32 = 1024;

/// Reads the request in `path`.
pub(super) fn read(path: &Path) -> Result<Request, BenchError> {
    let text = std::fs::read(path).map_err(|source| BenchError::Unreadable { path: path.to_owned(), source })?;
    parse(&text).map_err(|why| BenchError::Request { path: path.to_owned(), why })
}

fn parse(text: &[u8]) -> Result<Request, String> {
    // The version first: a request of another version may have another shape, and its shape is not what is wrong.
    let opening: Opening = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if opening.wire != WIRE {
        return Err(format!(
            "it has protocol version {}, and this ctk-bench speaks {WIRE}: use the ctk-bench that came with ctk-matrix",
            opening.wire
        ));
    }
    let request: Request = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if request.nonce.is_empty() || !request.nonce.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("its nonce is not hexadecimal".into());
    }
    if request.kernel.name.is_empty() || request.kernel.name.contains(['/', '\0']) {
        return Err(format!("the kernel's name {:?} is no name for a file", request.kernel.name));
    }
    if let Some(launch) = request.kernel.launch {
        // Inputs are defined for 32-bit indices.
        if launch.n == 0 || launch.n > u64::from(u32::MAX) || launch.block == 0 || launch.block > MAX_BLOCK {
            return Err(format!("a launch of {} elements in blocks of {} is not possible", launch.n, launch.block));
        }
    }
    if let Some(task) = request
        .tasks
        .iter()
        .enumerate()
        .find_map(|(at, task)| request.tasks[..at].iter().any(|earlier| earlier.cell == task.cell).then_some(task))
    {
        return Err(format!("the cell {} is in it twice", task.cell));
    }
    Ok(request)
}
