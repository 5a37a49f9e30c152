//! An engine that sees no files of this machine: a daemon of the test's own in mount and network namespaces of its own,
//! reached over TCP. What a job needs is uploaded; what cannot be had there is said in one line; nothing is left.
//! It needs root, as a daemon does. Without it, or without Docker, the test says that it did not run.

mod engine_support;
mod registry_support;
mod support;

use std::io::Write as _;
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use registry_support::user_space;
use support::{Scene, cache, docker, program};

/// Hands connections on a port of 127.0.0.1 to a Unix socket. It ends with the test program.
fn proxy(socket: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, Ok(engine)) = (client.unwrap(), UnixStream::connect(&socket)) else { continue };
            let (mut from, mut to) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
            std::thread::spawn(move || {
                // Either side may go away at any time.
                drop(std::io::copy(&mut from, &mut to));
                drop(to.shutdown(Shutdown::Write));
            });
            let (mut from, mut to) = (engine, client);
            std::thread::spawn(move || {
                drop(std::io::copy(&mut from, &mut to));
                drop(to.shutdown(Shutdown::Both));
            });
        }
    });
    address
}

/// A daemon that has its own `/tmp`, where ctk-matrix keeps the files of its jobs.
struct Daemon {
    child: Child,
    folder: tempfile::TempDir,
}

impl Daemon {
    fn start() -> Option<Self> {
        if !docker() {
            return None;
        }
        if !rustix::process::geteuid().is_root() || !std::env::temp_dir().starts_with("/tmp") {
            eprintln!("did not run: a daemon of one's own needs root, and files of this program below /tmp");
            return None;
        }
        // Not below /tmp, which the daemon sees nothing of.
        let folder = tempfile::Builder::new().prefix("ctk-").tempdir_in("/var/tmp").unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let script = "mount -t tmpfs tmpfs /tmp && exec dockerd \"$@\"";
        let log = std::fs::File::create(at("log")).unwrap();
        // The machine's own configuration would contradict these options.
        std::fs::write(at("daemon.json"), "{}").unwrap();
        let child = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", script, "sh", "--bridge=none", "--iptables=false"])
            .args(["--host", &format!("unix://{}", at("s")), "--data-root", &at("d"), "--exec-root", &at("e")])
            .args(["--pidfile", &at("p"), "--config-file", &at("daemon.json")])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let daemon = Self { child, folder };
        let until = Instant::now() + Duration::from_secs(30);
        while !daemon.docker(&["version"]).output().unwrap().status.success() {
            let log = std::fs::read_to_string(daemon.folder.path().join("log")).unwrap();
            assert!(Instant::now() < until, "the daemon does not start:\n{log}");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(daemon)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn docker(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.arg("--host").arg(format!("unix://{}", self.socket().display())).args(arguments);
        // The builder that Docker 20.10 has, and that needs no further program.
        command.env_remove("DOCKER_HOST").env_remove("DOCKER_CONTEXT").env("DOCKER_BUILDKIT", "0");
        command
    }

    /// The lines that `docker` prints.
    fn lines(&self, arguments: &[&str]) -> Vec<String> {
        let output = self.docker(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
    }

    fn import(&self, name: &str, tar: &[u8]) {
        let mut command = self.docker(&["import", "--change", "ENV CUDA_VERSION=12.6.3", "-", name]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(tar).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // It is this process's own child, and not waited for yet.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        drop(self.child.wait());
    }
}

/// NVRTC's own needs, so that the image can run what is uploaded.
fn nvrtc() -> Vec<String> {
    Scene::new().ctk_matrix(&["toolkit", "fetch", "12.6", "--quiet"]).assert_code(0);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(cache().join("toolkits")).unwrap().map(|entry| entry.unwrap().path()) {
        let folder = entry.join("nvidia/cuda_nvrtc/lib");
        if entry.file_name().unwrap().to_string_lossy().starts_with("12.6-") && folder.is_dir() {
            let libraries = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path().display().to_string());
            found.extend(libraries.filter(|path| path.contains(".so.")));
        }
    }
    found
}

#[test]
fn a_remote_engine_is_handed_everything_by_upload_and_keeps_nothing() {
    let Some(daemon) = Daemon::start() else { return };
    let bench = program("ctk-bench").display().to_string();
    let programs: Vec<String> = nvrtc().into_iter().chain([bench.clone()]).collect();
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    daemon.import("plain:1", &user_space(&programs));
    // Baked by the project's own Dockerfile, onto the stand-in.
    let context = tempfile::tempdir().unwrap();
    std::fs::copy(&bench, context.path().join("ctk-bench")).unwrap();
    let file = |name: &str| format!("{}/docker/{name}", env!("CARGO_MANIFEST_DIR"));
    let context = context.path().display().to_string();
    let build = |name: &str, tag: &str, further: &[&str]| {
        let file = file(name);
        let arguments = ["build", "--quiet", "--network", "none", "--file", &file, "--tag", tag];
        daemon.lines(&[&arguments[..], further, &[&context]].concat());
    };
    build("toolkit.Dockerfile", "baked:1", &["--build-arg", "BASE=plain:1"]);
    build("bench.Dockerfile", "bench:1", &[]);
    let said = daemon.lines(&["run", "--rm", "--network", "none", "baked:1", "probe", "--nonce", "00"]);
    let frames: Vec<&String> = said.iter().filter(|line| line.contains("ctk-frame 1 00 ")).collect();
    assert!(frames.len() == 2 && frames[0].contains("\"kind\":\"hello\""), "{said:?}");

    let address = proxy(daemon.socket());
    let matrix = "version: 1\ntoolkits: [{name: image, version: \"12.6\", image: \"baked:1\"}, {name: wheels, version: \
                  \"12.6\", base: \"plain:1\"}]\npaths: [driver-ptx, nvrtc-cubin, nvcc-cubin]\n";
    let scene = Scene::new().matrix(matrix).env("DOCKER_HOST", &address);
    let ran = scene.run(&["--engine", "docker"]).assert_code(0);
    assert_eq!(
        ran.outcomes(),
        [
            "driver-ptx image: built",
            "nvrtc-cubin image: skip",
            "nvcc-cubin image: skip",
            "driver-ptx wheels: built",
            "nvrtc-cubin wheels: built",
            "nvcc-cubin wheels: skip",
        ]
    );
    let nvrtc = ran.cell(&["path=nvrtc-cubin", "toolkit=wheels"])["loaded"]["nvrtc"].clone();
    assert_eq!(nvrtc["version"], "12.6");
    assert!(nvrtc["path"].as_str().unwrap().starts_with("$CACHE/toolkits/12.6-"), "{nvrtc}");
    let notes = ran.report()["runs"][0]["notes"].to_string();
    assert!(notes.contains(&format!("the engine at {address} does not see this machine's files")), "{notes}");
    assert!(notes.contains("whose GPU is not looked for"), "{notes}");
    assert_eq!(daemon.lines(&["ps", "--all", "--quiet"]), [""; 0]);
    assert_eq!(daemon.lines(&["volume", "ls", "--quiet"]), [""; 0]);

    for (arguments, text) in [
        (["--source", "wheels"], "so wheels and folders need an image to be uploaded into: say --source image"),
        (["--gpu", "required"], "the engine is on another machine, whose GPU is not looked for"),
    ] {
        let scene = Scene::new().env("DOCKER_HOST", &address).env("CTK_MATRIX_CACHE", "none");
        let ran = scene.run(&[&["--engine", "docker"][..], &arguments].concat()).assert_code(5);
        assert!(ran.stderr.contains(text) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
        assert!(!ran.out.exists());
    }
}

#[test]
fn a_daemon_of_this_machine_behind_tcp_is_used_as_what_it_is() {
    if !docker() {
        return;
    }
    let address = proxy("/var/run/docker.sock".into());
    let matrix = "version: 1\ntoolkits: [\"12.6\"]\npaths: [driver-ptx, nvrtc-ptx]\n";
    let scene = Scene::new().matrix(matrix).env("DOCKER_HOST", &address);
    let ran = scene.run(&["--engine", "docker", "--gpu", "none", "--source", "wheels"]).assert_code(0);
    assert_eq!(ran.outcomes(), ["driver-ptx 12.6: built", "nvrtc-ptx 12.6: built"]);
    assert!(!ran.report()["runs"][0]["notes"].to_string().contains("uploaded"));
}
