//! `ctk-matrix lock`, and what `--locked` does before a run starts: `ctk.lock` lies beside the matrix file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::args::LockArguments;
use super::context;
use super::exit::{Code, Failure};
use super::run::{engine_choice, source_choice};
use crate::engine::Engine;
use crate::model::arch::Arch;
use crate::model::lock::{LOCK_SCHEMA, Lock};
use crate::model::plan::Plan;
use crate::model::wire;
use crate::run::images::Images;
use crate::run::provision::Provisioner;
use crate::toolkit::{Cache, Pip};

/// The file's name.
const LOCK: &str = "ctk.lock";

/// A lock has a line for each value; one of 64 KiB of matrix stays far below this.
const MOST: u64 = 16 << 20;

fn path(matrix: Option<&Path>) -> PathBuf {
    matrix.and_then(Path::parent).map_or_else(|| PathBuf::from(LOCK), |folder| folder.join(LOCK))
}

/// Reads the lock beside the matrix that the command line names.
pub(crate) fn read(matrix: Option<&Path>) -> Result<Lock, Failure> {
    let path = path(matrix);
    match existing(&path)? {
        Some(lock) => Ok(lock),
        None => Err(Failure::new(
            Code::Matrix,
            format!("--locked: there is no {}: `ctk-matrix lock` makes it", path.display()),
        )),
    }
}

fn existing(path: &Path) -> Result<Option<Lock>, Failure> {
    let unreadable = |error| Failure::caused(Code::Matrix, format!("cannot read {}", path.display()), error);
    let size = match std::fs::metadata(path) {
        Ok(facts) => facts.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let wrong = |why: String| {
        let path = path.display();
        Failure::new(
            Code::Matrix,
            format!("{path} is no lock of this program ({why}): `ctk-matrix lock --update` makes it anew"),
        )
    };
    if size > MOST {
        return Err(wrong("it is larger than 16 MiB".into()));
    }
    let lock: Lock =
        serde_json::from_slice(&std::fs::read(path).map_err(unreadable)?).map_err(|error| wrong(error.to_string()))?;
    if lock.schema != LOCK_SCHEMA {
        return Err(wrong(format!("its schema is {}, this program's is {LOCK_SCHEMA}", lock.schema)));
    }
    Ok(Some(lock))
}

/// Ends a locked run before it starts if this machine or the matrix is not what the lock holds.
pub(crate) async fn hold(provisioner: &Provisioner, plan: &Plan) -> Result<(), Failure> {
    let mut drift = provisioner.drift(plan).await;
    drift.extend(provisioner.stack_drift(plan).await);
    if drift.is_empty() {
        return Ok(());
    }
    let text = format!(
        "--locked: this run would not be the one that ctk.lock holds\n  {}\n`ctk-matrix lock --update` shows the \
         difference and writes it",
        drift.join("\n  ")
    );
    Err(Failure::new(Code::Matrix, text))
}

/// Writes the lock, or shows in what it would differ.
pub(crate) fn lock(arguments: &LockArguments) -> Result<Code, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::caused(Code::Engine, "cannot start the runtime", error))?;
    runtime.block_on(make(arguments))
}

async fn make(arguments: &LockArguments) -> Result<Code, Failure> {
    let matrix = context::matrix(&arguments.matrix)?;
    let plan = context::plan(&matrix, &arguments.matrix, Arch::WITHOUT_GPU)?;
    let path = path(arguments.matrix.matrix.as_deref());
    let old = if arguments.update { existing(&path).unwrap_or_default() } else { existing(&path)? };
    let bench = context::bench(None)?;
    let engine = Engine::connect(engine_choice(arguments.engine), bench);
    let engine = engine.await.map_err(|error| Failure::new(Code::Engine, error))?;
    let provisioner = Provisioner {
        cache: Cache::locate().map_err(|error| Failure::new(Code::Engine, error))?,
        pip: Pip::default(),
        source: source_choice(arguments.images.source),
        engine,
        images: Images::of(arguments.images.image_repository.clone()),
        lock: None,
        bench_glibc: None,
    };
    let failed = |failure: wire::Failure| {
        // pip's own lines, where there are some, say more than one can.
        let detail = failure.detail.iter().flat_map(|detail| detail.lines());
        Failure::new(Code::Engine, detail.fold(failure.reason.clone(), |text, line| format!("{text}\n  {line}")))
    };
    let mut new = provisioner.lock(&plan).await.map_err(failed)?;
    new.stacks = provisioner.lock_stacks(&plan, &new, &|line| eprintln!("{line}")).await.map_err(failed)?;
    let before = old.clone().unwrap_or_else(Lock::empty);
    new.keep(&before, !arguments.matrix.select.is_empty());
    let changes = before.changes(&new);
    let lines: Vec<String> = changes.iter().map(ToString::to_string).collect();
    let lines = lines.join("\n") + "\n";
    let shown = path.display();
    match old {
        Some(old) if changes.is_empty() => {
            if old != new {
                // Sizes, which are for display: where the file cannot be written, it holds what counts all the same.
                drop(write(&path, &new));
            }
            eprintln!("{shown} holds already what this matrix stands for");
            return Ok(Code::AsExpected);
        }
        Some(_) if !arguments.update => {
            context::print(&lines)?;
            return Err(Failure::new(Code::Matrix, format!("{shown} holds something else: --update writes the above")));
        }
        Some(_) => drop(context::print(&lines)?),
        None => {}
    }
    write(&path, &new).map_err(|error| Failure::caused(Code::Report, format!("cannot write {shown}"), error))?;
    let stacks = if new.stacks.is_empty() { String::new() } else { format!(" and {} stacks", new.stacks.len()) };
    eprintln!("{shown} holds {} toolkits{stacks}: commit it, and run with --locked", new.toolkits.len());
    Ok(Code::AsExpected)
}

/// Complete or not at all.
fn write(path: &Path, lock: &Lock) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(file, "{}", serde_json::to_string_pretty(lock)?)?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
