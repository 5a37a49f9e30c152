//! `ctk-bench`, the program that runs in each container: synchronous, small, and the only part that opens CUDA.
//!
//! `supervisor` reads the request and watches a `worker`, which carries the paths out one after the other
//! (`path`) on one primary context and one set of buffers (`session`). A worker that dies, hangs or loses its
//! context is replaced, and the remaining paths go on. `roll` is the state machine that decides what a death means.

mod args;
mod built;
mod compile;
mod cuda;
mod emit;
mod error;
mod glibc;
mod inspect;
mod loaded;
mod maps;
mod measure;
mod nvcc;
mod nvrtc;
mod path;
mod prebuilt;
mod probe;
mod python;
mod request;
mod roll;
mod session;
mod signals;
mod supervisor;
mod verify;
mod worker;

use std::io::Write as _;
use std::process::ExitCode;

use self::args::Command;
use self::error::BenchError;

/// Runs `ctk-bench` with the arguments and the environment of this process.
///
/// The exit status is 0 after the final frame, 2 where the command line or the request cannot be used, 128 plus the
/// signal after SIGTERM or SIGINT, and 1 where the frames could not be written.
#[must_use]
pub fn main() -> ExitCode {
    let done = args::parse(std::env::args_os().skip(1)).and_then(carry_out);
    done.unwrap_or_else(|error| {
        note(&format!("{error}"));
        ExitCode::from(error.exit_status())
    })
}

fn carry_out(command: Command) -> Result<ExitCode, BenchError> {
    match command {
        Command::Run { request } => supervisor::run(&request),
        Command::Worker { request, from, parent } => worker::run(&request, from, parent),
        Command::Probe { nonce, device } => probe::run(&nonce, device),
        Command::Compile(order) => compile::run(&order).map(|()| ExitCode::SUCCESS),
        Command::Print(text) => {
            std::io::stdout().write_all(text.as_bytes()).map_err(BenchError::Output)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// One line for whoever reads the container's log. Standard output belongs to the frames.
fn note(text: &str) {
    // A closed standard error is no reason to stop.
    let _ = writeln!(std::io::stderr(), "ctk-bench: {text}");
}
