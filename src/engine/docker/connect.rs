//! Finding the engine and deciding whether it will do. Its main type is [`Wish`].
//!
//! An engine that is absent, one that refuses and one that is too old are told apart: only the first lets a run fall
//! back to child processes.

use std::env;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::super::attach::EngineFeatures;
use super::super::handover::checked_bench;
use super::super::job::EngineError;
use super::api::{Api, Failure};
use super::{About, Docker, context, reach};
use crate::model::record::{EngineInfo, EngineKind};

/// Docker 20.10, the oldest that is tested.
const MIN_API: (u32, u32) = (1, 41);
/// A local engine accepts a connection at once or not at all.
const CONNECT: Duration = Duration::from_secs(5);
/// bollard's own limit, in seconds, must be longer than every limit set here.
const CLIENT_TIMEOUT: u64 = 7 * 24 * 3600;

/// Where to look for an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// Addresses, the first that is there is taken.
    addresses: Vec<String>,
    origin: Origin,
    /// Whether it is to be found out if the engine sees this machine's files.
    doubt: bool,
}

/// Why it is looked for there.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    /// Engines listen there unless told otherwise.
    Usual,
    /// `DOCKER_HOST`.
    Host,
    /// A docker context.
    Context(String),
}

impl Wish {
    /// What this process's environment asks for.
    pub(super) fn of_this_process() -> Result<Self, EngineError> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        // As the docker command has it, an address goes before a context.
        if let Some(host) = variable("DOCKER_HOST") {
            return Ok(Self { doubt: true, ..Self::address(&host) });
        }
        let folder = variable("DOCKER_CONFIG").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".docker"))).unwrap_or_default();
        if let Some(name) = context::chosen(variable("DOCKER_CONTEXT"), &folder) {
            let addresses = vec![context::endpoint(&name, &folder)?];
            return Ok(Self { addresses, origin: Origin::Context(name), doubt: true });
        }
        let mut addresses = vec!["unix:///var/run/docker.sock".to_owned()];
        // A daemon without root listens here.
        addresses.extend(variable("XDG_RUNTIME_DIR").map(|folder| format!("unix://{folder}/docker.sock")));
        Ok(Self { addresses, origin: Origin::Usual, doubt: false })
    }

    /// One address.
    pub(super) fn address(address: &str) -> Self {
        Self { addresses: vec![address.into()], origin: Origin::Host, doubt: !address.starts_with("unix://") }
    }

    /// An address as messages name it.
    fn said(&self, address: &str) -> String {
        match &self.origin {
            Origin::Usual => address.to_owned(),
            Origin::Host => format!("DOCKER_HOST={address}"),
            Origin::Context(name) => format!("docker context `{name}` ({address})"),
        }
    }
}

pub(super) async fn connect(wish: Wish, bench: PathBuf) -> Result<Docker, EngineError> {
    let mut absent = Vec::new();
    for address in &wish.addresses {
        match open(address, &wish.said(address)).await {
            Ok(client) => {
                let bench = checked_bench(&bench, true)?;
                let notes = match &wish.origin {
                    Origin::Usual | Origin::Host => Vec::new(),
                    Origin::Context(name) => vec![format!("docker context `{name}`")],
                };
                let mut docker = describe(Api::new(client), address, bench, notes).await?;
                if wish.doubt && !reach::sees_our_files(&docker.api).await {
                    docker.becomes_remote(address);
                }
                return Ok(docker);
            }
            Err(EngineError::Absent(why)) => absent.push(why),
            Err(error) => return Err(error),
        }
    }
    Err(EngineError::Absent(format!("{}: start Docker, or use --engine process", absent.join("; "))))
}

/// Opens a connection by hand first: bollard gives one error for a missing socket, a dead one and a forbidden one.
/// `said` is the address as messages name it.
async fn open(address: &str, said: &str) -> Result<bollard::Docker, EngineError> {
    let refuses = |why: &str| EngineError::Refuses(format!("{said} {why}"));
    let wrong = |error: bollard::errors::Error| refuses(&format!("cannot be used: {error}"));
    if let Some(path) = address.strip_prefix("unix://") {
        let connection = timeout(CONNECT, UnixStream::connect(path)).await;
        check(connection.map(|connected| connected.map(drop)), path)?;
        return bollard::Docker::connect_with_unix(path, CLIENT_TIMEOUT, bollard::API_DEFAULT_VERSION).map_err(wrong);
    }
    let Some(place) = address.strip_prefix("tcp://").or_else(|| address.strip_prefix("http://")) else {
        return Err(refuses(
            "is not an address that ctk-matrix speaks to (unix:// and tcp:// are): run ctk-matrix on the machine where \
             that engine runs",
        ));
    };
    if env::var_os("DOCKER_TLS_VERIFY").is_some_and(|value| !value.is_empty()) {
        return Err(refuses("asks for TLS, which ctk-matrix does not speak: use the engine's unix:// socket"));
    }
    let place = place.trim_end_matches('/');
    let connection = timeout(CONNECT, TcpStream::connect(place)).await;
    check(connection.map(|connected| connected.map(drop)), place)?;
    let address = format!("tcp://{place}");
    bollard::Docker::connect_with_http(&address, CLIENT_TIMEOUT, bollard::API_DEFAULT_VERSION).map_err(wrong)
}

fn check<T>(connection: Result<io::Result<()>, T>, place: &str) -> Result<(), EngineError> {
    let error = match connection {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error,
        Err(_) => return Err(EngineError::Refuses(format!("the engine at {place} does not accept a connection"))),
    };
    Err(match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            EngineError::Absent(format!("there is no socket at {place}"))
        }
        io::ErrorKind::ConnectionRefused => EngineError::Absent(format!("nothing listens at {place}")),
        io::ErrorKind::PermissionDenied => EngineError::Refuses(format!(
            "{place} may not be opened by this user: `sudo usermod -aG docker $USER`, then log in again"
        )),
        _ => EngineError::Refuses(format!("{place} cannot be opened: {error}")),
    })
}

async fn describe(api: Api, address: &str, bench: PathBuf, mut notes: Vec<String>) -> Result<Docker, EngineError> {
    let refuses = |failure: Failure| EngineError::Refuses(format!("the engine at {address} refuses: {failure}"));
    let version = api.version().await.map_err(refuses)?;
    let spoken = version.api_version.unwrap_or_default();
    let number = numbers(&spoken).ok_or_else(|| {
        EngineError::Refuses(format!("the engine at {address} names no API version: it is not Docker's API"))
    })?;
    if number < MIN_API {
        return Err(EngineError::Refuses(format!(
            "the engine at {address} speaks API {spoken}, and {}.{} is needed: update it to Docker 20.10 or later",
            MIN_API.0, MIN_API.1
        )));
    }
    let system = api.system().await.map_err(refuses)?;
    let (os, arch) = (version.os.unwrap_or_default(), version.arch.unwrap_or_default());
    let ours = if env::consts::ARCH == "aarch64" { "arm64" } else { "amd64" };
    if os != "linux" || arch != ours {
        return Err(EngineError::Refuses(format!(
            "the engine at {address} runs {os}/{arch} containers, and ctk-bench is a linux/{ours} program: use an engine of this machine's own kind"
        )));
    }
    let components = version.components.unwrap_or_default();
    let podman = components.iter().any(|component| component.name.contains("Podman"));
    if podman {
        notes.push("the engine is Podman behind Docker's API".into());
    }
    let security = system.security_options.unwrap_or_default();
    let mut runtimes: Vec<String> = system.runtimes.unwrap_or_default().into_keys().collect();
    runtimes.sort();
    let features = EngineFeatures {
        containers: true,
        api: number,
        runtimes,
        default_runtime: system.default_runtime,
        cdi_dirs: system.cdi_spec_dirs.unwrap_or_default().into_iter().map(PathBuf::from).collect(),
        discovered: system
            .discovered_devices
            .unwrap_or_default()
            .into_iter()
            .filter(|device| device.source.as_deref() == Some("cdi"))
            .filter_map(|device| device.id)
            .collect(),
    };
    let about = About {
        bench,
        info: EngineInfo { kind: EngineKind::Docker, version: version.version, api: Some(spoken) },
        features,
        selinux: security.iter().any(|option| option.split(',').any(|part| part == "name=selinux")),
        podman,
        notes,
        remote: None,
    };
    Ok(Docker { api, about: Arc::new(about), presence: Arc::default() })
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    fn bench() -> PathBuf {
        "/bin/true".into()
    }

    async fn error(address: &str) -> EngineError {
        connect(Wish::address(address), bench()).await.map(|docker| docker.about.info.clone()).unwrap_err()
    }

    /// An engine that answers every request with this body.
    async fn answering(body: &'static str) -> EngineError {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                // The first connection only asks whether somebody listens.
                if stream.read(&mut request).await.is_ok_and(|count| count > 0) {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
                    stream.write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
                }
            }
        });
        let error = error(&format!("unix://{}", socket.display())).await;
        server.abort();
        error
    }

    #[tokio::test]
    async fn a_missing_socket_and_a_dead_one_are_absent() {
        let dir = tempfile::tempdir().unwrap();
        let address = |name: &str| format!("unix://{}", dir.path().join(name).display());
        let EngineError::Absent(text) = error(&address("none")).await else { panic!("not absent") };
        assert!(text.starts_with("there is no socket at /") && text.ends_with("or use --engine process"), "{text}");
        drop(UnixListener::bind(dir.path().join("dead")).unwrap());
        let EngineError::Absent(text) = error(&address("dead")).await else { panic!("not absent") };
        assert!(text.starts_with("nothing listens at /"), "{text}");
    }

    #[tokio::test]
    async fn an_old_engine_and_a_foreign_one_refuse_with_the_cure() {
        let EngineError::Refuses(text) = answering(r#"{"ApiVersion":"1.40"}"#).await else { panic!("took it") };
        assert!(text.contains("speaks API 1.40, and 1.41 is needed: update it to Docker 20.10"), "{text}");
        let EngineError::Refuses(text) = answering("{}").await else { panic!("took it") };
        assert!(text.ends_with("it is not Docker's API"), "{text}");
        let windows = r#"{"ApiVersion":"1.47","Os":"windows","Arch":"amd64"}"#;
        let EngineError::Refuses(text) = answering(windows).await else { panic!("took it") };
        assert!(text.contains("runs windows/amd64 containers"), "{text}");
    }

    #[tokio::test]
    async fn an_address_that_ctk_matrix_does_not_speak_to_is_refused_in_one_line() {
        let EngineError::Refuses(text) = error("ssh://host").await else { panic!("took it") };
        assert!(text.contains("unix:// and tcp:// are") && !text.contains('\n'), "{text}");
    }
}
