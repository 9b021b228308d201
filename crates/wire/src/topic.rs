//! Topics: messages to publish and as received, subscriptions, requests with answers, and figures.

use bytes::{Bytes, BytesMut};

use crate::Name;
use crate::error::{Problem, ValueFault};
use crate::id::TaskId;
use crate::reader::Reader;
use crate::schema::{message, row, words};
use crate::time::Timestamp;
use crate::verdict::Verdict;
use crate::{Field, envelope, pack};

/// Identifies a message everywhere: a UUID, like a task's.
pub type MessageId = TaskId;

words! {
    /// How the broker treats a message when a subscriber's queue is full.
    pub enum Policy {
        DropOldest = "drop-oldest",
        DropNewest = "drop-newest",
        /// The publisher waits, for a while.
        Block = "block",
    }
}

words! {
    /// The messages that a returning subscriber receives first.
    pub enum Recovery {
        /// Nothing: it continues with new messages.
        None = "none",
        /// The retained values.
        Retained = "retained",
        /// All missed messages that are still kept.
        Replay = "replay",
    }
}

words! {
    /// Why a message is delivered.
    pub enum MessageKind {
        Live = "live",
        Retained = "retained",
        Replay = "replay",
    }
}

words! {
    /// Why messages are not delivered.
    pub enum GapReason {
        /// They are no longer kept.
        NotKept = "not-kept",
        /// The subscription's queue was full.
        QueueFull = "queue-full",
        /// The broker restarted, and the topic is not durable.
        Restarted = "restarted",
        /// The broker restarted after a crash. Some or all of the sequences may never have been used.
        Crashed = "crashed",
    }
}

words! {
    /// Why slow subscriber.
    pub enum WarningReason {
        SlowConsumer = "slow_consumer",
        Burst = "burst",
        TtlExpired = "ttl_expired",
    }
}

words! {
    /// Why no more messages come.
    pub enum EndedWhy {
        /// Another connection has taken the subscription over.
        TakenOver = "taken-over",
        Unsubscribed = "unsubscribed",
        Paused = "paused",
        /// The broker stops.
        Stopping = "stopping",
    }
}

message! {
    /// Messages to publish, in this order.
    #[derive(Default)]
    pub struct Publish {
        messages: Vec<NewMessage>,
    }
}

row! {
    /// A message to publish.
    pub struct NewMessage {
        topic: Name,
        payload: Bytes,
        /// Becomes the retained value of its topic. An empty payload clears that value.
        retain: bool,
        /// How long it may be delivered. Absent: the broker's setting.
        ttl_ms: Option<u64>,
        content_type: Option<Name>,
        correlation: Option<Name>,
        /// Default: the peer's identity.
        source: Option<Name>,
        /// Default: chosen by the broker.
        id: Option<MessageId>,
    }
}

impl NewMessage {
    /// A message with default options.
    pub fn new(topic: impl Into<Name>, payload: impl Into<Bytes>) -> NewMessage {
        NewMessage {
            topic: topic.into(),
            payload: payload.into(),
            retain: false,
            ttl_ms: None,
            content_type: None,
            correlation: None,
            source: None,
            id: None,
        }
    }
}

message! {
    /// One entry for each message of a publish, in order.
    #[derive(Default)]
    pub struct PublishedReply {
        messages: Vec<Verdict<Published>>,
    }
}

row! {
    /// The outcome for one message.
    pub struct Published {
        /// Its sequence in its topic. An answer to a request has none.
        sequence: u64,
        /// Subscribers that get it.
        receivers: u32,
        /// Subscribers whose queue dropped a message for it, or the message itself.
        dropped: u32,
        /// Subscribers that the publisher waited for.
        blocked: u32,
        id: Option<MessageId>,
    }
}

message! {
    /// Receive messages of these topics from now on.
    #[derive(Default)]
    pub struct Subscribe {
        /// Names and patterns. A returning subscriber may leave them out.
        topics: Vec<Name>,
        /// Default: chosen by the broker.
        id: Option<Name>,
        /// Share the messages with the other members of this group.
        group: Option<Name>,
        /// Start with the retained values.
        retained: bool,
        /// How many messages may wait; 0 is the broker's limit.
        queue: u32,
        policy: Option<Policy>,
        /// Resume the subscription of this id, whichever connection had it; create it if it is unknown.
        recovery: Option<Recovery>,
        /// The last sequence seen of each topic.
        last_seen: Vec<LastSeen>,
        /// The last sequence seen, for subscribers that store only one.
        last: Option<u64>,
    }
}

row! {
    /// The last message of a topic that a subscriber has seen.
    pub struct LastSeen {
        topic: Name,
        sequence: u64,
    }
}

message! {
    /// The subscription is active; messages follow under the number of the request.
    pub struct Subscribed {
        id: Name,
        topics: Vec<Name>,
        /// The subscription is new.
        created: bool,
        /// Another connection had it, and has lost it to this one.
        took_over: bool,
        /// How many messages were published that the subscriber did not get; absent if unknown.
        missed: Option<u64>,
        /// How many of these are no longer kept.
        lost: u64,
        /// Even more may be lost.
        unsure: bool,
        /// Messages may be lost because the broker restarted.
        restarted: bool,
        /// A replay follows.
        replays: bool,
    }
}

message! {
    /// A subscription, by the number of the request that opened it on this connection, or by its id.
    #[derive(Default)]
    pub struct OneSubscription {
        number: Option<u64>,
        id: Option<Name>,
    }
}

message! {
    /// The messages that the subscriber has read, so that the broker need not send them again. Names the subscription by
    /// the number of the request that opened it on this connection, or by its id.
    #[derive(Default)]
    pub struct Acknowledge {
        number: Option<u64>,
        id: Option<Name>,
        /// The last sequence read of each topic.
        last_seen: Vec<LastSeen>,
    }
}

message! {
    /// The subscription is paused.
    pub struct SubscriptionPaused {
        /// How long the broker keeps it.
        kept_ms: u64,
    }
}

message! {
    /// A message that expects an answer.
    pub struct TopicRequest {
        topic: Name,
        payload: Bytes,
        timeout_ms: u64 = 5_000,
        content_type: Option<Name>,
        correlation: Option<Name>,
        source: Option<Name>,
    }
}

message! {
    /// The first answer.
    pub struct TopicAnswer {
        payload: Bytes,
        content_type: Option<Name>,
        correlation: Option<Name>,
        source: Option<Name>,
        id: Option<MessageId>,
    }
}

message! {
    /// Messages that arrived together.
    pub struct MessageBatch {
        /// The number of the request that opened the subscription.
        subscription: u64,
        kind: MessageKind = MessageKind::Live,
        messages: Vec<Message>,
    }
}

row! {
    /// A message as a subscriber receives it.
    pub struct Message {
        topic: Name,
        sequence: u64,
        payload: Bytes,
        published_at: Timestamp,
        id: Option<MessageId>,
        source: Option<Name>,
        content_type: Option<Name>,
        correlation: Option<Name>,
        /// Where to publish the answer, if this is a request.
        reply_to: Option<Name>,
    }
}

impl Message {
    /// The encoded message, created once for all its subscribers.
    pub fn row(&self) -> Bytes {
        let mut row = BytesMut::with_capacity(self.payload.len() + self.topic.len() + 96);
        self.pack(&mut row);
        row.freeze()
    }
}

/// Adds a frame of messages, each given as its [`Message::row`].
pub fn encode_messages<'a>(
    out: &mut BytesMut,
    subscription: u64,
    kind: &MessageKind,
    rows: impl ExactSizeIterator<Item = &'a [u8]>,
) {
    envelope::encode(out, envelope::NO_NUMBER, "messages", |out| {
        let is_live = *kind == MessageKind::Live;
        pack::map(out, if is_live { 2 } else { 3 });
        pack::text(out, "subscription");
        subscription.pack(out);
        if !is_live {
            pack::text(out, "kind");
            kind.pack(out);
        }
        pack::text(out, "messages");
        pack::array(out, rows.len());
        rows.for_each(|row| out.extend_from_slice(row));
    });
}

/// Reads topic, sequence and payload of each message in a frame and skips the rest, for latency-critical subscribers.
/// Returns whether it is a frame of messages.
pub fn look_at_messages<'a>(
    frame: &'a Bytes,
    mut each: impl FnMut(&'a str, u64, &'a [u8]),
) -> Result<bool, Problem> {
    let mut reader = Reader::new(frame);
    if reader.array()? != 3 || reader.unsigned()? != envelope::NO_NUMBER || reader.text()? != "messages" {
        return Ok(false);
    }
    for _ in 0..reader.map()? {
        if reader.text()? != "messages" {
            reader.skip()?;
            continue;
        }
        for _ in 0..reader.array()? {
            let values = reader.array()?;
            if values < 3 {
                return Err(ValueFault::Missing.into());
            }
            each(reader.text()?, reader.unsigned()?, reader.borrowed_bytes()?);
            for _ in 3..values {
                reader.skip()?;
            }
        }
    }
    Ok(true)
}

message! {
    /// Messages that the broker will not deliver: they are no longer kept, or a full queue dropped them.
    pub struct TopicGap {
        subscription: u64,
        topic: Name,
        first_missed: u64,
        last_missed: u64,
        /// The oldest sequence that is kept, or the next one if none is kept.
        oldest_kept: u64,
        reason: Option<GapReason>,
    }
}

message! {
    /// The replay of this topic is complete; what follows is new.
    pub struct ReplayComplete {
        subscription: u64,
        topic: Name,
        replayed: u64,
        /// The last sequence of the replay.
        latest: u64,
    }
}

message! {
    /// The subscriber does not keep up.
    pub struct Warning {
        subscription: u64,
        reason: WarningReason,
        /// Since the last warning: dropped because the queue was full, and expired while they waited.
        dropped: u64,
        expired: u64,
        depth: u32,
        limit: u32,
        oldest_age_ms: u64,
    }
}

message! {
    /// The broker has ended a subscription.
    pub struct SubscriptionEnded {
        subscription: u64,
        why: EndedWhy,
    }
}

message! {
    /// A page of topics: those that match, or all.
    pub struct TopicsQuery {
        pattern: Option<Name>,
        /// From the previous page, unchanged.
        from: u64,
        limit: u32 = 100,
    }
}

message! {
    /// A page of the list of topics.
    pub struct TopicList {
        topics: Vec<TopicInfo>,
        /// Where the next page starts, if there is one. A page may be short and still have a next.
        next: Option<u64>,
    }
}

message! {
    /// One row of the list of topics.
    pub struct TopicInfo {
        topic: Name,
        /// The sequence of the latest message.
        sequence: u64,
        /// How many messages are kept, and from which sequence on.
        kept: u64,
        oldest_kept: Option<u64>,
        /// It has a retained value.
        retained: bool,
        subscribers: u64,
    }
}

message! {
    /// Asks for a page of the list of subscriptions.
    pub struct SubscriptionsQuery {
        from: u64,
        limit: u32 = 100,
    }
}

message! {
    /// A page of the list of subscriptions.
    pub struct SubscriptionList {
        subscriptions: Vec<SubscriptionInfo>,
        next: Option<u64>,
    }
}

message! {
    /// A subscription with its figures.
    pub struct SubscriptionInfo {
        id: Name,
        /// The identity of the peer that has it, or had it.
        client: Box<str>,
        topics: Vec<Name>,
        group: Option<Name>,
        policy: Policy = Policy::DropOldest,
        /// Until when the broker keeps it, if no peer has it now.
        paused_until: Option<Timestamp>,
        depth: u32,
        limit: u32,
        high_watermark: u32,
        enqueued: u64,
        delivered: u64,
        dropped_oldest: u64,
        dropped_newest: u64,
        dropped_ttl: u64,
        dropped_disconnect: u64,
        blocked_ms: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FromBroker, Notice, decode_from_broker, encode_notice};

    fn message(sequence: u64) -> Message {
        Message {
            topic: "sensor.kitchen".into(),
            sequence,
            payload: Bytes::from_static(b"21.5"),
            published_at: Timestamp(7),
            id: Some(TaskId([9; 16])),
            source: None,
            content_type: Some("text/plain".into()),
            correlation: None,
            reply_to: None,
        }
    }

    #[test]
    fn rows_that_were_made_once_are_the_same_on_the_wire() {
        let messages = vec![message(1), message(300)];
        let rows: Vec<Bytes> = messages.iter().map(Message::row).collect();
        for kind in MessageKind::KNOWN {
            let notice = Notice::Messages(MessageBatch {
                subscription: 70_000,
                kind: kind.clone(),
                messages: messages.clone(),
            });
            let (mut plain, mut from_rows) = (BytesMut::new(), BytesMut::new());
            encode_notice(&mut plain, &notice);
            encode_messages(&mut from_rows, 70_000, kind, rows.iter().map(|row| &row[..]));
            assert_eq!(plain, from_rows, "{kind}");
            let (frame, mut seen) = (from_rows.freeze().slice(4..), Vec::new());
            let looked = look_at_messages(&frame, |topic, sequence, payload| {
                seen.push((topic.to_owned(), sequence, payload.to_vec()));
            });
            assert_eq!((looked, seen.len()), (Ok(true), 2));
            assert_eq!(seen[1], ("sensor.kitchen".to_owned(), 300, b"21.5".to_vec()));
            assert_eq!(decode_from_broker(&plain.freeze().slice(4..)), Ok(FromBroker::Notice(notice)));
        }
    }
}
