//! Worker classes: workers that serve the same queues with the same capabilities. Dispatch groups refer to
//! classes, not to workers, so five thousand equal workers cost as much as one.

use std::collections::{BTreeMap, BTreeSet};

use crate::demands::DemandKey;
use crate::dispatch_groups::GroupKey;
use crate::id::WorkerKey;
use crate::name::Name;
use crate::ordered_set::OrderedSet;
use crate::queues::QueueKey;
use crate::slab::Slab;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassKey(u32);

/// The offers that the workers of a class share. Both lists are sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassSpec {
    pub(crate) queues: Vec<QueueKey>,
    pub(crate) capabilities: Vec<Name>,
}

#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) spec: ClassSpec,
    /// The dispatch groups whose tasks its workers can take.
    pub(crate) groups: BTreeSet<GroupKey>,
    /// Workers with a free slot, best choice first.
    pub(crate) free: OrderedSet<WorkerRank>,
    /// The demands of its dispatch groups, except the plain one.
    pub(crate) demands: BTreeMap<DemandKey, Fitting>,
    /// Live workers that may take work, whether or not they have a free slot.
    pub(crate) live: u32,
    users: u32,
}

/// The workers of a class that can take a demand.
#[derive(Debug, Default)]
pub(crate) struct Fitting {
    /// The dispatch groups of the class with this demand.
    pub(crate) groups: u32,
    /// Workers with room for it now, best choice first.
    pub(crate) free: OrderedSet<WorkerRank>,
    /// Live workers that are large enough and may take work.
    pub(crate) live: u32,
}

/// The order in which free workers are chosen: the least loaded, then the more stable, then the one that has
/// waited longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkerRank {
    pub(crate) load_permille: u32,
    pub(crate) recent_crashes: u32,
    pub(crate) last_assigned: u64,
    pub(crate) worker: WorkerKey,
}

#[derive(Debug, Default)]
pub(crate) struct Classes {
    slab: Slab<Class>,
    by_spec: BTreeMap<ClassSpec, ClassKey>,
    /// The classes with a free worker, by their best choice. Kept while there are more than `SCANNED_MAX` classes.
    by_best: Option<BTreeSet<(WorkerRank, ClassKey)>>,
}

/// This many classes are looked at one by one: to keep them in order would cost more.
pub(crate) const SCANNED_MAX: usize = 16;

impl Class {
    pub(crate) fn users(&self) -> u32 {
        self.users
    }
}

impl Classes {
    pub(crate) fn find(&self, spec: &ClassSpec) -> Option<ClassKey> {
        self.by_spec.get(spec).copied()
    }

    pub(crate) fn insert(&mut self, spec: ClassSpec, groups: BTreeSet<GroupKey>) -> ClassKey {
        let class = Class {
            spec: spec.clone(),
            groups,
            free: OrderedSet::default(),
            demands: BTreeMap::new(),
            live: 0,
            users: 0,
        };
        let key = ClassKey(self.slab.insert(class));
        self.by_spec.insert(spec, key);
        if self.slab.len() > SCANNED_MAX && self.by_best.is_none() {
            self.by_best = Some(self.find_by_best());
        }
        key
    }

    /// The classes with a free worker, by their best choice, if there are many.
    pub(crate) fn by_best(&self) -> Option<&BTreeSet<(WorkerRank, ClassKey)>> {
        self.by_best.as_ref()
    }

    /// The same by a search, whether or not there are many.
    pub(crate) fn find_by_best(&self) -> BTreeSet<(WorkerRank, ClassKey)> {
        self.iter().filter_map(|(key, class)| Some((*class.free.first()?, key))).collect()
    }

    /// A worker of the class has a free slot.
    pub(crate) fn add_free(&mut self, key: ClassKey, worker: WorkerRank) {
        let class = self.at_mut(key);
        let before = class.free.first().copied();
        class.free.insert(worker);
        self.follow_best(key, before);
    }

    /// A worker of the class has no free slot under this rank.
    pub(crate) fn remove_free(&mut self, key: ClassKey, worker: &WorkerRank) {
        let class = self.at_mut(key);
        let before = class.free.first().copied();
        class.free.remove(worker);
        self.follow_best(key, before);
    }

    fn follow_best(&mut self, key: ClassKey, before: Option<WorkerRank>) {
        let Some(by_best) = &mut self.by_best else { return };
        let after = self.slab.at(key.0).free.first().copied();
        if before != after {
            if let Some(before) = before {
                by_best.remove(&(before, key));
            }
            by_best.extend(after.map(|after| (after, key)));
        }
    }

    pub(crate) fn retain(&mut self, key: ClassKey) {
        self.at_mut(key).users += 1;
    }

    /// Drops one user. Returns the class if that was its last user.
    pub(crate) fn release(&mut self, key: ClassKey) -> Option<Class> {
        let class = self.at_mut(key);
        class.users -= 1;
        if class.users > 0 {
            return None;
        }
        let class = self.slab.remove(key.0);
        self.by_spec.remove(&class.spec);
        if self.slab.len() <= SCANNED_MAX {
            self.by_best = None;
        }
        Some(class)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClassKey, &Class)> {
        self.slab.iter().map(|(place, class)| (ClassKey(place), class))
    }

    pub(crate) fn at(&self, key: ClassKey) -> &Class {
        self.slab.at(key.0)
    }

    pub(crate) fn at_mut(&mut self, key: ClassKey) -> &mut Class {
        self.slab.at_mut(key.0)
    }
}

/// The prefix of an optional need, and the capability of a worker that does not declare its capabilities.
pub const UNDECLARED: &str = "?";

/// Whether sorted `needs` are all met by sorted `capabilities`. `?sort` is met by a worker that offers `sort`, by one
/// that offers `?`, and by one that offers nothing at all.
pub(crate) fn offers(capabilities: &[Name], needs: &[Name]) -> bool {
    let has = |name: &str| capabilities.binary_search_by(|offer| (**offer).cmp(name)).is_ok();
    let says_nothing = || capabilities.is_empty() || has(UNDECLARED);
    needs.iter().all(|need| match need.strip_prefix(UNDECLARED) {
        Some(tool) if !tool.is_empty() => has(tool) || says_nothing(),
        _ => has(need),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_with_a_question_mark_is_met_by_workers_that_name_no_tools() {
        let names = |names: &[&str]| names.iter().map(|name| Name::from(*name)).collect::<Vec<_>>();
        let meets = |offered: &[&str], needed: &[&str]| offers(&names(offered), &names(needed));
        assert!(meets(&["sort", "uniq"], &["?sort", "uniq"]));
        assert!(!meets(&["uniq"], &["?sort"]), "it says what it can do, and this is not among it");
        assert!(meets(&[], &["?sort"]));
        assert!(meets(&["?", "gpu=true"], &["?sort", "gpu=true"]));
        assert!(!meets(&["?"], &["sort"]), "what is needed for certain has to be offered");
        assert!(!meets(&[], &["?"]) && meets(&["?"], &["?"]));
    }
}
