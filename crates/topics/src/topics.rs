//! All topics of a shard: found by name, counted, and forgotten when there are too many.
//!
//! A forgotten topic leaves its number in a *floor*: a table of a few thousand numbers, indexed by the hash
//! of the name. When the name is used again it continues above the floor, so its numbers never decrease
//! although the topic itself was forgotten. The price is that another topic with the same floor begins above
//! 1.
//!
//! After a crash an unknown topic may have been in use without being saved, so it begins above a *restart
//! floor*. A topic whose numbers are on disk before they are assigned is exempt: if it is unknown, it had
//! none.

use std::hash::BuildHasher;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::filter::TopicFilter;
use crate::message::Sequence;
use crate::name::{check_name, stable_hash};
use crate::refusal::TopicRefusal;
use crate::time::Timestamp;
use crate::topic::{Topic, TopicIndex};

/// The size of the table of floors. Saved state depends on it.
pub const FLOORS: usize = 4096;
/// How many topics are examined to find an idle one to forget.
const FORGET_SCAN_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct TopicTable {
    table: HashTable<TableEntry>,
    slots: Vec<Option<Topic>>,
    free: Vec<TopicIndex>,
    floors: Vec<Sequence>,
    /// Since a crash, unknown topics begin above this number, except those that `exact` matches.
    restart_floor: Sequence,
    /// Topics whose numbers are all known.
    exact: Vec<TopicFilter>,
    hash: FixedState,
    limit: usize,
    /// Where the search for an idle topic continues.
    hand: usize,
}

/// Keeps the hash beside the index, so that growing the table does not read every name.
#[derive(Clone, Copy, Debug)]
struct TableEntry {
    hash: u32,
    index: TopicIndex,
}

impl TopicTable {
    pub(crate) fn new(limit: usize, hash_seed: u64) -> TopicTable {
        TopicTable {
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            floors: Vec::new(),
            restart_floor: Sequence::ZERO,
            exact: Vec::new(),
            hash: FixedState::with_seed(hash_seed),
            // An index is a `u32`.
            limit: limit.min(u32::MAX as usize),
            hand: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// One past the highest index ever in use.
    pub(crate) fn end(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn find(&self, name: &str) -> Option<TopicIndex> {
        let hash = self.short_hash(name);
        let same = |place: &TableEntry| place.hash == hash && *self[place.index].name == *name;
        self.table.find(spread(hash), same).map(|place| place.index)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Topic> {
        self.slots.get(index)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: TopicIndex) -> Option<&mut Topic> {
        self.slots.get_mut(index.0 as usize)?.as_mut()
    }

    /// Finds the topic, or creates it if there is room. A new name is validated; a known one already was.
    pub(crate) fn open(&mut self, name: &str, now: Timestamp) -> Result<TopicIndex, TopicRefusal> {
        if let Some(index) = self.find(name) {
            self[index].used_at = seconds(now);
            return Ok(index);
        }
        check_name(name)?;
        if self.len() >= self.limit {
            return Err(TopicRefusal::TooManyTopics { limit: self.limit });
        }
        let mut topic = Topic::new(Arc::from(name), self.floor_of(name), seconds(now));
        topic.restarted_to = self.restart_floor_of(name).min(topic.sequence);
        Ok(self.insert(topic))
    }

    /// The longest unused idle topic among the next few, in the manner of the clock algorithm.
    pub(crate) fn longest_idle(&mut self, is_idle: impl Fn(&Topic) -> bool) -> Option<TopicIndex> {
        let mut longest: Option<(u32, TopicIndex)> = None;
        for _ in 0..FORGET_SCAN_MAX.min(self.slots.len()) {
            let at = self.hand % self.slots.len();
            self.hand = at + 1;
            let Some(topic) = &self.slots[at] else { continue };
            if longest.is_none_or(|(used_at, _)| topic.used_at < used_at) && is_idle(topic) {
                let index = TopicIndex(u32::try_from(at).expect("the limit is a u32"));
                longest = Some((topic.used_at, index));
            }
        }
        longest.map(|(_, index)| index)
    }

    /// Removes the topic and leaves its number in the floor. The caller has emptied it.
    pub(crate) fn forget(&mut self, index: TopicIndex) -> Arc<str> {
        let topic = self.remove(index);
        self.raise_floor(floor_index(&topic.name), topic.sequence);
        topic.name
    }

    /// Removes the topic completely. The caller has emptied it.
    pub(crate) fn remove(&mut self, index: TopicIndex) -> Topic {
        let topic = self.slots[index.0 as usize].take().expect("a topic that is removed exists");
        debug_assert!(topic.active().is_none());
        let hash = self.short_hash(&topic.name);
        let entry = self.table.find_entry(spread(hash), |place| place.index == index);
        entry.expect("a topic is in the table").remove();
        self.free.push(index);
        topic
    }

    /// Whether forgetting the topic loses nothing, not even its number.
    pub(crate) fn is_bare(&self, index: TopicIndex) -> bool {
        let topic = &self[index];
        topic.active().is_none() && topic.sequence <= self.floor_of(&topic.name)
    }

    pub(crate) fn floor_of(&self, name: &str) -> Sequence {
        let forgotten = self.floors.get(floor_index(name)).copied().unwrap_or(Sequence::ZERO);
        forgotten.max(self.restart_floor_of(name))
    }

    fn restart_floor_of(&self, name: &str) -> Sequence {
        let is_exact = self.restart_floor > Sequence::ZERO && self.exact.iter().any(|one| one.matches(name));
        if is_exact { Sequence::ZERO } else { self.restart_floor }
    }

    /// Whether an unknown topic of any name may have had this number or a later one.
    pub(crate) fn hide(&self, first: Sequence) -> bool {
        self.restart_floor >= first || self.floors.iter().any(|floor| *floor >= first)
    }

    /// The table of floors of forgotten topics; empty if there were none.
    pub(crate) fn floors(&self) -> &[Sequence] {
        &self.floors
    }

    pub(crate) fn raise_floor(&mut self, floor: usize, to: Sequence) {
        if to > Sequence::ZERO && floor < FLOORS {
            self.floors.resize(FLOORS, Sequence::ZERO);
            self.floors[floor] = self.floors[floor].max(to);
        }
    }

    /// Makes every unknown topic begin above this number, except those that match `exact`.
    pub(crate) fn raise_restart_floor(&mut self, to: Sequence, exact: &[TopicFilter]) {
        self.restart_floor = self.restart_floor.max(to);
        self.exact = exact.to_vec();
    }

    fn insert(&mut self, topic: Topic) -> TopicIndex {
        let hash = self.short_hash(&topic.name);
        let index = if let Some(index) = self.free.pop() {
            self.slots[index.0 as usize] = Some(topic);
            index
        } else {
            self.slots.push(Some(topic));
            TopicIndex(u32::try_from(self.slots.len() - 1).expect("the limit is a u32"))
        };
        // The name is not in the table, so no entry is equal.
        match self.table.entry(spread(hash), |_| false, |place| spread(place.hash)) {
            Entry::Vacant(entry) => entry.insert(TableEntry { hash, index }),
            Entry::Occupied(_) => unreachable!("nothing is equal"),
        };
        index
    }

    fn short_hash(&self, name: &str) -> u32 {
        let hash = self.hash.hash_one(name);
        #[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough")]
        let short = (hash ^ (hash >> 32)) as u32;
        short
    }
}

impl Index<TopicIndex> for TopicTable {
    type Output = Topic;

    fn index(&self, index: TopicIndex) -> &Topic {
        self.slots[index.0 as usize].as_ref().expect("an index points to a topic")
    }
}

impl IndexMut<TopicIndex> for TopicTable {
    fn index_mut(&mut self, index: TopicIndex) -> &mut Topic {
        self.slots[index.0 as usize].as_mut().expect("an index points to a topic")
    }
}

pub(crate) fn floor_index(name: &str) -> usize {
    usize::try_from(stable_hash(name) % FLOORS as u64).expect("smaller than the table")
}

/// Expands the stored 32 bits to the 64 that the table needs.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub(crate) fn seconds(now: Timestamp) -> u32 {
    u32::try_from(now.0 / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(topics: &mut TopicTable, name: &str, at: u64) -> TopicIndex {
        topics.open(name, Timestamp(at * 1000)).unwrap()
    }

    #[test]
    fn a_topic_is_found_again_by_its_name() {
        let mut topics = TopicTable::new(10, 0);
        let a = open(&mut topics, "a", 0);
        let b = open(&mut topics, "b", 0);
        assert_eq!((topics.find("a"), topics.find("b"), topics.find("c")), (Some(a), Some(b), None));
        topics.remove(a);
        assert_eq!((topics.find("a"), topics.len()), (None, 1));
    }

    #[test]
    fn the_topic_that_was_unused_for_longest_goes_and_its_numbers_never_go_back() {
        let mut topics = TopicTable::new(2, 0);
        let old = open(&mut topics, "old", 1);
        topics[old].sequence = Sequence(7);
        open(&mut topics, "young", 2);
        let refusal = topics.open("new", Timestamp(3000)).unwrap_err();
        assert_eq!(refusal, TopicRefusal::TooManyTopics { limit: 2 });
        assert_eq!(topics.longest_idle(|_| true), Some(old));
        assert_eq!(&*topics.forget(old), "old");
        let again = open(&mut topics, "old", 4);
        assert_eq!(topics[again].sequence, Sequence(7));
        assert_eq!(topics[again].evicted_to, Sequence(7));
    }

    #[test]
    fn one_that_is_not_idle_is_not_chosen() {
        let mut topics = TopicTable::new(2, 0);
        open(&mut topics, "old", 1);
        let young = open(&mut topics, "young", 2);
        assert_eq!(topics.longest_idle(|topic| &*topic.name != "old"), Some(young));
        assert_eq!(topics.longest_idle(|_| false), None);
    }
}
