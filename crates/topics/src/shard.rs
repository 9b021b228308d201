//! A shard: a part of the topics, and all subscriptions to them. One file per verb.

mod block;
mod confirm;
mod fan_out;
mod list;
mod pause;
mod publish;
mod reap;
mod replay_plan;
mod restore;
mod resume;
mod save;
mod subscribe;
mod take;
mod unsubscribe;

pub use list::{PAGE_MAX, SubscriptionInfo, TopicInfo, TopicPage};
pub use publish::{Prepared, Published};
pub use reap::Reaped;
pub use restore::ShutdownKind;
pub use resume::{Recovery, Resume, Resumed};
pub use take::Taken;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::changes::ChangeLog;
use crate::deadlines::{Deadlines, Owner};
use crate::groups::Groups;
use crate::message::Sequence;
use crate::patterns::Patterns;
use crate::refusal::TopicRefusal;
use crate::settings::Settings;
use crate::stats::{ShardStats, SubscriptionStats};
use crate::subscription::SubscriptionId;
use crate::subscriptions::{SubscriptionIndex, SubscriptionKey, Subscriptions};
use crate::tickets::Tickets;
use crate::time::Timestamp;
use crate::topic::{Topic, TopicIndex};
use crate::topics::TopicTable;

/// Topics and the subscriptions to them. It runs nothing by itself: the caller passes the time with every
/// call.
#[derive(Debug)]
pub struct Shard {
    settings: Settings,
    topics: TopicTable,
    buffer: Buffer,
    /// Topics with a retained value, by name, so that a pattern visits only its own prefix.
    retained: BTreeMap<Arc<str>, TopicIndex>,
    retained_bytes: usize,
    patterns: Patterns,
    subscriptions: Subscriptions,
    groups: Groups,
    deadlines: Deadlines,
    tickets: Tickets,
    changes: ChangeLog,
    /// The number of messages ever published here, which is also the order number of the last one.
    order: u64,
    filters: usize,
    paused: usize,
    /// The statistics of ended subscriptions.
    ended: SubscriptionStats,
    reaped_at: Timestamp,
    /// How far the time of day is ahead of the caller's clock, in milliseconds.
    wall_ahead: i64,
    /// Reused by every publish.
    found: Vec<SubscriptionIndex>,
}

impl Shard {
    /// An empty shard.
    pub fn new(settings: Settings) -> Shard {
        Shard {
            topics: TopicTable::new(settings.topics, settings.hash_seed),
            buffer: Buffer::default(),
            retained: BTreeMap::new(),
            retained_bytes: 0,
            patterns: Patterns::new(settings.hash_seed),
            subscriptions: Subscriptions::default(),
            groups: Groups::default(),
            deadlines: Deadlines::default(),
            tickets: Tickets::default(),
            changes: ChangeLog::new(settings.track_changes),
            order: 0,
            filters: 0,
            paused: 0,
            ended: SubscriptionStats::default(),
            reaped_at: Timestamp(0),
            wall_ahead: 0,
            found: Vec::new(),
            settings,
        }
    }

    /// Sets how far the time of day is ahead of the clock that all calls use. Durations are measured by that clock,
    /// which is not set; what is saved and shown is the time of day.
    pub fn set_wall_ahead(&mut self, millis: i64) {
        self.wall_ahead = millis;
    }

    /// The time of day at a moment.
    pub fn wall(&self, at: Timestamp) -> Timestamp {
        at.shifted(self.wall_ahead)
    }

    /// The moment of a saved time of day.
    fn moment(&self, wall: Timestamp) -> Timestamp {
        wall.shifted(self.wall_ahead.saturating_neg())
    }

    /// The settings of the shard.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The key of a subscription, paused or not.
    pub fn find(&self, id: &SubscriptionId) -> Option<SubscriptionKey> {
        self.subscriptions.find(id).map(|index| self.subscriptions.key(index))
    }

    /// Removes a topic with its counter, buffer and retained value. Only for names that never come back, such
    /// as those of ended tasks: a new topic of that name would begin at 1 again.
    pub fn forget(&mut self, topic: &str) -> Result<(), TopicRefusal> {
        let index = self.topics.find(topic).ok_or(TopicRefusal::UnknownTopic)?;
        if !self.topics[index].subscribers().is_empty() {
            return Err(TopicRefusal::TopicInUse);
        }
        self.empty(index);
        let topic = self.topics.remove(index);
        self.changes.forgot(&topic.name);
        Ok(())
    }

    /// How many messages were ever published here.
    pub fn published(&self) -> u64 {
        self.order
    }

    /// The latest number of a topic.
    pub fn sequence_of(&self, topic: &str) -> Option<Sequence> {
        self.topics.find(topic).map(|index| self.topics[index].sequence)
    }

    /// The counters of the shard.
    pub fn stats(&self) -> ShardStats {
        let mut all = self.ended;
        for subscription in self.subscriptions.iter() {
            all.add(subscription.queue.stats(Timestamp(0)));
        }
        ShardStats {
            topics: self.topics.len(),
            subscriptions: self.subscriptions.len(),
            paused: self.paused,
            filters: self.filters,
            kept_messages: self.buffer.messages,
            kept_bytes: self.buffer.bytes,
            retained_messages: self.retained.len(),
            retained_bytes: self.retained_bytes,
            published: self.order,
            enqueued: all.enqueued,
            delivered: all.delivered,
            dropped: all.dropped,
        }
    }

    /// Opens a topic. If there are too many, an idle one is forgotten.
    fn open(&mut self, name: &str, now: Timestamp) -> Result<TopicIndex, TopicRefusal> {
        match self.topics.open(name, now) {
            Err(full @ TopicRefusal::TooManyTopics { .. }) => {
                let settings = &self.settings;
                let idle = self.topics.longest_idle(|topic| is_idle(topic, settings)).ok_or(full)?;
                // Subscribers that still want its messages will get a gap.
                self.empty(idle);
                let forgotten = self.topics.forget(idle);
                self.changes.forgot(&forgotten);
                self.topics.open(name, now)
            }
            opened => opened,
        }
    }

    /// Releases what an idle topic does not need, and the topic itself if it has no number yet.
    fn release_buffers(&mut self, index: TopicIndex) {
        self.topics[index].release_buffers();
        if self.topics.is_bare(index) {
            let topic = self.topics.remove(index);
            self.changes.forgot(&topic.name);
        }
    }

    /// Removes buffer, retained value and deadline of a topic without subscribers.
    fn empty(&mut self, index: TopicIndex) {
        self.clear_retained(index);
        let topic = &mut self.topics[index];
        let Some(active) = topic.active_mut() else { return };
        self.deadlines.replace(&mut active.deadline, Timestamp::NEVER, Owner::Topic(index));
        self.buffer.released(active.ring.len(), active.ring.bytes());
        active.ring = Default::default();
        topic.release_buffers();
    }

    fn clear_retained(&mut self, index: TopicIndex) -> bool {
        let topic = &mut self.topics[index];
        let Some(old) = topic.active_mut().and_then(|active| active.retained.take()) else { return false };
        self.retained_bytes -= old.cost();
        self.retained.remove(&topic.name);
        true
    }
}

/// Whether no subscription names the topic exactly, and nothing of it is kept by a rule or as retained value.
/// The content of its replay buffer may be dropped.
fn is_idle(topic: &Topic, settings: &Settings) -> bool {
    topic.active().is_none_or(|active| {
        let is_kept = !active.ring.is_empty() && settings.is_kept_by_choice(&topic.name);
        active.subscribers.is_empty() && active.retained.is_none() && !is_kept
    })
}
