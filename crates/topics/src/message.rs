//! A message: stored once, shared by the ring buffer, the retained value and every queue.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The longest content type, correlation id, source, client id or group name, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;
/// How many encodings of one message can be shared, one per protocol.
pub const ENCODINGS_MAX: usize = 4;
/// The memory of one kept message besides its texts and payload: the struct, its reference counts, and its
/// entries in the ring buffer and in the list of all kept messages.
pub const MESSAGE_OVERHEAD_BYTES: usize = size_of::<Message>() + 16 + 8 + 16;

/// The number of a message within its topic, from 1. It never decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before the first message.
    pub const ZERO: Sequence = Sequence(0);

    /// The number after this one.
    pub fn next(self) -> Sequence {
        Sequence(self.0 + 1)
    }

    /// The number before this one; zero has none.
    pub fn previous(self) -> Sequence {
        Sequence(self.0.saturating_sub(1))
    }
}

/// A globally unique message id. The caller generates it, usually as a UUID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageId(pub u128);

/// How long a message may be delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ttl {
    /// The topic's rule, else the broker's default, else without limit.
    #[default]
    Default,
    /// No limit, whatever the defaults are.
    Never,
    /// Until this long after the publish.
    After(Duration),
}

/// A message to publish.
///
/// The payload is kept as it is. A slice of a large read buffer keeps the whole buffer alive, so a door
/// copies small payloads out of its buffer before it publishes them.
#[derive(Clone, Debug)]
pub struct Publish<'a> {
    /// Where it goes.
    pub topic: &'a str,
    /// The id of the message.
    pub id: MessageId,
    /// The content.
    pub payload: Bytes,
    /// The type of the content, for subscribers.
    pub content_type: Option<Arc<str>>,
    /// A name that the publisher chooses, for subscribers.
    pub correlation_id: Option<Arc<str>>,
    /// The publisher's name, as subscribers see it.
    pub source: Option<Arc<str>>,
    /// How long it may be delivered.
    pub ttl: Ttl,
    /// Keep the message as the topic's retained value. An empty payload clears that value.
    pub retain: bool,
}

impl<'a> Publish<'a> {
    /// A message with a payload and nothing else.
    pub fn new(topic: &'a str, id: MessageId, payload: impl Into<Bytes>) -> Publish<'a> {
        Publish {
            topic,
            id,
            payload: payload.into(),
            content_type: None,
            correlation_id: None,
            source: None,
            ttl: Ttl::Default,
            retain: false,
        }
    }

    /// Keeps it as the topic's retained value.
    pub fn retained(mut self) -> Publish<'a> {
        self.retain = true;
        self
    }

    /// Limits how long it may be delivered.
    pub fn ttl(mut self, ttl: Duration) -> Publish<'a> {
        self.ttl = Ttl::After(ttl);
        self
    }

    /// The message's size for all limits, see [`Message::cost`].
    pub(crate) fn cost(&self) -> usize {
        let length = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let texts = length(&self.content_type) + length(&self.correlation_id) + length(&self.source);
        MESSAGE_OVERHEAD_BYTES + self.payload.len() + texts
    }
}

/// One published message.
#[derive(Debug)]
pub struct Message {
    /// Where it was published.
    pub topic: Arc<str>,
    /// Its number within the topic.
    pub sequence: Sequence,
    /// Its id.
    pub id: MessageId,
    /// When it was published.
    pub published_at: Timestamp,
    /// [`Timestamp::NEVER`] if it does not expire.
    pub expires_at: Timestamp,
    /// The content.
    pub payload: Bytes,
    /// The type of the content.
    pub content_type: Option<Arc<str>>,
    /// The name that the publisher chose.
    pub correlation_id: Option<Arc<str>>,
    /// The name of the publisher.
    pub source: Option<Arc<str>>,
    /// The reply topic, if this is a request.
    pub reply_to: Option<Arc<str>>,
    /// Its order number among all messages of the shard.
    pub(crate) order: u64,
    cost: usize,
    encodings: OnceLock<Box<Encodings>>,
}

impl Message {
    pub(crate) fn new(publish: Publish<'_>, stamp: Stamp) -> Message {
        let cost = publish.cost() + stamp.reply_to.as_ref().map_or(0, |text| text.len());
        Message {
            topic: stamp.topic,
            sequence: stamp.sequence,
            id: publish.id,
            published_at: stamp.published_at,
            expires_at: stamp.expires_at,
            payload: publish.payload,
            content_type: publish.content_type,
            correlation_id: publish.correlation_id,
            source: publish.source,
            reply_to: stamp.reply_to,
            order: stamp.order,
            cost,
            encodings: OnceLock::new(),
        }
    }

    /// A message with a number from outside: for a runtime that has messages from another source.
    pub fn numbered(publish: Publish<'_>, sequence: Sequence, published_at: Timestamp) -> Message {
        let stamp = Stamp {
            topic: Arc::from(publish.topic),
            sequence,
            published_at,
            expires_at: Timestamp::NEVER,
            reply_to: None,
            order: 0,
        };
        Message::new(publish, stamp)
    }

    /// An expired message is never delivered, replayed or retained.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// Its size for all limits. Shared encodings are not counted.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// The message in a protocol's own bytes: the first caller encodes it, the others share the result.
    ///
    /// `protocol` is a number below [`ENCODINGS_MAX`] that the runtime assigns to each door.
    pub fn encoded(&self, protocol: usize, encode: impl FnOnce(&Message) -> Bytes) -> Bytes {
        let encodings = self.encodings.get_or_init(Box::default);
        encodings[protocol].get_or_init(|| encode(self)).clone()
    }
}

type Encodings = [OnceLock<Bytes>; ENCODINGS_MAX];

/// The fields that the shard adds to a published message.
pub(crate) struct Stamp {
    pub(crate) topic: Arc<str>,
    pub(crate) sequence: Sequence,
    pub(crate) published_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) reply_to: Option<Arc<str>>,
    pub(crate) order: u64,
}

#[cfg(test)]
impl Message {
    /// A message of topic `a` with the same number in its topic and in its shard.
    pub(crate) fn sample(number: u64, expires_at: Timestamp, payload: &'static [u8]) -> Message {
        let stamp = Stamp {
            topic: Arc::from("a"),
            sequence: Sequence(number),
            published_at: Timestamp(0),
            expires_at,
            reply_to: None,
            order: number,
        };
        Message::new(Publish::new("a", MessageId(1), payload), stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &'static [u8]) -> Message {
        Message::sample(1, Timestamp(10), payload)
    }

    #[test]
    fn a_message_expires_at_the_very_millisecond() {
        assert!(!message(b"x").is_expired(Timestamp(9)));
        assert!(message(b"x").is_expired(Timestamp(10)));
    }

    #[test]
    fn a_message_is_encoded_once_per_protocol() {
        let message = message(b"x");
        let first = message.encoded(0, |_| Bytes::from_static(b"first"));
        let again = message.encoded(0, |_| panic!("encoded twice"));
        let other = message.encoded(1, |_| Bytes::from_static(b"other"));
        assert_eq!((&first[..], &again[..], &other[..]), (&b"first"[..], &b"first"[..], &b"other"[..]));
    }

    #[test]
    fn the_cost_of_a_message_counts_its_payload_and_itself() {
        assert_eq!(message(b"12345").cost(), MESSAGE_OVERHEAD_BYTES + 5);
    }
}
