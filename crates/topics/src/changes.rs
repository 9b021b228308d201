//! The list of what has to be saved. It names what changed; the data is looked up when asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::subscription::SubscriptionId;
use crate::topic::{Topic, TopicIndex};

/// Numbers of a topic are reserved on disk, at most so many at a time unless told otherwise, so that a busy topic is not
/// written with every message. After an unclean stop a topic goes on after its reservation.
pub const SEQUENCE_BLOCK: u64 = 1 << 20;
/// Names of gone topics and subscriptions that are remembered until somebody asks.
const GONE_MAX: usize = 1_000_000;

#[derive(Debug)]
pub(crate) struct ChangeLog {
    enabled: bool,
    pub(crate) topics: Vec<TopicIndex>,
    pub(crate) forgotten: Vec<Arc<str>>,
    pub(crate) subscriptions: BTreeSet<SubscriptionId>,
    /// Changed too, but so large that they are not saved with every change.
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

    /// A topic gave a number.
    #[inline]
    pub(crate) fn counted(&mut self, index: TopicIndex, topic: &mut Topic) {
        if topic.runs_out() {
            self.touched(index, topic);
        }
    }

    /// A topic has to be saved.
    pub(crate) fn touched(&mut self, index: TopicIndex, topic: &mut Topic) {
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

    /// A subscription began, changed or ended.
    pub(crate) fn subscription(&mut self, id: &SubscriptionId) {
        if self.enabled {
            self.subscriptions.insert(id.clone());
            self.check_overflow();
        }
    }

    /// A subscription changed, and is to be saved with the next round of the reaper at the latest.
    pub(crate) fn subscription_later(&mut self, id: &SubscriptionId) {
        if self.enabled && !self.later.contains(id) {
            self.later.insert(id.clone());
        }
    }

    /// What was put off is to be saved now.
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
