//! List: pages of tasks by filter. It walks the shelf, line or worker where the wanted tasks are, never the whole
//! table, and looks at a bounded number of tasks per page: a page may come back short, with a cursor to go on.

use std::ops::Bound::{Excluded, Unbounded};

use crate::command::{Answer, Cursor, ListQuery, Peer, Place, TaskInfo};
use crate::engine::Engine;
use crate::id::{Slot, TaskId, WorkerKey};
use crate::lanes::LaneKey;
use crate::limits::PAGE_MAX;
use crate::line::Rank;
use crate::name::Name;
use crate::refusal::Refusal;
use crate::shelves::order;
use crate::state::StateName;
use crate::task::Task;

/// How many tasks one page may look at.
const LOOKS_MAX: usize = 10_000;

impl Engine {
    pub(crate) fn list(&self, peer: &Peer, query: &ListQuery) -> Result<Answer, Refusal> {
        if query.limit == 0 || query.limit > PAGE_MAX {
            return Err(Refusal::BadValue { what: "page limit", why: "is not between 1 and 1000" });
        }
        let mut page = Page { tasks: Vec::new(), looks: 0, next: None };
        for state in StateName::ALL {
            let wanted = query.states.is_empty() || query.states.contains(&state);
            let done = query.cursor.is_some_and(|cursor| state < cursor.state);
            if !wanted || done {
                continue;
            }
            let after = query.cursor.filter(|cursor| cursor.state == state).map(|cursor| cursor.after);
            self.walk(peer, query, state, after, &mut page);
            if page.next.is_some() {
                break;
            }
        }
        Ok(Answer::Tasks { tasks: page.tasks, next: page.next })
    }

    /// Walks the tasks of one state, from the narrowest place that holds them.
    fn walk(&self, peer: &Peer, query: &ListQuery, state: StateName, after: Option<Place>, page: &mut Page) {
        if let Some(parent) = query.parent {
            self.walk_children(peer, query, state, parent, after, page);
            return;
        }
        match state {
            StateName::Assigned | StateName::Running => self.walk_workers(peer, query, state, after, page),
            StateName::Ready => self.walk_lines(peer, query, after, page),
            _ => self.walk_shelf(peer, query, state, after, page),
        }
    }

    /// The children of one task, oldest first.
    fn walk_children(
        &self,
        peer: &Peer,
        query: &ListQuery,
        state: StateName,
        parent: TaskId,
        after: Option<Place>,
        page: &mut Page,
    ) {
        let parent = self.tasks.find(&parent).map(|slot| self.tasks.at(slot));
        let Some(extras) = parent.and_then(|parent| parent.extras.as_ref()) else { return };
        let from = after.map_or(Unbounded, |after| Excluded((after.number, Slot(u32::MAX))));
        for (age, slot) in extras.children.range((from, Unbounded)) {
            let place = Place { part: 0, weight: 0, number: *age };
            if !self.see(peer, query, state, *slot, place, page) {
                return;
            }
        }
    }

    /// Tasks that neither wait in a line nor are held.
    fn walk_shelf(
        &self,
        peer: &Peer,
        query: &ListQuery,
        state: StateName,
        after: Option<Place>,
        page: &mut Page,
    ) {
        for slot in self.shelves.iter_after(&self.tasks, state, after.map(|after| after.number)) {
            let place = Place { part: 0, weight: 0, number: order(self.tasks.at(slot)) };
            if !self.see(peer, query, state, slot, place, page) {
                return;
            }
        }
    }

    /// What workers hold, worker after worker: of one worker if it is named, else of all.
    fn walk_workers(
        &self,
        peer: &Peer,
        query: &ListQuery,
        state: StateName,
        after: Option<Place>,
        page: &mut Page,
    ) {
        let first = after.map_or(0, |after| after.part);
        for (key, worker) in self.workers.iter_from(WorkerKey(first)) {
            let is_asked_for = query.worker.as_ref().is_none_or(|name| name == worker.name());
            if !is_asked_for || worker.health.namespace != peer.namespace {
                continue;
            }
            let seen = after.filter(|after| after.part == key.0).map(|after| after.number);
            for slot in worker.held_in_order() {
                let number = u64::from(slot.0);
                if seen.is_some_and(|seen| number <= seen) {
                    continue;
                }
                if !self.see(peer, query, state, slot, Place { part: key.0, weight: 0, number }, page) {
                    return;
                }
            }
        }
    }

    /// The waiting lines, lane after lane: of one queue if it is named, else of all.
    fn walk_lines(&self, peer: &Peer, query: &ListQuery, after: Option<Place>, page: &mut Page) {
        let first = LaneKey(after.map_or(0, |after| after.part));
        let Some(queue) = &query.queue else {
            let lanes = self.lanes.iter_from(first).map(|(key, _)| key);
            return self.walk_lanes(peer, query, lanes, after, page);
        };
        let Some(queue) = self.queues.find(&peer.namespace, queue) else { return };
        let roads = self.queues.at(queue).roads.iter().map(|road| self.roads.at(*road));
        let mut lanes: Vec<LaneKey> = roads.flat_map(|road| road.lanes.range(first..).copied()).collect();
        lanes.sort_unstable();
        self.walk_lanes(peer, query, lanes.into_iter(), after, page);
    }

    fn walk_lanes(
        &self,
        peer: &Peer,
        query: &ListQuery,
        lanes: impl Iterator<Item = LaneKey>,
        after: Option<Place>,
        page: &mut Page,
    ) {
        for key in lanes {
            let lane = self.lanes.at(key);
            let has_tag = |tag: &Name| lane.tags.iter().any(|key| self.tags.at(*key).name == *tag);
            if self.queues.at(lane.queue).setting.namespace == peer.namespace
                && query.tag.as_ref().is_none_or(has_tag)
            {
                let from = after.filter(|after| after.part == key.0);
                let from = from.map(|after| Rank { weight: after.weight, age: after.number });
                for slot in lane.line.iter_after(from, |slot| self.rank_of(slot)) {
                    let rank = self.rank_of(slot);
                    let place = Place { part: key.0, weight: rank.weight, number: rank.age };
                    if !self.see(peer, query, StateName::Ready, slot, place, page) {
                        return;
                    }
                }
            }
            // A lane that is passed by is a look as well.
            let behind = Place { part: key.0, weight: i64::MAX, number: u64::MAX };
            if !page.look(query, StateName::Ready, behind) {
                return;
            }
        }
    }

    /// Looks at one task. Says whether there is room to go on.
    fn see(
        &self,
        peer: &Peer,
        query: &ListQuery,
        state: StateName,
        slot: Slot,
        place: Place,
        page: &mut Page,
    ) -> bool {
        let task = self.tasks.at(slot);
        if task.state.name() == state && self.matches(peer, query, task) {
            page.tasks.push(self.info(slot));
        }
        page.look(query, state, place)
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
            && query.submitted_after.is_none_or(|after| task.submitted_at > after)
            && query.submitted_before.is_none_or(|before| task.submitted_at < before)
    }
}

struct Page {
    tasks: Vec<TaskInfo>,
    looks: usize,
    next: Option<Cursor>,
}

impl Page {
    /// Counts a look. Says whether there is room for more; if not, the list goes on behind `place`.
    fn look(&mut self, query: &ListQuery, state: StateName, place: Place) -> bool {
        self.looks += 1;
        if self.tasks.len() == query.limit || self.looks == LOOKS_MAX {
            self.next = Some(Cursor { state, after: place });
        }
        self.next.is_none()
    }
}
