//! One subscription: its filters, its queue, and its state.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catch_up::CatchUp;
use crate::delivery::{Warning, WarningReason};
use crate::filter::TopicFilter;
use crate::groups::GroupIndex;
use crate::in_flight::InFlight;
use crate::message::{Message, Sequence};
use crate::queue::SubscriptionQueue;
use crate::refusal::TopicRefusal;
use crate::settings::Policy;
use crate::time::Timestamp;
use crate::unconfirmed::Unconfirmed;

/// The longest id of a subscription, in bytes.
pub const SUBSCRIPTION_ID_BYTES_MAX: usize = 256;
/// The minimum interval between two warnings to one subscriber.
pub const WARNING_INTERVAL: Duration = Duration::from_millis(1000);

/// A subscription's id for clients, stable across reconnects and restarts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SubscriptionId(Arc<str>);

impl SubscriptionId {
    /// Checks an id.
    pub fn parse(text: &str) -> Result<SubscriptionId, TopicRefusal> {
        let (field, limit) = ("the subscription id", SUBSCRIPTION_ID_BYTES_MAX);
        if text.is_empty() {
            return Err(TopicRefusal::TextEmpty { field });
        }
        if text.len() > limit {
            return Err(TopicRefusal::TextTooLong { field, length: text.len(), limit });
        }
        Ok(SubscriptionId(Arc::from(text)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SubscriptionId {
    type Error = TopicRefusal;

    fn try_from(text: String) -> Result<SubscriptionId, TopicRefusal> {
        SubscriptionId::parse(&text)
    }
}

impl From<SubscriptionId> for String {
    fn from(id: SubscriptionId) -> String {
        id.as_str().to_owned()
    }
}

impl fmt::Debug for SubscriptionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SubscriptionId({})", self.0)
    }
}

impl fmt::Display for SubscriptionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The request of a new subscriber.
#[derive(Clone, Debug)]
pub struct Subscribe {
    /// The id of the subscription.
    pub id: SubscriptionId,
    /// The client that subscribes.
    pub client: Arc<str>,
    /// The topics that it selects.
    pub filters: Vec<TopicFilter>,
    /// Share the messages with the other members of this group.
    pub group: Option<Arc<str>>,
    /// Begin with the retained values. A group member gets none.
    pub retained: bool,
    /// `None` or zero means the broker's limit; else the smaller of the two.
    pub queue_limit: Option<u32>,
    /// `None` means the broker's policy.
    pub policy: Option<Policy>,
}

impl Subscribe {
    /// A subscription with default settings.
    pub fn new(id: SubscriptionId, filters: Vec<TopicFilter>) -> Subscribe {
        Subscribe {
            id,
            client: Arc::from(""),
            filters,
            group: None,
            retained: false,
            queue_limit: None,
            policy: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) queue: SubscriptionQueue,
    /// The last message offered to it, so that a message that matches twice is delivered once.
    pub(crate) seen: u64,
    /// The last message that its group gave to it.
    pub(crate) given: u64,
    pub(crate) group: Option<GroupIndex>,
    /// The last take emptied the queue, so the next message must wake the subscriber.
    pub(crate) idle: bool,
    /// When the reaper checks this subscription; [`Timestamp::NEVER`] if it need not.
    pub(crate) deadline: Timestamp,
    /// Present while there is no stream.
    pub(crate) paused: Option<Box<Paused>>,
    /// Present until the subscriber has caught up.
    pub(crate) catch_up: Option<Box<CatchUp>>,
    pub(crate) details: Box<Details>,
}

/// Fields that a delivery does not touch.
#[derive(Debug)]
pub(crate) struct Details {
    pub(crate) id: SubscriptionId,
    pub(crate) client: Arc<str>,
    pub(crate) filters: Vec<TopicFilter>,
    pub(crate) group: Option<Arc<str>>,
    /// The messages that were sent and may not have been read.
    pub(crate) unconfirmed: Unconfirmed,
    /// The same for a group member, from its first acknowledgement on.
    pub(crate) in_flight: Option<InFlight>,
    warned_at: Option<Timestamp>,
    warned_dropped: u64,
    warned_expired: u64,
    empty_at: Timestamp,
}

/// The state of a paused subscription.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paused {
    pub(crate) until: Timestamp,
    /// The first missed number of each topic.
    pub(crate) missed: BTreeMap<Arc<str>, Sequence>,
    /// There was more than fits, or the broker did not stop cleanly.
    pub(crate) incomplete: bool,
    /// The broker has restarted since the subscription was paused.
    pub(crate) restored: bool,
    /// The number of each named topic that is not durable, when the subscription was last saved before a
    /// crash. It may have missed all later ones.
    pub(crate) saved_at: BTreeMap<Arc<str>, Sequence>,
}

impl Paused {
    /// Returns whether this is a new entry.
    pub(crate) fn miss(&mut self, topic: &Arc<str>, sequence: Sequence, limit: usize) -> bool {
        if let Some(first) = self.missed.get_mut(topic) {
            let is_new = sequence < *first;
            *first = sequence.min(*first);
            return is_new;
        }
        if self.missed.len() < limit {
            self.missed.insert(Arc::clone(topic), sequence);
            return true;
        }
        !std::mem::replace(&mut self.incomplete, true)
    }
}

impl Subscription {
    pub(crate) fn new(details: Details, queue: SubscriptionQueue, group: Option<GroupIndex>) -> Subscription {
        Subscription {
            queue,
            seen: 0,
            given: 0,
            group,
            // A new subscriber takes from its queue without being woken.
            idle: false,
            deadline: Timestamp::NEVER,
            paused: None,
            catch_up: None,
            details: Box::new(details),
        }
    }

    pub(crate) fn has_nothing_to_take(&self) -> bool {
        self.queue.is_empty() && self.catch_up.is_none()
    }

    pub(crate) fn matches(&self, topic: &str) -> bool {
        self.details.filters.iter().any(|filter| filter.matches(topic))
    }

    /// The rank in a group: members with room first, then the shortest queue, then the one that waited
    /// longest.
    pub(crate) fn rank(&self) -> (bool, u32, u64) {
        (self.queue.is_full(), self.queue.depth(), self.given)
    }

    /// The warning that is due, if the last one is old enough.
    pub(crate) fn warning(&mut self, now: Timestamp, wall: Timestamp) -> Option<Warning> {
        let dropped = self.queue.dropped();
        let details = &mut self.details;
        let (full, expired) = (dropped.oldest + dropped.newest, dropped.ttl);
        if full == details.warned_dropped && expired == details.warned_expired {
            return None;
        }
        if details.warned_at.is_some_and(|at| now < at.after(WARNING_INTERVAL)) {
            return None;
        }
        let stats = self.queue.stats(now);
        let reason = if full == details.warned_dropped {
            WarningReason::TtlExpired
        } else if now.since(details.empty_at) <= WARNING_INTERVAL {
            WarningReason::Burst
        } else {
            WarningReason::SlowConsumer
        };
        let warning = Warning {
            reason,
            dropped: full - details.warned_dropped,
            expired: expired - details.warned_expired,
            depth: stats.depth,
            limit: stats.limit,
            oldest_age: self.queue.oldest_age(wall),
        };
        (details.warned_at, details.warned_dropped, details.warned_expired) = (Some(now), full, expired);
        Some(warning)
    }

    pub(crate) fn note_empty(&mut self, now: Timestamp) {
        self.details.empty_at = now;
    }
}

impl Details {
    pub(crate) fn new(subscribe: Subscribe, now: Timestamp) -> Details {
        Details {
            id: subscribe.id,
            client: subscribe.client,
            filters: subscribe.filters,
            group: subscribe.group,
            unconfirmed: Unconfirmed::default(),
            in_flight: None,
            warned_at: None,
            warned_dropped: 0,
            warned_expired: 0,
            empty_at: now,
        }
    }

    /// The messages that a group member was sent and has not acknowledged, if it acknowledges.
    pub(crate) fn take_in_flight(&mut self) -> Vec<Arc<Message>> {
        self.in_flight.as_mut().map(InFlight::take).unwrap_or_default()
    }
}
