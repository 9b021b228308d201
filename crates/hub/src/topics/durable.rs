//! Publishes to durable topics: a message is written and synced before subscribers get it, many with one
//! sync.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tenure_topics::{MessageId, Publish, SavedMessage, Sequence, Timestamp, TopicRefusal, Ttl};
use tokio::sync::oneshot;

use super::namespace::NamespaceTopics;
use super::publish::PublishReceipt;

/// How many bytes of durable messages may wait for the disk, each counted with [`OVERHEAD_BYTES`].
const WAITING_BYTES_MAX: usize = 64 << 20;
const OVERHEAD_BYTES: usize = 256;

/// A message that waits for the disk.
#[derive(Debug)]
pub(super) struct PendingPublish {
    pub(super) space: Arc<NamespaceTopics>,
    topic: Arc<str>,
    id: MessageId,
    payload: Bytes,
    content_type: Option<Arc<str>>,
    correlation_id: Option<Arc<str>>,
    source: Option<Arc<str>>,
    ttl: Ttl,
    retain: bool,
    room: Room,
    pub(super) reply: oneshot::Sender<Result<PublishReceipt, TopicRefusal>>,
}

/// The bytes of messages that wait for the disk.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsyncedBytes(Arc<AtomicUsize>);

/// A share of that limit, released on drop.
#[derive(Debug)]
struct Room {
    waiting: UnsyncedBytes,
    bytes: usize,
}

impl UnsyncedBytes {
    fn take(&self, bytes: usize) -> Result<Room, TopicRefusal> {
        let room = Room { waiting: self.clone(), bytes };
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        if before > 0 && before + bytes > WAITING_BYTES_MAX {
            Err(TopicRefusal::NotWritten)
        } else {
            Ok(room)
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.waiting.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl PendingPublish {
    pub(super) fn new(
        space: &Arc<NamespaceTopics>,
        publish: Publish<'_>,
        waiting: &UnsyncedBytes,
    ) -> Result<(PendingPublish, oneshot::Receiver<Result<PublishReceipt, TopicRefusal>>), TopicRefusal> {
        let room = waiting.take(publish.payload.len() + OVERHEAD_BYTES)?;
        let (reply, replied) = oneshot::channel();
        let pending = PendingPublish {
            space: Arc::clone(space),
            topic: Arc::from(publish.topic),
            id: publish.id,
            payload: publish.payload,
            content_type: publish.content_type,
            correlation_id: publish.correlation_id,
            source: publish.source,
            ttl: publish.ttl,
            retain: publish.retain,
            room,
            reply,
        };
        Ok((pending, replied))
    }

    pub(super) fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    pub(super) fn bytes(&self) -> usize {
        self.room.bytes
    }

    pub(super) fn publish(&self) -> Publish<'_> {
        Publish {
            topic: &self.topic,
            id: self.id,
            payload: self.payload.clone(),
            content_type: self.content_type.clone(),
            correlation_id: self.correlation_id.clone(),
            source: self.source.clone(),
            ttl: self.ttl,
            retain: self.retain,
        }
    }

    pub(super) fn saved(
        &self,
        sequence: Sequence,
        published_at: Timestamp,
        expires_at: Timestamp,
        place: u64,
    ) -> SavedMessage {
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        SavedMessage {
            sequence,
            id: self.id,
            published_at,
            expires_at,
            payload: self.payload.clone(),
            content_type: text(&self.content_type),
            correlation_id: text(&self.correlation_id),
            source: text(&self.source),
            retain: self.retain,
            place,
        }
    }
}
