//! Explain: why a task is not running.

use crate::classes::offers;
use crate::command::{Answer, Peer};
use crate::demand::Demand;
use crate::dispatch_groups::DispatchGroup;
use crate::engine::Engine;
use crate::id::{Slot, TaskId};
use crate::limits::AFTER_NAMED_MAX;
use crate::name::Name;
use crate::queues::Queue;
use crate::ready_queues::ReadyQueueKey;
use crate::refusal::Refusal;
use crate::state::{Suspension, TaskState};
use crate::stock::Short;
use crate::tags::Tag;
use crate::why::{WaitedFor, Why};
use crate::workers::Worker;

impl Engine {
    pub(crate) fn explain(&self, peer: &Peer, task: TaskId) -> Result<Answer, Refusal> {
        if let Some(array) = self.array_of(peer, task) {
            return Ok(Answer::Why { why: self.why_array(array), reconciliation: None });
        }
        let slot = self.task_of(peer, task)?;
        let reconciliation = self.tasks.at(slot).reconciliation().map(Name::from);
        Ok(Answer::Why { why: self.why_not_running(slot), reconciliation })
    }

    pub(super) fn why_not_running(&self, slot: Slot) -> Why {
        let task = self.tasks.at(slot);
        match &task.state {
            TaskState::Created => Why::Held,
            TaskState::Waiting { .. } => {
                let (open, some) = self.waited_for(slot);
                Why::Dependencies { open, some }
            }
            TaskState::Suspended(suspension) if suspension.is_paused() => Why::Paused,
            TaskState::Suspended(suspension) if suspension.open == 0 => self.why_not_continued(suspension),
            TaskState::Suspended(_) => {
                let (open, some) = self.waited_for(slot);
                Why::Suspended { open, some }
            }
            TaskState::Delayed { until } => Why::NotBefore { until: *until },
            TaskState::Paused(_) => Why::Paused,
            TaskState::Assigned(holding) => {
                Why::AwaitingAcceptance { worker: holding.worker.clone(), since: holding.since }
            }
            TaskState::Ready { .. } => self.why_waiting(self.terms.ready_queue(task.terms)),
            state => Why::NotWaiting { state: state.name() },
        }
    }

    fn why_not_continued(&self, suspension: &Suspension) -> Why {
        match suspension.parked.map(|tag| self.tags.at(tag)) {
            Some(tag) => why_full(tag),
            None => Why::AwaitingSlot { worker: suspension.holding.worker.clone() },
        }
    }

    /// How many tasks it waits for, and some of them.
    fn waited_for(&self, slot: Slot) -> (u32, Vec<WaitedFor>) {
        let task = self.tasks.at(slot);
        let open = self.edges.of(task.edges).filter(|(_, edge)| edge.is_open());
        let some = open.take(AFTER_NAMED_MAX).filter_map(|(_, edge)| {
            let waited_for = self.dependency_of(task, edge)?;
            Some(WaitedFor {
                task: edge.dependency,
                name: self.name_of(waited_for).cloned(),
                condition: edge.condition(),
                state: self.state_of(waited_for),
            })
        });
        (self.edges.open_count(task.edges), some.collect())
    }

    /// Why the first task of a ready queue waits, and therefore all tasks behind it.
    pub(crate) fn why_waiting(&self, key: ReadyQueueKey) -> Why {
        let ready_queue = self.ready_queues.at(key);
        let queue = self.queues.at(ready_queue.queue);
        if queue.setting.paused {
            return Why::QueuePaused { queue: queue.setting.queue.clone() };
        }
        let group = self.groups.at(ready_queue.group);
        if !self.is_served(group) {
            return self.why_unserved(group, queue);
        }
        if let Some(tag) = ready_queue.tags.iter().map(|tag| self.tags.at(*tag)).find(|tag| !tag.has_room()) {
            return why_full(tag);
        }
        if let Some(why) = self.why_throttled(key) {
            return why;
        }
        let serving = self.workers.iter().filter(|(_, worker)| {
            worker.may_work()
                && worker
                    .class
                    .is_some_and(|class| self.classes.at(class).groups.contains(&ready_queue.group))
        });
        let demand = self.demand_of(group);
        let (mut workers, mut slots, mut waiting_to_ask) = (0, 0, 0);
        let (mut reserved, mut continuing, mut short) = (None, None, None);
        for (key, worker) in serving {
            workers += 1;
            slots += worker.stock.slots;
            if worker.stock.fits(&demand) {
                waiting_to_ask += u32::from(worker.pulls);
                reserved = reserved.or(Some(worker).filter(|worker| worker.reserved.is_some()));
                continuing = continuing.or_else(|| Some((worker, self.continuing_without_room(key)?.1)));
            } else if worker.stock.is_large_enough(&demand)
                && let Some(next) = worker.stock.short_of(&demand)
                && short.as_ref().is_none_or(|(best, _): &(Short, _)| best.free < next.free)
            {
                short = Some((next, worker.name()));
            }
        }
        if let Some(why) = reserved.and_then(|worker| self.why_reserved(worker)) {
            return why;
        }
        if let Some((worker, slot)) = continuing {
            return Why::Reserved { worker: worker.name().clone(), task: self.tasks.at(slot).id };
        }
        if waiting_to_ask > 0 {
            return Why::NoWorkerAsks { workers: waiting_to_ask };
        }
        match short {
            Some((Short { resource, needed, free, .. }, worker)) if !demand.is_plain() => {
                Why::Short { resource, needed, free, worker: worker.clone() }
            }
            _ => Why::AllFull { workers, slots },
        }
    }

    fn why_reserved(&self, worker: &Worker) -> Option<Why> {
        let (_, ready_queue) = self.groups.at(worker.reserved?).open.first()?;
        let first = self.first_task(*ready_queue);
        Some(Why::Reserved { worker: worker.name().clone(), task: self.tasks.at(first).id })
    }

    fn demand_of(&self, group: &DispatchGroup) -> Demand {
        group.demand.map_or_else(Demand::default, |demand| self.demands.at(demand).clone())
    }

    /// Which resource of which worker comes closest to what the tasks of a dispatch group need.
    fn too_large(&self, group: &DispatchGroup) -> Option<Why> {
        let demand = self.demand_of(group);
        let live = self.workers.iter().map(|(_, worker)| worker).filter(|worker| {
            worker.counted && worker.class.is_some_and(|class| group.classes.contains(&class))
        });
        let shorts =
            live.filter_map(|worker| Some((worker.stock.too_small_for(&demand)?, worker.name().clone())));
        // What comes later in the demand is closer: everything before it is there.
        let place = |short: &Short| demand.resources.iter().position(|other| other.name == short.resource);
        let (short, worker) = shorts.max_by_key(|(short, _)| (place(short), short.total))?;
        Some(Why::TooLarge { resource: short.resource, needed: short.needed, total: short.total, worker })
    }

    fn why_unserved(&self, group: &DispatchGroup, queue: &Queue) -> Why {
        let demand = self.demand_of(group);
        let could = |worker: &&Worker| {
            worker.health.namespace == queue.setting.namespace
                && worker.queues.contains(&queue.setting.queue)
                && offers(&worker.capabilities, &group.needs)
                && worker.stock.is_large_enough(&demand)
        };
        let sidelined: Vec<_> =
            self.sidelined.iter().map(|key| self.workers.at(*key)).filter(could).collect();
        let quarantined =
            sidelined.iter().find_map(|worker| Some((worker, worker.health.quarantined_until?)));
        if let Some((worker, until)) = quarantined {
            return Why::Quarantined { worker: worker.name().clone(), until };
        }
        if !sidelined.is_empty() {
            return Why::Draining { workers: sidelined.len() as u32 };
        }
        if self.is_offered(group)
            && let Some(why) = self.too_large(group)
        {
            return why;
        }
        if queue.live > 0 {
            return Why::NeedsUnmet { missing: self.missing(group, queue) };
        }
        match queue.setting.unserved_since {
            Some(since) if queue.setting.ever_served => {
                Why::AllLost { queue: queue.setting.queue.clone(), since }
            }
            _ => Why::NoWorkerEver { queue: queue.setting.queue.clone() },
        }
    }

    /// The needs that no live class of the queue offers; all of them, if each is offered but not together.
    fn missing(&self, group: &DispatchGroup, queue: &Queue) -> Vec<Name> {
        let live =
            || queue.classes.iter().map(|class| self.classes.at(*class)).filter(|class| class.live > 0);
        let is_missing =
            |need: &&Name| !live().any(|class| offers(&class.spec.capabilities, std::slice::from_ref(*need)));
        let missing: Vec<Name> = group.needs.iter().filter(is_missing).cloned().collect();
        if missing.is_empty() { group.needs.clone() } else { missing }
    }
}

/// Why the tasks with a tag wait that has no room. That of an array is invisible.
fn why_full(tag: &Tag) -> Why {
    let limit = tag.limit.expect("only a limit makes a tag full");
    match tag.array {
        Some(array) => Why::ArrayLimit { array, limit, in_use: tag.in_use },
        None => Why::TagLimit { tag: tag.name.clone(), limit, in_use: tag.in_use },
    }
}
