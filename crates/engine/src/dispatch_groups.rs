//! Dispatch groups: a group holds the ready tasks of one queue with the same needs and the same demand, that
//! is, what the same workers can take. A dispatch group has one ready queue for each set of tags, because a tag may block one
//! ready queue and not the next. Workers look at dispatch groups: however many classes of workers can take a
//! task, its arrival and departure changes one dispatch group.

use std::collections::{BTreeMap, BTreeSet};

use crate::classes::ClassKey;
use crate::demands::DemandKey;
use crate::dispatch_order::OfferRank;
use crate::id::WorkerKey;
use crate::name::Name;
use crate::ordered_set::OrderedSet;
use crate::queues::QueueKey;
use crate::ready_queues::ReadyQueueKey;
use crate::slab::Slab;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupKey(u32);

#[derive(Debug)]
pub(crate) struct DispatchGroup {
    pub(crate) queue: QueueKey,
    /// Sorted.
    pub(crate) needs: Vec<Name>,
    /// `None` is the plain demand, one slot.
    pub(crate) demand: Option<DemandKey>,
    pub(crate) ready_queues: BTreeSet<ReadyQueueKey>,
    /// Ready queues with unblocked tasks, the most urgent first.
    pub(crate) open: OrderedSet<(OfferRank, ReadyQueueKey)>,
    /// The worker classes that can take these tasks.
    pub(crate) classes: Vec<ClassKey>,
    /// The worker that makes room for its first task.
    pub(crate) reserved: Option<WorkerKey>,
}

#[derive(Debug, Default)]
pub(crate) struct DispatchGroups {
    slab: Slab<DispatchGroup>,
    by_spec: BTreeMap<(QueueKey, Vec<Name>, Option<DemandKey>), GroupKey>,
}

impl DispatchGroups {
    pub(crate) fn find(
        &self,
        queue: QueueKey,
        needs: &[Name],
        demand: Option<DemandKey>,
    ) -> Option<GroupKey> {
        self.by_spec.get(&(queue, needs.to_vec(), demand)).copied()
    }

    pub(crate) fn insert(
        &mut self,
        queue: QueueKey,
        needs: &[Name],
        demand: Option<DemandKey>,
        classes: Vec<ClassKey>,
    ) -> GroupKey {
        let key = GroupKey(self.slab.insert(DispatchGroup {
            queue,
            needs: needs.to_vec(),
            demand,
            ready_queues: BTreeSet::new(),
            open: OrderedSet::default(),
            classes,
            reserved: None,
        }));
        self.by_spec.insert((queue, needs.to_vec(), demand), key);
        key
    }

    pub(crate) fn remove(&mut self, key: GroupKey) -> DispatchGroup {
        let group = self.slab.remove(key.0);
        self.by_spec.remove(&(group.queue, group.needs.clone(), group.demand));
        group
    }

    #[inline]
    pub(crate) fn at(&self, key: GroupKey) -> &DispatchGroup {
        self.slab.at(key.0)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, key: GroupKey) -> &mut DispatchGroup {
        self.slab.at_mut(key.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupKey, &DispatchGroup)> {
        self.slab.iter().map(|(place, group)| (GroupKey(place), group))
    }
}
