//! The state that survives a restart, as plain data. The runtime chooses the format in which it stores it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::filter::TopicFilter;
use crate::message::{Message, MessageId, Publish, Sequence, Stamp};
use crate::name::shard_of;
use crate::settings::Policy;
use crate::subscription::SubscriptionId;
use crate::time::Timestamp;
use crate::unconfirmed::LastRead;

/// The saved state, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Topics.
    pub topics: Vec<SavedTopic>,
    /// Subscriptions.
    pub subscriptions: Vec<SavedSubscription>,
    /// Where the numbers of forgotten topics continue.
    pub floors: Vec<SavedFloor>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedTopic {
    /// Its name.
    pub name: String,
    /// The latest assigned number, or a reserved number above it.
    pub sequence: Sequence,
    /// Its retained value.
    pub retained: Option<SavedMessage>,
    /// Numbers up to this one may never have been assigned.
    #[serde(default)]
    pub skipped_to: Sequence,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedMessage {
    /// Its number.
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
    pub content_type: Option<String>,
    /// The name that the publisher chose.
    pub correlation_id: Option<String>,
    /// The name of the publisher.
    pub source: Option<String>,
    /// It is or was the retained value of its topic, or cleared it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retain: bool,
    /// Its place among all messages that the runtime stored, if the runtime counts them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub place: u64,
}

/// A subscription. After a restart it is paused, even if it was live before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSubscription {
    /// Its id.
    pub id: SubscriptionId,
    /// The client that made it.
    pub client: String,
    /// The topics that it selects.
    pub filters: Vec<String>,
    /// Its group, whose members share the messages.
    pub group: Option<String>,
    /// Maximum number of waiting messages.
    pub queue_limit: u32,
    /// The policy for a full queue.
    pub policy: Policy,
    /// For each topic, the first number that it has not taken yet.
    pub missed: Vec<(String, Sequence)>,
    /// The list above is incomplete.
    pub incomplete: bool,
    /// The messages that were sent to it and may not have been read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<SavedSegment>,
    /// The last number that the subscriber may have read when the oldest of these was sent.
    #[serde(default, skip_serializing_if = "LastRead::is_plain")]
    pub unconfirmed_after: LastRead,
    /// The number of each topic that it names and that is not durable, when this was saved. After a crash,
    /// later messages may be missing from all of the above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saved_at: Vec<(String, Sequence)>,
}

/// A part of what was sent to a subscriber. Older parts come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSegment {
    /// Whether the ranges are in sending order; otherwise there is one per topic.
    pub in_order: bool,
    /// The ranges that were sent.
    pub ranges: Vec<SavedRange>,
}

/// Messages of one topic without a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRange {
    /// The topic.
    pub topic: String,
    /// The first number.
    pub first: Sequence,
    /// The last number.
    pub last: Sequence,
}

/// Forgotten topics continue above this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFloor {
    /// Which floor: topics are distributed among several.
    pub floor: u32,
    /// Above this number they continue.
    pub sequence: Sequence,
}

/// The changes since the last collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Topics to delete. Apply this before `saved`, which may contain the same name again.
    pub forgotten: Vec<Arc<str>>,
    /// Subscriptions to delete.
    pub ended: Vec<SubscriptionId>,
    /// Rows to write.
    pub saved: Snapshot,
    /// There is more: collect again.
    pub more: bool,
    /// Changes were lost because they were not collected for too long: write a whole [`Snapshot`].
    pub overflowed: bool,
}

impl Snapshot {
    /// Adds what another shard saved. Merges the parts of a subscription.
    pub fn join(&mut self, other: Snapshot) {
        self.topics.extend(other.topics);
        self.floors.extend(other.floors);
        let mut places: BTreeMap<SubscriptionId, usize> = BTreeMap::new();
        for (place, subscription) in self.subscriptions.iter().enumerate() {
            places.insert(subscription.id.clone(), place);
        }
        for subscription in other.subscriptions {
            match places.get(&subscription.id) {
                Some(&place) => self.subscriptions[place].join(subscription),
                None => self.subscriptions.push(subscription),
            }
        }
    }

    /// The part that shard `index` of `shards` restores.
    pub fn part(&self, index: usize, shards: usize) -> Snapshot {
        let here = |name: &str| shard_of(name, shards) == index;
        let wanted =
            |text: &String| TopicFilter::parse(text).map_or(true, |filter| filter.belongs_to(index, shards));
        let mut subscriptions = self.subscriptions.clone();
        for subscription in &mut subscriptions {
            subscription.filters.retain(wanted);
            subscription.missed.retain(|(topic, _)| here(topic));
            subscription.saved_at.retain(|(topic, _)| here(topic));
            for segment in &mut subscription.unconfirmed {
                segment.ranges.retain(|range| here(&range.topic));
            }
        }
        subscriptions.retain(|subscription| !subscription.filters.is_empty());
        Snapshot {
            topics: self.topics.iter().filter(|topic| here(&topic.name)).cloned().collect(),
            subscriptions,
            floors: self.floors.clone(),
        }
    }
}

impl SavedSubscription {
    fn join(&mut self, part: SavedSubscription) {
        for filter in part.filters {
            if !self.filters.contains(&filter) {
                self.filters.push(filter);
            }
        }
        self.missed.extend(part.missed);
        self.saved_at.extend(part.saved_at);
        self.incomplete |= part.incomplete;
        self.unconfirmed.extend(part.unconfirmed);
        if self.unconfirmed_after != part.unconfirmed_after {
            self.unconfirmed_after = LastRead::UnknownNumber;
        }
        if self.unconfirmed.len() > 1 {
            // There is no common order between two shards.
            let ranges = self.unconfirmed.drain(..).flat_map(|segment| segment.ranges).collect();
            self.unconfirmed.push(SavedSegment { in_order: false, ranges });
        }
    }
}

impl Changes {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "that is how serde asks")]
fn is_zero(place: &u64) -> bool {
    *place == 0
}

impl SavedMessage {
    pub(crate) fn of(message: &Message) -> SavedMessage {
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        SavedMessage {
            sequence: message.sequence,
            id: message.id,
            published_at: message.published_at,
            expires_at: message.expires_at,
            payload: message.payload.clone(),
            content_type: text(&message.content_type),
            correlation_id: text(&message.correlation_id),
            source: text(&message.source),
            retain: true,
            place: 0,
        }
    }

    pub(crate) fn restore(self, topic: &Arc<str>) -> Message {
        let text = |text: Option<String>| text.map(Arc::from);
        let publish = Publish {
            content_type: text(self.content_type),
            correlation_id: text(self.correlation_id),
            source: text(self.source),
            ..Publish::new(topic, self.id, self.payload)
        };
        let stamp = Stamp {
            topic: Arc::clone(topic),
            sequence: self.sequence,
            published_at: self.published_at,
            expires_at: self.expires_at,
            reply_to: None,
            // It is older than every message to come.
            order: 0,
        };
        Message::new(publish, stamp)
    }
}
