//! The command line: clap types, one short function per subcommand, exit codes. [`main`] is the whole program.

mod announce;
mod args;
mod context;
mod doctor;
mod elf;
pub mod exit;
mod explain;
mod foresight;
mod gc;
mod host;
mod inspect;
mod lock;
mod plan;
mod report;
mod resume;
mod run;
mod signals;
mod toolkit;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::{Arguments, Subcommand};
use exit::Failure;

/// Reads the command line, does what it says, and gives the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Subcommand::Run(run) => run::run(run),
        Subcommand::Plan(plan) => plan::plan(&plan),
        Subcommand::Report(report) => report::report(&report),
        Subcommand::Toolkit(toolkit) => toolkit::toolkit(toolkit),
        Subcommand::Lock(lock) => lock::lock(&lock),
        Subcommand::Gc(gc) => gc::gc(&gc),
        Subcommand::Explain(explain) => explain::explain(&explain),
        Subcommand::Inspect(inspect) => inspect::inspect(&inspect),
        Subcommand::Doctor(doctor) => doctor::doctor(&doctor),
        Subcommand::Schema => context::print(&format!("{:#}\n", crate::model::spec::json_schema())),
        Subcommand::Completions { shell } => completions(shell),
    };
    match result {
        Ok(code) => code.into(),
        Err(failure) => {
            failure.print();
            failure.code().into()
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Result<exit::Code, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "ctk-matrix", &mut text);
    context::print(&String::from_utf8_lossy(&text))
}
