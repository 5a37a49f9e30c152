//! Pulls an image through the engine: progress by layers, an idle deadline, and another try only where one may help.
//! The main function is [`pull`], its main type is [`PullAsk`].
//!
//! Dropping the call ends the pull; what of it is complete stays with the engine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::errors::Error;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep, timeout_at};

use super::api::{Failure, failure};
use super::fault::{Kind, PullError, error, kind};
use super::{Docker, credentials};
use crate::model::event::ProvisionStep;

/// What is to be pulled, how patiently, and whom it tells.
pub struct PullAsk<'a> {
    /// The image.
    pub reference: &'a str,
    /// Bytes to download, where they are known.
    pub bytes: Option<u64>,
    /// What may still be downloaded, shared by all pulls of a run whose size was not known beforehand.
    pub budget: Option<&'a AtomicU64>,
    /// How patiently.
    pub pace: Pace,
    /// Told how far it is.
    pub progress: &'a (dyn Fn(ProvisionStep) + Send + Sync),
    /// Told of another try.
    pub note: &'a (dyn Fn(String) + Send + Sync),
}

/// How patiently an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Without progress for so long, a try is ended.
    pub idle: Duration,
    /// The pause after the first try that failed; it doubles with each further one.
    pub pause: Duration,
    /// The same where the registry said that it was asked too often.
    pub limited: Duration,
}

impl Default for Pace {
    /// The idle deadline is longer than a TLS handshake through a slow proxy and shorter than anybody's patience.
    fn default() -> Self {
        let (pause, limited) = (Duration::from_secs(2), Duration::from_secs(10));
        Self { idle: Duration::from_mins(1), pause, limited }
    }
}

impl Pace {
    /// The pause before the next try. Without jitter, runs that were refused together would come back together.
    fn before_next(self, kind: Kind, tries: u32) -> Duration {
        let base = if kind == Kind::RateLimited { self.limited } else { self.pause };
        let mut random = [0];
        // Without random numbers the pause has no jitter, and that is all.
        let share = getrandom::fill(&mut random).map_or(0.5, |()| f64::from(random[0]) / 255.0);
        base.saturating_mul(1 << (tries - 1).min(6)).mul_f64(0.5 + share)
    }
}

/// The reference with a tag: without one, the engine would pull every tag that there is.
fn tagged(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or(reference);
    if last.contains([':', '@']) { reference.to_owned() } else { format!("{reference}:latest") }
}

/// Pulls an image, with as many tries as its faults are worth.
pub(super) async fn pull(docker: &Docker, ask: &PullAsk<'_>) -> Result<(), PullError> {
    (ask.progress)(ProvisionStep::Started { bytes: ask.bytes });
    let reference = tagged(ask.reference);
    let credentials = credentials::of(&reference).await;
    let mut layers = Layers::default();
    let mut tries = 0;
    loop {
        tries += 1;
        let (kind, text) = match once(docker, &reference, ask, credentials.clone(), &mut layers).await {
            Ok(()) => return Ok(()),
            Err(Trouble::Fault(kind, text)) => (kind, text),
            Err(Trouble::TooLarge) => {
                return Err(PullError::TooLarge { reference, seen: layers.total() });
            }
        };
        if tries >= kind.tries() {
            return Err(error(&reference, kind, text, tries, ask.pace.idle));
        }
        let pause = ask.pace.before_next(kind, tries);
        (ask.note)(format!("{reference}: {text}; trying again in {:.0} s", pause.as_secs_f64().ceil()));
        sleep(pause).await;
    }
}

enum Trouble {
    Fault(Kind, String),
    TooLarge,
}

async fn once(
    docker: &Docker,
    reference: &str,
    ask: &PullAsk<'_>,
    credentials: Option<DockerCredentials>,
    layers: &mut Layers,
) -> Result<(), Trouble> {
    let options = CreateImageOptionsBuilder::new().from_image(reference).build();
    let mut answers = Box::pin(docker.api.client().create_image(Some(options), None, credentials));
    let mut until = Instant::now() + ask.pace.idle;
    loop {
        let Ok(answer) = timeout_at(until, answers.next()).await else {
            let text = format!("nothing came for {} s", ask.pace.idle.as_secs_f64());
            return Err(Trouble::Fault(Kind::Idle, text));
        };
        match answer {
            None => return Ok(()),
            Some(Ok(info)) => {
                let told = layers.take(&info);
                if told.moved {
                    until = Instant::now() + ask.pace.idle;
                }
                if told.announced > 0
                    && let Some(budget) = ask.budget
                    && !spend(budget, told.announced)
                {
                    return Err(Trouble::TooLarge);
                }
                if told.fetched {
                    (ask.progress)(ProvisionStep::Progress { done: layers.done() });
                }
            }
            Some(Err(refused)) => {
                let text = match failure(&refused) {
                    Failure::Refused { text, .. } => text,
                    Failure::Broken(text) => match &refused {
                        Error::DockerStreamError { error } => error.clone(),
                        _ => text,
                    },
                };
                return Err(Trouble::Fault(kind(&text), text));
            }
        }
    }
}

/// Takes from what is left; false if there is not so much.
fn spend(budget: &AtomicU64, bytes: u64) -> bool {
    budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
}

/// What is known of the layers of one image.
#[derive(Debug, Default)]
struct Layers {
    /// Bytes that are there, and bytes in all.
    layers: HashMap<String, (u64, u64)>,
}

/// What one line told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    /// Whether the pull came further.
    moved: bool,
    /// Whether bytes were downloaded.
    fetched: bool,
    /// The size of a layer that was not known before.
    announced: u64,
}

impl Layers {
    fn take(&mut self, info: &CreateImageInfo) -> Told {
        let status = info.status.as_deref().unwrap_or_default();
        let number = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok()).unwrap_or_default();
        let detail = info.progress_detail.clone().unwrap_or_default();
        let (current, total) = (number(detail.current), number(detail.total));
        // The engine's own tries at a layer are no progress.
        let mut told = Told { moved: !status.starts_with("Retrying"), ..Told::default() };
        let Some(id) = info.id.clone() else { return told };
        match status {
            "Downloading" => {
                let layer = self.layers.entry(id).or_default();
                if total > layer.1 {
                    told.announced = total - layer.1;
                    layer.1 = total;
                }
                told.moved = current != layer.0 || told.announced > 0;
                told.fetched = current != layer.0;
                layer.0 = current;
            }
            "Download complete" => {
                if let Some(layer) = self.layers.get_mut(&id) {
                    told.fetched = layer.0 != layer.1;
                    layer.0 = layer.1;
                }
            }
            _ => {}
        }
        told
    }

    fn done(&self) -> u64 {
        self.layers.values().map(|(done, _)| done).sum()
    }

    fn total(&self) -> u64 {
        self.layers.values().map(|(_, total)| total).sum()
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::ProgressDetail;

    use super::*;

    #[test]
    fn pauses_double_and_are_never_the_same() {
        let pace = Pace::default();
        for tries in 1..=4_u32 {
            let whole = pace.pause.as_secs_f64() * f64::from(1 << (tries - 1));
            let pause = pace.before_next(Kind::Network, tries).as_secs_f64();
            assert!((0.5 * whole..=1.5 * whole).contains(&pause), "{tries}: {pause}");
        }
        assert!(pace.before_next(Kind::RateLimited, 1) >= pace.limited / 2);
    }

    #[test]
    fn the_engines_own_tries_are_no_progress_and_each_layer_is_announced_once() {
        let line = |id: &str, status: &str, current: i64, total: i64| CreateImageInfo {
            id: Some(id.into()),
            status: Some(status.into()),
            progress_detail: Some(ProgressDetail { current: Some(current), total: Some(total) }),
            ..CreateImageInfo::default()
        };
        let mut layers = Layers::default();
        let mut take = |id, status, current, total| {
            let told = layers.take(&line(id, status, current, total));
            (told.moved, told.fetched, told.announced, layers.done())
        };
        assert_eq!(take("a", "Pulling fs layer", 0, 0), (true, false, 0, 0));
        assert_eq!(take("a", "Downloading", 10, 100), (true, true, 100, 10));
        assert_eq!(take("a", "Downloading", 10, 100), (false, false, 0, 10));
        assert_eq!(take("b", "Downloading", 5, 50), (true, true, 50, 15));
        assert_eq!(take("a", "Retrying in 5 seconds", 0, 0), (false, false, 0, 15));
        assert_eq!(take("a", "Download complete", 0, 0), (true, true, 0, 105));
        assert_eq!(take("a", "Extracting", 7, 100), (true, false, 0, 105));
    }

    #[test]
    fn a_name_without_a_tag_means_latest() {
        let names = ["a/b", "127.0.0.1:5000/a", "a:1", "a@sha256:0"].map(tagged);
        assert_eq!(names, ["a/b:latest", "127.0.0.1:5000/a:latest", "a:1", "a@sha256:0"]);
    }
}
