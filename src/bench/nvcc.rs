//! The nvcc family: the toolkit's offline compiler as a process. The main type is [`Nvcc`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use super::built::{Built, NotBuilt};
use super::loaded;
use super::signals;
use crate::model::arch::Arch;
use crate::model::kernel::Kernel;
use crate::model::outcome::Code;
use crate::model::path::Form;
use crate::model::record::LoadedFile;
use crate::model::version::Version;

/// Where nvcc is below a toolkit's root: installers and images, NVIDIA's Python packages from 13 on.
const PROGRAMS: [&str; 3] = ["bin/nvcc", "nvidia/cu13/bin/nvcc", "nvidia/cu14/bin/nvcc"];

/// Where a host compiler is looked for.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An nvcc of the right version.
#[derive(Debug)]
pub(super) struct Nvcc {
    program: PathBuf,
    file: LoadedFile,
}

impl Nvcc {
    /// Finds the toolkit's nvcc and asks it for its version. Beside the result: the file, where there is one.
    pub(super) fn find(
        roots: &[PathBuf],
        wanted: Version,
        hashes: &BTreeMap<PathBuf, String>,
        work: &Path,
    ) -> (Option<LoadedFile>, Result<Self, NotBuilt>) {
        let candidates = roots.iter().flat_map(|root| PROGRAMS.iter().map(move |program| root.join(program)));
        let Some(program) = candidates.into_iter().find(|path| path.is_file()) else {
            return (None, Err(NotBuilt::Skip(format!("no nvcc under {}", loaded::list(roots)))));
        };
        // It is started from another folder.
        let program = std::path::absolute(&program).unwrap_or(program);
        let version = match ask_version(&program, work) {
            Ok(version) => version,
            Err(error) => return (Some(loaded::record(&program, "", hashes)), Err(error)),
        };
        let file = loaded::record(&program, &version, hashes);
        let found = version.rsplit_once('.').map_or(version.as_str(), |(found, _)| found);
        let nvcc = if found == wanted.to_string() {
            Ok(Self { program, file: file.clone() })
        } else {
            let shown = program.display();
            Err(NotBuilt::fail(format!("{shown} is nvcc {version}, and the toolkit is to be {wanted}")))
        };
        (Some(file), nvcc)
    }

    /// Compiles the kernel in a folder of its own below `work`.
    pub(super) fn build(&self, kernel: &Kernel, form: Form, arch: Arch, work: &Path) -> Result<Built, NotBuilt> {
        let Some(source) = &kernel.source else {
            return Err(NotBuilt::Skip(format!("the kernel {} has no source to compile", kernel.name)));
        };
        let folder = work.join(format!("nvcc-{form}-{}-{}", arch.sm(), std::process::id()));
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let failed = |error: io::Error| system(&format!("{} cannot be used", folder.display()), &error);
        std::fs::create_dir_all(folder.join("tmp")).map_err(failed)?;
        let (input, output) = (format!("{}.cu", kernel.name), format!("{}.{form}", kernel.name));
        std::fs::write(folder.join(&input), source).map_err(failed)?;

        let mut command = self::command(&self.program, &folder.join("tmp"));
        // From inside the folder, so that messages name the file and not where it happened to be.
        command.current_dir(&folder);
        command.args(target(form, arch)).args(&kernel.options).args(["-o", &output, &input]);
        let started = Instant::now();
        let ran = command.output().map_err(|error| cannot_start(&self.program, &error))?;
        let build_ms = started.elapsed().as_secs_f64() * 1e3;
        let bytes =
            if ran.status.success() { std::fs::read(folder.join(&output)).map_err(failed) } else { Err(failure(&ran)) };
        // The next path needs the room, and a folder that stays harms nobody.
        let _ = std::fs::remove_dir_all(&folder);
        Ok(Built { bytes: bytes?, producer: Some(format!("nvcc {}", self.file.version)), build_ms: Some(build_ms) })
    }
}

/// What is asked of nvcc: PTX and cubin for exactly one architecture, a fatbin with both.
fn target(form: Form, arch: Arch) -> Vec<String> {
    match form {
        Form::Ptx => vec!["-ptx".into(), format!("-arch={}", arch.compute())],
        Form::Cubin => vec!["-cubin".into(), format!("-arch={}", arch.sm())],
        Form::Fatbin => vec![
            "-fatbin".into(),
            "-gencode".into(),
            format!("arch={},code=[{},{}]", arch.compute(), arch.sm(), arch.compute()),
        ],
    }
}

/// nvcc with an environment of its own: variables such as `NVCC_APPEND_FLAGS` would make cells differ unseen.
fn command(program: &Path, temporary: &Path) -> Command {
    let mut path = OsString::new();
    if let Some(folder) = program.parent() {
        path.push(folder);
        path.push(":");
    }
    path.push(SYSTEM_PATH);
    let mut command = Command::new(program);
    command.env_clear().env("PATH", path).env("TMPDIR", temporary).env("HOME", temporary);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

fn ask_version(program: &Path, work: &Path) -> Result<String, NotBuilt> {
    let ran = command(program, work).arg("--version").output().map_err(|error| cannot_start(program, &error))?;
    if !ran.status.success() {
        return Err(failure(&ran));
    }
    let text = String::from_utf8_lossy(&ran.stdout);
    version_in(&text).map(ToOwned::to_owned).ok_or_else(|| NotBuilt::Fail {
        code: None,
        reason: format!("{} --version names no version", program.display()),
        detail: Some(text.clone().into_owned()),
    })
}

/// `12.4.131` of `Cuda compilation tools, release 12.4, V12.4.131`.
fn version_in(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.contains("release "))?;
    let version = line.rsplit_once('V')?.1.trim();
    let is_version = version.contains('.') && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_version.then_some(version)
}

fn cannot_start(program: &Path, error: &io::Error) -> NotBuilt {
    let cure = match error.kind() {
        io::ErrorKind::PermissionDenied => ": it lacks the execute bit, or its file system is mounted noexec",
        // The file is there, so it is the loader that it names which is not.
        io::ErrorKind::NotFound => ": this userland has no loader for it",
        _ => "",
    };
    system(&format!("{} cannot be started{cure}", program.display()), error)
}

fn system(what: &str, error: &io::Error) -> NotBuilt {
    let name = match error.kind() {
        io::ErrorKind::PermissionDenied => "EACCES",
        io::ErrorKind::NotFound => "ENOENT",
        io::ErrorKind::StorageFull => "ENOSPC",
        io::ErrorKind::ReadOnlyFilesystem => "EROFS",
        io::ErrorKind::OutOfMemory => "ENOMEM",
        io::ErrorKind::WouldBlock => "EAGAIN",
        _ => "ERRNO",
    };
    let code = error.raw_os_error().map(|number| Code { name: name.into(), number: number.into() });
    NotBuilt::Fail { code, reason: format!("{what}: {error}"), detail: None }
}

fn failure(ran: &Output) -> NotBuilt {
    let mut log = String::from_utf8_lossy(&ran.stderr).into_owned();
    log.push_str(&String::from_utf8_lossy(&ran.stdout));
    let code = match (ran.status.code(), ran.status.signal()) {
        (Some(status), _) => Code { name: "EXIT".into(), number: status.into() },
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            Code { name: signals::name(signal), number: signal.into() }
        }
    };
    let reason = reason(&log).unwrap_or_else(|| format!("nvcc ended with {code} and said nothing"));
    NotBuilt::Fail { code: Some(code), reason, detail: (!log.trim().is_empty()).then_some(log) }
}

/// The line of a log that says most.
fn reason(log: &str) -> Option<String> {
    if log.contains("Failed to preprocess host compiler properties") || log.contains("gcc: No such file or directory") {
        return Some("nvcc finds no host compiler: this userland has no gcc in its path".into());
    }
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines().find(|line| line.contains("error") || line.contains("fatal"));
    telling.or_else(|| lines().next()).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_after_the_release() {
        let text = "nvcc: NVIDIA (R) Cuda compiler driver\nBuilt on Thu\n\
                    Cuda compilation tools, release 12.4, V12.4.131\nBuild cuda_12.4.r12.4/compiler.34097967_0\n";
        assert_eq!(version_in(text), Some("12.4.131"));
        assert_eq!(version_in("Version 3"), None);
    }

    #[test]
    fn each_form_is_asked_for_one_architecture() {
        let arch = "9.0a".parse().unwrap();
        assert_eq!(target(Form::Ptx, arch), ["-ptx", "-arch=compute_90a"]);
        assert_eq!(target(Form::Cubin, arch), ["-cubin", "-arch=sm_90a"]);
        assert_eq!(target(Form::Fatbin, arch), ["-fatbin", "-gencode", "arch=compute_90a,code=[sm_90a,compute_90a]"]);
    }

    #[test]
    fn the_reason_is_the_line_that_says_most() {
        for (log, expected) in [
            (
                "gcc: No such file or directory\nnvcc fatal   : Failed to preprocess host compiler properties.\n",
                "nvcc finds no host compiler: this userland has no gcc in its path",
            ),
            (
                "/w/k.cu(3): warning #177-D: x\n/w/k.cu(4): error: identifier \"y\" is undefined\n\n1 error detected\n",
                "/w/k.cu(4): error: identifier \"y\" is undefined",
            ),
            (
                "nvcc fatal   : Unsupported gpu architecture 'sm_52'\n",
                "nvcc fatal   : Unsupported gpu architecture 'sm_52'",
            ),
        ] {
            assert_eq!(reason(log).as_deref(), Some(expected));
        }
        assert_eq!(reason("\n"), None);
    }
}
