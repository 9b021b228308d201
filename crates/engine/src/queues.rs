//! Queues: where tasks wait and what workers serve. The first task or worker that names a queue creates it.

use std::collections::{BTreeMap, BTreeSet};

use crate::buckets::BucketKey;
use crate::classes::ClassKey;
use crate::dispatch_groups::GroupKey;
use crate::fair_queueing::Turns;
use crate::limits::PRIORITIES_SHOWN_MAX;
use crate::name::Name;
use crate::namespaces::NamespaceKey;
use crate::ranked_list::RankedList;
use crate::record::QueueSetting;
use crate::shares::ShareKey;
use crate::slab::Slab;
use crate::state::StateName;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueKey(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) setting: QueueSetting,
    pub(crate) namespace_key: NamespaceKey,
    /// Indexed by `StateName`.
    pub(crate) counts: [u64; StateName::COUNT],
    /// The ready tasks by priority.
    pub(crate) ready_by_priority: BTreeMap<i32, u64>,
    /// Live workers that serve the queue and may take tasks.
    pub(crate) live: u32,
    pub(crate) groups: BTreeSet<GroupKey>,
    pub(crate) classes: BTreeSet<ClassKey>,
    /// The ready tasks, longest-waiting first. Empty while the queue has no threshold.
    pub(crate) waiting: RankedList,
    /// When the next backlog check is due.
    pub(crate) look_at: Timestamp,
    /// Marked for a backlog check before the command ends.
    pub(crate) is_dirty: bool,
    /// The tokens of the queue's rate.
    pub(crate) bucket: Option<BucketKey>,
    /// Whose turn it is. `None` while no task of the queue has a share key.
    pub(crate) turns: Option<Box<Turns>>,
}

impl Queue {
    pub(crate) fn count(&mut self, state: StateName) -> &mut u64 {
        &mut self.counts[state as usize]
    }

    pub(crate) fn note_ready(&mut self, priority: i32, share: Option<ShareKey>) {
        *self.ready_by_priority.entry(priority).or_default() += 1;
        if let Some(turns) = &mut self.turns {
            turns.note_ready(share);
        }
    }

    pub(crate) fn note_not_ready(&mut self, priority: i32, share: Option<ShareKey>) {
        let count = self.ready_by_priority.get_mut(&priority).expect("a ready task is counted");
        *count -= 1;
        if *count == 0 {
            self.ready_by_priority.remove(&priority);
        }
        if let Some(turns) = &mut self.turns {
            turns.note_not_ready(share);
        }
    }

    /// How many tasks are ready, by priority, the highest first. Of many priorities those with the most tasks.
    pub(crate) fn depths(&self) -> Vec<(i32, u64)> {
        let mut depths: Vec<(i32, u64)> =
            self.ready_by_priority.iter().rev().map(|(priority, count)| (*priority, *count)).collect();
        if depths.len() > PRIORITIES_SHOWN_MAX {
            let rank = |(priority, count): &(i32, u64)| std::cmp::Reverse((*count, *priority));
            depths.select_nth_unstable_by_key(PRIORITIES_SHOWN_MAX, rank);
            depths.truncate(PRIORITIES_SHOWN_MAX);
            depths.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
        }
        depths
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queues {
    slab: Slab<Queue>,
    /// By namespace and name, so that listings have the same order in every run.
    by_name: BTreeMap<(Name, Name), QueueKey>,
    /// The number of queues per namespace, by its index.
    of_namespace: Vec<usize>,
}

impl Queues {
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn count_in(&self, namespace_key: NamespaceKey) -> usize {
        self.of_namespace.get(namespace_key.place()).copied().unwrap_or_default()
    }

    pub(crate) fn find(&self, namespace: &Name, queue: &Name) -> Option<QueueKey> {
        // The map's key is a pair, so the lookup needs one too; cloning two `Arc`s is cheaper than a nested
        // map.
        self.by_name.get(&(namespace.clone(), queue.clone())).copied()
    }

    pub(crate) fn open(&mut self, namespace: &Name, queue: &Name, namespace_key: NamespaceKey) -> QueueKey {
        if let Some(key) = self.find(namespace, queue) {
            return key;
        }
        let setting = QueueSetting::new(namespace.clone(), queue.clone());
        let key = QueueKey(self.slab.insert(Queue {
            setting,
            namespace_key,
            counts: [0; StateName::COUNT],
            ready_by_priority: BTreeMap::new(),
            live: 0,
            groups: BTreeSet::new(),
            classes: BTreeSet::new(),
            waiting: RankedList::default(),
            look_at: Timestamp::NEVER,
            is_dirty: false,
            bucket: None,
            turns: None,
        }));
        self.by_name.insert((namespace.clone(), queue.clone()), key);
        if self.of_namespace.len() <= namespace_key.place() {
            self.of_namespace.resize(namespace_key.place() + 1, 0);
        }
        self.of_namespace[namespace_key.place()] += 1;
        key
    }

    /// Removes a queue that no task uses, no worker serves and no client has paused or given
    /// thresholds or a rate.
    /// Returns whether it did. A queue that was once served is kept while there is room, to remember that it
    /// was.
    pub(crate) fn close_if_unused(&mut self, key: QueueKey, queues_max: usize) -> bool {
        let is_crowded = self.len() > queues_max / 2;
        let queue = self.at(key);
        if queue.groups.is_empty()
            && queue.classes.is_empty()
            && !queue.setting.paused
            && queue.setting.thresholds.is_none()
            && queue.setting.rate.is_none()
            && !queue.setting.passed.any()
            && (!queue.setting.ever_served || is_crowded)
        {
            let queue = self.slab.remove(key.0);
            self.of_namespace[queue.namespace_key.place()] -= 1;
            self.by_name.remove(&(queue.setting.namespace, queue.setting.queue));
            return true;
        }
        false
    }

    pub(crate) fn has(&self, key: QueueKey) -> bool {
        self.slab.get(key.0).is_some()
    }

    #[inline]
    pub(crate) fn at(&self, key: QueueKey) -> &Queue {
        self.slab.at(key.0)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, key: QueueKey) -> &mut Queue {
        self.slab.at_mut(key.0)
    }

    /// The queues of one namespace, by name.
    pub(crate) fn of(&self, namespace: &Name) -> impl Iterator<Item = (QueueKey, &Queue)> {
        let from = (namespace.clone(), Name::from(""));
        self.by_name
            .range(from..)
            .take_while(move |((of, _), _)| of == namespace)
            .map(|(_, key)| (*key, self.at(*key)))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = QueueKey> {
        self.by_name.values().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.by_name.values().map(|key| self.at(*key))
    }
}
