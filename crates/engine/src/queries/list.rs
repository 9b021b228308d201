//! List: pages of tasks by filter. It walks the shelf, line or worker where the wanted tasks are, never the whole
//! table, and looks at a bounded number of tasks per page: a page may come back short, with a cursor to go on.

use crate::command::{Answer, Cursor, ListQuery, Peer, Place, TaskInfo};
use crate::engine::Engine;
use crate::id::Slot;
use crate::lanes::LaneKey;
use crate::limits::PAGE_MAX;
use crate::line::Rank;
use crate::name::Name;
use crate::refusal::Refusal;
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
            let children = self.tasks.find(&parent).and_then(|slot| self.tasks.at(slot).extras.as_ref());
            let slots = children.map(|extras| extras.children.iter().copied()).into_iter().flatten();
            return self.see_sorted(peer, query, state, after, slots, page);
        }
        match state {
            StateName::Assigned | StateName::Running => {
                let of_worker =
                    query.worker.as_ref().and_then(|worker| self.workers.find(&peer.namespace, worker));
                let workers = self.workers.of(&peer.namespace);
                let chosen = workers.filter(|(key, _)| query.worker.is_none() || Some(*key) == of_worker);
                let slots = chosen.flat_map(|(_, worker)| worker.held.iter().copied());
                self.see_sorted(peer, query, state, after, slots, page);
            }
            StateName::Ready => self.walk_lines(peer, query, after, page),
            _ => {
                let from = after.map_or((0, Slot(0)), |after| (after.number, Slot(after.part + 1)));
                for (order, slot) in self.shelves.shelf(state).range(from..) {
                    let place = Place { part: slot.0, weight: 0, number: *order };
                    if !self.see(peer, query, state, *slot, place, page) {
                        return;
                    }
                }
            }
        }
    }

    /// The waiting lines, lane after lane: of one queue if it is named, else of all.
    fn walk_lines(&self, peer: &Peer, query: &ListQuery, after: Option<Place>, page: &mut Page) {
        let queues = self.queues.of(&peer.namespace);
        let chosen =
            queues.filter(|(_, queue)| query.queue.as_ref().is_none_or(|name| *name == queue.setting.queue));
        let mut lanes: Vec<LaneKey> = chosen.flat_map(|(_, queue)| queue.lanes.iter().copied()).collect();
        lanes.sort();
        for key in lanes {
            let from = match after {
                Some(after) if key.0 < after.part => continue,
                Some(after) if key.0 == after.part => Some(Rank { weight: after.weight, age: after.number }),
                _ => None,
            };
            let lane = self.lanes.at(key);
            let has_tag = |tag: &Name| lane.tags.iter().any(|key| self.tags.at(*key).name == *tag);
            if query.tag.as_ref().is_some_and(|tag| !has_tag(tag)) {
                continue;
            }
            for slot in lane.line.iter_after(from, |slot| self.rank_of(slot)) {
                let rank = self.rank_of(slot);
                let place = Place { part: key.0, weight: rank.weight, number: rank.age };
                if !self.see(peer, query, StateName::Ready, slot, place, page) {
                    return;
                }
            }
        }
    }

    /// A small set of tasks, in order of age.
    fn see_sorted(
        &self,
        peer: &Peer,
        query: &ListQuery,
        state: StateName,
        after: Option<Place>,
        slots: impl Iterator<Item = Slot>,
        page: &mut Page,
    ) {
        let in_state = slots.filter(|slot| self.state_name(*slot) == state);
        let mut sorted: Vec<(u64, Slot)> = in_state.map(|slot| (self.tasks.at(slot).age, slot)).collect();
        sorted.sort();
        for (age, slot) in sorted.into_iter().filter(|(age, _)| after.is_none_or(|after| *age > after.number))
        {
            if !self.see(peer, query, state, slot, Place { part: 0, weight: 0, number: age }, page) {
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
        if self.matches(peer, query, self.tasks.at(slot)) {
            page.tasks.push(self.info(slot));
        }
        page.looks += 1;
        if page.tasks.len() == query.limit || page.looks == LOOKS_MAX {
            page.next = Some(Cursor { state, after: place });
        }
        page.next.is_none()
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
