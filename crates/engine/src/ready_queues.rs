//! Ready queues: ready tasks that the same workers can take and the same tags limit wait in one ready queue.
//!
//! All tasks of a ready queue have the same queue, needs and tags. So only its first task needs to be
//! examined, and a ready queue that a tag blocks does not block another.

use std::collections::BTreeMap;

use crate::dispatch_groups::GroupKey;
use crate::queues::QueueKey;
use crate::ranked_list::{RankedList, TaskRank};
use crate::slab::Slab;
use crate::tags::TagKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReadyQueueKey(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct ReadyQueue {
    pub(crate) group: GroupKey,
    pub(crate) queue: QueueKey,
    pub(crate) tags: Vec<TagKey>,
    pub(crate) ranked: RankedList,
    pub(crate) offer: ReadyOffer,
    /// The sets of terms that use this ready queue.
    users: u32,
}

/// How a ready queue is offered to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadyOffer {
    /// Empty, or the queue is paused.
    Hidden,
    /// Listed in its dispatch group under this rank.
    Listed(TaskRank),
    /// Waits for a tag under this rank.
    Parked(TagKey, TaskRank),
}

#[derive(Debug, Default)]
pub(crate) struct ReadyQueues {
    slab: Slab<ReadyQueue>,
    by_spec: BTreeMap<(GroupKey, Vec<TagKey>), ReadyQueueKey>,
}

impl ReadyQueue {
    pub(crate) fn users(&self) -> u32 {
        self.users
    }
}

impl ReadyQueues {
    pub(crate) fn find(&self, group: GroupKey, tags: &[TagKey]) -> Option<ReadyQueueKey> {
        self.by_spec.get(&(group, tags.to_vec())).copied()
    }

    pub(crate) fn insert(&mut self, group: GroupKey, queue: QueueKey, tags: Vec<TagKey>) -> ReadyQueueKey {
        let spec = (group, tags.clone());
        let ranked = RankedList::default();
        let ready_queue = ReadyQueue { group, queue, tags, ranked, offer: ReadyOffer::Hidden, users: 0 };
        let key = ReadyQueueKey(self.slab.insert(ready_queue));
        self.by_spec.insert(spec, key);
        key
    }

    pub(crate) fn retain(&mut self, key: ReadyQueueKey) {
        self.at_mut(key).users += 1;
    }

    /// Drops one user. Returns the ready queue if that was its last user.
    pub(crate) fn release(&mut self, key: ReadyQueueKey) -> Option<ReadyQueue> {
        let ready_queue = self.at_mut(key);
        ready_queue.users -= 1;
        if ready_queue.users > 0 {
            return None;
        }
        let ready_queue = self.slab.remove(key.0);
        self.by_spec.remove(&(ready_queue.group, ready_queue.tags.clone()));
        Some(ready_queue)
    }

    pub(crate) fn has(&self, key: ReadyQueueKey) -> bool {
        self.slab.get(key.0).is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ReadyQueueKey, &ReadyQueue)> {
        self.iter_from(ReadyQueueKey(0))
    }

    pub(crate) fn iter_from(&self, key: ReadyQueueKey) -> impl Iterator<Item = (ReadyQueueKey, &ReadyQueue)> {
        self.slab.iter_from(key.0).map(|(place, ready_queue)| (ReadyQueueKey(place), ready_queue))
    }

    pub(crate) fn at(&self, key: ReadyQueueKey) -> &ReadyQueue {
        self.slab.at(key.0)
    }

    pub(crate) fn at_mut(&mut self, key: ReadyQueueKey) -> &mut ReadyQueue {
        self.slab.at_mut(key.0)
    }
}
