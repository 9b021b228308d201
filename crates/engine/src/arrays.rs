//! The table of arrays, with the counts that follow every change of an element.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::array::{ArrayEnd, ArrayInfo, ArrayRecord, ArrayTerms, ForgottenElements};
use crate::blob::Blob;
use crate::id::TaskId;
use crate::name::Name;
use crate::slab::Slab;
use crate::state::StateName;
use crate::terms::Terms;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ArrayKey(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) record: ArrayRecord,
    /// The elements that are kept, indexed by `StateName`.
    pub(crate) counts: [u64; StateName::COUNT],
}

impl Array {
    pub(crate) fn new(record: ArrayRecord) -> Array {
        Array { record, counts: [0; StateName::COUNT] }
    }

    /// How many elements retention has not removed.
    pub(crate) fn kept(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All elements by state, whether they are kept or not.
    pub(crate) fn totals(&self) -> [u64; StateName::COUNT] {
        let mut totals = self.counts;
        let ForgottenElements { through: _, completed, failed, cancelled } = self.record.forgotten;
        totals[StateName::Completed as usize] += u64::from(completed);
        totals[StateName::Failed as usize] += u64::from(failed);
        totals[StateName::Cancelled as usize] += u64::from(cancelled);
        totals
    }

    /// Whether all elements have ended. Not while some are still being submitted.
    pub(crate) fn has_ended(&self) -> bool {
        let totals = self.totals();
        let ended = StateName::ALL.iter().filter(|state| state.has_ended());
        ended.map(|state| totals[*state as usize]).sum::<u64>() == u64::from(self.record.size)
    }

    /// How the whole ended, given that all elements have.
    pub(crate) fn outcome(&self) -> StateName {
        let totals = self.totals();
        match [StateName::Failed, StateName::Cancelled].into_iter().find(|state| totals[*state as usize] > 0)
        {
            Some(state) => state,
            None => StateName::Completed,
        }
    }

    /// One state for the whole: how it ended, else what its busiest element does.
    pub(crate) fn state(&self) -> StateName {
        if let Some(ArrayEnd { state, .. }) = self.record.end {
            return state;
        }
        let unended = StateName::ALL.into_iter().filter(|state| !state.has_ended());
        let of_elements = unended.filter(|state| self.counts[*state as usize] > 0);
        of_elements.max_by_key(|state| progress_rank(*state)).unwrap_or(StateName::Ready)
    }

    pub(crate) fn info(&self) -> ArrayInfo {
        let record = &self.record;
        ArrayInfo {
            id: record.id,
            name: record.name.clone(),
            queue: record.queue.clone(),
            submitter: record.submitter.clone(),
            first: record.first,
            step: record.step,
            size: record.size,
            limit: record.limit,
            submitted_at: record.submitted_at,
            ended_at: record.end.map(|end| end.at),
            state: self.state(),
            counts: self.totals(),
        }
    }
}

/// Orders the states of elements: running ones say more about an array than waiting ones.
fn progress_rank(state: StateName) -> u8 {
    match state {
        StateName::Running => 9,
        StateName::Assigned => 8,
        StateName::Suspended => 7,
        StateName::Ready => 6,
        StateName::Delayed => 5,
        StateName::Waiting => 4,
        StateName::Paused => 3,
        StateName::Created => 2,
        StateName::Completed | StateName::Failed | StateName::Cancelled => 1,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Arrays {
    slab: Slab<Array>,
    by_id: BTreeMap<TaskId, ArrayKey>,
    by_name: BTreeMap<(Name, Name), ArrayKey>,
    by_age: BTreeMap<(u64, TaskId), ArrayKey>,
}

impl Arrays {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn find(&self, id: &TaskId) -> Option<ArrayKey> {
        if self.by_id.is_empty() { None } else { self.by_id.get(id).copied() }
    }

    pub(crate) fn find_name(&self, namespace: &Name, name: &Name) -> Option<ArrayKey> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(&(namespace.clone(), name.clone())).copied()
    }

    /// The array that this id belongs to: its own or that of an element, even one that retention has removed.
    pub(crate) fn owner(&self, id: &TaskId) -> Option<ArrayKey> {
        let key = *self.by_id.range(..=*id).next_back()?.1;
        let record = &self.at(key).record;
        let last = record.terms().element_id(record.size.saturating_sub(1));
        (*id <= last).then_some(key)
    }

    /// An array whose id is in this range.
    pub(crate) fn find_between(&self, ids: RangeInclusive<TaskId>) -> Option<TaskId> {
        self.by_id.range(ids).next().map(|(id, _)| *id)
    }

    pub(crate) fn insert(&mut self, record: ArrayRecord) -> ArrayKey {
        let (id, age) = (record.id, record.age);
        let name = record.name.clone().map(|name| (record.namespace.clone(), name));
        let key = ArrayKey(self.slab.insert(Array::new(record)));
        self.by_id.insert(id, key);
        self.by_age.insert((age, id), key);
        if let Some(name) = name {
            self.by_name.insert(name, key);
        }
        key
    }

    pub(crate) fn remove(&mut self, key: ArrayKey) -> ArrayRecord {
        let record = self.slab.remove(key.0).record;
        self.by_id.remove(&record.id);
        self.unlist(&record, key);
        record
    }

    /// For recovery: a newer record of the same array.
    pub(crate) fn replace(&mut self, key: ArrayKey, record: ArrayRecord) {
        let before = self.at(key).record.clone();
        self.unlist(&before, key);
        self.by_age.insert((record.age, record.id), key);
        if let Some(name) = record.name.clone() {
            self.by_name.insert((record.namespace.clone(), name), key);
        }
        self.at_mut(key).record = record;
    }

    fn unlist(&mut self, record: &ArrayRecord, key: ArrayKey) {
        self.by_age.remove(&(record.age, record.id));
        if let Some(name) = record.name.clone() {
            let name = (record.namespace.clone(), name);
            // A newer array may have taken the name.
            if self.by_name.get(&name) == Some(&key) {
                self.by_name.remove(&name);
            }
        }
    }

    /// For recovery: the array of these terms, which may be read before the array itself.
    pub(crate) fn open(&mut self, array: ArrayTerms, terms: &Terms) -> ArrayKey {
        if let Some(key) = self.find(&array.id) {
            return key;
        }
        self.insert(ArrayRecord {
            id: array.id,
            namespace: terms.namespace.clone(),
            queue: terms.queue.clone(),
            submitter: terms.submitter.clone(),
            name: None,
            fingerprint: 0,
            first: array.first,
            step: array.step,
            size: 0,
            limit: None,
            body: Blob::EMPTY,
            age: 0,
            submitted_at: Timestamp::ZERO,
            end: None,
            forgotten: ForgottenElements::default(),
        })
    }

    pub(crate) fn at(&self, key: ArrayKey) -> &Array {
        self.slab.at(key.0)
    }

    pub(crate) fn at_mut(&mut self, key: ArrayKey) -> &mut Array {
        self.slab.at_mut(key.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ArrayKey, &Array)> {
        self.by_age.values().map(|key| (*key, self.at(*key)))
    }

    /// The arrays that are older than a position, the newest first.
    pub(crate) fn iter_before(
        &self,
        before: Option<(u64, TaskId)>,
    ) -> impl Iterator<Item = ((u64, TaskId), &Array)> {
        let before = before.unwrap_or((u64::MAX, TaskId([0xff; 16])));
        self.by_age.range(..before).rev().map(|(place, key)| (*place, self.at(*key)))
    }
}
