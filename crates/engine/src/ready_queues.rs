//! Ready queues: ready tasks that the same workers can take and the same tags limit wait in one ready queue.
//!
//! All tasks of a ready queue have the same queue, needs and tags. So only its first task needs to be
//! examined, and a ready queue that a tag or a rate blocks does not block another.
//!
//! Tasks with a share key wait in a ready queue of their key, the child of the ready queue of the tasks
//! without one. The parent is offered to workers, with the first task of whose turn it is. So a tag with a
//! thousand users is no more work than a tag with one.

use std::collections::BTreeMap;

use crate::buckets::BucketKey;
use crate::dispatch_groups::GroupKey;
use crate::dispatch_order::OfferRank;
use crate::ordered_set::OrderedSet;
use crate::queues::QueueKey;
use crate::ranked_list::RankedList;
use crate::shares::ShareKey;
use crate::slab::Slab;
use crate::tags::TagKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReadyQueueKey(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct ReadyQueue {
    pub(crate) group: GroupKey,
    pub(crate) queue: QueueKey,
    pub(crate) tags: Vec<TagKey>,
    pub(crate) share: Option<ShareKey>,
    /// The ready queue that offers these tasks, if they have a share key.
    pub(crate) parent: Option<ReadyQueueKey>,
    /// The children that have tasks, by whose turn it is.
    pub(crate) children: OrderedSet<(OfferRank, ReadyQueueKey)>,
    pub(crate) ranked: RankedList,
    pub(crate) offer: ReadyOffer,
    /// It got a task, and is listed to be served.
    pub(crate) is_dirty: bool,
    /// The sets of terms and the children that use this ready queue.
    users: u32,
}

/// How a ready queue is offered to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadyOffer {
    /// Empty, or the queue is paused.
    Hidden,
    /// Listed in its dispatch group, or in its parent, under this rank.
    Listed(OfferRank),
    /// Waits for a tag under this rank.
    Parked(TagKey, OfferRank),
    /// Waits for a token under this rank.
    Throttled(BucketKey, OfferRank),
}

#[derive(Debug, Default)]
pub(crate) struct ReadyQueues {
    slab: Slab<ReadyQueue>,
    by_spec: BTreeMap<(GroupKey, Vec<TagKey>, Option<ShareKey>), ReadyQueueKey>,
}

impl ReadyQueue {
    pub(crate) fn users(&self) -> u32 {
        self.users
    }
}

impl ReadyQueues {
    pub(crate) fn find(
        &self,
        group: GroupKey,
        tags: &[TagKey],
        share: Option<ShareKey>,
    ) -> Option<ReadyQueueKey> {
        self.by_spec.get(&(group, tags.to_vec(), share)).copied()
    }

    /// Adds a ready queue, with its parent if it is one of a share key.
    pub(crate) fn insert(
        &mut self,
        group: GroupKey,
        queue: QueueKey,
        tags: Vec<TagKey>,
        of_share: Option<(ShareKey, ReadyQueueKey)>,
    ) -> ReadyQueueKey {
        let share = of_share.map(|(share, _)| share);
        let spec = (group, tags.clone(), share);
        let ready_queue = ReadyQueue {
            group,
            queue,
            tags,
            share,
            parent: of_share.map(|(_, parent)| parent),
            children: OrderedSet::default(),
            ranked: RankedList::default(),
            offer: ReadyOffer::Hidden,
            is_dirty: false,
            users: 0,
        };
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
        self.by_spec.remove(&(ready_queue.group, ready_queue.tags.clone(), ready_queue.share));
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

    #[inline]
    pub(crate) fn at(&self, key: ReadyQueueKey) -> &ReadyQueue {
        self.slab.at(key.0)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, key: ReadyQueueKey) -> &mut ReadyQueue {
        self.slab.at_mut(key.0)
    }
}
