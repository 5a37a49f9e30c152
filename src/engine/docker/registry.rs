//! What a registry says of an image that is not on this machine: its digests, and how much there is to download.
//! The main function is [`look_up`].
//!
//! The engine asks the registry for the digest, but hands on no size. The `docker` program does tell sizes, with the
//! user's own proxy and credentials; where it is missing or fails, the size is not known beforehand.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use super::Docker;
use super::credentials;
use super::fault::{PullError, refusal};

/// A registry far away answers within a second or two.
const LOOK: Duration = Duration::from_secs(30);

/// An image as its registry has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remote {
    /// What the tag stands for: the digest of an index over several platforms, or of one manifest.
    pub index_digest: String,
    /// The digest of this platform's manifest, where it is known.
    pub platform_digest: Option<String>,
    /// What the image will be called on an engine with the classic store: its configuration's digest, where it is known.
    pub image_id: Option<String>,
    /// Bytes to download, compressed, where they are known.
    pub bytes: Option<u64>,
}

/// Asks for an image. What the registry refuses for good is said here, before anything is fetched.
pub(super) async fn look_up(docker: &Docker, reference: &str) -> Result<Remote, PullError> {
    let credentials = credentials::of(reference).await;
    let call = docker.api.client().inspect_registry_image(reference, credentials);
    let answer = match timeout(LOOK, call).await {
        Ok(answer) => answer.map_err(|error| refusal(reference, &error))?,
        Err(_) => return Err(PullError::Idle { reference: reference.into(), seconds: LOOK.as_secs(), tries: 1 }),
    };
    let index_digest = answer.descriptor.digest.unwrap_or_default();
    let kind = answer.descriptor.media_type.unwrap_or_default();
    let single = kind.ends_with("manifest.v2+json") || kind.ends_with("image.manifest.v1+json");
    let mut remote = Remote { index_digest, ..Remote::default() };
    if let Some(told) = ask_docker(reference, &remote.index_digest).await {
        remote = Remote { index_digest: remote.index_digest, ..told };
    }
    if single {
        remote.platform_digest = Some(remote.index_digest.clone());
    }
    Ok(remote)
}

/// What `docker manifest inspect` says, asked by digest so that a tag that moves meanwhile does no harm.
async fn ask_docker(reference: &str, digest: &str) -> Option<Remote> {
    let by_digest = format!("{}@{digest}", name(reference));
    let mut command = Command::new("docker");
    command.args(["manifest", "inspect", "--verbose", &by_digest]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let output = timeout(LOOK, command.output()).await.ok()?.ok()?;
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    read(&answer, if std::env::consts::ARCH == "aarch64" { "arm64" } else { "amd64" })
}

/// The image's name without tag and digest.
pub(super) fn name(reference: &str) -> &str {
    let name = reference.split('@').next().unwrap_or(reference);
    match name.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((head, tag)) if !tag.contains('/') => head,
        Some(_) | None => name,
    }
}

/// One manifest, or that of this platform out of several.
fn read(answer: &Value, arch: &str) -> Option<Remote> {
    let fits = |entry: &&Value| {
        let platform = &entry["Descriptor"]["platform"];
        platform["os"] == "linux" && platform["architecture"] == arch
    };
    let entry = match answer {
        Value::Array(entries) => entries.iter().find(fits)?,
        single => single,
    };
    let manifest =
        ["SchemaV2Manifest", "OCIManifest"].iter().map(|name| &entry[*name]).find(|found| found.is_object())?;
    let sizes: Option<Vec<u64>> = manifest["layers"].as_array()?.iter().map(|layer| layer["size"].as_u64()).collect();
    Some(Remote {
        index_digest: String::new(),
        platform_digest: entry["Descriptor"]["digest"].as_str().map(Into::into),
        image_id: manifest["config"]["digest"].as_str().map(Into::into),
        bytes: Some(sizes?.iter().sum()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_from_its_tag_and_digest() {
        let names = ["a/b:1", "a/b@sha256:0", "127.0.0.1:5000/a/b", "127.0.0.1:5000/a:1@sha256:0", "a"].map(name);
        assert_eq!(names, ["a/b", "a/b", "127.0.0.1:5000/a/b", "127.0.0.1:5000/a", "a"]);
    }

    #[test]
    fn the_size_is_that_of_this_platforms_layers() {
        let manifest = |digest: &str, arch: &str, size: u64| {
            serde_json::json!({
                "Ref": "docker.io/a/b@sha256:1",
                "Descriptor": {"mediaType": "m", "digest": digest, "size": 1, "platform": {"architecture": arch, "os": "linux"}},
                "SchemaV2Manifest": {"config": {"digest": "sha256:c", "size": 9}, "layers": [{"size": size}, {"size": 5}]},
            })
        };
        let expected = Remote {
            index_digest: String::new(),
            platform_digest: Some("sha256:x".into()),
            image_id: Some("sha256:c".into()),
            bytes: Some(15),
        };
        let list = Value::Array(vec![manifest("sha256:a", "arm64", 7), manifest("sha256:x", "amd64", 10)]);
        assert_eq!(read(&list, "amd64"), Some(expected.clone()));
        assert_eq!(read(&manifest("sha256:x", "amd64", 10), "amd64"), Some(expected));
        assert_eq!(read(&list, "riscv64"), None);
        assert_eq!(read(&serde_json::json!({"errors": []}), "amd64"), None);
    }
}
