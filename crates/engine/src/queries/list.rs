//! List: pages of tasks by filter. It walks the state, ready queue or worker where the matching tasks are,
//! and examines a bounded number of tasks per page: a page may be short, with a cursor to continue.
//!
//! Tasks of one state come in the order of that state. A task keeps neither its state nor its position in
//! that order, so a list over several states that takes more than one page is ordered by the task's slot,
//! which is stable.

use std::ops::Bound::{Excluded, Unbounded};

use crate::command::{Answer, ListQuery, Peer, TaskInfo};
use crate::cursor::{Cursor, ListPlace};
use crate::engine::Engine;
use crate::id::{Slot, TaskId, WorkerKey};
use crate::limits::{PAGE_BYTES_MAX, PAGE_MAX};
use crate::name::Name;
use crate::ranked_list::TaskRank;
use crate::ready_queues::ReadyQueueKey;
use crate::refusal::Refusal;
use crate::state::StateName;
use crate::state_index::order;
use crate::task::Task;
use crate::workers::Worker;

/// How many tasks one page may examine.
const LOOKS_MAX: usize = 10_000;

impl Engine {
    pub(crate) fn list(&self, peer: &Peer, query: &ListQuery) -> Result<Answer, Refusal> {
        if query.limit == 0 || query.limit > PAGE_MAX {
            return Err(Refusal::BadValue { what: "page limit", why: "is not between 1 and 1000" });
        }
        let wanted = |state: &StateName| query.states.is_empty() || query.states.contains(state);
        let states: Vec<StateName> = StateName::ALL.into_iter().filter(wanted).collect();
        let of_one = if query.is_of_one_family() { None } else { one(&states) };
        if query.cursor.is_some_and(|cursor| cursor.state != of_one) {
            return Err(Refusal::BadValue { what: "cursor", why: "is one of another list" });
        }
        let page = match (query.array, query.parent, of_one) {
            (Some(array), _, _) => self.page_of_elements(peer, query, &states, array),
            (None, Some(parent), _) => self.page_of_children(peer, query, &states, parent),
            (None, None, Some(state)) => self.page_of_states(peer, query, &[state]),
            (None, None, None) => self.page_of_several_states(peer, query, &states),
        };
        Ok(Answer::Tasks { tasks: page.tasks, next: page.next })
    }

    /// The tasks of these states, one state after the other.
    fn page_of_states(&self, peer: &Peer, query: &ListQuery, states: &[StateName]) -> Page {
        let mut page = Page::default();
        for state in states {
            self.walk(peer, query, *state, query.cursor.map(|cursor| cursor.after), &mut page);
            if page.next.is_some() {
                break;
            }
        }
        page
    }

    /// The tasks of several states. If one page holds them all, state by state; else by slot.
    fn page_of_several_states(&self, peer: &Peer, query: &ListQuery, states: &[StateName]) -> Page {
        if query.cursor.is_none() {
            let page = self.page_of_states(peer, query, states);
            if page.next.is_none() {
                return page;
            }
        }
        let after = query.cursor.map(|cursor| cursor.after.number);
        match self.candidates(peer, query, states) {
            Some(few) => self.page_of_candidates(peer, query, states, few, after),
            None => self.page_of_table(peer, query, states, after),
        }
    }

    /// The slots of all candidate tasks, unless there are too many for one page.
    fn candidates(&self, peer: &Peer, query: &ListQuery, states: &[StateName]) -> Option<Vec<Slot>> {
        let mut few = Vec::new();
        let mut looks = LOOKS_MAX;
        if states.iter().any(|state| state.is_held()) {
            for (_, worker) in self.workers.iter_from(WorkerKey(0)) {
                looks = looks.checked_sub(1)?;
                if self.is_asked_for(peer, query, worker) {
                    let held = worker.held_in_order();
                    looks = looks.checked_sub(held.len())?;
                    few.extend(held);
                }
            }
        }
        if states.contains(&StateName::Ready) {
            for key in self.ready_queues_of(peer, query, ReadyQueueKey(0)) {
                looks = looks.checked_sub(1)?;
                if !self.may_contain(peer, query, key) {
                    continue;
                }
                let ranked = &self.ready_queues.at(key).ranked;
                looks = looks.checked_sub(ranked.len())?;
                few.extend(ranked.iter_after(None, |slot| self.rank_of(slot)));
            }
        }
        for state in states {
            looks = looks.checked_sub(self.state_index.len_of(*state))?;
            few.extend(self.state_index.iter_after(&self.tasks, *state, None));
        }
        Some(few)
    }

    fn page_of_candidates(
        &self,
        peer: &Peer,
        query: &ListQuery,
        states: &[StateName],
        mut few: Vec<Slot>,
        after: Option<u64>,
    ) -> Page {
        few.retain(|slot| {
            let task = self.tasks.at(*slot);
            after.is_none_or(|after| u64::from(slot.0) > after)
                && states.contains(&task.state.name())
                && self.matches(peer, query, task)
        });
        few.sort_unstable();
        let mut page = Page { looks: few.len(), ..Page::default() };
        let mut left = few.iter();
        for slot in left.by_ref() {
            page.push(self.info(*slot));
            if page.is_full(query.limit) {
                page.next = Some(Cursor { state: None, after: in_table(*slot) });
                break;
            }
        }
        if left.next().is_none() {
            page.next = None;
        }
        page
    }

    fn page_of_table(
        &self,
        peer: &Peer,
        query: &ListQuery,
        states: &[StateName],
        after: Option<u64>,
    ) -> Page {
        let mut page = Page::default();
        let Ok(first) = u32::try_from(after.map_or(0, |after| after.saturating_add(1))) else { return page };
        for (slot, _) in self.tasks.iter_from(Slot(first)) {
            if !self.examine(peer, query, states, slot, in_table(slot), &mut page) {
                break;
            }
        }
        page
    }

    /// The elements of one array, in the order of their indexes.
    fn page_of_elements(&self, peer: &Peer, query: &ListQuery, states: &[StateName], array: TaskId) -> Page {
        let mut page = Page::default();
        let Some(key) = self.arrays.find(&array) else { return page };
        let record = &self.arrays.at(key).record;
        let after = query.cursor.map_or(0, |cursor| cursor.after.number.saturating_add(1));
        for place in u32::try_from(after).unwrap_or(u32::MAX)..record.size {
            let at = ListPlace { part: 0, weight: 0, number: u64::from(place) };
            let goes_on = match self.tasks.find(&record.terms().element_id(place)) {
                Some(slot) => self.examine(peer, query, states, slot, at, &mut page),
                None => page.count_examined(query, states, at),
            };
            if !goes_on {
                break;
            }
        }
        page
    }

    /// The children of one task, oldest first.
    fn page_of_children(&self, peer: &Peer, query: &ListQuery, states: &[StateName], parent: TaskId) -> Page {
        let mut page = Page::default();
        let parent = self.tasks.find(&parent).map(|slot| self.tasks.at(slot));
        let Some(extras) = parent.and_then(|parent| parent.extras.as_ref()) else { return page };
        let from = query.cursor.map_or(Unbounded, |cursor| Excluded((cursor.after.number, Slot(u32::MAX))));
        for (age, slot) in extras.children.range((from, Unbounded)) {
            let place = ListPlace { part: 0, weight: 0, number: *age };
            if !self.examine(peer, query, states, *slot, place, &mut page) {
                break;
            }
        }
        page
    }

    /// Walks the tasks of one state, using the narrowest index that holds them.
    fn walk(
        &self,
        peer: &Peer,
        query: &ListQuery,
        state: StateName,
        after: Option<ListPlace>,
        page: &mut Page,
    ) {
        match state {
            StateName::Assigned | StateName::Running | StateName::Suspended => {
                self.walk_workers(peer, query, state, after, page);
            }
            StateName::Ready => self.walk_lines(peer, query, after, page),
            _ => self.walk_state(peer, query, state, after, page),
        }
    }

    /// Walks tasks that neither wait in a ready queue nor are held.
    fn walk_state(
        &self,
        peer: &Peer,
        query: &ListQuery,
        state: StateName,
        after: Option<ListPlace>,
        page: &mut Page,
    ) {
        let after = after.map(|after| after.number);
        let slots: Box<dyn Iterator<Item = Slot>> = if query.newest_first {
            Box::new(self.state_index.iter_before(&self.tasks, state, after))
        } else {
            Box::new(self.state_index.iter_after(&self.tasks, state, after))
        };
        for slot in slots {
            let place = ListPlace { part: 0, weight: 0, number: order(self.tasks.at(slot)) };
            if !self.examine(peer, query, &[state], slot, place, page) {
                return;
            }
        }
    }

    /// Walks the tasks that workers hold: those of the named worker, else of all workers, one after the
    /// other.
    fn walk_workers(
        &self,
        peer: &Peer,
        query: &ListQuery,
        state: StateName,
        after: Option<ListPlace>,
        page: &mut Page,
    ) {
        let first = after.map_or(0, |after| after.part);
        for (key, worker) in self.workers.iter_from(WorkerKey(first)) {
            if !self.is_asked_for(peer, query, worker) {
                continue;
            }
            let seen = after.filter(|after| after.part == key.0).map(|after| after.number);
            for slot in worker.held_in_order() {
                let number = u64::from(slot.0);
                if seen.is_some_and(|seen| number <= seen) {
                    continue;
                }
                let place = ListPlace { part: key.0, weight: 0, number };
                if !self.examine(peer, query, &[state], slot, place, page) {
                    return;
                }
            }
        }
    }

    fn is_asked_for(&self, peer: &Peer, query: &ListQuery, worker: &Worker) -> bool {
        query.worker.as_ref().is_none_or(|name| name == worker.name())
            && worker.health.namespace == peer.namespace
    }

    /// Walks the ready queues, one after the other.
    fn walk_lines(&self, peer: &Peer, query: &ListQuery, after: Option<ListPlace>, page: &mut Page) {
        for key in self.ready_queues_of(peer, query, ReadyQueueKey(after.map_or(0, |after| after.part))) {
            let from = after.filter(|after| after.part == key.0);
            let from = from.map(|after| TaskRank { weight: after.weight, age: after.number });
            if self.may_contain(peer, query, key) {
                for slot in self.ready_queues.at(key).ranked.iter_after(from, |slot| self.rank_of(slot)) {
                    let rank = self.rank_of(slot);
                    let place = ListPlace { part: key.0, weight: rank.weight, number: rank.age };
                    if !self.examine(peer, query, &[StateName::Ready], slot, place, page) {
                        return;
                    }
                }
            }
            // Skipping a ready queue counts as a look as well.
            let behind = ListPlace { part: key.0, weight: i64::MAX, number: u64::MAX };
            if !page.count_examined(query, &[StateName::Ready], behind) {
                return;
            }
        }
    }

    /// The ready queues from one on: those of the named queue, else all.
    fn ready_queues_of<'a>(
        &'a self,
        peer: &Peer,
        query: &ListQuery,
        first: ReadyQueueKey,
    ) -> Box<dyn Iterator<Item = ReadyQueueKey> + 'a> {
        let Some(queue) = &query.queue else {
            return Box::new(self.ready_queues.iter_from(first).map(|(key, _)| key));
        };
        let Some(queue) = self.queues.find(&peer.namespace, queue) else {
            return Box::new(std::iter::empty());
        };
        let groups = self.queues.at(queue).groups.iter().map(|group| self.groups.at(*group));
        let mut ready_queues: Vec<ReadyQueueKey> =
            groups.flat_map(|group| group.ready_queues.range(first..).copied()).collect();
        ready_queues.sort_unstable();
        Box::new(ready_queues.into_iter())
    }

    fn may_contain(&self, peer: &Peer, query: &ListQuery, key: ReadyQueueKey) -> bool {
        let ready_queue = self.ready_queues.at(key);
        let has_tag = |tag: &Name| ready_queue.tags.iter().any(|key| self.tags.at(*key).name == *tag);
        let of_array = || ready_queue.tags.iter().any(|key| self.tags.at(*key).array.is_some());
        self.queues.at(ready_queue.queue).setting.namespace == peer.namespace
            && !(query.without_elements && of_array())
            && query.tag.as_ref().is_none_or(has_tag)
    }

    /// Examines one task. Returns whether there is room to continue.
    fn examine(
        &self,
        peer: &Peer,
        query: &ListQuery,
        states: &[StateName],
        slot: Slot,
        place: ListPlace,
        page: &mut Page,
    ) -> bool {
        let task = self.tasks.at(slot);
        if states.contains(&task.state.name()) && self.matches(peer, query, task) {
            page.push(self.info(slot));
        }
        page.count_examined(query, states, place)
    }

    fn matches(&self, peer: &Peer, query: &ListQuery, task: &Task) -> bool {
        let terms = self.terms.get(task.terms);
        let last_worker = || match task.state.holding() {
            Some(holding) => Some(&holding.worker),
            None => task.state.end().and_then(|end| end.worker.as_ref()),
        };
        terms.namespace == peer.namespace
            && query.queue.as_ref().is_none_or(|queue| *queue == terms.queue)
            && query.tag.as_ref().is_none_or(|tag| terms.tags.contains(tag))
            && query.submitter.as_ref().is_none_or(|submitter| *submitter == terms.submitter)
            && query.worker.as_ref().is_none_or(|worker| last_worker() == Some(worker))
            && query.parent.is_none_or(|parent| task.parent() == Some(parent))
            && query.array.is_none_or(|array| terms.array.is_some_and(|terms| terms.id == array))
            && !(query.without_elements && terms.array.is_some())
            && query.submitted_after.is_none_or(|after| task.submitted_at > after)
            && query.submitted_before.is_none_or(|before| task.submitted_at < before)
            && query.search.as_ref().is_none_or(|text| {
                task.id.begins_with(text)
                    || task.id.ends_with(text)
                    || task.name().is_some_and(|name| name.contains(&**text))
            })
    }
}

impl ListQuery {
    /// Whether the list follows an index of its own instead of the states.
    fn is_of_one_family(&self) -> bool {
        self.parent.is_some() || self.array.is_some()
    }
}

#[derive(Default)]
struct Page {
    tasks: Vec<TaskInfo>,
    bytes: usize,
    looks: usize,
    next: Option<Cursor>,
}

impl Page {
    fn push(&mut self, task: TaskInfo) {
        self.bytes += task.size();
        self.tasks.push(task);
    }

    fn is_full(&self, limit: usize) -> bool {
        self.tasks.len() == limit || self.bytes >= PAGE_BYTES_MAX
    }

    /// Counts one look. Returns whether there is room for more; if not, the list continues after `place`.
    fn count_examined(&mut self, query: &ListQuery, states: &[StateName], place: ListPlace) -> bool {
        self.looks += 1;
        if self.is_full(query.limit) || self.looks == LOOKS_MAX {
            let state = if query.is_of_one_family() { None } else { one(states) };
            self.next = Some(Cursor { state, after: place });
        }
        self.next.is_none()
    }
}

fn one(states: &[StateName]) -> Option<StateName> {
    match states {
        [state] => Some(*state),
        _ => None,
    }
}

fn in_table(slot: Slot) -> ListPlace {
    ListPlace { part: 0, weight: 0, number: u64::from(slot.0) }
}
