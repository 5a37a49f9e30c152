//! The Python libraries' worker: our program in the stack's interpreter, beside the Rust worker and under the same
//! supervisor. The main functions are [`command`], which starts it, and [`complete`], which adds to its results what only
//! this side can read: what an artifact holds, and the number of a code.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::built::Built;
use super::inspect::inspect;
use crate::compat::artifact::ArtifactError;
use crate::compat::codes;
use crate::model::outcome::{Code, Outcome, Stage};
use crate::model::record::LoadedFile;
use crate::model::stack::StackFiles;
use crate::model::wire::{GpuWish, PathResult, Request, Task};

/// The program and its parts. They are written beside each other.
const PROGRAM: &str = "four_ways.py";
const FILES: [(&str, &str); 4] = [
    (PROGRAM, include_str!("python/four_ways.py")),
    ("ctk_caches.py", include_str!("python/ctk_caches.py")),
    ("ctk_device.py", include_str!("python/ctk_device.py")),
    ("ctk_libraries.py", include_str!("python/ctk_libraries.py")),
];

/// Whether this task is the Python worker's.
pub(super) fn is_ours(request: &Request, task: &Task) -> bool {
    task.path.family.is_python() && request.stack.is_some()
}

/// The command that carries out the Python tasks from index `from` on. `own_buffers` keeps CuPy from owning the buffers:
/// it died of them once.
pub(super) fn command(
    request: &Request,
    file: &Path,
    stack: &StackFiles,
    from: usize,
    own_buffers: bool,
) -> io::Result<Command> {
    let home = request.work.join(format!("python-{from}-{}", if own_buffers { "own" } else { "cupy" }));
    fs::create_dir_all(&home)?;
    for (name, text) in FILES {
        fs::write(home.join(name), text)?;
    }
    let mut command = Command::new(&stack.python);
    // Isolated: no environment variable, user folder or working folder changes what is imported.
    command.args(["-I", "-B", "-u"]).arg(home.join(PROGRAM)).arg("worker").arg(file).arg(from.to_string());
    command.arg(std::process::id().to_string()).arg(if own_buffers { "own" } else { "cupy" });
    // Fresh caches, so that a compile is one.
    for (variable, folder) in
        [("CUPY_CACHE_DIR", "cupy-cache"), ("NUMBA_CACHE_DIR", "numba-cache"), ("PYCUDA_CACHE_DIR", "pycuda-cache")]
    {
        fs::create_dir_all(home.join(folder))?;
        command.env(variable, home.join(folder));
    }
    toolkit(&mut command, &request.toolkit.roots, &home)?;
    match &request.gpu {
        GpuWish::None => command.env("CUDA_VISIBLE_DEVICES", ""),
        GpuWish::First => &mut command,
        // Then it is device 0 for all four.
        GpuWish::Device(name) => command.env("CUDA_VISIBLE_DEVICES", name),
    };
    Ok(command)
}

/// Tells the libraries where the toolkit is: they look for one folder, and 12.x wheels are several.
fn toolkit(command: &mut Command, roots: &[PathBuf], home: &Path) -> io::Result<()> {
    let root = match roots {
        [] => return Ok(()),
        [one] => one.clone(),
        several => joined(several, &home.join("cuda"))?,
    };
    for variable in ["CUDA_PATH", "CUDA_HOME", "CUDA_ROOT"] {
        command.env(variable, &root);
    }
    // NVRTC opens its builtins by name, and not every wheel says where they are.
    let libraries = [root.join("lib64"), root.join("lib"), root.join("nvvm/lib64")];
    prepend(command, "LD_LIBRARY_PATH", &libraries.into_iter().filter(|folder| folder.is_dir()).collect::<Vec<_>>());
    let programs: Vec<_> = roots.iter().map(|root| root.join("bin")).filter(|folder| folder.is_dir()).collect();
    prepend(command, "PATH", &programs);
    Ok(())
}

fn prepend(command: &mut Command, variable: &str, folders: &[PathBuf]) {
    if folders.is_empty() {
        return;
    }
    let mut value = OsString::new();
    let further = std::env::var_os(variable).filter(|further| !further.is_empty());
    for (at, folder) in folders.iter().map(|folder| folder.as_os_str().to_owned()).chain(further).enumerate() {
        if at > 0 {
            value.push(":");
        }
        value.push(folder);
    }
    command.env(variable, value);
}

/// One folder of links to what lies in several, the first of each name.
fn joined(roots: &[PathBuf], into: &Path) -> io::Result<PathBuf> {
    for (from, to) in [("lib64", "lib64"), ("lib", "lib64"), ("include", "include"), ("nvvm", "nvvm")] {
        for folder in roots.iter().map(|root| root.join(from)).filter(|folder| folder.is_dir()) {
            fs::create_dir_all(into.join(to))?;
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                match symlink(entry.path(), into.join(to).join(entry.file_name())) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
        }
    }
    Ok(into.to_owned())
}

/// Adds to a Python path's result what this side can read. `driver` is the libcuda that the Rust worker opened.
pub(super) fn complete(result: &mut PathResult, request: &Request, driver: Option<&LoadedFile>) {
    if let (Some(own), Some(known)) = (&mut result.loaded.driver, driver)
        && own.path == known.path
    {
        own.clone_from(known);
    }
    if result.outcome == Outcome::Fail && result.code.is_none() {
        let mut texts = [&result.reason, &result.detail].into_iter().flatten();
        result.code = texts.find_map(|text| code_in(text));
    }
    let Some(artifact) = &mut result.artifact else { return };
    let Some(Ok(bytes)) = result.artifact_base64.as_ref().map(|text| STANDARD.decode(text)) else { return };
    let mut built = Built { bytes, producer: Some(artifact.producer.clone()), build_ms: None };
    let mut inspected = inspect(&built, artifact.kind, &request.kernel.entry);
    if matches!(inspected.error, Some(ArtifactError::Truncated { .. })) {
        // CuPy's NVRTC binding drops the last byte of a cubin, as if it ended a text. It is a zero, and nothing reads it.
        built.bytes.push(0);
        inspected = inspect(&built, artifact.kind, &request.kernel.entry);
    }
    // The host holds the bytes against the hash that the program said, and not against one that was made here.
    let (sha256, said) = (artifact.sha256.clone(), artifact.bytes);
    *artifact = inspected.artifact;
    (artifact.sha256, artifact.bytes) = (sha256, said);
    if let (Outcome::Built, Some(error)) = (result.outcome, inspected.error) {
        result.outcome = Outcome::Fail;
        result.stage = Some(Stage::Build);
        result.reason = Some(error.to_string());
    }
}

/// The first name of a driver's or NVRTC's code in a text.
fn code_in(text: &str) -> Option<Code> {
    /// Codes of the driver are below that; 999 is `CUDA_ERROR_UNKNOWN`.
    const DRIVER: u32 = 1000;
    const NVRTC: i32 = 32;
    text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')).find_map(|word| {
        if word.starts_with("CUDA_ERROR_") {
            (1..DRIVER).map(codes::driver).find(|code| code.name == word)
        } else if word.starts_with("NVRTC_ERROR_") {
            (1..NVRTC).map(codes::nvrtc).find(|code| code.name == word)
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_in_a_librarys_words() {
        let found = |text| code_in(text).map(|code| code.to_string());
        let numba = "CudaAPIError: [222] Call to cuModuleLoadDataEx results in CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
        assert_eq!(found(numba).as_deref(), Some("CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)"));
        assert_eq!(found("NVRTCError: NVRTC_ERROR_COMPILATION (6)").as_deref(), Some("NVRTC_ERROR_COMPILATION (6)"));
        assert_eq!(found("AttributeError: module 'numpy' has no attribute 'row_stack'"), None);
        assert_eq!(found("CUDA_ERROR_OF_MY_OWN"), None);
    }

    #[test]
    fn several_folders_become_one_and_the_first_of_a_name_wins() {
        let scratch = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = scratch.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("nvrtc/lib/libnvrtc.so.12", "n");
        file("nvrtc/include/nvrtc.h", "first");
        file("runtime/lib/libcudart.so.12", "r");
        file("runtime/include/nvrtc.h", "second");
        let roots = [scratch.path().join("nvrtc"), scratch.path().join("runtime")];
        let root = joined(&roots, &scratch.path().join("cuda")).unwrap();
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        assert_eq!([read("lib64/libnvrtc.so.12"), read("lib64/libcudart.so.12")], ["n", "r"]);
        assert_eq!(read("include/nvrtc.h"), "first");
    }
}
