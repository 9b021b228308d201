//! Requests and their answers. An answer is published to the reply topic of the request, through any door.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use tenure_engine::Name;
use tenure_topics::{MessageId, Publish, RequestId, Requests, Sequence, Timestamp, TopicRefusal};
use tokio::sync::oneshot;

use super::publish::PublishResult;
use super::{Topics, events};

/// How many expired requests are closed before the lock is released.
const EXPIRE_MAX: usize = 1_000;

/// The answer to a request.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAnswer {
    pub id: MessageId,
    pub payload: Bytes,
    pub content_type: Option<Arc<str>>,
    pub correlation_id: Option<Arc<str>>,
    pub source: Option<Arc<str>>,
}

#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    open: Requests,
    reply_waiters: HashMap<RequestId, ReplyWaiter, RandomState>,
}

#[derive(Debug)]
struct ReplyWaiter {
    namespace: Name,
    answer: oneshot::Sender<RequestAnswer>,
}

impl OpenRequests {
    fn close(&mut self, id: RequestId) {
        self.open.close(id);
        self.reply_waiters.remove(&id);
    }

    /// Closes expired requests. Returns whether there may be more.
    pub(super) fn expire(&mut self, now: Timestamp) -> bool {
        let expired = self.open.expire(EXPIRE_MAX, now);
        for id in &expired {
            self.reply_waiters.remove(id);
        }
        expired.len() == EXPIRE_MAX
    }

    pub(super) fn drop_all(&mut self) {
        *self = OpenRequests::default();
    }
}

impl Topics {
    /// Publishes a request and waits up to `timeout` for its first answer. Refused at once if there is no
    /// subscriber.
    pub async fn request(
        &self,
        namespace: &Name,
        publish: Publish<'_>,
        timeout: Duration,
    ) -> Result<RequestAnswer, TopicRefusal> {
        events::refuse_read_only(publish.topic)?;
        if self.shared.settings.is_durable(publish.topic) {
            return Err(TopicRefusal::DurableRequest);
        }
        let space = self.space(namespace)?;
        let id = RequestId(uuid::Uuid::new_v4().as_u128());
        let (send, answered) = oneshot::channel();
        let reply_to = {
            let mut requests = self.requests();
            let reply_to = requests.open.open(id, timeout, self.now())?;
            requests.reply_waiters.insert(id, ReplyWaiter { namespace: Arc::clone(namespace), answer: send });
            reply_to
        };
        // Closes the request even if the caller drops this future.
        let _closing = Closing { topics: self, id };
        space.with(|state, now| {
            state.shard.request(publish, reply_to, timeout, now, &mut state.wake).map(drop)
        })?;
        match tokio::time::timeout(timeout, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) if self.is_stopping() => Err(TopicRefusal::Stopping),
            Ok(Err(_)) | Err(_) => Err(TopicRefusal::NoAnswer),
        }
    }

    /// Handles a message that was published to a reply topic.
    pub(super) fn answer(
        &self,
        namespace: &Name,
        publish: Publish<'_>,
    ) -> Result<PublishResult, TopicRefusal> {
        let limit = self.shared.settings.topics.payload_bytes;
        if publish.payload.len() > limit {
            return Err(TopicRefusal::PayloadTooLong { length: publish.payload.len(), limit });
        }
        let mut requests = self.requests();
        let digits = publish.topic.rsplit('.').next().unwrap_or_default();
        let asked_here = u128::from_str_radix(digits, 16)
            .ok()
            .and_then(|id| requests.reply_waiters.get(&RequestId(id)))
            .is_some_and(|asker| asker.namespace == *namespace);
        if !asked_here {
            return Err(TopicRefusal::UnknownRequest);
        }
        let id = requests.open.answer(publish.topic, self.now())?;
        let asker = requests.reply_waiters.remove(&id).ok_or(TopicRefusal::UnknownRequest)?;
        drop(requests);
        let answer = RequestAnswer {
            id: publish.id,
            payload: publish.payload,
            content_type: publish.content_type,
            correlation_id: publish.correlation_id,
            source: publish.source,
        };
        asker.answer.send(answer).map_err(|_| TopicRefusal::UnknownRequest)?;
        Ok(PublishResult { id: publish.id, sequence: Sequence::ZERO, receivers: 1, dropped: 0, blocked: 0 })
    }
}

struct Closing<'a> {
    topics: &'a Topics,
    id: RequestId,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.topics.requests().close(self.id);
    }
}
