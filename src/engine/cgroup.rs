//! Limits for a child process through cgroup v2, where this process may make a group. Its main type is [`Cgroup`].
//!
//! Resource limits of the process itself are no substitute: `RLIMIT_AS` breaks `cuInit`, which reserves address space by
//! the terabyte.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::model::matrix::Limits;

/// A group of its own for one job. It is removed when it is dropped, if nothing runs in it.
#[derive(Debug)]
pub(crate) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// Makes a group with these limits, or says in a few words why it may not.
    pub(crate) fn make(name: &str, limits: &Limits) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
        let mount = mount_point(&mounts).ok_or("there is no cgroup v2")?;
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let own =
            own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or("this process has no cgroup v2 group")?;
        Self::make_below(&mount, Path::new(own), name, limits)
    }

    fn make_below(mount: &Path, own: &Path, name: &str, limits: &Limits) -> Result<Self, String> {
        let mut why = "no group above this process hands on the memory and pids controllers".to_owned();
        // A group that holds processes cannot hand controllers on, so the new one is most often beside this process's.
        for parent in own.ancestors() {
            let parent = mount.join(parent);
            let handed = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
            if !["memory", "pids"].iter().all(|wanted| handed.split_whitespace().any(|found| found == *wanted)) {
                continue;
            }
            let dir = parent.join(name);
            let made = fs::create_dir(&dir);
            match made.map(|()| Self { dir }).and_then(|group| group.limit(limits).map(|()| group)) {
                Ok(group) => return Ok(group),
                Err(error) => why = format!("{}: {error}", parent.display()),
            }
        }
        Err(why)
    }

    fn limit(&self, limits: &Limits) -> io::Result<()> {
        fs::write(self.dir.join("memory.max"), limits.memory.to_string())?;
        fs::write(self.dir.join("pids.max"), limits.pids.to_string())?;
        // A kernel without swap accounting has no such file.
        let _ = fs::write(self.dir.join("memory.swap.max"), "0");
        Ok(())
    }

    /// Moves a process into the group. What it forked before stays outside.
    pub(crate) fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.dir.join("cgroup.procs"), pid.to_string())
    }

    /// Whether the kernel killed a process of the group for its memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.dir.join("memory.events")).unwrap_or_default();
        let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse::<u64>().ok()).is_some_and(|count| count > 0)
    }

    /// Kills everything in the group, also what left the process group (Linux 5.14 on).
    pub(crate) fn kill(&self) {
        // On an older kernel the process group has been killed all the same.
        let _ = fs::write(self.dir.join("cgroup.kill"), "1");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that was just killed may still be on its way out.
        for _ in 0..20 {
            match fs::remove_dir(&self.dir) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

/// Where cgroup v2 is mounted: the fields after ` - ` are the file system's type, its source, its options.
fn mount_point(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        tail.starts_with("cgroup2 ").then(|| head.split(' ').nth(4).map(PathBuf::from)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { timeout_ms: 1, memory: 1 << 30, pids: 32 };

    #[test]
    fn the_nearest_group_that_hands_on_both_controllers_gets_the_job() {
        let mount = tempfile::tempdir().unwrap();
        let own = Path::new("user.slice/app.slice/shell.scope");
        fs::create_dir_all(mount.path().join(own)).unwrap();
        let hand_on = |group: &str, controllers: &str| {
            fs::write(mount.path().join(group).join("cgroup.subtree_control"), controllers).unwrap();
        };
        hand_on("", "cpu memory pids");
        hand_on("user.slice", "memory pids");
        hand_on("user.slice/app.slice", "memory");
        let group = Cgroup::make_below(mount.path(), own, "job", &LIMITS).unwrap();
        assert_eq!(group.dir, mount.path().join("user.slice/job"));
        let read = |file: &str| fs::read_to_string(group.dir.join(file)).unwrap();
        assert_eq!(["memory.max", "pids.max", "memory.swap.max"].map(read), ["1073741824", "32", "0"]);
        assert!(!group.ran_out_of_memory());
        fs::write(group.dir.join("memory.events"), "low 0\noom 2\noom_kill 1\n").unwrap();
        assert!(group.ran_out_of_memory());
    }

    #[test]
    fn without_controllers_the_reason_is_told() {
        let mount = tempfile::tempdir().unwrap();
        let why = Cgroup::make_below(mount.path(), Path::new("a/b"), "job", &LIMITS).unwrap_err();
        assert_eq!(why, "no group above this process hands on the memory and pids controllers");
    }

    #[test]
    fn the_mount_of_version_two_is_told_from_that_of_version_one() {
        let text = "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                    32 30 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        assert_eq!(mount_point(text), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mount_point("31 30 0:27 / /x rw - cgroup cgroup rw"), None);
    }
}
