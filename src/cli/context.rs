//! What several subcommands need: the matrix, the selection, the place of `ctk-bench`, stdout. Nothing here decides.

use std::ffi::OsStr;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use super::args::MatrixArguments;
use super::exit::{Code, Failure};
use crate::compat::catalogue;
use crate::model::arch::Arch;
use crate::model::expand::{Selection, expand};
use crate::model::matrix::Matrix;
use crate::model::plan::Plan;
use crate::model::spec::{self, Input, Known, builtin};
use crate::run::names::PathNames;

/// The file that is read where none is named.
const MATRIX: &str = "matrix.yaml";

/// A folder named in a report is told from the user's home.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

/// How paths are shown.
pub(crate) fn path_names(cache: Option<&Path>) -> PathNames {
    PathNames::new(cache, home().as_deref())
}

/// Reads the matrix that the command line names.
pub(crate) fn matrix(arguments: &MatrixArguments) -> Result<Matrix, Failure> {
    let versions = catalogue::versions();
    let not_published = |version| catalogue::not_published(version).map(Into::into);
    let known = Known { versions: &versions, not_published: &not_published };
    let named = arguments.matrix.clone().or_else(|| Some(PathBuf::from(MATRIX)).filter(|path| path.exists()));
    let read = match named {
        None => builtin::matrix(&known),
        Some(path) => {
            let unreadable = |error| Failure::caused(Code::Matrix, format!("cannot read {}", path.display()), error);
            let bytes = read_capped(&path).map_err(unreadable)?;
            let file = std::path::absolute(&path).map_err(unreadable)?;
            let dir = file.parent().unwrap_or(Path::new("/"));
            let origin = path.display().to_string();
            spec::read(&Input { origin: &origin, bytes: &bytes, dir, read: &read_capped }, &known)
        }
    };
    read.map_err(|errors| {
        let code = if errors.only_empty() { Code::NothingSelected } else { Code::Matrix };
        Failure::new(code, errors.render(std::io::stderr().is_terminal()))
    })
}

/// Files are read up to a size at which they are refused anyway, so that a device or a huge file does no harm.
fn read_capped(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    const CAP: u64 = 64 << 20;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(CAP + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CAP {
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "it is larger than 64 MiB"));
    }
    Ok(bytes)
}

/// Expands the matrix into the plan of the selected cells.
pub(crate) fn plan(matrix: &Matrix, arguments: &MatrixArguments, native: Arch) -> Result<Plan, Failure> {
    let selection = Selection::parse(&arguments.select).map_err(|error| Failure::new(Code::Usage, error))?;
    expand(matrix, &selection, native).map_err(|error| {
        let code = if error.nothing_to_do() { Code::NothingSelected } else { Code::Matrix };
        Failure::new(code, error)
    })
}

/// Where `ctk-bench` is: as named, else beside this program.
pub(crate) fn bench(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let own = std::env::current_exe()
        .map_err(|error| Failure::caused(Code::Engine, "cannot find this program's own folder", error))?;
    let beside = own.with_file_name("ctk-bench");
    if beside.is_file() {
        return Ok(beside);
    }
    let name = own.file_name().unwrap_or(OsStr::new("ctk-matrix")).to_string_lossy().into_owned();
    Err(Failure::new(
        Code::Engine,
        format!(
            "there is no ctk-bench beside {name} ({}): install both with `cargo install --locked --path .`, or name it \
             with --bench",
            own.parent().unwrap_or(Path::new(".")).display()
        ),
    ))
}

/// Writes data to stdout. A reader that went away, as `head` does, is no failure.
pub(crate) fn print(text: &str) -> Result<Code, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Code::AsExpected),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Code::AsExpected),
        Err(error) => Err(Failure::caused(Code::Report, "cannot write to stdout", error)),
    }
}

/// The width of the terminal that stdout is, or a width that fits a log.
pub(crate) fn width() -> usize {
    const LOG: usize = 120;
    if !std::io::stdout().is_terminal() {
        return LOG;
    }
    rustix::termios::tcgetwinsize(std::io::stdout()).map_or(LOG, |size| usize::from(size.ws_col).clamp(60, 240))
}

/// Whether stdout takes colour: it is a terminal, and `NO_COLOR` is not set.
pub(crate) fn color() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
