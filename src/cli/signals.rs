//! SIGINT and SIGTERM. The first ends the run in good order; the second ends the program at once.
//! Its main type is [`Signals`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::exit::Code;

/// Listens for signals.
#[derive(Debug)]
pub(crate) struct Signals {
    cancel: Arc<watch::Sender<bool>>,
    /// The exit code that the first signal asks for; 0 before there was one.
    code: Arc<AtomicU8>,
}

impl Signals {
    /// Starts to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        let (cancel, _) = watch::channel(false);
        let signals = Self { cancel: Arc::new(cancel), code: Arc::new(AtomicU8::new(0)) };
        for (kind, code) in [(SignalKind::interrupt(), Code::Interrupted), (SignalKind::terminate(), Code::Terminated)]
        {
            let mut arrived = signal(kind)?;
            let (cancel, known) = (Arc::clone(&signals.cancel), Arc::clone(&signals.code));
            tokio::spawn(async move {
                while arrived.recv().await.is_some() {
                    let first = known.compare_exchange(0, code.number(), Ordering::SeqCst, Ordering::SeqCst).is_ok();
                    if !first {
                        // Containers that are left are what `ctk-matrix gc` is for.
                        std::process::exit(code.number().into());
                    }
                    cancel.send_replace(true);
                }
            });
        }
        Ok(signals)
    }

    /// Becomes true when the run is to end.
    #[must_use]
    pub(crate) fn cancelled(&self) -> watch::Receiver<bool> {
        self.cancel.subscribe()
    }

    /// Ends the run without a signal.
    pub(crate) fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    /// The exit code that a signal asked for.
    #[must_use]
    pub(crate) fn code(&self) -> Option<Code> {
        let number = self.code.load(Ordering::SeqCst);
        [Code::Interrupted, Code::Terminated].into_iter().find(|code| code.number() == number)
    }
}
