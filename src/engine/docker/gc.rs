//! Removing the containers of runs that are no more, and what became of each. Its main types are [`GcItem`] and
//! [`GcImage`].

use std::time::Duration;

use super::super::job::EngineError;
use super::super::owner::{Life, Owner};
use super::api::{Api, Failure, Listed};
use super::{LABEL_JOB, LABEL_OWNER, LABEL_RUN};

/// A container under load takes some seconds to die.
const REMOVE: Duration = Duration::from_secs(30);

/// One container of ctk-matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcItem {
    /// The container's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The run's id.
    pub run: String,
    /// The job's id.
    pub job: String,
    /// The engine's word for its state: `running`, `exited`.
    pub state: String,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a container or an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Its owner is gone, and so is it.
    Removed,
    /// Its owner is gone; nothing was to be removed.
    WouldRemove,
    /// It was left alone, for this reason.
    Kept(String),
    /// Its owner is gone, and it could not be removed, for this reason.
    Failed(String),
}

/// One nameless image of ctk-matrix: a layer of a build, or an image whose tag another has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcImage {
    /// The image's id.
    pub id: String,
    /// What became of it.
    pub fate: Fate,
}

pub(super) async fn collect(api: &Api, dry_run: bool) -> Result<Vec<GcItem>, EngineError> {
    let mut items = Vec::new();
    for container in api.labelled(LABEL_OWNER).await.map_err(Failure::into_error)? {
        let fate = match life(&container) {
            Life::Living => Fate::Kept("its run goes on".into()),
            Life::Unknown => Fate::Kept("its owner cannot be seen from here".into()),
            Life::Gone if dry_run => Fate::WouldRemove,
            Life::Gone => match api.remove(&container.id, REMOVE).await {
                Ok(()) => Fate::Removed,
                // Another `gc` was faster.
                Err(failure) if failure.is_not_found() => Fate::Removed,
                Err(failure) => Fate::Failed(failure.to_string()),
            },
        };
        let label = |name: &str| container.labels.get(name).cloned().unwrap_or_default();
        let (run, job) = (label(LABEL_RUN), label(LABEL_JOB));
        items.push(GcItem { id: container.id, name: container.name, run, job, state: container.state, fate });
    }
    Ok(items)
}

fn life(container: &Listed) -> Life {
    let owner = container.labels.get(LABEL_OWNER).and_then(|label| label.parse::<Owner>().ok());
    owner.map_or(Life::Unknown, |owner| owner.life())
}
