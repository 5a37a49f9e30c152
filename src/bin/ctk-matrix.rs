//! The host program. Everything is in the library's `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ctk_matrix::cli::main()
}
