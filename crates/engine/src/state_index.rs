//! An index by state of the tasks that neither wait in a ready queue nor are held by a worker: unfinished
//! ones by age, ended ones in the order in which they ended. Lists and retention walk this index instead of
//! the whole table.

use crate::id::Slot;
use crate::ranked_list::{RankedList, TaskRank};
use crate::state::StateName;
use crate::task::Task;
use crate::tasks::Tasks;

#[derive(Debug, Default)]
pub(crate) struct StateIndex {
    by_state: [RankedList; StateName::COUNT],
    /// The task that ended first. The engine asks for it after every command.
    oldest_ended: Option<Slot>,
}

impl StateIndex {
    pub(crate) fn put(&mut self, tasks: &Tasks, slot: Slot) {
        let state = tasks.at(slot).state.name();
        self.by_state[state as usize].insert(slot, |other| place(tasks.at(other)));
        let is_oldest = |oldest: Slot| order(tasks.at(slot)) < order(tasks.at(oldest));
        if ENDED.contains(&state) && self.oldest_ended.is_none_or(is_oldest) {
            self.oldest_ended = Some(slot);
        }
    }

    pub(crate) fn take(&mut self, tasks: &Tasks, slot: Slot) {
        let state = tasks.at(slot).state.name();
        self.by_state[state as usize].remove(slot, |other| place(tasks.at(other)));
        if self.oldest_ended == Some(slot) {
            self.oldest_ended = self.find_oldest_ended(tasks);
        }
    }

    /// The tasks of one state after a position, in order.
    pub(crate) fn iter_after<'a>(
        &'a self,
        tasks: &'a Tasks,
        state: StateName,
        after: Option<u64>,
    ) -> impl Iterator<Item = Slot> + 'a {
        let after = after.map(|age| TaskRank { weight: 0, age });
        self.by_state[state as usize].iter_after(after, |slot| place(tasks.at(slot)))
    }

    /// The tasks of one state before a position, the last first.
    pub(crate) fn iter_before<'a>(
        &'a self,
        tasks: &'a Tasks,
        state: StateName,
        before: Option<u64>,
    ) -> impl Iterator<Item = Slot> + 'a {
        let before = before.map(|age| TaskRank { weight: 0, age });
        self.by_state[state as usize].iter_before(before, |slot| place(tasks.at(slot)))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_state.iter().map(RankedList::len).sum()
    }

    pub(crate) fn len_of(&self, state: StateName) -> usize {
        self.by_state[state as usize].len()
    }

    pub(crate) fn ended_count(&self) -> usize {
        ENDED.iter().map(|state| self.by_state[*state as usize].len()).sum()
    }

    /// The task that ended first.
    pub(crate) fn oldest_ended(&self) -> Option<Slot> {
        self.oldest_ended
    }

    /// The same by a search.
    pub(crate) fn find_oldest_ended(&self, tasks: &Tasks) -> Option<Slot> {
        let firsts = ENDED.iter().filter_map(|state| self.by_state[*state as usize].first());
        firsts.min_by_key(|slot| order(tasks.at(*slot)))
    }
}

const ENDED: [StateName; 3] = [StateName::Completed, StateName::Failed, StateName::Cancelled];

/// A task's sort key among the tasks of its state.
pub(crate) fn order(task: &Task) -> u64 {
    task.state.end().map_or(task.age, |end| end.event)
}

fn place(task: &Task) -> TaskRank {
    TaskRank { weight: 0, age: order(task) }
}
