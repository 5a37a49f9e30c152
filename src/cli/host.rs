//! What this machine and this call are: facts for the head of a report.

use std::process::Command;

use jiff::Timestamp;

use crate::model::record::Host;
use crate::run::nonce;

/// Now, RFC 3339 in UTC, to the second.
pub(crate) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The name of a run's folder: its start in UTC.
pub(crate) fn folder_name() -> String {
    Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// A run's id: it sorts by time, and nobody can guess it.
pub(crate) fn run_id() -> String {
    format!("{}-{}", folder_name(), &nonce::random()[..8])
}

/// The command line, quoted so that it can be pasted.
pub(crate) fn command_line() -> String {
    let quote = |argument: String| {
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
        if !argument.is_empty() && argument.chars().all(plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    };
    let arguments = std::env::args_os().skip(1).map(|argument| quote(argument.to_string_lossy().into_owned()));
    std::iter::once("ctk-matrix".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// The first GPU of `CUDA_VISIBLE_DEVICES`.
pub(crate) fn visible_device() -> Option<String> {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok()?;
    let first = visible.split(',').next()?.trim();
    (!first.is_empty()).then(|| first.to_owned())
}

/// The machine, without its name.
pub(crate) fn host() -> Host {
    let system = rustix::system::uname();
    Host {
        os: std::env::consts::OS.into(),
        arch: std::env::consts::ARCH.into(),
        glibc: glibc(),
        kernel: system.release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(0, Into::into),
    }
}

/// `getconf` belongs to the C library, and tells its version without a call into it.
fn glibc() -> Option<String> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix("glibc ").map(ToOwned::to_owned)
}
