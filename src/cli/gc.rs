//! `ctk-matrix gc`: removes containers, layers of image builds and temporary folders whose owner is gone. What cannot be
//! removed or looked for is said, and keeps nothing else from being removed.

use super::args::GcArguments;
use super::context::print;
use super::exit::{Code, Failure};
use crate::engine::docker::{Docker, Fate, GcImage, GcItem};
use crate::engine::job::EngineError;
use crate::engine::leftovers::{self, Leftover};
use crate::model::units;

/// Removes, or names, every container, layer and temporary folder of a run that no longer lives.
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
        print(&text)?;
        let (layers, layers_failed) =
            told(docker.sweep_builds(arguments.dry_run).await, "layers of image builds", |found| {
                let failed = found.iter().any(|image| matches!(image.fate, Fate::Failed(_)));
                (found.iter().map(image_line).collect(), failed)
            });
        print(&layers)?;
        // A cache, and perhaps another user's: whoever wants the room says so.
        let (cached, cached_failed) = told(docker.built_images().await, "images with stacks", |(images, bytes)| {
            (cached_line(images, bytes), false)
        });
        print(&cached)?;
        let failed = items.iter().any(|item| matches!(item.fate, Fate::Failed(_)));
        let failed = failed || layers_failed || cached_failed || folders.iter().any(|folder| folder.failure.is_some());
        Ok(if failed { Code::NotAsExpected } else { Code::AsExpected })
    })
}

/// What is to be printed of what the engine was asked for, and whether something failed.
fn told<T>(answer: Result<T, EngineError>, what: &str, read: impl FnOnce(T) -> (String, bool)) -> (String, bool) {
    answer.map_or_else(|error| (format!("{what}: the engine does not say what it has: {error}\n"), true), read)
}

fn cached_line(images: usize, bytes: u64) -> String {
    if images == 0 {
        return String::new();
    }
    let size = units::bytes(bytes);
    format!(
        "{images} images with stacks of Python packages ({size} with what they share): kept; `docker image prune --all \
         --filter label=ctk-matrix.python` removes them\n"
    )
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
    let fate = fate_words(fate);
    format!("{name} ({state}, run {run}, job {job}): {fate}\n")
}

fn image_line(image: &GcImage) -> String {
    format!("layer {} of an image build: {}\n", image.id, fate_words(&image.fate))
}

fn fate_words(fate: &Fate) -> String {
    match fate {
        Fate::Removed => "removed".to_owned(),
        Fate::WouldRemove => "would be removed".to_owned(),
        Fate::Kept(why) => format!("kept: {why}"),
        Fate::Failed(why) => format!("could not be removed: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_does_not_answer_is_said_and_is_a_failure() {
        let broken = told::<()>(Err(EngineError::Lost("gone".into())), "layers of image builds", |()| unreachable!());
        assert!(broken.1 && broken.0.starts_with("layers of image builds: the engine does not say"), "{}", broken.0);
        let image = |fate| image_line(&GcImage { id: "sha256:1".into(), fate });
        assert_eq!(image(Fate::WouldRemove), "layer sha256:1 of an image build: would be removed\n");
        assert_eq!(
            image(Fate::Failed("in use".into())),
            "layer sha256:1 of an image build: could not be removed: in use\n"
        );
    }
}
