//! A subscriber's stream: messages from its queue, heartbeats while there are none, and its end.
//!
//! Nothing is taken before the connection has room for it, so a slow subscriber fills only its own queue. Messages
//! that were taken and could not be sent are given back, and count as missed.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream};
use tenure_hub::topics::{Delivery, Ended, Resumed, SubscriptionHandle, SubscriptionInfo};
use tenure_hub::wall_clock;
use tokio_util::sync::ReusableBoxFuture;
use tonic::Status;

use crate::codec::EncodedEvent;
use crate::translate;

/// How many messages are taken at a time.
const BATCH_MESSAGES: usize = 256;
const BATCH_BYTES: usize = 64 << 10;

pub(crate) struct Listening {
    first: Option<EncodedEvent>,
    /// Taken, not yet sent.
    taken: VecDeque<Delivery>,
    /// Here while messages are taken, inside the wait while there are none, and `None` once the stream is over.
    subscription: Option<SubscriptionHandle>,
    wait: ReusableBoxFuture<'static, Waited>,
    heartbeat: Duration,
    /// Resolves when the subscriber's key is revoked.
    revoked: BoxFuture<'static, ()>,
    is_over: bool,
}

struct Waited {
    subscription: SubscriptionHandle,
    taken: VecDeque<Delivery>,
    /// Nothing has come for so long that a heartbeat is due.
    is_idle: bool,
    ended: Option<Ended>,
}

impl Listening {
    pub(crate) fn begin(
        subscription: SubscriptionHandle,
        info: &SubscriptionInfo,
        heartbeat: Duration,
    ) -> Listening {
        let first = translate::info(info, now_millis());
        Listening::new(subscription, first, heartbeat)
    }

    pub(crate) fn resume(
        subscription: SubscriptionHandle,
        resumed: &Resumed,
        replays: bool,
        heartbeat: Duration,
    ) -> Listening {
        let first = translate::resumed(subscription.id().as_str(), resumed, replays, now_millis());
        Listening::new(subscription, first, heartbeat)
    }

    fn new(subscription: SubscriptionHandle, first: EncodedEvent, heartbeat: Duration) -> Listening {
        Listening {
            first: Some(first),
            taken: VecDeque::new(),
            subscription: Some(subscription),
            wait: ReusableBoxFuture::new(std::future::pending()),
            heartbeat,
            revoked: std::future::pending().boxed(),
            is_over: false,
        }
    }

    /// The stream ends when this is ready.
    pub(crate) fn until(mut self, revoked: BoxFuture<'static, ()>) -> Listening {
        self.revoked = revoked;
        self
    }
}

impl Stream for Listening {
    type Item = Result<EncodedEvent, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        loop {
            if this.is_over {
                return Poll::Ready(None);
            }
            if this.revoked.as_mut().poll(cx).is_ready() {
                this.is_over = true;
                return Poll::Ready(Some(Err(translate::unknown_key())));
            }
            if let Some(subscription) = &this.subscription
                && let Some(delivery) = this.taken.pop_front()
            {
                return Poll::Ready(Some(Ok(translate::delivery(&delivery, subscription.id()))));
            }
            if let Some(subscription) = this.subscription.take() {
                this.wait.set(wait(subscription, std::mem::take(&mut this.taken), this.heartbeat));
            }
            let waited = ready!(this.wait.poll(cx));
            this.taken = waited.taken;
            if let Some(ended) = waited.ended {
                this.is_over = true;
                return Poll::Ready(translate::ended(ended).map(Err));
            }
            this.subscription = Some(waited.subscription);
            if waited.is_idle {
                return Poll::Ready(Some(Ok(translate::heartbeat(now_millis()))));
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(subscription) = &mut self.subscription
            && !self.taken.is_empty()
        {
            subscription.put_back(std::mem::take(&mut self.taken).into());
        }
    }
}

async fn wait(mut subscription: SubscriptionHandle, room: VecDeque<Delivery>, heartbeat: Duration) -> Waited {
    let mut taken = Vec::from(room);
    let take = subscription.take(BATCH_MESSAGES, BATCH_BYTES, &mut taken);
    let (is_idle, ended) = match tokio::time::timeout(heartbeat, take).await {
        Ok(Ok(())) => (false, None),
        Ok(Err(ended)) => (false, Some(ended)),
        Err(_) => (true, None),
    };
    Waited { subscription, taken: taken.into(), is_idle, ended }
}

/// The timestamp of the stream's events.
fn now_millis() -> i64 {
    i64::try_from(wall_clock().millis()).unwrap_or(i64::MAX)
}
