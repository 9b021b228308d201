//! The requests of one connection that are not answered yet, and since when there is none.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

use crate::reply::HttpBody;

/// Counts the open requests of one connection.
#[derive(Clone, Debug)]
pub(super) struct RequestActivity(Arc<Mutex<Counted>>);

#[derive(Debug)]
struct Counted {
    open: usize,
    /// When the last of them ended.
    idle_since: Instant,
}

impl Counted {
    /// When to look next whether there was no request for this long.
    fn due(&self, now: Instant, limit: Duration) -> Instant {
        if self.open == 0 { self.idle_since + limit } else { now + limit }
    }
}

impl RequestActivity {
    pub(super) fn new() -> RequestActivity {
        RequestActivity(Arc::new(Mutex::new(Counted { open: 0, idle_since: Instant::now() })))
    }

    /// Counts one more, until it is dropped.
    pub(super) fn begin(&self) -> ActiveRequest {
        self.lock().open += 1;
        ActiveRequest(self.clone())
    }

    /// Resolves once there was no request for this long.
    pub(super) async fn none_for(&self, limit: Duration) {
        loop {
            let now = Instant::now();
            let due = self.lock().due(now, limit);
            if due <= now {
                return;
            }
            sleep_until(due).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        // No statement leaves the numbers inconsistent, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open request.
#[derive(Debug)]
pub(super) struct ActiveRequest(RequestActivity);

impl ActiveRequest {
    /// The answer: the request is open until the server has taken the last of it.
    pub(super) fn answered(self, body: HttpBody) -> ActiveBody {
        ActiveBody { body, _request: self }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut counted = self.0.lock();
        counted.open -= 1;
        counted.idle_since = Instant::now();
    }
}

/// The body of an answer.
pub(super) struct ActiveBody {
    body: HttpBody,
    _request: ActiveRequest,
}

impl Body for ActiveBody {
    type Data = Bytes;
    type Error = <HttpBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_idle_after_its_last_request() {
        let limit = Duration::from_secs(75);
        let activity = RequestActivity::new();
        let (one, other) = (activity.begin(), activity.begin());
        drop(one);
        let later = Instant::now() + 10 * limit;
        assert_eq!(activity.lock().due(later, limit), later + limit, "one is still open");
        let before = Instant::now();
        drop(other);
        let due = activity.lock().due(later, limit);
        assert!(due >= before + limit && due < later);
        activity.none_for(Duration::ZERO).await;
    }
}
