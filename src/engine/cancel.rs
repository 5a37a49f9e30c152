//! When a job is to be ended early. Its main type is [`Cancel`].
//!
//! A job runs as a task of its own ([`to_its_end`]), so that it removes what it made even if the future that waits for
//! it is dropped: an async clean-up cannot run in a destructor.

use std::future::{Future, pending};

use tokio::sync::watch;

use super::job::EngineError;

/// Tells when a job is to be ended early.
pub(crate) struct Cancel {
    asked: watch::Receiver<bool>,
    dropped: watch::Receiver<()>,
}

impl Cancel {
    /// Whether it is to be ended now.
    pub(crate) fn is_cancelled(&self) -> bool {
        *self.asked.borrow() || self.dropped.has_changed().is_err()
    }

    /// Returns when the user interrupts, or when nobody waits for the job any more. Can be awaited again.
    pub(crate) async fn cancelled(&mut self) {
        let asked = async {
            // A sender that is gone will not ask any more.
            if self.asked.wait_for(|asked| *asked).await.is_err() {
                pending::<()>().await;
            }
        };
        let dropped = async { while self.dropped.changed().await.is_ok() {} };
        tokio::select! {
            () = asked => (),
            () = dropped => (),
        }
    }
}

/// Runs `job` as a task until its own end. When the returned future is dropped, the job is cancelled and goes on to
/// clean up.
pub(crate) async fn to_its_end<T, F>(
    asked: watch::Receiver<bool>,
    job: impl FnOnce(Cancel) -> F,
) -> Result<T, EngineError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, EngineError>> + Send + 'static,
{
    let (waits, dropped) = watch::channel(());
    let end = tokio::spawn(job(Cancel { asked, dropped })).await;
    drop(waits);
    end.unwrap_or_else(|error| Err(EngineError::Lost(format!("the job's task ended early: {error}"))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_dropped_future_cancels_its_job_which_still_cleans_up() {
        let (cleaned, clean) = oneshot::channel();
        let (_user, asked) = watch::channel(false);
        let job = to_its_end(asked, |mut cancel| async move {
            cancel.cancelled().await;
            cleaned.send(()).map_err(|()| EngineError::Lost("nobody listens".into()))
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), job).await.is_err());
        tokio::time::timeout(Duration::from_secs(5), clean).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_user_who_is_gone_never_cancels() {
        let (user, asked) = watch::channel(false);
        drop(user);
        let job = to_its_end(asked, |mut cancel| async move {
            Ok(tokio::time::timeout(Duration::from_millis(50), cancel.cancelled()).await.is_err())
        });
        assert_eq!(job.await, Ok(true));
    }
}
