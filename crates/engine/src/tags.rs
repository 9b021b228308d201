//! Tags and their limits: how many tasks of a tag may be held at once, across the whole broker, and at which
//! rate they are handed out.

use std::collections::{BTreeMap, BTreeSet};

use crate::buckets::BucketKey;
use crate::dispatch_order::OfferRank;
use crate::id::{Slot, TaskId};
use crate::name::Name;
use crate::ordered_set::OrderedSet;
use crate::ranked_list::TaskRank;
use crate::rate::Rate;
use crate::ready_queues::ReadyQueueKey;
use crate::slab::Slab;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TagKey(u32);

#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) namespace: Name,
    pub(crate) name: Name,
    /// The array whose elements it counts. Such a tag is invisible: the array shows its limit.
    pub(crate) array: Option<TaskId>,
    pub(crate) limit: Option<u32>,
    pub(crate) in_use: u32,
    pub(crate) rate: Option<Rate>,
    /// The tokens of the rate.
    pub(crate) bucket: Option<BucketKey>,
    /// Ready queues that wait for this tag, by the rank of their first task. While there are any, the tag has
    /// no room.
    pub(crate) parked: OrderedSet<(OfferRank, ReadyQueueKey)>,
    /// Suspended tasks that could continue, but for this tag.
    pub(crate) continuing: BTreeSet<(TaskRank, Slot)>,
    ready_queues: u32,
}

impl Tag {
    pub(crate) fn has_room(&self) -> bool {
        self.limit.is_none_or(|limit| self.in_use < limit)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.limit.is_some() || self.rate.is_some()
    }

    pub(crate) fn ready_queues(&self) -> u32 {
        self.ready_queues
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tags {
    slab: Slab<Tag>,
    by_name: BTreeMap<(Name, Name), TagKey>,
    of_arrays: usize,
}

impl Tags {
    /// How many there are, without those of arrays.
    pub(crate) fn len(&self) -> usize {
        self.slab.len() - self.of_arrays
    }

    pub(crate) fn find(&self, namespace: &Name, name: &Name) -> Option<TagKey> {
        self.by_name.get(&(namespace.clone(), name.clone())).copied()
    }

    pub(crate) fn open(&mut self, namespace: &Name, name: &Name) -> TagKey {
        self.open_as(namespace, name, None)
    }

    pub(crate) fn open_array(&mut self, namespace: &Name, array: TaskId) -> TagKey {
        self.open_as(namespace, &array_tag(array), Some(array))
    }

    pub(crate) fn find_array(&self, namespace: &Name, array: TaskId) -> Option<TagKey> {
        self.find(namespace, &array_tag(array))
    }

    fn open_as(&mut self, namespace: &Name, name: &Name, array: Option<TaskId>) -> TagKey {
        let pair = (namespace.clone(), name.clone());
        if let Some(key) = self.by_name.get(&pair) {
            return *key;
        }
        let tag = Tag {
            namespace: namespace.clone(),
            name: name.clone(),
            array,
            limit: None,
            in_use: 0,
            rate: None,
            bucket: None,
            parked: OrderedSet::default(),
            continuing: BTreeSet::new(),
            ready_queues: 0,
        };
        let key = TagKey(self.slab.insert(tag));
        self.by_name.insert(pair, key);
        self.of_arrays += usize::from(array.is_some());
        key
    }

    pub(crate) fn retain(&mut self, key: TagKey) {
        self.at_mut(key).ready_queues += 1;
    }

    /// Drops one ready queue. A tag without ready queues, limit and rate is removed.
    pub(crate) fn release(&mut self, key: TagKey) {
        self.at_mut(key).ready_queues -= 1;
        self.close_if_unused(key);
    }

    pub(crate) fn close_if_unused(&mut self, key: TagKey) {
        let tag = self.at(key);
        if tag.ready_queues == 0 && !tag.is_set() && tag.in_use == 0 {
            let tag = self.slab.remove(key.0);
            self.of_arrays -= usize::from(tag.array.is_some());
            self.by_name.remove(&(tag.namespace, tag.name));
        }
    }

    pub(crate) fn has(&self, key: TagKey) -> bool {
        self.slab.get(key.0).is_some()
    }

    pub(crate) fn at(&self, key: TagKey) -> &Tag {
        self.slab.at(key.0)
    }

    pub(crate) fn at_mut(&mut self, key: TagKey) -> &mut Tag {
        self.slab.at_mut(key.0)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (TagKey, &Tag)> {
        self.by_name.values().map(|key| (*key, self.at(*key)))
    }

    /// The tags that clients have given.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tag> {
        self.by_name.values().map(|key| self.at(*key)).filter(|tag| tag.array.is_none())
    }
}

/// No client can give this name: it begins with a control character.
fn array_tag(array: TaskId) -> Name {
    format!("\u{1}{array}").into()
}
