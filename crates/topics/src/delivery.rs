//! Deliveries to a subscriber: messages, and reports about messages that it does not get.

use std::sync::Arc;
use std::time::Duration;

use crate::message::{Message, Sequence};

/// One item of a subscriber's stream, in sending order.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// A message.
    Message {
        /// Why it is delivered.
        kind: DeliveryKind,
        /// The message.
        message: Arc<Message>,
    },
    /// Messages are missing.
    Gap(Box<Gap>),
    /// The replay of a topic has ended.
    ReplayComplete(Box<ReplayComplete>),
    /// The subscriber does not keep up.
    Warning(Box<Warning>),
}

/// Why a message is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryKind {
    /// Published while the subscriber was connected.
    Live,
    /// The retained value of its topic.
    Retained,
    /// Published while the subscriber was away.
    Replay,
}

/// Messages that the subscriber will not get: they are no longer kept, or a full queue dropped them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The topic.
    pub topic: Arc<str>,
    /// The first number that is missing.
    pub first_missed: Sequence,
    /// The last number that is missing.
    pub last_missed: Sequence,
    /// The next number that is kept, or the next to be assigned if nothing is kept.
    pub oldest_kept: Sequence,
    /// Why they are missing.
    pub reason: GapReason,
}

/// Why messages are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// The ring buffer has evicted them.
    NotKept,
    /// The subscriber's queue was full.
    QueueFull,
    /// The broker restarted, and the topic is not durable.
    Restarted,
    /// The broker restarted after a crash. Some or all of the numbers may never have been used.
    Crashed,
}

impl GapReason {
    /// The name of the reason on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            GapReason::NotKept => "not-kept",
            GapReason::QueueFull => "queue-full",
            GapReason::Restarted => "restarted",
            GapReason::Crashed => "crashed",
        }
    }
}

/// The replay of one topic has ended; live messages follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayComplete {
    /// The topic.
    pub topic: Arc<str>,
    /// How many messages were replayed.
    pub replayed: u64,
    /// The last number that the replay covers.
    pub latest: Sequence,
}

/// The subscriber does not keep up. At most one per [`crate::WARNING_INTERVAL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Why.
    pub reason: WarningReason,
    /// Dropped from a full queue since the last warning.
    pub dropped: u64,
    /// Expired in the queue since the last warning.
    pub expired: u64,
    /// Messages in the queue.
    pub depth: u32,
    /// Maximum number of messages in the queue.
    pub limit: u32,
    /// How long the oldest message has waited.
    pub oldest_age: Duration,
}

/// Why a subscriber is warned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningReason {
    /// The queue has not been empty for a while.
    SlowConsumer,
    /// The queue was empty a moment ago: too many messages came at once.
    Burst,
    /// No message was dropped from a full queue, but some expired while they waited.
    TtlExpired,
}
