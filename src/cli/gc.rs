//! `ctk-matrix gc`: removes containers and temporary folders whose owner is gone.

use std::fmt::Write as _;

use super::args::GcArguments;
use super::context::print;
use super::exit::{Code, Failure};
use crate::engine::docker::{Docker, Fate, GcItem};
use crate::engine::leftovers::{self, Leftover};
use crate::model::units;

/// Removes, or names, every container and temporary folder of a run that no longer lives.
pub(crate) fn gc(arguments: &GcArguments) -> Result<Code, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::caused(Code::Engine, "cannot start the runtime", error))?;
    // These need no engine, which may be gone too.
    let folders = leftovers::collect(arguments.dry_run);
    print(&folders.iter().map(|folder| folder_line(folder, arguments.dry_run)).collect::<String>())?;
    runtime.block_on(async {
        // Nothing is started, so any program will do for the one that would be.
        let bench = std::env::current_exe()
            .map_err(|error| Failure::caused(Code::Engine, "cannot find this program's own path", error))?;
        let docker = Docker::connect(bench).await.map_err(|error| Failure::new(Code::Engine, error))?;
        let items = docker.gc(arguments.dry_run).await.map_err(|error| Failure::new(Code::Engine, error))?;
        let mut text: String = items.iter().map(line).collect();
        if items.is_empty() {
            text = "there is no container of ctk-matrix\n".into();
        }
        if !arguments.dry_run {
            let swept = docker.sweep_builds().await.map_err(|error| Failure::new(Code::Engine, error))?;
            if swept > 0 {
                let _ = writeln!(text, "{swept} layers of image builds that were killed: removed");
            }
        }
        // A cache, and perhaps another user's: whoever wants the room says so.
        let (images, bytes) = docker.built_images().await.map_err(|error| Failure::new(Code::Engine, error))?;
        if images > 0 {
            let size = units::bytes(bytes);
            let _ = writeln!(
                text,
                "{images} images with stacks of Python packages ({size} with what they share): kept; `docker image prune \
                 --all --filter label=ctk-matrix.python` removes them"
            );
        }
        print(&text)?;
        let failed = items.iter().any(|item| matches!(item.fate, Fate::Failed(_)));
        let failed = failed || folders.iter().any(|folder| folder.failure.is_some());
        Ok(if failed { Code::NotAsExpected } else { Code::AsExpected })
    })
}

fn folder_line(folder: &Leftover, dry_run: bool) -> String {
    let fate = match &folder.failure {
        Some(why) => format!("could not be removed: {why}"),
        None if dry_run => "would be removed".into(),
        None => "removed".into(),
    };
    format!("{}: {fate}\n", folder.path.display())
}

fn line(item: &GcItem) -> String {
    let GcItem { name, run, job, state, fate, .. } = item;
    let fate = match fate {
        Fate::Removed => "removed".to_owned(),
        Fate::WouldRemove => "would be removed".to_owned(),
        Fate::Kept(why) => format!("kept: {why}"),
        Fate::Failed(why) => format!("could not be removed: {why}"),
    };
    format!("{name} ({state}, run {run}, job {job}): {fate}\n")
}
