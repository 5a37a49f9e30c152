//! Signals as something to wait for: a death of a child or a wish to end makes a pipe readable.
//! Its main type is [`Signals`]. As PID 1 of a container a process gets no default action, so the wish must be caught.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};

use super::error::BenchError;

/// SIGCHLD, SIGTERM and SIGINT of this process.
pub(super) struct Signals {
    wake: UnixStream,
    end: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches the signals from now on.
    pub(super) fn catch() -> Result<Self, BenchError> {
        let failed = |source| BenchError::System { what: "signals cannot be caught", source };
        let (wake, write) = UnixStream::pair().map_err(failed)?;
        wake.set_nonblocking(true).map_err(failed)?;
        let end = Arc::new(AtomicUsize::new(0));
        for signal in [SIGTERM, SIGINT] {
            let number = usize::try_from(signal).unwrap_or_default();
            // First the flag, then the pipe: whoever is woken sees the flag.
            signal_hook::flag::register_usize(signal, Arc::clone(&end), number).map_err(failed)?;
        }
        for signal in [SIGTERM, SIGINT, SIGCHLD] {
            let write = write.try_clone().map_err(failed)?;
            signal_hook::low_level::pipe::register(signal, write).map_err(failed)?;
        }
        Ok(Self { wake, end })
    }

    /// The signal that asks this process to end, once there was one.
    pub(super) fn end(&self) -> Option<u8> {
        u8::try_from(self.end.load(Ordering::SeqCst)).ok().filter(|signal| *signal != 0)
    }

    /// Takes what made the pipe readable.
    pub(super) fn clear(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.wake.read(&mut bytes), Ok(1..)) {}
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// The name of a signal number of Linux.
pub(super) fn name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    let known = usize::try_from(signal).ok().and_then(|number| NAMES.get(number.checked_sub(1)?));
    known.map_or_else(|| format!("SIG{signal}"), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn signals_have_their_names() {
        let names: Vec<_> = [4, 6, 9, 11, 15, 31, 34, 0].map(name).into_iter().collect();
        assert_eq!(names, ["SIGILL", "SIGABRT", "SIGKILL", "SIGSEGV", "SIGTERM", "SIGSYS", "SIG34", "SIG0"]);
    }
}
