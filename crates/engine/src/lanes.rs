//! Lanes: ready tasks that the same workers can take and the same tags hold back wait in one lane.
//!
//! Because everything in a lane is alike in queue, needs and tags, only its first task ever needs to be looked at, and
//! a lane that a tag blocks does not block another.

use std::collections::BTreeMap;

use crate::dispatch_groups::GroupKey;
use crate::line::{Line, Rank};
use crate::queues::QueueKey;
use crate::slab::Slab;
use crate::tags::TagKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LaneKey(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) group: GroupKey,
    pub(crate) queue: QueueKey,
    pub(crate) tags: Vec<TagKey>,
    pub(crate) line: Line,
    pub(crate) stand: Stand,
    /// Sets of terms that lead here.
    users: u32,
}

/// How a lane is offered to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Empty, or its queue is paused.
    Hidden,
    /// Offered on its dispatch group under this rank.
    Listed(Rank),
    /// Waits for a tag under this rank.
    Parked(TagKey, Rank),
}

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    slab: Slab<Lane>,
    by_spec: BTreeMap<(GroupKey, Vec<TagKey>), LaneKey>,
}

impl Lane {
    pub(crate) fn users(&self) -> u32 {
        self.users
    }
}

impl Lanes {
    pub(crate) fn find(&self, group: GroupKey, tags: &[TagKey]) -> Option<LaneKey> {
        self.by_spec.get(&(group, tags.to_vec())).copied()
    }

    pub(crate) fn insert(&mut self, group: GroupKey, queue: QueueKey, tags: Vec<TagKey>) -> LaneKey {
        let spec = (group, tags.clone());
        let line = Line::default();
        let lane = Lane { group, queue, tags, line, stand: Stand::Hidden, users: 0 };
        let key = LaneKey(self.slab.insert(lane));
        self.by_spec.insert(spec, key);
        key
    }

    pub(crate) fn retain(&mut self, key: LaneKey) {
        self.at_mut(key).users += 1;
    }

    /// One user less. When it was the last, the lane is handed back.
    pub(crate) fn release(&mut self, key: LaneKey) -> Option<Lane> {
        let lane = self.at_mut(key);
        lane.users -= 1;
        if lane.users > 0 {
            return None;
        }
        let lane = self.slab.remove(key.0);
        self.by_spec.remove(&(lane.group, lane.tags.clone()));
        Some(lane)
    }

    pub(crate) fn has(&self, key: LaneKey) -> bool {
        self.slab.get(key.0).is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LaneKey, &Lane)> {
        self.iter_from(LaneKey(0))
    }

    pub(crate) fn iter_from(&self, key: LaneKey) -> impl Iterator<Item = (LaneKey, &Lane)> {
        self.slab.iter_from(key.0).map(|(place, lane)| (LaneKey(place), lane))
    }

    pub(crate) fn at(&self, key: LaneKey) -> &Lane {
        self.slab.at(key.0)
    }

    pub(crate) fn at_mut(&mut self, key: LaneKey) -> &mut Lane {
        self.slab.at_mut(key.0)
    }
}
