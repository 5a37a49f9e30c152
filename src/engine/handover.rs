//! What a job is handed: `ctk-bench`, its arguments, and its request with the host's paths turned into the job's.
//! Its main type is [`Handover`].

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::job::{BenchTask, EngineError};
use super::leftovers;
use crate::model::wire::Request;

/// How the job sees what it is handed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    /// The program.
    pub(crate) bench: &'a Path,
    /// The request file; none to name it where it lies.
    pub(crate) request: Option<&'a Path>,
    /// The toolkit's folder; none if it is where it is on the host.
    pub(crate) toolkit: Option<&'a Path>,
    /// The writable folder.
    pub(crate) work: &'a Path,
}

/// What one job is handed. Its files are removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Handover {
    /// The program and its arguments, as the job sees them.
    pub(crate) command: Vec<String>,
    /// The request on the host.
    pub(crate) request: Option<PathBuf>,
    /// The toolkit's folder on the host, without symbolic links.
    pub(crate) toolkit: Option<PathBuf>,
    /// Further folders on the host, without symbolic links, and where a container sees them.
    pub(crate) folders: Vec<(PathBuf, PathBuf)>,
    /// Folders as the job sees them, and as they are on the host.
    pub(crate) mapped: Vec<(PathBuf, PathBuf)>,
    _folder: Option<TempDir>,
}

impl Handover {
    /// Writes the request and puts the command together.
    pub(crate) fn prepare(task: &BenchTask, view: View<'_>) -> Result<Self, EngineError> {
        let bench = view.bench.display().to_string();
        let (request, toolkit_dir, further) = match task {
            BenchTask::Run { request, toolkit_dir, folders } => (request, toolkit_dir, folders),
            BenchTask::Probe { nonce, device } => {
                let mut command = vec![bench, "probe".into(), "--nonce".into(), nonce.clone()];
                if let Some(device) = device {
                    command.extend(["--device".into(), device.clone()]);
                }
                let (folders, mapped) = (Vec::new(), Vec::new());
                return Ok(Self { command, request: None, toolkit: None, folders, mapped, _folder: None });
            }
        };
        let toolkit = match toolkit_dir {
            Some(dir) => Some(fs::canonicalize(dir).map_err(|error| {
                EngineError::Setup(format!("the toolkit's folder {} cannot be read: {error}", dir.display()))
            })?),
            None => None,
        };
        let mut request = (**request).clone();
        view.work.clone_into(&mut request.work);
        let mut mapped = Vec::new();
        if let (Some(dir), Some(inside)) = (toolkit_dir, view.toolkit) {
            request = mapped_into(request, dir, inside);
            mapped.push((inside.to_owned(), dir.clone()));
        }
        let mut folders = Vec::new();
        for (dir, inside) in further {
            let real = fs::canonicalize(dir)
                .map_err(|error| EngineError::Setup(format!("the folder {} cannot be read: {error}", dir.display())))?;
            folders.push((real, inside.clone()));
            if view.toolkit.is_some() {
                mapped.push((inside.clone(), dir.clone()));
            }
        }
        if let (Some(stack), Some(_)) = (&mut request.stack, view.toolkit) {
            let map = |path: &Path| {
                let place = further.iter().find_map(|(dir, inside)| Some((inside, path.strip_prefix(dir).ok()?)));
                match place {
                    Some((inside, rest)) if rest.as_os_str().is_empty() => inside.clone(),
                    Some((inside, rest)) => inside.join(rest),
                    None => path.to_owned(),
                }
            };
            stack.python = map(&stack.python);
            stack.folders = stack.folders.iter().map(|folder| map(folder)).collect();
        }
        let folder = write(&request)
            .map_err(|error| EngineError::Setup(format!("the job's request cannot be written: {error}")))?;
        let file = folder.path().join("request.json");
        let shown = view.request.unwrap_or(&file).display().to_string();
        let command = vec![bench, "run".into(), "--request".into(), shown];
        Ok(Self { command, request: Some(file), toolkit, folders, mapped, _folder: Some(folder) })
    }
}

/// The folder is the user's alone; the file in it can be read by whatever user the container has, because a bind leads
/// past the folder. The umask has no say in it.
fn write(request: &Request) -> std::io::Result<TempDir> {
    let folder = leftovers::folder("request")?;
    let file = folder.path().join("request.json");
    fs::write(&file, serde_json::to_vec(request)?)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
    Ok(folder)
}

fn mapped_into(mut request: Request, dir: &Path, inside: &Path) -> Request {
    let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let map = |path: &Path| {
        let rest = path.strip_prefix(dir).or_else(|_| path.strip_prefix(&real));
        match rest {
            // Joining an empty path would leave a slash at the end.
            Ok(rest) if rest.as_os_str().is_empty() => inside.to_owned(),
            Ok(rest) => inside.join(rest),
            // Not below the folder: it is in the image.
            Err(_) => path.to_owned(),
        }
    };
    let toolkit = &mut request.toolkit;
    toolkit.roots = toolkit.roots.iter().map(|root| map(root)).collect();
    toolkit.hashes = std::mem::take(&mut toolkit.hashes).into_iter().map(|(file, hash)| (map(&file), hash)).collect();
    request
}

/// The program's absolute path, if it can be run: by every user if `by_everyone`, because a container's user owns nothing.
pub(crate) fn checked_bench(bench: &Path, by_everyone: bool) -> Result<PathBuf, EngineError> {
    let shown = bench.display();
    let real = fs::canonicalize(bench).map_err(|error| {
        EngineError::Setup(format!(
            "ctk-bench is not at {shown} ({error}): build it with `cargo build --bin ctk-bench`, or name it with --bench"
        ))
    })?;
    let found = fs::metadata(&real)
        .map_err(|error| EngineError::Setup(format!("ctk-bench at {shown} cannot be looked at: {error}")))?;
    if !found.is_file() {
        return Err(EngineError::Setup(format!("{shown} is not a file: name the program ctk-bench with --bench")));
    }
    let (needed, cure) = if by_everyone { (0o005, "a+rx") } else { (0o100, "u+x") };
    if found.permissions().mode() & needed != needed {
        return Err(EngineError::Setup(format!(
            "ctk-bench at {shown} may not be run{}: `chmod {cure} {shown}`",
            if by_everyone { " by the container's user" } else { "" }
        )));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::kernel::Kernel;
    use crate::model::matrix::Measure;
    use crate::model::version::Version;
    use crate::model::wire::{GpuWish, HostLaunches, ToolkitFiles, WIRE};

    fn request(roots: &[&Path], hashed: &Path) -> Request {
        Request {
            wire: WIRE,
            nonce: "00".into(),
            gpu: GpuWish::None,
            toolkit: ToolkitFiles {
                version: Version::new(12, 6),
                roots: roots.iter().map(|root| root.to_path_buf()).collect(),
                hashes: BTreeMap::from([(hashed.into(), "abc".into())]),
            },
            kernel: Kernel {
                name: "vector_add".into(),
                entry: "vectorAdd".into(),
                options: vec![],
                source: None,
                prebuilt: BTreeMap::new(),
                launch: None,
            },
            tasks: vec![],
            measure: Measure::default(),
            launches: HostLaunches::default(),
            path_timeout_ms: 1,
            work: PathBuf::new(),
            stack: None,
        }
    }

    fn inside() -> View<'static> {
        View {
            bench: Path::new("/ctk/bin/ctk-bench"),
            request: Some(Path::new("/ctk/in/request.json")),
            toolkit: Some(Path::new("/ctk/toolkit")),
            work: Path::new("/ctk/work"),
        }
    }

    #[test]
    fn paths_below_the_toolkit_are_the_containers_and_others_stay() {
        let home = tempfile::tempdir().unwrap();
        let (real, link) = (home.path().join("cuda-12.6"), home.path().join("cuda"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let asked = request(&[&link, &real.join("lib64"), Path::new("/usr/local/cuda")], &link.join("libnvrtc.so.12"));
        let task = BenchTask::Run { request: Box::new(asked), toolkit_dir: Some(link.clone()), folders: Vec::new() };
        let handover = Handover::prepare(&task, inside()).unwrap();
        assert_eq!(handover.command, ["/ctk/bin/ctk-bench", "run", "--request", "/ctk/in/request.json"]);
        assert_eq!(handover.toolkit.as_deref(), Some(fs::canonicalize(&real).unwrap().as_path()));
        assert_eq!(handover.mapped, [(PathBuf::from("/ctk/toolkit"), link)]);
        let file = handover.request.clone().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        let written: Request = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let roots = ["/ctk/toolkit", "/ctk/toolkit/lib64", "/usr/local/cuda"].map(PathBuf::from);
        assert_eq!((written.toolkit.roots.as_slice(), written.work.as_path()), (&roots[..], Path::new("/ctk/work")));
        assert!(written.toolkit.hashes.contains_key(Path::new("/ctk/toolkit/libnvrtc.so.12")));
        drop(handover);
        assert!(!file.exists());
    }

    #[test]
    fn a_probe_needs_no_file() {
        let task = BenchTask::Probe { nonce: "ab".into(), device: Some("GPU-1".into()) };
        let handover = Handover::prepare(&task, inside()).unwrap();
        assert_eq!(handover.command, ["/ctk/bin/ctk-bench", "probe", "--nonce", "ab", "--device", "GPU-1"]);
        assert_eq!(handover.request, None);
    }

    #[test]
    fn a_program_that_cannot_be_run_is_named_with_the_cure() {
        let dir = tempfile::tempdir().unwrap();
        let bench = dir.path().join("ctk-bench");
        let text = |everyone| checked_bench(&bench, everyone).unwrap_err().to_string();
        assert!(text(false).contains("cargo build --bin ctk-bench"));
        fs::write(&bench, "").unwrap();
        fs::set_permissions(&bench, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(checked_bench(&bench, false).is_ok());
        assert!(text(true).ends_with(&format!("`chmod a+rx {}`", bench.display())));
    }
}
