//! Whether an engine sees this machine's files, so that they can be bound into its containers.
//! The main function is [`sees_our_files`].
//!
//! An address does not say: a tunnel ends on another machine, and a daemon on TCP may be this machine's own.

use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};

use super::api::{Api, Failure};
use super::container::{labels, unguessable_name};
use super::lifecycle::remove_for_good;
use super::userland;

/// Asks the engine to bind a file that was just made, into a container that is never started. Whatever else goes wrong
/// is not taken for an answer: it will go wrong again, where it can be told better.
pub(super) async fn sees_our_files(api: &Api) -> bool {
    let (Ok(image), Ok(file), Ok(name)) =
        (userland::image(api).await, tempfile::NamedTempFile::with_prefix("ctk-matrix-"), unguessable_name())
    else {
        return true;
    };
    let mount = Mount {
        typ: Some(MountType::BIND),
        source: Some(file.path().display().to_string()),
        target: Some("/ctk/file".into()),
        read_only: Some(true),
        ..Mount::default()
    };
    let body = ContainerCreateBody {
        image: Some(image),
        entrypoint: Some(vec!["/ctk/never".into()]),
        network_disabled: Some(true),
        labels: Some(labels("reach", "reach")),
        host_config: Some(HostConfig { mounts: Some(vec![mount]), ..HostConfig::default() }),
        ..ContainerCreateBody::default()
    };
    match api.create(&name, Box::new(body)).await {
        Err(Failure::Refused { text, .. }) => !text.contains("bind source path does not exist"),
        Ok(_) | Err(Failure::Broken(_)) => {
            // What is left here is found by its labels.
            let _ = remove_for_good(api, &name).await;
            true
        }
    }
}
