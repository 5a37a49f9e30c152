//! What becomes of a job when the engine does not answer. A proxy stands between ctk-matrix and the real engine, and
//! loses what a real engine loses only by accident.
//! Without a Docker daemon these tests say that they did not run; `CTK_TEST_REQUIRE_DOCKER=1` makes that a failure.

mod engine_support;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use ctk_matrix::engine::docker::Docker;
use ctk_matrix::engine::job::{EngineError, JobEvent, JobExit};
use engine_support::{Bench, job};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};

/// What the proxy does.
const HONEST: u8 = 0;
/// It forwards nothing any more, on no connection, and closes none.
const SILENT: u8 = 1;
/// It lets a create through and closes the connection instead of handing on the answer.
const LOSES_CREATED: u8 = 2;
/// It closes the connection of every wait.
const BREAKS_WAIT: u8 = 3;
/// With a number of seconds added, it holds a create back for so long, as a busy engine does.
const SLOW_CREATE: u8 = 100;

struct Proxy {
    mode: Arc<AtomicU8>,
    dir: tempfile::TempDir,
}

impl Proxy {
    /// A proxy before the engine's socket; none if there is no daemon.
    async fn before_the_engine() -> Option<Self> {
        let engine = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
        let socket = engine.strip_prefix("unix://").map(PathBuf::from);
        let connected = match &socket {
            Some(socket) => UnixStream::connect(socket).await.is_ok(),
            None => false,
        };
        if !connected {
            assert!(std::env::var_os("CTK_TEST_REQUIRE_DOCKER").is_none(), "Docker is required at a Unix socket");
            eprintln!("not run: no engine at {engine}");
            return None;
        }
        let proxy = Self { mode: Arc::default(), dir: tempfile::tempdir().unwrap() };
        let listener = UnixListener::bind(proxy.dir.path().join("s")).unwrap();
        let mode = Arc::clone(&proxy.mode);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(forward(stream, socket.clone().unwrap(), Arc::clone(&mode)));
            }
        });
        Some(proxy)
    }

    fn becomes(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }

    async fn docker(&self, bench: &Bench) -> Docker {
        Docker::connect_to(&format!("unix://{}", self.dir.path().join("s").display()), bench.path()).await.unwrap()
    }
}

/// One connection carries one request, because bollard keeps none open.
async fn forward(mut client: UnixStream, socket: PathBuf, mode: Arc<AtomicU8>) {
    let mut engine = UnixStream::connect(socket).await.unwrap();
    let (mut up, mut down) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut loses_answer = false;
    loop {
        tokio::select! {
            count = client.read(&mut up) => match count {
                Ok(count @ 1..) => {
                    let creates = up.starts_with(b"POST /containers/create");
                    match mode.load(Ordering::SeqCst) {
                        LOSES_CREATED => loses_answer = creates,
                        slow @ SLOW_CREATE.. if creates => {
                            tokio::time::sleep(Duration::from_secs(u64::from(slow - SLOW_CREATE))).await;
                        }
                        BREAKS_WAIT if up[..count].windows(6).any(|part| part == b"/wait?") => return,
                        _ => {}
                    }
                    hold(&mode).await;
                    if engine.write_all(&up[..count]).await.is_err() { return }
                }
                _ => return,
            },
            count = engine.read(&mut down) => match count {
                Ok(count @ 1..) => {
                    if loses_answer { return }
                    hold(&mode).await;
                    if client.write_all(&down[..count]).await.is_err() { return }
                }
                _ => return,
            },
        }
    }
}

async fn hold(mode: &AtomicU8) {
    while mode.load(Ordering::SeqCst) == SILENT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn left(run: &str) -> Vec<String> {
    let client = bollard::Docker::connect_with_defaults().unwrap();
    let filters = HashMap::from([("label", vec![format!("ctk-matrix.run={run}")])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    client.list_containers(Some(options)).await.unwrap().into_iter().filter_map(|found| found.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_falls_silent_is_told_as_lost_and_names_what_is_left() {
    let Some(proxy) = Proxy::before_the_engine().await else { return };
    let bench = Bench::script("exec sleep 60");
    let docker = proxy.docker(&bench).await;
    let spec = job("silent");
    let (events, mut seen) = mpsc::unbounded_channel();
    let (_user, cancel) = watch::channel(false);
    let silence = async {
        assert_eq!(seen.recv().await, Some(JobEvent::Started));
        proxy.becomes(SILENT);
        Instant::now()
    };
    let (end, since) = tokio::join!(docker.run(&spec, events, cancel), silence);
    let took = since.elapsed();
    let client = bollard::Docker::connect_with_defaults().unwrap();
    for container in left(&spec.run).await {
        let force = RemoveContainerOptionsBuilder::new().force(true).build();
        client.remove_container(&container, Some(force)).await.unwrap();
    }
    let EngineError::Lost(text) = end.unwrap_err() else { panic!("not lost") };
    assert!(text.starts_with("the engine stopped answering while the job ran"), "{text}");
    assert!(text.contains("is left") && text.contains("`ctk-matrix gc`"), "{text}");
    assert!(took < Duration::from_secs(12), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_is_obeyed_within_six_seconds_even_if_the_engine_is_silent() {
    let Some(proxy) = Proxy::before_the_engine().await else { return };
    let bench = Bench::script("exec sleep 60");
    let docker = proxy.docker(&bench).await;
    let spec = job("silent-cancel");
    let (events, mut seen) = mpsc::unbounded_channel();
    let (user, cancel) = watch::channel(false);
    let interrupt = async {
        assert_eq!(seen.recv().await, Some(JobEvent::Started));
        proxy.becomes(SILENT);
        user.send(true).unwrap();
        Instant::now()
    };
    let (end, since) = tokio::join!(docker.run(&spec, events, cancel), interrupt);
    let took = since.elapsed();
    assert!(matches!(end, Err(EngineError::Lost(_))));
    assert!(took < Duration::from_secs(6), "{took:?}");
    // What was asked of the engine while it was silent reaches it when it wakes.
    proxy.becomes(HONEST);
    let client = bollard::Docker::connect_with_defaults().unwrap();
    for container in left(&spec.run).await {
        let force = RemoveContainerOptionsBuilder::new().force(true).build();
        let _ = client.remove_container(&container, Some(force)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_whose_creation_was_not_answered_is_found_and_removed() {
    let Some(proxy) = Proxy::before_the_engine().await else { return };
    let bench = Bench::script("exec sleep 60");
    let docker = proxy.docker(&bench).await;
    proxy.becomes(LOSES_CREATED);
    let spec = job("lost-create");
    let (events, _seen) = mpsc::unbounded_channel();
    let (_user, cancel) = watch::channel(false);
    let end = docker.run(&spec, events, cancel).await;
    assert!(matches!(end, Err(EngineError::Lost(_))), "{end:?}");
    assert_eq!(left(&spec.run).await, [""; 0]);
}

/// Interrupts a job whose creation takes so many seconds; gives how long it took to return, and the run.
async fn interrupted_while_created(seconds: u8) -> Option<(Duration, String)> {
    let proxy = Proxy::before_the_engine().await?;
    let bench = Bench::script("exec sleep 60");
    let docker = proxy.docker(&bench).await;
    proxy.becomes(SLOW_CREATE + seconds);
    let spec = job(&format!("slow-create-{seconds}"));
    let (events, mut seen) = mpsc::unbounded_channel();
    let (user, cancel) = watch::channel(false);
    let interrupt = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        user.send(true).unwrap();
        Instant::now()
    };
    let (end, since) = tokio::join!(docker.run(&spec, events, cancel), interrupt);
    let took = since.elapsed();
    assert_eq!(end.map(|end| end.exit), Ok(JobExit::Cancelled));
    assert_eq!(seen.recv().await, None, "it was started all the same");
    // The proxy must go on until its create has reached the engine.
    std::mem::forget(proxy);
    Some((took, spec.run))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_during_a_slow_creation_waits_for_it_and_removes_it() {
    for seconds in [1, 3] {
        let Some((took, run)) = interrupted_while_created(seconds).await else { return };
        assert!(took < Duration::from_secs(6), "{took:?}");
        assert!(took + Duration::from_millis(600) > Duration::from_secs(u64::from(seconds)), "{took:?}");
        assert_eq!(left(&run).await, [""; 0], "after {seconds} s");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_appears_after_everybody_left_is_removed_in_the_background() {
    let Some((took, run)) = interrupted_while_created(7).await else { return };
    assert!(took < Duration::from_secs(6), "{took:?}");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(left(&run).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_breaks_is_taken_up_again_while_the_container_runs() {
    let Some(proxy) = Proxy::before_the_engine().await else { return };
    let bench = Bench::script("sleep 4; echo done; exit 5");
    let docker = proxy.docker(&bench).await;
    let spec = job("broken-wait");
    let (events, mut seen) = mpsc::unbounded_channel();
    let (_user, cancel) = watch::channel(false);
    proxy.becomes(BREAKS_WAIT);
    let heal = async {
        assert_eq!(seen.recv().await, Some(JobEvent::Started));
        tokio::time::sleep(Duration::from_millis(500)).await;
        proxy.becomes(HONEST);
    };
    let (end, ()) = tokio::join!(docker.run(&spec, events, cancel), heal);
    let end = end.unwrap();
    assert_eq!((end.exit, end.output.noise.as_str()), (JobExit::Code(5), "done\n"));
    assert_eq!(left(&spec.run).await, [""; 0]);
}
