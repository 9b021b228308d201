//! Continue: what a suspended attempt waited for has ended. It takes its slot and its resources again, as soon as
//! its worker has room and the limits of its tags allow, and goes on. More urgent tasks go first: a task that others
//! wait for before the one that waits, because a child is more urgent than its parent. Less urgent ones do not: the
//! worker keeps what becomes free for the attempt, because no other worker can continue it.

use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, WorkerKey};
use crate::name::Name;
use crate::notice::Notice;
use crate::ranked_list::TaskRank;
use crate::record::Output;
use crate::state::{TaskState, Wanted};
use crate::tags::TagKey;
use crate::time::Timestamp;
use crate::timers::Timer;

impl Engine {
    /// The suspended attempt to continue before this task, if any. Its worker need not be ready for new tasks:
    /// one that drains, or that does not ask, still finishes what it holds.
    #[inline]
    pub(crate) fn next_continuing(&mut self, worker: WorkerKey, urgent: Option<Slot>) -> Option<Slot> {
        // Most brokers have no suspended attempt that could continue, and this is asked before every assignment.
        if self.continuing.is_empty() { None } else { self.find_continuing(worker, urgent) }
    }

    fn find_continuing(&mut self, worker: WorkerKey, urgent: Option<Slot>) -> Option<Slot> {
        loop {
            let holder = self.workers.at(worker);
            let (rank, slot) = holder.continuing.first().copied()?;
            if !holder.is_live() || urgent.is_some_and(|urgent| self.rank_of(urgent) < rank) {
                return None;
            }
            let ready_queue = self.terms.ready_queue(self.tasks.at(slot).terms);
            match self.full_tag(ready_queue) {
                Some(tag) => self.park_continuing(slot, tag),
                None => return Some(slot).filter(|slot| self.has_room_again(worker, *slot)),
            }
        }
    }

    /// Whether a worker keeps its room for a suspended attempt that is at least as urgent as this task.
    #[inline]
    pub(crate) fn keeps_room_to_continue(&self, worker: WorkerKey, other: Slot) -> bool {
        !self.continuing.is_empty()
            && self.continuing_without_room(worker).is_some_and(|(rank, _)| rank < self.rank_of(other))
    }

    /// The first attempt that only lacks room to continue.
    pub(crate) fn continuing_without_room(&self, worker: WorkerKey) -> Option<(TaskRank, Slot)> {
        let could_go =
            |slot: Slot| self.full_tag(self.terms.ready_queue(self.tasks.at(slot).terms)).is_none();
        let first = self.workers.at(worker).continuing.iter().find(|(_, slot)| could_go(*slot));
        first.copied().filter(|(_, slot)| !self.has_room_again(worker, *slot))
    }

    /// The workers that kept room for an attempt until a tag of it became full. Others may have that room now.
    pub(crate) fn freed_by_full_tags(&self) -> Vec<WorkerKey> {
        let is_blocked = |key: &WorkerKey| {
            let first = self.workers.at(*key).continuing.first();
            first.is_some_and(|(_, slot)| {
                self.full_tag(self.terms.ready_queue(self.tasks.at(*slot).terms)).is_some()
            })
        };
        self.continuing.iter().copied().filter(is_blocked).collect()
    }

    /// Whether the worker has room for what the attempt had: its slots, its resources, and the same cpus and gpus.
    /// A worker that has registered again with less lets it continue alone.
    pub(crate) fn has_room_again(&self, worker: WorkerKey, slot: Slot) -> bool {
        let task = self.tasks.at(slot);
        let stock = &self.workers.at(worker).stock;
        stock.fits_again(&self.terms.get(task.terms).demand, task.devices()) || stock.is_idle()
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
        self.reacquire_resources(key, slot);
        self.count_tags(slot, |in_use| *in_use += 1);
        self.count(slot, |count| *count += 1);
        self.emit_task_record(now, slot, EventData::Continued { worker }, out);
        self.tell_continue(slot, out);
    }

    /// The worker can use the slots and resources of a suspended attempt for others. The attempt knows the numbers
    /// of its cpus and gpus, and gets the same ones back.
    pub(crate) fn release_resources(&mut self, worker: WorkerKey, slot: Slot) {
        let task = self.tasks.at(slot);
        let holder = self.workers.at_mut(worker);
        holder.suspended += 1;
        holder.stock.vacate(&self.terms.get(task.terms).demand, task.devices());
    }

    pub(crate) fn reacquire_resources(&mut self, worker: WorkerKey, slot: Slot) {
        let task = self.tasks.at(slot);
        let holder = self.workers.at_mut(worker);
        holder.suspended -= 1;
        holder.stock.occupy(&self.terms.get(task.terms).demand, task.devices());
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
        self.continuing.insert(worker);
        self.dirty.workers.push(worker);
    }

    /// The suspended attempt ends, or waits for other tasks.
    pub(crate) fn withdraw_continuing(&mut self, slot: Slot) {
        let worker = self.holder_key(slot);
        let rank = self.rank_of(slot);
        let TaskState::Suspended(suspension) = &mut self.tasks.at_mut(slot).state else {
            unreachable!("only a suspended attempt continues")
        };
        if let Some(tag) = suspension.parked.take() {
            self.tags.at_mut(tag).continuing.remove(&(rank, slot));
        } else {
            // What the worker kept for it is free for others.
            let continuing = &mut self.workers.at_mut(worker).continuing;
            continuing.remove(&(rank, slot));
            if continuing.is_empty() {
                self.continuing.remove(&worker);
            }
        }
        self.dirty.workers.push(worker);
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
