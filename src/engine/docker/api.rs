//! The engine's calls that jobs need, each with a time limit of its own. Its main type is [`Api`].
//!
//! bollard's own timeout covers only the headers of an answer, so every call here is held to a limit from outside.
//! Answers are turned into plain types, errors into [`Failure`].

use std::collections::HashMap;
use std::error::Error as _;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, ImageInspect, SystemInfo, SystemVersion};
use bollard::query_parameters::{
    ContainerArchiveInfoOptionsBuilder, CreateContainerOptionsBuilder, CreateImageOptionsBuilder,
    DownloadFromContainerOptionsBuilder, ListContainersOptionsBuilder, ListImagesOptionsBuilder, LogsOptionsBuilder,
    RemoveContainerOptionsBuilder, RemoveImageOptions, StopContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures_util::{Stream, StreamExt};
use tokio::time::timeout;

use super::super::job::EngineError;
use super::super::output::{Collector, Head, MAX_STDERR, Tail};

/// Creating and starting pull layers together and set up devices; a busy disk takes seconds over it.
const LONG: Duration = Duration::from_mins(1);
/// Everything else is answered from memory.
const SHORT: Duration = Duration::from_secs(10);

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The engine answered, and refused.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The engine's own text.
        text: String,
    },
    /// There was no answer.
    Broken(String),
}

impl Failure {
    /// Whether what was named is not there.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// The failure as a job's: what the engine refuses is about this job, silence is about the engine.
    pub(super) fn into_error(self) -> EngineError {
        match self {
            Self::Refused { text, .. } => EngineError::Start { text },
            Self::Broken(text) => EngineError::Lost(text),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { text, .. } | Self::Broken(text) => f.write_str(text),
        }
    }
}

/// What an error of bollard means.
pub(super) fn failure(error: &Error) -> Failure {
    if let Error::DockerResponseServerError { status_code, message } = error {
        return Failure::Refused { status: *status_code, text: message.trim().into() };
    }
    let mut text = format!("the engine does not answer: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let further = error.to_string();
        if !text.ends_with(&further) {
            text = format!("{text}: {further}");
        }
        cause = error.source();
    }
    Failure::Broken(text)
}

async fn within<T>(limit: Duration, what: &str, call: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    match timeout(limit, call).await {
        Ok(answer) => answer.map_err(|error| failure(&error)),
        Err(_) => Err(Failure::Broken(format!("the engine did not {what} within {} s", limit.as_secs_f32()))),
    }
}

/// A call whose answer tells containers' states. Podman has one, `stopped`, that Docker has not; it lasts from the end of
/// a container's process to the end of its clean-up.
async fn settled<T, F: Future<Output = Result<T, Error>>>(
    limit: Duration,
    what: &str,
    call: impl Fn() -> F,
) -> Result<T, Failure> {
    let answer = async {
        for _ in 0..20 {
            match call().await {
                Err(Error::JsonDataError { .. }) => tokio::time::sleep(Duration::from_millis(100)).await,
                answer => return answer,
            }
        }
        call().await
    };
    within(limit, what, answer).await
}

/// What the engine knows of a container's end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct State {
    pub(super) running: bool,
    pub(super) oom: bool,
    pub(super) code: i64,
    pub(super) error: String,
}

/// A container as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) labels: HashMap<String, String>,
}

/// An image as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedImage {
    pub(super) id: String,
    pub(super) bytes: u64,
    pub(super) labels: HashMap<String, String>,
}

/// How waiting for a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waited {
    /// It does not run any more.
    Ended,
    /// The engine stopped telling.
    Broken(Failure),
}

/// The engine's calls.
#[derive(Debug, Clone)]
pub(super) struct Api {
    client: bollard::Docker,
}

impl Api {
    pub(super) fn new(client: bollard::Docker) -> Self {
        Self { client }
    }

    /// For calls that go on for as long as they make progress: pulling, uploading.
    pub(super) fn client(&self) -> &bollard::Docker {
        &self.client
    }

    pub(super) async fn version(&self) -> Result<SystemVersion, Failure> {
        within(SHORT, "tell its version", self.client.version()).await
    }

    pub(super) async fn system(&self) -> Result<SystemInfo, Failure> {
        within(SHORT, "describe itself", self.client.info()).await
    }

    pub(super) async fn ping(&self, limit: Duration) -> Result<(), Failure> {
        within(limit, "answer a ping", self.client.ping()).await.map(drop)
    }

    /// Creates a container and gives the engine's warnings.
    pub(super) async fn create(&self, name: &str, body: Box<ContainerCreateBody>) -> Result<Vec<String>, Failure> {
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let call = Box::pin(self.client.create_container(Some(options), *body));
        within(LONG, "create a container", call).await.map(|created| created.warnings)
    }

    pub(super) async fn start(&self, name: &str) -> Result<(), Failure> {
        within(LONG, "start a container", self.client.start_container(name, None)).await
    }

    /// SIGTERM, and SIGKILL after `grace` seconds.
    pub(super) async fn stop(&self, name: &str, grace: i32, limit: Duration) -> Result<(), Failure> {
        let options = StopContainerOptionsBuilder::new().t(grace).build();
        within(limit, "stop a container", self.client.stop_container(name, Some(options))).await
    }

    pub(super) async fn kill(&self, name: &str, limit: Duration) -> Result<(), Failure> {
        within(limit, "kill a container", self.client.kill_container(name, None)).await
    }

    pub(super) async fn state(&self, name: &str, limit: Duration) -> Result<State, Failure> {
        let call = || self.client.inspect_container(name, None);
        let found = settled(limit, "inspect a container", call).await?;
        let state = found.state.unwrap_or_default();
        Ok(State {
            running: state.running.unwrap_or_default(),
            oom: state.oom_killed.unwrap_or_default(),
            code: state.exit_code.unwrap_or_default(),
            error: state.error.unwrap_or_default(),
        })
    }

    /// Kills it if it runs, and removes it with its volumes.
    pub(super) async fn remove(&self, name: &str, limit: Duration) -> Result<(), Failure> {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        within(limit, "remove a container", self.client.remove_container(name, Some(options))).await
    }

    /// Waits, without a limit, until the container does not run. It must have been started: a container that was only
    /// created counts as not running.
    pub(super) async fn wait(&self, name: &str) -> Waited {
        let options = WaitContainerOptionsBuilder::new().condition("not-running").build();
        let mut answers = Box::pin(self.client.wait_container(name, Some(options)));
        match answers.next().await {
            // bollard makes an error of every exit status that is not 0.
            Some(Ok(_) | Err(Error::DockerContainerWaitError { .. })) => Waited::Ended,
            Some(Err(error)) => Waited::Broken(failure(&error)),
            None => Waited::Broken(Failure::Broken("the engine ended its answer without one".into())),
        }
    }

    /// The container's stdout while it runs, for display only: it may stop early, and without an error.
    pub(super) fn follow(&self, name: &str) -> impl Stream<Item = Vec<u8>> + use<> {
        let options = LogsOptionsBuilder::new().stdout(true).follow(true).build();
        let pieces = self.client.logs(name, Some(options));
        Box::pin(pieces.filter_map(|piece| async {
            match piece {
                Ok(LogOutput::StdOut { message }) => Some(message.to_vec()),
                _ => None,
            }
        }))
    }

    /// The container's stdout, from the first byte that the engine kept, to its end or to `limit`.
    pub(super) async fn stdout(&self, name: &str, limit: Duration, output: &mut Collector) -> Result<(), Failure> {
        let options = LogsOptionsBuilder::new().stdout(true).build();
        let mut pieces = Box::pin(self.client.logs(name, Some(options)));
        let read = async {
            while let Some(piece) = pieces.next().await {
                match piece.map_err(|error| failure(&error))? {
                    LogOutput::StdOut { message } => output.push(&message),
                    // Without a TTY this is the rest of a frame that the engine did not finish.
                    LogOutput::Console { .. } => output.cut(),
                    LogOutput::StdErr { .. } | LogOutput::StdIn { .. } => {}
                }
            }
            Ok::<_, Failure>(())
        };
        if let Ok(read) = timeout(limit, read).await {
            return read;
        }
        output.cut();
        Ok(())
    }

    /// The last of the container's stderr.
    pub(super) async fn stderr(&self, name: &str, limit: Duration) -> Result<String, Failure> {
        let options = LogsOptionsBuilder::new().stderr(true).build();
        let mut pieces = Box::pin(self.client.logs(name, Some(options)));
        let mut tail = Tail::default();
        let read = async {
            while let Some(piece) = pieces.next().await {
                if let LogOutput::StdErr { message } = piece.map_err(|error| failure(&error))? {
                    tail.push(&message, MAX_STDERR);
                }
            }
            Ok::<_, Failure>(())
        };
        // What came within the limit is still the best that there is to show.
        if let Ok(read) = timeout(limit, read).await {
            read?;
        }
        Ok(tail.text(MAX_STDERR))
    }

    /// Every container, running or not, that has `label`.
    pub(super) async fn labelled(&self, label: &str) -> Result<Vec<Listed>, Failure> {
        let filters = HashMap::from([("label", vec![label])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = settled(LONG, "list containers", || self.client.list_containers(Some(options.clone()))).await?;
        let listed = |container: bollard::models::ContainerSummary| {
            let names = container.names.unwrap_or_default();
            Some(Listed {
                id: container.id?,
                name: names.first().map(|name| name.trim_start_matches('/').to_owned()).unwrap_or_default(),
                state: container.state.map(|state| state.to_string()).unwrap_or_default(),
                labels: container.labels.unwrap_or_default(),
            })
        };
        Ok(found.into_iter().filter_map(listed).collect())
    }

    /// An image's configuration; none if it is not on this machine.
    pub(super) async fn image(&self, reference: &str) -> Result<Option<ImageInspect>, Failure> {
        match within(SHORT, "inspect an image", self.client.inspect_image(reference)).await {
            Ok(image) => Ok(Some(image)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Images with a label, those that a build left without a name alone if `unnamed`.
    pub(super) async fn images(&self, label: &str, unnamed: bool) -> Result<Vec<ListedImage>, Failure> {
        let filters =
            HashMap::from([("label", vec![label]), ("dangling", vec![if unnamed { "true" } else { "false" }])]);
        let options = ListImagesOptionsBuilder::new().filters(&filters).build();
        let found = within(LONG, "list images", self.client.list_images(Some(options))).await?;
        let listed = |image: bollard::models::ImageSummary| ListedImage {
            id: image.id,
            bytes: u64::try_from(image.size).unwrap_or_default(),
            labels: image.labels,
        };
        Ok(found.into_iter().map(listed).collect())
    }

    /// Removes an image, and the unnamed ones below it that nothing else needs.
    pub(super) async fn remove_image(&self, id: &str) -> Result<(), Failure> {
        let call = self.client.remove_image(id, None::<RemoveImageOptions>, None);
        within(LONG, "remove an image", call).await.map(drop)
    }

    /// Makes an image of one layer from the bytes of a tar file.
    pub(super) async fn import(&self, repo: &str, tag: &str, label: &str, tar: Vec<u8>) -> Result<(), Failure> {
        let options = CreateImageOptionsBuilder::new()
            .from_src("-")
            // Podman reads the tag only here, Docker both here and there.
            .repo(&format!("{repo}:{tag}"))
            .tag(tag)
            .changes(vec![format!("LABEL {label}=1")])
            .build();
        let mut answers = Box::pin(self.client.create_image(Some(options), Some(bollard::body_full(tar.into())), None));
        let read = async {
            while let Some(answer) = answers.next().await {
                answer?;
            }
            Ok(())
        };
        within(LONG, "import an image", read).await
    }

    /// Where a path in a container's file system leads, symbolic links followed; none if there is nothing.
    pub(super) async fn resolve(&self, name: &str, path: &str) -> Result<Option<String>, Failure> {
        let mut path = path.to_owned();
        // The engine follows a link to its very end, but does not say whether there is something: one more look does.
        for _ in 0..2 {
            let options = ContainerArchiveInfoOptionsBuilder::new().path(&path).build();
            let call = self.client.get_container_archive_info(name, Some(options));
            match within(SHORT, "look into an image", call).await {
                Ok(stat) if stat.link_target.is_empty() => break,
                Ok(stat) => path = stat.link_target,
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(path))
    }

    /// A file out of a container's file system, inside a tar, up to `room` bytes of it.
    pub(super) async fn download(&self, name: &str, path: &str, room: usize) -> Result<Vec<u8>, Failure> {
        let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
        let mut pieces = Box::pin(self.client.download_from_container(name, Some(options)));
        let mut head = Head::default();
        let read = async {
            while let Some(piece) = pieces.next().await {
                if !head.push(&piece?, room) {
                    break;
                }
            }
            Ok(())
        };
        within(LONG, "copy a file out of an image", read).await?;
        Ok(head.bytes)
    }
}
