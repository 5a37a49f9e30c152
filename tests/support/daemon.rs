//! A Docker daemon of a test's own, in a network namespace of its own, that may be stopped, killed and starved without
//! harm to the machine's. Its main type is [`Daemon`].
//! It needs root; elsewhere the tests say that they did not run, and `CTK_TEST_REQUIRE_DOCKER=1` makes that a failure.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) struct Daemon {
    folder: tempfile::TempDir,
    options: Vec<String>,
    process: Option<Child>,
    tmpfs: bool,
}

impl Daemon {
    /// A daemon that runs; none if it cannot be started here. `tmpfs` is the size of its data folder's file system,
    /// `48m`, if it is to have one of its own.
    pub(crate) fn start(options: &[&str], tmpfs: Option<&str>) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("ctk-d-").tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut daemon = Self { folder, options, process: None, tmpfs: false };
        let why = if !rustix::process::geteuid().is_root() {
            "a second Docker daemon needs root"
        } else if let Some(size) = tmpfs
            && !daemon.mount(size)
        {
            "no tmpfs can be mounted"
        } else if daemon.spawn() {
            return Some(daemon);
        } else {
            "a second dockerd does not come up"
        };
        let required = std::env::var_os("CTK_TEST_REQUIRE_DOCKER").is_some_and(|value| value == "1");
        assert!(!required, "CTK_TEST_REQUIRE_DOCKER is set, and {why}");
        eprintln!("did not run: {why}");
        None
    }

    /// Starts it, or starts it again, and waits until it answers.
    pub(crate) fn spawn(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            // The containerd of a killed daemon ends a second after it, and a new daemon would take it for its own.
            let containerd = std::fs::read_to_string(self.path("e/containerd/containerd.pid")).unwrap_or_default();
            let containerd = Path::new("/proc").join(containerd.trim());
            let is_ours =
                std::fs::read_to_string(containerd.join("cmdline")).is_ok_and(|line| line.starts_with("containerd"));
            if is_ours {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            for stale in ["p", "e/containerd/containerd.pid"] {
                let _ = std::fs::remove_file(self.path(stale));
            }
            let Ok(mut process) = self.command().spawn() else { return false };
            while Instant::now() < until && matches!(process.try_wait(), Ok(None)) {
                if self.docker(&["version"]).is_some() {
                    self.process = Some(process);
                    return true;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        false
    }

    fn command(&self) -> Command {
        let path = |name: &str| self.path(name).display().to_string();
        let mut command = Command::new("unshare");
        command.args(["-n", "dockerd", "--bridge=none", "--iptables=false", "--log-level", "fatal"]);
        command.args(["--config-file", &path("config.json"), "-H", &self.address(), "--data-root", &path("d")]);
        command.args(["--exec-root", &path("e"), "--pidfile", &path("p")]).args(&self.options);
        // A daemon whose disk is full writes gigabytes of complaints.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// `DOCKER_HOST` of this daemon.
    pub(crate) fn address(&self) -> String {
        format!("unix://{}", self.path("s").display())
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("d")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.process.as_ref().unwrap()), signal).unwrap();
    }

    /// Signals it and waits until it is gone.
    pub(crate) fn ends(&mut self, signal: Signal) {
        self.signal(signal);
        self.process.take().unwrap().wait().unwrap();
    }

    /// What `docker ARGUMENTS` prints, from this daemon.
    pub(crate) fn docker(&self, arguments: &[&str]) -> Option<String> {
        let output = Command::new("docker").arg("-H").arg(self.address()).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Its containers, running or not.
    pub(crate) fn containers(&self) -> String {
        self.docker(&["ps", "-aq"]).expect("the daemon answers")
    }

    /// Waits until a container runs.
    pub(crate) fn has_started_one(&self) {
        let until = Instant::now() + Duration::from_mins(1);
        while self.docker(&["ps", "-q"]).is_none_or(|running| running.is_empty()) {
            assert!(Instant::now() < until, "no container was started");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn mount(&mut self, size: &str) -> bool {
        let data = self.data();
        let status =
            Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(data).status();
        self.tmpfs = status.is_ok_and(|status| status.success());
        self.tmpfs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that was killed leaves its containerd and its containers behind: a new one ends them.
        if self.process.is_none() {
            self.spawn();
        }
        if let Some(mut process) = self.process.take() {
            let pid = Pid::from_child(&process);
            let _ = kill_process(pid, Signal::CONT);
            let containers = self.docker(&["ps", "-aq"]).unwrap_or_default();
            for container in containers.lines() {
                self.docker(&["rm", "-f", container]);
            }
            let _ = kill_process(pid, Signal::TERM);
            let until = Instant::now() + Duration::from_secs(15);
            while Instant::now() < until && matches!(process.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        unmount_below(self.folder.path());
    }
}

/// Unmounts everything below a folder, the innermost first.
fn unmount_below(folder: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let below = mounts.lines().filter_map(|line| line.split(' ').nth(4)).filter(|at| Path::new(at).starts_with(folder));
    for at in below.collect::<Vec<_>>().into_iter().rev() {
        let _ = Command::new("umount").args(["-l", at]).status();
    }
}
