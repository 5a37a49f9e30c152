//! A container registry of the tests' own: it speaks enough of the registry API for an engine to pull from it, and
//! misbehaves as it is told. Its main types are [`Registry`] and [`Fault`].
#![allow(dead_code, reason = "each test program uses its own part")]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use sha2::Digest as _;

use crate::engine_support::Tar;

/// What goes wrong with every request for a repository, or with its first ones.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Manifests are answered with this status and error code, so many times.
    Status(u16, &'static str, u32),
    /// Nothing is answered without this user and password.
    Password(&'static str, &'static str),
    /// Layers come with a wrong byte, so many times.
    Corrupt(u32),
    /// Layers stop after half of their bytes, so many times.
    Stalled(u32),
}

/// What an image is called by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) index: String,
    pub(crate) platform: String,
    pub(crate) id: String,
}

#[derive(Default)]
struct State {
    manifests: Mutex<HashMap<String, (String, Vec<u8>)>>,
    blobs: Mutex<HashMap<String, Vec<u8>>>,
    layers: Mutex<Vec<String>>,
    faults: Mutex<HashMap<String, (Fault, Arc<AtomicU32>)>>,
    requests: Mutex<Vec<String>>,
    ended: AtomicBool,
}

/// A registry on a port of its own. What was pulled from it is removed when it is dropped.
pub(crate) struct Registry {
    port: u16,
    state: Arc<State>,
    tls: Option<Tls>,
}

/// A second door, with TLS: the `docker` program asks no registry without.
struct Tls {
    port: u16,
    terminator: Child,
    folder: tempfile::TempDir,
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", ctk_matrix::model::wire::hex(&sha2::Sha256::digest(bytes)))
}

impl Registry {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                let (state, stream) = (Arc::clone(&shared), stream.unwrap());
                // A client that goes away in the middle is part of the tests.
                std::thread::spawn(move || drop(serve(&state, stream)));
            }
        });
        Self { port, state, tls: None }
    }

    /// The same with TLS, and the file of the certificate that is to be trusted for it.
    pub(crate) fn start_with_tls() -> (Self, String) {
        let mut registry = Self::start();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"])
            .args(["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", &at("key"), "-out", &at("certificate")])
            .stderr(Stdio::null())
            .status();
        assert!(made.is_ok_and(|status| status.success()), "`openssl` makes no certificate");
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/registry_support/terminator.py");
        let mut terminator = Command::new("python3")
            .args([program, &at("certificate"), &at("key"), &registry.port.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(terminator.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let certificate = at("certificate");
        registry.tls = Some(Tls { port: line.trim().parse().unwrap(), terminator, folder });
        (registry, certificate)
    }

    /// `127.0.0.1:PORT/REPOSITORY`, for which an engine does without TLS.
    pub(crate) fn name(&self, repository: &str) -> String {
        format!("127.0.0.1:{}/{repository}", self.tls.as_ref().map_or(self.port, |tls| tls.port))
    }

    /// Puts an image under a tag, as an index over this one platform.
    pub(crate) fn push(&self, repository: &str, tag: &str, layers: &[Vec<u8>], config: &serde_json::Value) -> Digests {
        let ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = json!({"architecture": arch, "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": ids}});
        let config = config.to_string().into_bytes();
        let docker = |kind: &str| format!("application/vnd.docker.{kind}");
        let part =
            |kind: &str, bytes: &[u8]| json!({"mediaType": docker(kind), "size": bytes.len(), "digest": digest(bytes)});
        let manifest_type = docker("distribution.manifest.v2+json");
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": manifest_type,
            "config": part("container.image.v1+json", &config),
            "layers": layers.iter().map(|layer| part("image.rootfs.diff.tar.gzip", layer)).collect::<Vec<_>>(),
        })
        .to_string()
        .into_bytes();
        let index_type = docker("distribution.manifest.list.v2+json");
        let mut entry = part("distribution.manifest.v2+json", &manifest);
        entry["platform"] = json!({"architecture": arch, "os": "linux"});
        let index = json!({"schemaVersion": 2, "mediaType": index_type, "manifests": [entry]}).to_string().into_bytes();
        let digests = Digests { index: digest(&index), platform: digest(&manifest), id: digest(&config) };
        let mut blobs = self.state.blobs.lock().unwrap();
        blobs.insert(digests.id.clone(), config);
        blobs.extend(ids.iter().cloned().zip(layers.iter().cloned()));
        self.state.layers.lock().unwrap().extend(ids);
        let mut manifests = self.state.manifests.lock().unwrap();
        manifests.insert(format!("{repository}@{}", digests.platform), (manifest_type, manifest));
        for name in [tag, digests.index.as_str()] {
            manifests.insert(format!("{repository}@{name}"), (index_type.clone(), index.clone()));
        }
        digests
    }

    /// From now on this goes wrong with a repository.
    pub(crate) fn fault(&self, repository: &str, fault: Fault) {
        let times = match fault {
            Fault::Status(_, _, times) | Fault::Corrupt(times) | Fault::Stalled(times) => times,
            Fault::Password(..) => u32::MAX,
        };
        self.state.faults.lock().unwrap().insert(repository.into(), (fault, Arc::new(AtomicU32::new(times))));
    }

    /// Whether a layer was asked for.
    pub(crate) fn gave_layers(&self) -> bool {
        let layers = self.state.layers.lock().unwrap();
        self.requests().iter().any(|request| layers.iter().any(|layer| request.ends_with(layer)))
    }

    /// What was asked for, `GET /v2/…`.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.requests.lock().unwrap().clone()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            drop(tls.terminator.kill());
            drop(tls.terminator.wait());
        }
        self.state.ended.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        let prefix = self.name("");
        let format = ["image", "ls", "--digests", "--format", "{{.Repository}} {{.ID}}"];
        let Ok(output) = Command::new("docker").args(format).output() else { return };
        for line in String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.starts_with(&prefix)) {
            let id = line.rsplit(' ').next().unwrap_or_default();
            drop(Command::new("docker").args(["image", "rm", "--force", id]).output());
        }
    }
}

/// One request on a connection of its own.
fn serve(state: &State, mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        // The engine tries TLS first.
        if stream.read(&mut byte)? == 0 || (head.is_empty() && !byte[0].is_ascii_uppercase()) {
            return Ok(());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().to_owned());
    state.requests.lock().unwrap().push(format!("{method} {path}"));
    let mut answer = |status: u16, headers: &str, body: &[u8]| {
        let length = body.len();
        let line = format!(
            "HTTP/1.1 {status} x\r\nConnection: close\r\nDocker-Distribution-API-Version: registry/2.0\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(line.as_bytes())?;
        if method == "HEAD" { Ok(()) } else { stream.write_all(body) }
    };
    let parts: Vec<&str> = path.split('/').collect();
    let error =
        |code: &str| json!({"errors": [{"code": code, "message": code.to_lowercase()}]}).to_string().into_bytes();
    let challenge = "WWW-Authenticate: Basic realm=\"tests\"\r\n";
    if parts.len() < 5 {
        // Who is not asked here is never asked.
        let stranger = |fault: &Fault| matches!(fault, Fault::Password(user, word) if !authorized(&head, user, word));
        let asked = state.faults.lock().unwrap().values().any(|(fault, _)| stranger(fault));
        return if asked { answer(401, challenge, &error("UNAUTHORIZED")) } else { answer(200, "", b"{}") };
    }
    let (repository, kind, wanted) =
        (parts[2..parts.len() - 2].join("/"), parts[parts.len() - 2], parts[parts.len() - 1]);
    let fault = state.faults.lock().unwrap().get(&repository).cloned();
    let strikes =
        |left: &AtomicU32| left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok();
    let layer = state.layers.lock().unwrap().iter().any(|layer| layer == wanted);
    let blob = state.blobs.lock().unwrap().get(wanted).cloned();
    match (kind, fault) {
        (_, Some((Fault::Password(user, password), _))) if !authorized(&head, user, password) => {
            answer(401, challenge, &error("UNAUTHORIZED"))
        }
        ("manifests", Some((Fault::Status(status, code, _), left))) if strikes(&left) => {
            answer(status, "", &error(code))
        }
        ("manifests", _) => match state.manifests.lock().unwrap().get(&format!("{repository}@{wanted}")) {
            Some((kind, bytes)) => {
                let headers = format!("Content-Type: {kind}\r\nDocker-Content-Digest: {}\r\n", digest(bytes));
                answer(200, &headers, bytes)
            }
            None => answer(404, "", &error("MANIFEST_UNKNOWN")),
        },
        ("blobs", fault) => match (blob, fault) {
            (None, _) => answer(404, "", &error("BLOB_UNKNOWN")),
            (Some(mut bytes), Some((Fault::Corrupt(_), left))) if layer && strikes(&left) => {
                bytes[200] ^= 1;
                answer(200, "", &bytes)
            }
            (Some(bytes), Some((Fault::Stalled(_), left))) if layer && strikes(&left) => {
                let line = format!("HTTP/1.1 200 x\r\nContent-Length: {}\r\n\r\n", bytes.len());
                stream.write_all(line.as_bytes())?;
                stream.write_all(&bytes[..bytes.len() / 2])?;
                // An engine that gave the pull up may hold on to the connection: it is closed with the registry.
                while !state.ended.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Ok(())
            }
            (Some(bytes), _) => answer(200, "", &bytes),
        },
        _ => answer(404, "", &error("UNSUPPORTED")),
    }
}

fn authorized(head: &str, user: &str, password: &str) -> bool {
    use base64::Engine as _;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    head.contains(&format!("Authorization: Basic {pair}"))
}

/// What a program of the host needs to start in an image: its libraries, and a shell.
pub(crate) fn user_space(programs: &[&str]) -> Vec<u8> {
    let mut files = std::collections::BTreeSet::from(["/bin/sh".to_owned()]);
    for program in programs.iter().chain(&["/bin/sh"]) {
        let listed = Command::new("ldd").arg(program).output().unwrap().stdout;
        let listed = String::from_utf8(listed).unwrap();
        files.extend(listed.split_whitespace().filter(|word| word.starts_with('/')).map(ToOwned::to_owned));
    }
    // An engine does not fetch a layer that another test has brought already.
    let mut random = [0; 16];
    getrandom::fill(&mut random).unwrap();
    let own = Tar::default().file("etc/ctk-test", &random);
    files.iter().fold(own, |tar, file| tar.file(&file[1..], &fs::read(file).unwrap())).finish()
}

/// The environment and entrypoint of nvidia/cuda's 12.6 images, with further variables.
pub(crate) fn nvidia(further: &[&str]) -> serde_json::Value {
    let own = [
        "PATH=/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "NVARCH=x86_64",
        "CUDA_VERSION=12.6.3",
        REQUIRE,
        "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
        "NVIDIA_VISIBLE_DEVICES=all",
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ];
    let env: Vec<&str> = own.iter().chain(further).copied().collect();
    json!({"Env": env, "Entrypoint": ["/opt/nvidia/nvidia_entrypoint.sh"], "Labels": {"maintainer": "tests"}})
}

/// As the images of 12.6 have it, shortened.
pub(crate) const REQUIRE: &str =
    "NVIDIA_REQUIRE_CUDA=cuda>=12.6 brand=unknown,driver>=470,driver<471 brand=tesla,driver>=550,driver<551";

/// The layer that every variant has: the toolkit's folder with its links, forward-compatibility libraries, and an
/// entrypoint that prints a banner on stdout.
pub(crate) fn base_layer() -> Tar {
    Tar::default()
        .link("usr/local/cuda", "/etc/alternatives/cuda")
        .link("etc/alternatives/cuda", "/usr/local/cuda-12.6")
        .link("usr/local/cuda-12.6/lib64", "targets/x86_64-linux/lib")
        .file("usr/local/cuda-12.6/targets/x86_64-linux/lib/libcudart.so.12", b"")
        .file("usr/local/cuda-12.6/compat/libcuda.so.1", b"")
        .file("opt/nvidia/nvidia_entrypoint.sh", b"#!/bin/sh\necho '=========='\necho '== CUDA =='\nexec \"$@\"\n")
}
