//! The command line, read by hand: clap is larger than everything else in this program together.
//! Its main type is [`Command`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use super::error::BenchError;
use crate::model::arch::Arch;
use crate::model::path::Form;
use crate::model::version::Version;

const HELP: &str = "\
ctk-bench, the part of ctk-matrix that runs in each container

  ctk-bench run --request FILE
      carries out the paths of a JSON request and writes one frame for each to standard output
  ctk-bench probe --nonce HEX [--device INDEX|UUID]
      opens the driver and says what it sees: one hello frame, then the final frame
  ctk-bench compile --roots DIR --version V --form ptx|cubin --arch CC --source FILE -o OUT
      compiles a kernel file's snippet with the NVRTC below DIR; how kernels/prebuilt is made
  ctk-bench --version | --help
";

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Supervise the paths of a request.
    Run { request: PathBuf },
    /// Carry out the tasks from index `from` on, and die with the process `parent`.
    Worker { request: PathBuf, from: usize, parent: i32 },
    /// Say what the driver is.
    Probe { nonce: String, device: Option<String> },
    /// Compile one artifact.
    Compile(CompileOrder),
    /// Print a text.
    Print(String),
}

/// What `ctk-bench compile` is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompileOrder {
    /// Where NVRTC is looked for.
    pub(super) roots: PathBuf,
    /// The version that it must have.
    pub(super) version: Version,
    /// PTX or cubin.
    pub(super) form: Form,
    /// What to build for.
    pub(super) arch: Arch,
    /// A kernel file with the marker lines.
    pub(super) source: PathBuf,
    /// Where the artifact goes.
    pub(super) output: PathBuf,
}

/// Reads the arguments after the program's name.
pub(super) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, BenchError> {
    let mut arguments = arguments.map(|argument| {
        argument.into_string().map_err(|bad| usage(format!("the argument {} is not UTF-8", bad.to_string_lossy())))
    });
    let command = arguments.next().transpose()?.ok_or_else(|| usage("there is no command"))?;
    let mut options = Options::read(arguments)?;
    let command = match command.as_str() {
        "run" => Command::Run { request: options.required("--request")?.into() },
        "worker" => Command::Worker {
            request: options.required("--request")?.into(),
            from: options.parsed("--from")?,
            parent: options.parsed("--parent")?,
        },
        "probe" => Command::Probe { nonce: options.nonce()?, device: options.take("--device") },
        "compile" => Command::Compile(CompileOrder {
            roots: options.required("--roots")?.into(),
            version: options.parsed("--version")?,
            form: options.form()?,
            arch: options.parsed("--arch")?,
            source: options.required("--source")?.into(),
            output: options.required("-o")?.into(),
        }),
        "--version" | "-V" => Command::Print(format!("ctk-bench {}\n", env!("CARGO_PKG_VERSION"))),
        "--help" | "-h" | "help" => Command::Print(HELP.into()),
        other => return Err(usage(format!("there is no command `{other}`"))),
    };
    options.end()?;
    Ok(command)
}

fn usage(text: impl Into<String>) -> BenchError {
    BenchError::Usage(text.into())
}

/// `--name value` pairs that nobody has asked for yet.
struct Options(Vec<(String, String)>);

impl Options {
    fn read(mut arguments: impl Iterator<Item = Result<String, BenchError>>) -> Result<Self, BenchError> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        while let Some(name) = arguments.next().transpose()? {
            if !name.starts_with('-') {
                return Err(usage(format!("`{name}` stands where an option should")));
            }
            if pairs.iter().any(|(earlier, _)| *earlier == name) {
                return Err(usage(format!("`{name}` is given twice")));
            }
            let value = arguments.next().transpose()?.ok_or_else(|| usage(format!("`{name}` has no value")))?;
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(found, _)| found == name)?;
        Some(self.0.remove(at).1)
    }

    fn required(&mut self, name: &str) -> Result<String, BenchError> {
        self.take(name).ok_or_else(|| usage(format!("`{name}` is missing")))
    }

    fn parsed<T: FromStr>(&mut self, name: &str) -> Result<T, BenchError> {
        let value = self.required(name)?;
        value.parse().map_err(|_| usage(format!("`{name} {value}` cannot be read")))
    }

    fn nonce(&mut self) -> Result<String, BenchError> {
        let nonce = self.required("--nonce")?;
        if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(usage(format!("`--nonce {nonce}` is not hexadecimal")));
        }
        Ok(nonce)
    }

    fn form(&mut self) -> Result<Form, BenchError> {
        match self.required("--form")?.as_str() {
            "ptx" => Ok(Form::Ptx),
            "cubin" => Ok(Form::Cubin),
            other => Err(usage(format!("`--form {other}`: NVRTC makes ptx and cubin"))),
        }
    }

    fn end(self) -> Result<(), BenchError> {
        match self.0.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(usage(format!("there is no option `{name}` here"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_commands_are_read() {
        assert_eq!(read("run --request /r.json"), Ok(Command::Run { request: "/r.json".into() }));
        assert_eq!(
            read("probe --device GPU-1 --nonce 0f"),
            Ok(Command::Probe { nonce: "0f".into(), device: Some("GPU-1".into()) })
        );
        assert_eq!(
            read("worker --request r --from 3 --parent 7"),
            Ok(Command::Worker { request: "r".into(), from: 3, parent: 7 })
        );
    }

    #[test]
    fn what_is_wrong_with_a_command_line_is_named() {
        for (line, named) in [
            ("", "no command"),
            ("walk", "`walk`"),
            ("run", "`--request` is missing"),
            ("run --request", "`--request` has no value"),
            ("run --request a --request b", "twice"),
            ("run --request a --speed 9", "`--speed`"),
            ("run a", "`a`"),
            ("probe --nonce xyz", "not hexadecimal"),
            ("worker --request r --from x --parent 1", "`--from x`"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.contains(named), "{line:?}: {error}");
        }
    }
}
