//! Whether the engine is still there, and which containers it was left with. Its main type is [`Presence`].
//!
//! An engine that is lost in mid-job may be on its way back: a daemon that is updated, or that was killed and started
//! again. It is waited for once; a run whose engine did not come back does not wait for it at every further job.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::super::job::EngineError;
use super::api::Api;
use super::lifecycle::remove_for_good;

/// How long an engine that went away is waited for.
pub(super) const RETURN: Duration = Duration::from_mins(1);
const PING: Duration = Duration::from_secs(2);

/// What is known of an engine that may have gone away.
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// It was waited for in vain.
    gone: AtomicBool,
    /// Containers that could not be removed when their jobs ended.
    left: Mutex<BTreeSet<String>>,
}

impl Presence {
    /// Remembers a container that is to be removed when the engine is back.
    pub(super) fn leave(&self, name: &str) {
        self.left().insert(name.into());
    }

    /// An engine that did not come back fails the next job at once, unless it answers by now.
    pub(super) async fn check(&self, api: &Api) -> Result<(), EngineError> {
        if self.gone.load(Ordering::Relaxed) {
            api.ping(PING).await.map_err(|failure| EngineError::Lost(failure.to_string()))?;
            self.gone.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until the engine answers, and removes what it was left with. False if it does not come back, or if the
    /// run is interrupted meanwhile.
    pub(super) async fn returns(&self, api: &Api, cancel: &watch::Receiver<bool>) -> bool {
        let mut cancel = cancel.clone();
        let until = Instant::now() + if self.gone.load(Ordering::Relaxed) { PING } else { RETURN };
        while api.ping(PING).await.is_err() {
            if Instant::now() >= until {
                self.gone.store(true, Ordering::Relaxed);
                return false;
            }
            tokio::select! {
                Ok(_) = cancel.wait_for(|cancelled| *cancelled) => return false,
                () = sleep(Duration::from_millis(500)) => {}
            }
        }
        self.gone.store(false, Ordering::Relaxed);
        let left = std::mem::take(&mut *self.left());
        for name in left {
            if remove_for_good(api, &name).await.is_err() {
                self.leave(&name);
            }
        }
        true
    }

    fn left(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        // A set of names is whole whatever a panic interrupted.
        self.left.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
