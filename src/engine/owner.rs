//! Who started a container, so that orphans can be told from the containers of a living run.
//! Its main type is [`Owner`], which is written into a label, and into the names of temporary folders.

use std::fmt;
use std::fs;
use std::str::FromStr;

/// A process, told apart from every other one that had or will have its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pid: u32,
    /// When it started, in clock ticks since the boot: field 22 of `/proc/PID/stat`.
    ticks: u64,
    boot: String,
    /// The PID namespace. In another one, numbers mean other processes.
    namespace: String,
}

/// What became of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It runs.
    Living,
    /// It does not.
    Gone,
    /// It cannot be seen from here.
    Unknown,
}

impl Owner {
    /// This process. Without a readable `/proc` there is no owner, and `gc` leaves such a container alone.
    pub(crate) fn this_process() -> Option<Self> {
        let pid = std::process::id();
        Some(Self { pid, ticks: start_ticks(pid)?, boot: boot_id()?, namespace: namespace()? })
    }

    /// As a part of a file's name.
    pub(crate) fn in_a_name(&self) -> String {
        let namespace: String = self.namespace.chars().filter(char::is_ascii_digit).collect();
        format!("{}.{}.{}.{namespace}", self.pid, self.ticks, self.boot)
    }

    /// Reads [`Owner::in_a_name`] back.
    pub(crate) fn from_a_name(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split('.').collect();
        let [pid, ticks, boot, namespace] = fields[..] else { return None };
        format!("{pid} {ticks} {boot} pid:[{namespace}]").parse().ok()
    }

    /// Whether it still runs.
    pub(crate) fn life(&self) -> Life {
        match (boot_id(), namespace()) {
            (Some(boot), _) if boot != self.boot => Life::Gone,
            (Some(_), Some(namespace)) if namespace == self.namespace => {
                if start_ticks(self.pid) == Some(self.ticks) {
                    Life::Living
                } else {
                    Life::Gone
                }
            }
            _ => Life::Unknown,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.pid, self.ticks, self.boot, self.namespace)
    }
}

impl FromStr for Owner {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [pid, ticks, boot, namespace] = fields[..] else { return Err(()) };
        Ok(Self {
            pid: pid.parse().map_err(|_| ())?,
            ticks: ticks.parse().map_err(|_| ())?,
            boot: boot.into(),
            namespace: namespace.into(),
        })
    }
}

fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, and may hold spaces and parentheses of its own.
    let rest = &stat[stat.rfind(')')? + 1..];
    rest.split_whitespace().nth(22 - 3)?.parse().ok()
}

fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

fn namespace() -> Option<String> {
    Some(fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_reads_back_from_its_label() {
        let owner = Owner::this_process().unwrap();
        assert_eq!(owner.life(), Life::Living);
        assert_eq!(owner.to_string().parse(), Ok(owner.clone()));
        assert_eq!(Owner::from_a_name(&owner.in_a_name()), Some(owner));
    }

    #[test]
    fn another_start_time_or_boot_is_gone_and_another_namespace_is_not_judged() {
        let owner = Owner::this_process().unwrap();
        let changed = |change: fn(&mut Owner)| {
            let mut owner = owner.clone();
            change(&mut owner);
            owner.life()
        };
        assert_eq!(changed(|owner| owner.ticks += 1), Life::Gone);
        assert_eq!(changed(|owner| owner.boot = "another".into()), Life::Gone);
        assert_eq!(changed(|owner| owner.namespace = "pid:[1]".into()), Life::Unknown);
        assert_eq!("1 2 boot".parse::<Owner>(), Err(()));
    }
}
