//! Continue: what a suspended attempt waited for has ended. It takes a slot of its worker again, as soon as
//! one is free and the limits of its tags allow, and goes on. More urgent tasks go first: a task that others
//! wait for before the one that waits, because a child is more urgent than its parent.

use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, WorkerKey};
use crate::name::Name;
use crate::notice::Notice;
use crate::record::Output;
use crate::state::{TaskState, Wanted};
use crate::tags::TagKey;
use crate::time::Timestamp;
use crate::timers::Timer;

impl Engine {
    /// The suspended attempt to continue before this task, if any. Its worker need not be ready for new tasks:
    /// one that drains, or that does not ask, still finishes what it holds.
    pub(crate) fn next_continuing(&mut self, worker: WorkerKey, urgent: Option<Slot>) -> Option<Slot> {
        loop {
            let holder = self.workers.at(worker);
            let (rank, slot) = holder.continuing.first().copied()?;
            let demand = &self.terms.get(self.tasks.at(slot).terms).demand;
            if !holder.is_live() || !holder.stock.has_slots(demand) {
                return None;
            }
            if urgent.is_some_and(|urgent| self.rank_of(urgent) < rank) {
                return None;
            }
            let ready_queue = self.terms.ready_queue(self.tasks.at(slot).terms);
            match self.full_tag(ready_queue) {
                Some(tag) => self.park_continuing(slot, tag),
                None => return Some(slot),
            }
        }
    }

    pub(crate) fn continue_attempt(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        let TaskState::Suspended(suspension) = &self.tasks.at(slot).state else {
            unreachable!("only a suspended attempt continues")
        };
        let (mut holding, since) = (suspension.holding.clone(), suspension.since);
        let (worker, suspended_until) = (holding.worker.clone(), holding.check_at);
        let task = self.tasks.at_mut(slot);
        let extras = task.extras_mut();
        extras.suspended_for = extras.suspended_for.saturating_add(now.since(since));
        let (suspended_for, terms) = (task.suspended_for(), task.terms);
        let limit = self.terms.get(terms).run_limit;
        let runs_until = holding
            .started_at
            .zip(limit)
            .map_or(Timestamp::NEVER, |(started_at, limit)| started_at + suspended_for + limit);
        holding.check_at = match self.wanted_of(slot) {
            Some(Wanted::Cancel) => holding.check_at.min(runs_until),
            Some(Wanted::Pause) | None => runs_until,
        };
        let (key, check_at, before) = (holding.key, holding.check_at, suspended_until);
        self.withdraw_continuing(slot);
        self.count(slot, |count| *count -= 1);
        // The holder stays, with its place and its devices.
        self.tasks.at_mut(slot).state = TaskState::Running(Box::new(holding));
        self.timers.disarm(before, Timer::Held(slot));
        self.timers.arm(check_at, Timer::Held(slot));
        self.take_slots_back(key, slot);
        self.count_tags(slot, |in_use| *in_use += 1);
        self.count(slot, |count| *count += 1);
        self.emit_task_record(now, slot, EventData::Continued { worker }, out);
        self.tell_continue(slot, out);
    }

    /// The worker can use the slots of a suspended attempt for others. Resources stay: the attempt is still in its
    /// memory, and knows its devices.
    pub(crate) fn lend_slots(&mut self, worker: WorkerKey, slot: Slot) {
        let demand = &self.terms.get(self.tasks.at(slot).terms).demand;
        let keeps_resources = !demand.resources.is_empty();
        let holder = self.workers.at_mut(worker);
        holder.suspended += 1;
        holder.suspended_with_resources += usize::from(keeps_resources);
        holder.stock.vacate_slots(demand);
        if keeps_resources {
            // What it waits for may be less urgent than the task that the room is kept for.
            self.cancel_reservation(worker);
        }
    }

    pub(crate) fn take_slots_back(&mut self, worker: WorkerKey, slot: Slot) {
        let demand = &self.terms.get(self.tasks.at(slot).terms).demand;
        let holder = self.workers.at_mut(worker);
        holder.suspended -= 1;
        holder.suspended_with_resources -= usize::from(!demand.resources.is_empty());
        holder.stock.occupy_slots(demand);
    }

    pub(crate) fn tell_continue(&mut self, slot: Slot, out: &mut dyn Output) {
        let task = self.tasks.at(slot);
        let holder = task.state.holding().expect("a continued task is held").key;
        let notice = Notice::Continue { task: task.id, attempt: task.attempt, ends: self.wait_ends(slot) };
        if let Some(session) = self.workers.at(holder).session() {
            out.notice(session, notice);
        }
    }

    /// The suspended attempt waits for nothing but a slot.
    pub(crate) fn offer_continuing(&mut self, slot: Slot) {
        let worker = self.holder_key(slot);
        let rank = self.rank_of(slot);
        self.workers.at_mut(worker).continuing.insert((rank, slot));
        self.dirty.workers.push(worker);
    }

    /// The suspended attempt ends, or waits for other tasks.
    pub(crate) fn withdraw_continuing(&mut self, slot: Slot) {
        let worker = self.holder_key(slot);
        let rank = self.rank_of(slot);
        let TaskState::Suspended(suspension) = &mut self.tasks.at_mut(slot).state else {
            unreachable!("only a suspended attempt continues")
        };
        match suspension.parked.take() {
            Some(tag) => self.tags.at_mut(tag).continuing.remove(&(rank, slot)),
            None => self.workers.at_mut(worker).continuing.remove(&(rank, slot)),
        };
    }

    /// The attempt could continue, but for this tag.
    fn park_continuing(&mut self, slot: Slot, tag: TagKey) {
        self.withdraw_continuing(slot);
        let rank = self.rank_of(slot);
        self.tags.at_mut(tag).continuing.insert((rank, slot));
        if let TaskState::Suspended(suspension) = &mut self.tasks.at_mut(slot).state {
            suspension.parked = Some(tag);
        }
    }

    /// The tag has room again: attempts that waited for it may continue. Returns their workers, those of the
    /// most urgent ones first.
    pub(crate) fn list_continuing(&mut self, tag: TagKey) -> Vec<WorkerKey> {
        let waiting = std::mem::take(&mut self.tags.at_mut(tag).continuing);
        let mut workers = Vec::new();
        for (_, slot) in waiting {
            if let TaskState::Suspended(suspension) = &mut self.tasks.at_mut(slot).state {
                suspension.parked = None;
            }
            self.offer_continuing(slot);
            workers.push(self.holder_key(slot));
        }
        workers
    }

    pub(crate) fn holder_name(&self, slot: Slot) -> Name {
        self.tasks.at(slot).state.holding().expect("it is held").worker.clone()
    }

    fn holder_key(&self, slot: Slot) -> WorkerKey {
        self.tasks.at(slot).state.holding().expect("it is held").key
    }

    /// Whether the attempt runs, or has been suspended since.
    pub(crate) fn has_started(&self, slot: Slot) -> bool {
        matches!(self.tasks.at(slot).state, TaskState::Running(_) | TaskState::Suspended(_))
    }
}
