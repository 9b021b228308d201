//! A ranked list: tasks in the order in which they run.
//!
//! It stores four bytes per task, because it looks ranks up in the task table. New tasks join near the end
//! and tasks leave at the front, so both are cheap. The list consists of sorted chunks, so an insertion or
//! removal in between moves at most one chunk.

use std::collections::VecDeque;

use crate::id::Slot;

/// The order of waiting tasks: the smaller goes first. Unique, because the last field is the task's age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TaskRank {
    pub(crate) weight: i64,
    pub(crate) age: u64,
}

const CHUNK: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct RankedList {
    /// No chunk is empty, except that the last remaining one is kept for the next task.
    chunks: VecDeque<VecDeque<Slot>>,
    len: usize,
}

impl RankedList {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn first(&self) -> Option<Slot> {
        self.chunks.front()?.front().copied()
    }

    pub(crate) fn insert(&mut self, slot: Slot, rank: impl Fn(Slot) -> TaskRank) {
        self.len += 1;
        let own = rank(slot);
        let Some(last) = self.chunks.back_mut() else {
            self.chunks.push_back(VecDeque::from([slot]));
            return;
        };
        if last.back().is_none_or(|other| rank(*other) < own) {
            if last.len() < CHUNK {
                last.push_back(slot);
            } else {
                self.chunks.push_back(VecDeque::from([slot]));
            }
            return;
        }
        let index = self.chunk_of(own, &rank);
        let chunk = &mut self.chunks[index];
        let at = chunk.partition_point(|other| rank(*other) < own);
        chunk.insert(at, slot);
        if chunk.len() > CHUNK {
            let second = chunk.split_off(CHUNK / 2);
            self.chunks.insert(index + 1, second);
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot, rank: impl Fn(Slot) -> TaskRank) {
        let mut index = 0;
        if self.first() == Some(slot) {
            self.chunks[index].pop_front();
        } else {
            let own = rank(slot);
            index = self.chunk_of(own, &rank);
            let chunk = &mut self.chunks[index];
            let at = chunk.partition_point(|other| rank(*other) < own);
            assert_eq!(chunk.remove(at), Some(slot), "a waiting task stands in its list");
        }
        if self.chunks[index].is_empty() && self.chunks.len() > 1 {
            self.chunks.remove(index);
        }
        self.len -= 1;
    }

    /// The tasks behind `after`, in order.
    pub(crate) fn iter_after(
        &self,
        after: Option<TaskRank>,
        rank: impl Fn(Slot) -> TaskRank,
    ) -> impl Iterator<Item = Slot> {
        let (index, within) = match after {
            None => (0, 0),
            Some(_) if self.len == 0 => (0, 0),
            Some(own) => {
                let index = self.chunk_of(own, &rank);
                (index, self.chunks[index].partition_point(|other| rank(*other) <= own))
            }
        };
        self.chunks.iter().skip(index).flatten().skip(within).copied()
    }

    /// The tasks ahead of `before`, the last first.
    pub(crate) fn iter_before(
        &self,
        before: Option<TaskRank>,
        rank: impl Fn(Slot) -> TaskRank,
    ) -> impl Iterator<Item = Slot> {
        let (index, within) = match before {
            Some(own) if self.len > 0 => {
                let index = self.chunk_of(own, &rank);
                (index, self.chunks[index].partition_point(|other| rank(*other) < own))
            }
            _ => (self.chunks.len(), 0),
        };
        let first = self.chunks.get(index).map(|chunk| chunk.range(..within).rev());
        let rest = self.chunks.range(..index).rev().flat_map(|chunk| chunk.iter().rev());
        first.into_iter().flatten().chain(rest).copied()
    }

    /// The chunk that holds a task of this rank, or would hold it.
    fn chunk_of(&self, own: TaskRank, rank: &impl Fn(Slot) -> TaskRank) -> usize {
        let beyond =
            self.chunks.partition_point(|chunk| rank(*chunk.front().expect("chunks are not empty")) <= own);
        beyond.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ranked_list_is_sorted(acts in prop::collection::vec((any::<bool>(), 0u32..3000), 1..4000)) {
            // The rank is scrambled so that tasks join everywhere, not only at the end.
            let rank = |slot: Slot| TaskRank { weight: i64::from(slot.0.wrapping_mul(2_654_435_761) % 7), age: u64::from(slot.0) };
            let mut ranked = RankedList::default();
            let mut model = std::collections::BTreeSet::new();
            for (join, number) in acts {
                let slot = Slot(number);
                let known = model.contains(&(rank(slot), slot));
                if join && !known {
                    ranked.insert(slot, rank);
                    model.insert((rank(slot), slot));
                } else if !join && known {
                    ranked.remove(slot, rank);
                    model.remove(&(rank(slot), slot));
                }
                prop_assert_eq!(ranked.first(), model.first().map(|(_, slot)| *slot));
                prop_assert_eq!(ranked.len(), model.len());
            }
            let walked: Vec<Slot> = ranked.iter_after(None, rank).collect();
            let expected: Vec<Slot> = model.iter().map(|(_, slot)| *slot).collect();
            prop_assert_eq!(&walked, &expected);
            let mut backwards: Vec<Slot> = ranked.iter_before(None, rank).collect();
            if let Some(middle) = backwards.get(backwards.len() / 2) {
                let rest: Vec<Slot> = ranked.iter_before(Some(rank(*middle)), rank).collect();
                prop_assert_eq!(&rest, &backwards[backwards.len() / 2 + 1..]);
            }
            backwards.reverse();
            prop_assert_eq!(&backwards, &expected);
            if let Some(middle) = expected.get(expected.len() / 2) {
                let behind: Vec<Slot> = ranked.iter_after(Some(rank(*middle)), rank).collect();
                prop_assert_eq!(&behind, &expected[expected.len() / 2 + 1..]);
            }
        }
    }
}
