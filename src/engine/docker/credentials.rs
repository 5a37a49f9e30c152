//! The user's own credentials for a registry, as `docker login` keeps them: in `config.json`, or with a helper program.
//! The main function is [`of`]. What it finds goes to the engine's pull call and nowhere else: never to a log or report.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::auth::DockerCredentials;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

/// Docker Hub's name in `config.json`.
const HUB: &str = "https://index.docker.io/v1/";
/// A helper may have to unlock a keyring, but nobody is asked for a password here.
const HELPER: Duration = Duration::from_secs(10);

/// The registry of an image reference, by the rule of Docker's reference grammar: the first part is a host only if it
/// looks like one.
pub(super) fn registry(reference: &str) -> &str {
    match reference.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        Some(_) | None => HUB,
    }
}

/// What the user has for this image's registry; none to ask as anybody may.
pub(super) async fn of(reference: &str) -> Option<DockerCredentials> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = variable("DOCKER_CONFIG").or_else(|| Some(variable("HOME")?.join(".docker")))?;
    let config: Value = serde_json::from_slice(&std::fs::read(folder.join("config.json")).ok()?).ok()?;
    let registry = registry(reference);
    match helper(&config, registry) {
        Some(program) => ask(&program, registry).await.or_else(|| kept(&config, registry)),
        None => kept(&config, registry),
    }
}

/// The program that keeps this registry's credentials.
fn helper(config: &Value, registry: &str) -> Option<String> {
    let own = config.get("credHelpers").and_then(|helpers| helpers.get(registry));
    let name = own.or_else(|| config.get("credsStore"))?.as_str()?;
    // The name becomes part of a program's name, not of a path.
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    plain.then(|| format!("docker-credential-{name}"))
}

async fn ask(program: &str, registry: &str) -> Option<DockerCredentials> {
    let mut command = Command::new(program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let answer = async {
        let mut child = command.spawn().ok()?;
        child.stdin.take()?.write_all(registry.as_bytes()).await.ok()?;
        child.wait_with_output().await.ok()
    };
    let output = timeout(HELPER, answer).await.ok()??;
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    let (user, secret) = (answer.get("Username")?.as_str()?, answer.get("Secret")?.as_str()?);
    let token = user == "<token>";
    Some(DockerCredentials {
        username: (!token).then(|| user.to_owned()),
        password: (!token).then(|| secret.to_owned()),
        identitytoken: token.then(|| secret.to_owned()),
        serveraddress: Some(registry.to_owned()),
        ..DockerCredentials::default()
    })
}

/// What is in the file itself: `user:password` in base64, or a token.
fn kept(config: &Value, registry: &str) -> Option<DockerCredentials> {
    let auths = config.get("auths")?;
    let own = auths.get(registry).or_else(|| auths.get(format!("https://{registry}")))?;
    let text = |name: &str| own.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let pair = text("auth").and_then(|auth| String::from_utf8(STANDARD.decode(auth).ok()?).ok());
    let (username, password) = match pair.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((user, password)) => (Some(user.to_owned()), Some(password.to_owned())),
        None => (text("username").map(Into::into), text("password").map(Into::into)),
    };
    let identitytoken = text("identitytoken").map(Into::into);
    (username.is_some() || identitytoken.is_some()).then(|| DockerCredentials {
        username,
        password,
        identitytoken,
        serveraddress: Some(registry.to_owned()),
        ..DockerCredentials::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_told_from_the_first_part_of_a_name() {
        let of = [
            "nvidia/cuda:12.6.3-base-ubuntu22.04",
            "ubuntu",
            "nvcr.io/nvidia/cuda:x",
            "127.0.0.1:5000/a",
            "localhost/a",
        ];
        assert_eq!(of.map(registry), [HUB, HUB, "nvcr.io", "127.0.0.1:5000", "localhost"]);
    }

    #[test]
    fn credentials_are_read_as_docker_login_writes_them() {
        let auth = STANDARD.encode("me:p:w");
        let config = serde_json::json!({
            "auths": {"a.example": {"auth": auth}, "https://b.example": {"identitytoken": "t"}, "c.example": {}},
            "credHelpers": {"d.example": "ecr-login", "e.example": "../x"},
        });
        let found = kept(&config, "a.example").unwrap();
        assert_eq!((found.username.as_deref(), found.password.as_deref()), (Some("me"), Some("p:w")));
        assert_eq!(kept(&config, "b.example").unwrap().identitytoken.as_deref(), Some("t"));
        assert!(kept(&config, "c.example").is_none() && kept(&config, "d.example").is_none());
        assert_eq!(helper(&config, "d.example").as_deref(), Some("docker-credential-ecr-login"));
        assert_eq!((helper(&config, "e.example"), helper(&config, "a.example")), (None, None));
    }
}
