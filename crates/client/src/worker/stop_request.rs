//! Tells a handler that a client wants its task paused, and that it may stop in place.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// One handler's request to stop in place. It stands until a client resumes the task.
#[derive(Debug, Default)]
pub(crate) struct StopRequest {
    stands: AtomicBool,
    awaiting: Notify,
}

impl StopRequest {
    pub(crate) fn raise(&self) {
        self.stands.store(true, Ordering::Release);
        self.awaiting.notify_waiters();
    }

    /// A client has resumed the task.
    pub(crate) fn clear(&self) {
        self.stands.store(false, Ordering::Release);
    }

    pub(crate) fn stands(&self) -> bool {
        self.stands.load(Ordering::Acquire)
    }

    pub(crate) async fn wanted(&self) {
        loop {
            let mut notified = std::pin::pin!(self.awaiting.notified());
            // Enabled before the check, so that no request in between is missed.
            notified.as_mut().enable();
            if self.stands() {
                return;
            }
            notified.await;
        }
    }
}
