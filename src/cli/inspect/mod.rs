//! `ctk-matrix inspect`: what a file or an image holds, and on which drivers and GPUs it will run.

mod file;
mod image;

use std::path::Path;

use super::args::InspectArguments;
use super::exit::{Code, Failure};

/// Inspects a file if there is one of this name, else an image on this machine.
pub(crate) fn inspect(arguments: &InspectArguments) -> Result<Code, Failure> {
    let path = Path::new(&arguments.what);
    match path.metadata() {
        Ok(facts) if facts.is_file() => file::inspect(path, facts.len(), arguments.json),
        Ok(_) => Err(Failure::new(Code::Usage, format!("{} is not a file", path.display()))),
        // No image is called like a path that says where it begins.
        Err(error) if arguments.what.starts_with(['/', '.', '~']) => {
            Err(Failure::caused(Code::Usage, format!("cannot read {}", path.display()), error))
        }
        Err(_) => image::inspect(&arguments.what, arguments.json),
    }
}
