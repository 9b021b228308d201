//! What a subscriber takes out: messages, and the truth about those it does not get.

use std::sync::Arc;
use std::time::Duration;

use crate::message::{Message, Sequence};

/// One item of a subscriber's stream, in the order in which it is to be sent.
#[derive(Clone, Debug)]
pub enum Delivery {
    Message { kind: DeliveryKind, message: Arc<Message> },
    Gap(Box<Gap>),
    ReplayComplete(Box<ReplayComplete>),
    Warning(Box<Warning>),
}

/// Why a message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryKind {
    /// It was published while the subscriber was there.
    Live,
    /// It is the last known value of its topic.
    Retained,
    /// The subscriber was away when it was published.
    Replay,
}

/// Messages that will not come: they are no longer kept, or a full queue dropped them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub topic: Arc<str>,
    pub first_missed: Sequence,
    pub last_missed: Sequence,
    /// The next number that is kept, or will be given if nothing is kept.
    pub oldest_kept: Sequence,
    pub reason: GapReason,
}

/// Why messages will not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// The ring buffer has moved on.
    NotKept,
    /// The subscriber's queue was full.
    QueueFull,
    /// The broker restarted, and the topic is not durable.
    Restarted,
    /// The broker restarted after a crash. Some of the numbers, or all, may never have been used.
    Crashed,
}

impl GapReason {
    pub fn as_str(self) -> &'static str {
        match self {
            GapReason::NotKept => "not-kept",
            GapReason::QueueFull => "queue-full",
            GapReason::Restarted => "restarted",
            GapReason::Crashed => "crashed",
        }
    }
}

/// The replay of one topic is over; what follows is live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayComplete {
    pub topic: Arc<str>,
    pub replayed: u64,
    /// The number the subscriber is up to date with.
    pub latest: Sequence,
}

/// The subscriber does not keep up. At most one comes per [`crate::WARNING_INTERVAL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub reason: WarningReason,
    /// Dropped for want of room since the last warning.
    pub dropped: u64,
    /// Expired while waiting since the last warning.
    pub expired: u64,
    pub depth: u32,
    pub limit: u32,
    pub oldest_age: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningReason {
    /// The queue has not been empty for a while.
    SlowConsumer,
    /// The queue was empty a moment ago: too much came at once.
    Burst,
    /// Nothing was dropped for want of room, but messages expired while they waited.
    TtlExpired,
}
