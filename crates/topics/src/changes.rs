//! The list of changes to save. It holds names only; the data is looked up when it is collected.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::subscription::SubscriptionId;
use crate::topic::{Topic, TopicIndex};

/// The default for how many numbers of a topic are reserved on disk at a time, at most, so that a busy topic
/// is not written with every message. After an unclean stop a topic continues after its reservation.
pub const SEQUENCE_BLOCK: u64 = 1 << 20;
/// How many names of removed topics and subscriptions are kept until they are collected.
const GONE_MAX: usize = 1_000_000;

#[derive(Debug)]
pub(crate) struct ChangeLog {
    enabled: bool,
    pub(crate) topics: Vec<TopicIndex>,
    pub(crate) forgotten: Vec<Arc<str>>,
    pub(crate) subscriptions: BTreeSet<SubscriptionId>,
    /// Also changed, but too large to be saved with every change.
    later: BTreeSet<SubscriptionId>,
    pub(crate) overflowed: bool,
}

impl ChangeLog {
    pub(crate) fn new(enabled: bool) -> ChangeLog {
        ChangeLog {
            enabled,
            topics: Vec::new(),
            forgotten: Vec::new(),
            subscriptions: BTreeSet::new(),
            later: BTreeSet::new(),
            overflowed: false,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
            && self.forgotten.is_empty()
            && self.subscriptions.is_empty()
            && !self.overflowed
    }

    /// A topic has assigned a number.
    #[inline]
    pub(crate) fn counted(&mut self, index: TopicIndex, topic: &mut Topic) {
        if topic.needs_reservation() {
            self.mark_changed(index, topic);
        }
    }

    /// Marks a topic to be saved.
    pub(crate) fn mark_changed(&mut self, index: TopicIndex, topic: &mut Topic) {
        if self.enabled && !topic.dirty {
            topic.dirty = true;
            self.topics.push(index);
        }
    }

    pub(crate) fn forgot(&mut self, topic: &Arc<str>) {
        if self.enabled {
            self.forgotten.push(Arc::clone(topic));
            self.check_overflow();
        }
    }

    /// Marks a subscription that began, changed or ended.
    pub(crate) fn subscription(&mut self, id: &SubscriptionId) {
        if self.enabled {
            self.subscriptions.insert(id.clone());
            self.check_overflow();
        }
    }

    /// Marks a changed subscription to be saved with the reaper's next round at the latest.
    pub(crate) fn subscription_later(&mut self, id: &SubscriptionId) {
        if self.enabled && !self.later.contains(id) {
            self.later.insert(id.clone());
        }
    }

    /// Moves the deferred subscriptions to those to be saved now.
    pub(crate) fn catch_up(&mut self) {
        for id in std::mem::take(&mut self.later) {
            self.subscription(&id);
        }
    }

    fn check_overflow(&mut self) {
        if self.forgotten.len() + self.subscriptions.len() > GONE_MAX {
            self.forgotten.clear();
            self.subscriptions.clear();
            self.overflowed = true;
        }
    }
}
