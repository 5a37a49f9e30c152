//! Pulling images from a registry that misbehaves: which faults are final, which are tried again, and what is said.
//! Without a Docker daemon these tests say that they did not run; `CTK_TEST_REQUIRE_DOCKER=1` makes that a failure.

mod engine_support;
mod registry_support;

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use ctk_matrix::engine::docker::{Docker, Pace, PullAsk, PullError, Remote};
use ctk_matrix::engine::job::EngineError;
use ctk_matrix::model::event::ProvisionStep;
use engine_support::{Bench, Tar};
use registry_support::{Fault, Registry};
use serde_json::json;

const PACE: Pace =
    Pace { idle: Duration::from_secs(2), pause: Duration::from_millis(20), limited: Duration::from_millis(20) };

async fn docker() -> Option<Docker> {
    let bench = Bench::script("exit 0");
    match Docker::connect(bench.path()).await {
        Ok(docker) => Some(docker),
        Err(EngineError::Absent(why)) => {
            assert!(std::env::var_os("CTK_TEST_REQUIRE_DOCKER").is_none(), "Docker is required: {why}");
            eprintln!("not run: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A layer that no other image has: an engine does not fetch what it has already.
fn layer(size: usize) -> Vec<u8> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).unwrap();
    Tar::default().file(&ctk_matrix::model::wire::hex(&random), &vec![b'x'; size]).finish()
}

/// What a pull did and told.
struct Pulled {
    result: Result<(), PullError>,
    steps: Vec<ProvisionStep>,
    notes: Vec<String>,
}

async fn pull(docker: &Docker, reference: &str, budget: Option<u64>) -> Pulled {
    let (steps, notes) = (Mutex::default(), Mutex::default());
    let budget = budget.map(AtomicU64::new);
    let ask = PullAsk {
        reference,
        bytes: None,
        budget: budget.as_ref(),
        pace: PACE,
        progress: &|step| Vec::push(&mut steps.lock().unwrap(), step),
        note: &|note| Vec::push(&mut notes.lock().unwrap(), note),
    };
    let result = docker.pull(&ask).await;
    Pulled { result, steps: steps.into_inner().unwrap(), notes: notes.into_inner().unwrap() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_comes_with_progress_by_layers_and_with_its_digests() {
    let Some(docker) = docker().await else { return };
    let registry = Registry::start();
    let layers = [layer(3_000_000), layer(200_000)];
    let total: usize = layers.iter().map(Vec::len).sum();
    let digests = registry.push("some/cuda", "1", &layers, &json!({"Env": ["A=b"]}));
    let reference = format!("{}:1", registry.name("some/cuda"));
    let remote = docker.look_up(&reference).await.unwrap();
    // Over plain HTTP the `docker` program tells nothing, and so the size is not known.
    assert_eq!(remote, Remote { index_digest: digests.index.clone(), ..Remote::default() });
    let pulled = pull(&docker, &reference, Some(total as u64)).await;
    assert_eq!((pulled.result, pulled.notes), (Ok(()), vec![]));
    assert_eq!(pulled.steps[0], ProvisionStep::Started { bytes: None });
    let done: Vec<u64> = pulled.steps[1..]
        .iter()
        .map(|step| if let ProvisionStep::Progress { done } = step { *done } else { panic!("{step:?}") })
        .collect();
    assert!(done.len() > 2 && done.is_sorted() && done.last() == Some(&(total as u64)), "{total}: {done:?}");
    let facts = docker.inspect_image(&reference).await.unwrap().unwrap();
    assert_eq!(facts.id, digests.id);
    assert_eq!(facts.digests, [format!("{}@{}", registry.name("some/cuda"), digests.index)]);
    // By its digest it is the same image, whatever the tag does.
    let by_digest = facts.digests[0].as_str();
    assert_eq!(docker.image_id(by_digest).await.unwrap(), Some(digests.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_or_not_allowed_is_final() {
    let Some(docker) = docker().await else { return };
    let registry = Registry::start();
    registry.push("closed", "1", &[layer(10)], &json!({}));
    registry.push("forbidden", "1", &[layer(10)], &json!({}));
    registry.fault("closed", Fault::Status(401, "UNAUTHORIZED", u32::MAX));
    registry.fault("forbidden", Fault::Status(403, "DENIED", u32::MAX));
    for (image, text) in [("absent:1", "manifest unknown"), ("closed:1", "unauthorized"), ("forbidden:1", "denied")] {
        let reference = registry.name(image);
        let Pulled { result, notes, .. } = pull(&docker, &reference, None).await;
        let error = result.unwrap_err();
        assert_eq!(notes, [""; 0], "{image} was tried again");
        for error in [&error, &docker.look_up(&reference).await.unwrap_err()] {
            match error {
                PullError::NotFound { text: told, .. } if image == "absent:1" => assert!(told.contains(text), "{told}"),
                PullError::Denied { registry: host, text: told, .. } if image != "absent:1" => {
                    assert_eq!(format!("{host}/"), registry.name(""));
                    assert!(told.contains(text), "{told}");
                }
                other => panic!("{image}: {other:?}"),
            }
        }
        assert!(error.to_string().contains("correct its name"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limits_and_broken_registries_are_tried_five_times_and_a_short_one_is_outlived() {
    let Some(docker) = docker().await else { return };
    let registry = Registry::start();
    for (repository, status, code) in [("busy", 429, "TOOMANYREQUESTS"), ("broken", 500, "UNKNOWN")] {
        registry.push(repository, "1", &[layer(10)], &json!({}));
        registry.fault(repository, Fault::Status(status, code, u32::MAX));
        let reference = format!("{}:1", registry.name(repository));
        let Pulled { result, notes, .. } = pull(&docker, &reference, None).await;
        match result.unwrap_err() {
            PullError::RateLimited { tries: 5, .. } if status == 429 => {}
            PullError::Network { tries: 5, .. } if status == 500 => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(notes.len(), 4);
        assert!(notes.iter().all(|note| note.starts_with(&reference) && note.contains("trying again in")), "{notes:?}");
        registry.fault(repository, Fault::Status(status, code, 3));
        let Pulled { result, notes, .. } = pull(&docker, &reference, None).await;
        assert!(result.is_ok() && !notes.is_empty(), "{result:?} {notes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_byte_is_noticed_and_asked_for_once_more() {
    let Some(docker) = docker().await else { return };
    let registry = Registry::start();
    registry.push("once", "1", &[layer(5000)], &json!({}));
    registry.push("always", "1", &[layer(5000)], &json!({}));
    registry.fault("once", Fault::Corrupt(1));
    registry.fault("always", Fault::Corrupt(u32::MAX));
    let pulled = pull(&docker, &registry.name("once:1"), None).await;
    assert_eq!((pulled.result, pulled.notes.len()), (Ok(()), 1));
    let error = pull(&docker, &registry.name("always:1"), None).await.result.unwrap_err();
    assert!(matches!(&error, PullError::Corrupt { tries: 2, .. }), "{error:?}");
    assert_eq!(docker.image_id(&registry.name("always:1")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_stops_coming_is_given_up_after_its_deadline_and_tried_once_more() {
    let Some(docker) = docker().await else { return };
    let registry = Registry::start();
    registry.push("once", "1", &[layer(5_000_000)], &json!({}));
    registry.push("always", "1", &[layer(5_000_000)], &json!({}));
    registry.fault("once", Fault::Stalled(1));
    registry.fault("always", Fault::Stalled(u32::MAX));
    let pulled = pull(&docker, &registry.name("once:1"), None).await;
    assert_eq!((pulled.result, pulled.notes.len()), (Ok(()), 1));
    let started = Instant::now();
    let reference = registry.name("always:1");
    let error = pull(&docker, &reference, None).await.result.unwrap_err();
    assert_eq!(error, PullError::Idle { reference, seconds: 2, tries: 2 });
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_is_interrupted_ends_in_the_engine_too() {
    let Some(docker) = docker().await else { return };
    let registry = Registry::start();
    registry.push("stalls", "1", &[layer(5_000_000)], &json!({}));
    registry.fault("stalls", Fault::Stalled(1));
    let reference = registry.name("stalls:1");
    let interrupted = tokio::time::timeout(Duration::from_millis(800), pull(&docker, &reference, None)).await;
    assert!(interrupted.is_err());
    // Had the engine gone on, this pull would have joined the layer that stalls.
    let again = pull(&docker, &reference, None).await;
    assert_eq!((again.result, again.notes), (Ok(()), vec![]));
    let layers = registry.requests().iter().filter(|request| request.contains("/blobs/")).count();
    assert!(layers >= 2, "{:?}", registry.requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_larger_than_what_is_allowed_is_not_pulled_to_its_end() {
    let Some(docker) = docker().await else { return };
    let registry = Registry::start();
    registry.push("large", "1", &[layer(2_000_000)], &json!({}));
    let reference = registry.name("large:1");
    let error = pull(&docker, &reference, Some(1_000_000)).await.result.unwrap_err();
    assert!(matches!(&error, PullError::TooLarge { seen, .. } if *seen > 2_000_000), "{error:?}");
    assert!(error.to_string().contains("--max-download"), "{error}");
    assert_eq!(docker.image_id(&reference).await.unwrap(), None);
}
