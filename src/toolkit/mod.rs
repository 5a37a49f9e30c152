//! From a toolkit entry to a toolkit that is there: NVIDIA's wheels through the machine's own pip, a folder, an image.
//! The entry point is [`provision`], for wheels and folders; an image is inspected by an engine first, and
//! [`image::provisioned`] turns what it found into the same [`Provisioned`]. [`wheels::listed`] says what is cached.

use tokio::sync::watch;

use crate::model::event::ProvisionStep;
use crate::model::matrix::{Toolkit, ToolkitSource};
use crate::model::place::Provisioned;

pub mod cache;
mod diagnosis;
pub mod dir;
mod entry;
pub mod error;
pub mod image;
mod interpreters;
mod lock;
pub mod packages;
pub mod pip;
mod pip_config;
mod python;
pub mod stack;
mod staging;
mod tree;
pub mod wheels;

pub use cache::Cache;
pub use error::ProvisionError;
pub use pip::Pip;
pub use wheels::{Pin, Wheels};

/// What [`provision`] is asked to do, and whom it tells.
pub struct Ask<'a> {
    /// The entry. Its source may be unsaid (then it is wheels) or a folder.
    pub toolkit: &'a Toolkit,
    /// What the catalogue knows of the version's wheels; none where it has none.
    pub wheels: Option<&'a Wheels>,
    /// Where wheels are unpacked.
    pub cache: &'a Cache,
    /// How wheels are fetched.
    pub pip: &'a Pip,
    /// Told how far it is. `Started` comes only where something is fetched; `Finished` or `Failed` always comes, unless
    /// the future is dropped.
    pub progress: &'a (dyn Fn(ProvisionStep) + Send + Sync),
    /// Told what is worth a line, such as a wait for another run.
    pub note: &'a (dyn Fn(String) + Send + Sync),
    /// True ends it: pip is killed, nothing is left behind, and the answer is [`ProvisionError::Cancelled`].
    pub cancel: watch::Receiver<bool>,
}

/// Puts a toolkit from wheels or a folder on this machine. Dropping the future does what a cancellation does.
pub async fn provision(ask: Ask<'_>) -> Result<Provisioned, ProvisionError> {
    let Ask { toolkit, wheels, cache, pip, progress, note, mut cancel } = ask;
    let work = async {
        match (&toolkit.source, wheels) {
            (ToolkitSource::Dir(dir), _) => dir::provisioned(toolkit, dir),
            (ToolkitSource::Image(reference), _) => Err(ProvisionError::NotInspected { reference: reference.clone() }),
            (ToolkitSource::Unsaid, Some(wheels)) => {
                wheels::provision_wheels(toolkit, wheels, cache, pip, progress, note).await
            }
            (ToolkitSource::Unsaid, None) => Err(ProvisionError::NoPins { version: toolkit.version }),
        }
    };
    let cancelled = async {
        // A sender that is gone can no longer cancel.
        if cancel.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let end = tokio::select! {
        biased;
        () = cancelled => Err(ProvisionError::Cancelled),
        end = work => end,
    };
    progress(match &end {
        Ok(_) => ProvisionStep::Finished,
        Err(error) => ProvisionStep::Failed(error.to_string()),
    });
    end
}
