//! Tasks that neither wait in a line nor are held by a worker, shelved by state: the unfinished ones by age, the ended
//! ones in the order in which they ended. Lists and retention walk the shelves instead of the whole table.

use std::collections::BTreeSet;

use crate::id::Slot;
use crate::state::StateName;
use crate::task::Task;

#[derive(Debug, Default)]
pub(crate) struct Shelves {
    shelves: [BTreeSet<(u64, Slot)>; 9],
}

impl Shelves {
    pub(crate) fn put(&mut self, task: &Task, slot: Slot) {
        self.shelves[task.state.name() as usize].insert((order(task), slot));
    }

    pub(crate) fn take(&mut self, task: &Task, slot: Slot) {
        self.shelves[task.state.name() as usize].remove(&(order(task), slot));
    }

    pub(crate) fn shelf(&self, state: StateName) -> &BTreeSet<(u64, Slot)> {
        &self.shelves[state as usize]
    }

    pub(crate) fn holds(&self, task: &Task, slot: Slot) -> bool {
        self.shelf(task.state.name()).contains(&(order(task), slot))
    }

    pub(crate) fn len(&self) -> usize {
        self.shelves.iter().map(BTreeSet::len).sum()
    }

    pub(crate) fn ended_count(&self) -> usize {
        ENDED.iter().map(|state| self.shelf(*state).len()).sum()
    }

    /// The task that ended first.
    pub(crate) fn oldest_ended(&self) -> Option<Slot> {
        ENDED.iter().filter_map(|state| self.shelf(*state).first()).min().map(|(_, slot)| *slot)
    }
}

const ENDED: [StateName; 3] = [StateName::Completed, StateName::Failed, StateName::Cancelled];

fn order(task: &Task) -> u64 {
    task.state.end().map_or(task.age, |end| end.event)
}
