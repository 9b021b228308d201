//! The engine itself: its tables, its entry points (`handle`, `ask`, `tick`), and the function that changes a task's
//! state (`become_state`) and keeps every index, count and timer consistent.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::arrays::{ArrayKey, Arrays};
use crate::buckets::{BucketKey, Buckets};
use crate::classes::Classes;
use crate::command::{Command, Held, Peer, Reply};
use crate::demands::Demands;
use crate::dependency::Dependency;
use crate::dispatch_groups::DispatchGroups;
use crate::edges::{Awaited, Edges};
use crate::event::{Event, EventData, EventSubject};
use crate::id::{Slot, TaskId, WorkerKey};
use crate::name::Name;
use crate::namespaces::Namespaces;
use crate::queues::{QueueKey, Queues};
use crate::ranked_list::TaskRank;
use crate::ready_queues::{ReadyQueueKey, ReadyQueues};
use crate::record::{Change, Output, StateChange};
use crate::refusal::Refusal;
use crate::schedules::Schedules;
use crate::settings::Settings;
use crate::shares::Shares;
use crate::state::{StateName, TaskState, Wanted};
use crate::state_index::StateIndex;
use crate::tags::{TagKey, Tags};
use crate::task::{Task, TermsKey};
use crate::tasks::Tasks;
use crate::terms::Terms;
use crate::terms_table::TermsTable;
use crate::time::Timestamp;
use crate::timers::{Timer, Timers};
use crate::workers::Workers;

/// The state machine of tasks and workers.
#[derive(Debug)]
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) namespaces: Namespaces,
    pub(crate) tasks: Tasks,
    pub(crate) terms: TermsTable,
    pub(crate) queues: Queues,
    pub(crate) groups: DispatchGroups,
    pub(crate) demands: Demands,
    pub(crate) ready_queues: ReadyQueues,
    pub(crate) classes: Classes,
    pub(crate) tags: Tags,
    pub(crate) buckets: Buckets,
    pub(crate) shares: Shares,
    pub(crate) workers: Workers,
    pub(crate) state_index: StateIndex,
    pub(crate) timers: Timers,
    pub(crate) next_event: u64,
    /// The changes of a command that `assign_tasks` checks before the command ends.
    pub(crate) dirty: Dirty,
    /// Live workers that may not take tasks: draining or in quarantine. Few, and read only by explain.
    pub(crate) sidelined: BTreeSet<WorkerKey>,
    /// Workers that keep their room for a larger task.
    pub(crate) reserved: BTreeSet<WorkerKey>,
    /// Workers with a suspended attempt that could continue.
    pub(crate) continuing: BTreeSet<WorkerKey>,
    /// Assigned tasks that stay unconfirmed for a while: a worker with more free slots may take them.
    pub(crate) overdue: BTreeSet<Slot>,
    /// Held tasks whose holders have not yet received the notice that belongs to the event of this number.
    pub(crate) unsent_attempts: VecDeque<(u64, Slot)>,
    pub(crate) arrays: Arrays,
    /// Arrays that came back from the store with all elements ended, but without their end.
    pub(crate) unended_arrays: Vec<ArrayKey>,
    pub(crate) edges: Edges,
    pub(crate) schedules: Schedules,
    /// Ended tasks and arrays that others wait for; `resolve_dependents` empties it.
    pub(crate) resolving: VecDeque<Awaited>,
    /// The dependencies of the task whose record is being written. Kept for its capacity.
    scratch: Vec<Dependency>,
}

#[derive(Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) ready_queues: Vec<ReadyQueueKey>,
    pub(crate) workers: Vec<WorkerKey>,
    pub(crate) tags: Vec<TagKey>,
    pub(crate) buckets: Vec<BucketKey>,
    /// A tag or a rate blocks more than before: workers that keep their room for what it blocks take other tasks.
    pub(crate) reservations: bool,
    /// Queues whose backlog may have changed, for `check_backlogs`.
    pub(crate) queues: Vec<QueueKey>,
}

impl Dirty {
    /// Whether no assignment has become possible.
    pub(crate) fn is_settled(&self) -> bool {
        self.ready_queues.is_empty()
            && self.workers.is_empty()
            && self.tags.is_empty()
            && self.buckets.is_empty()
            && !self.reservations
    }
}

impl Engine {
    /// An engine without tasks.
    pub fn new(settings: Settings) -> Engine {
        let seed = settings.hash_seed;
        Engine {
            settings,
            namespaces: Namespaces::default(),
            tasks: Tasks::new(seed),
            terms: TermsTable::new(seed),
            queues: Queues::default(),
            groups: DispatchGroups::default(),
            demands: Demands::default(),
            ready_queues: ReadyQueues::default(),
            classes: Classes::default(),
            tags: Tags::default(),
            buckets: Buckets::default(),
            shares: Shares::default(),
            workers: Workers::default(),
            state_index: StateIndex::default(),
            timers: Timers::default(),
            next_event: 1,
            dirty: Dirty::default(),
            sidelined: BTreeSet::new(),
            reserved: BTreeSet::new(),
            continuing: BTreeSet::new(),
            overdue: BTreeSet::new(),
            unsent_attempts: VecDeque::new(),
            arrays: Arrays::default(),
            unended_arrays: Vec::new(),
            edges: Edges::default(),
            schedules: Schedules::default(),
            resolving: VecDeque::new(),
            scratch: Vec::new(),
        }
    }

    /// Executes one command. A refused command changes nothing.
    pub fn handle(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        command: Command,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        // Any command from a worker is a sign of life. The hub sends `SessionClosed`, not the worker, and
        // `Register` handles the return itself.
        if !matches!(command, Command::SessionClosed | Command::Register(_)) {
            self.note_alive(now, peer.session, out);
        }
        let reply = self.dispatch(now, peer, command, out);
        self.assign_tasks(now, out);
        self.check_backlogs(now, out);
        self.prune_timers();
        reply
    }

    /// Handles the timers that are due by now. The hub calls it at `next_deadline`.
    pub fn tick(&mut self, now: Timestamp, out: &mut dyn Output) {
        for key in std::mem::take(&mut self.unended_arrays) {
            self.follow_element(now, key, out);
        }
        while let Some(timer) = self.timers.pop_due(now) {
            self.fire(now, timer, out);
            self.prune_timers();
        }
        self.fire_schedules(now, out);
        self.retire_ended(now, out);
        self.assign_tasks(now, out);
        self.check_backlogs(now, out);
        self.prune_timers();
    }

    pub(crate) fn prune_timers(&mut self) {
        let tasks = &self.tasks;
        self.timers.prune(|at, timer| still_holds(tasks, at, timer));
    }

    /// When `tick` next has work to do.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let timers = self.timers.next();
        let retention = self.next_retirement();
        let unended = self.unended_arrays.first().map(|_| Timestamp::ZERO);
        timers.into_iter().chain(retention).chain(self.schedules.next_turn()).chain(unended).min()
    }

    /// The number of the last event.
    pub fn last_event(&self) -> u64 {
        self.next_event - 1
    }

    /// How many tasks are kept, including ended ones.
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// Applies the settings that may change while the broker runs. `hash_seed` and `aging` stay, because
    /// existing tables are built on them.
    pub fn configure(&mut self, settings: &Settings) {
        let (hash_seed, aging) = (self.settings.hash_seed, self.settings.aging);
        let before = self.settings.backlog;
        self.settings = Settings { hash_seed, aging, ..settings.clone() };
        if settings.backlog != before {
            self.list_all_waiting();
        }
    }

    /// Moves a task to its next state and emits the record. All changes go through here but five: start, suspend and
    /// continue, which keep the holder, a retry whose delay moves with the clock (`broker_stalled.rs`), and recovery.
    pub(crate) fn become_state(
        &mut self,
        now: Timestamp,
        slot: Slot,
        next: TaskState,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let before = self.tasks.at(slot).state.name();
        assert!(before.may_become(next.name()), "{before} may not become {}", next.name());
        let task = self.tasks.at(slot);
        out.changes(StateChange {
            now,
            terms: self.terms.get(task.terms),
            id: task.id,
            attempt: task.attempt,
            submitted_at: task.submitted_at,
            trace: task.trace(),
            before: &task.state,
            next: &next,
            kind: &kind,
        });
        self.leave_state(slot);
        if next.name().has_ended() {
            self.drop_waits(slot);
        }
        self.tasks.at_mut(slot).state = next;
        self.emit_task_record(now, slot, kind, out);
        self.enter_state(slot);
        let array = self.terms.array(self.tasks.at(slot).terms);
        self.resolve_dependents(now, slot, out);
        if let Some(array) = array {
            self.follow_element(now, array, out);
        }
    }

    /// Removes a task from every index of its state.
    pub(crate) fn leave_state(&mut self, slot: Slot) {
        self.count(slot, |count| *count -= 1);
        let task = self.tasks.at(slot);
        match &task.state {
            TaskState::Ready { .. } => {
                let key = self.terms.ready_queue(task.terms);
                let aging = self.settings.aging;
                let tasks = &self.tasks;
                let ready_queue = self.ready_queues.at_mut(key);
                ready_queue.ranked.remove(slot, |other| rank(tasks.at(other), aging));
                let (queue, share) = (ready_queue.queue, ready_queue.share);
                self.queues.at_mut(queue).note_not_ready(task.priority, share);
                self.reindex_ready_queue(key);
                self.note_not_waiting(queue, slot);
            }
            TaskState::Delayed { until } => {
                self.timers.disarm(*until, Timer::Due(slot));
                self.state_index.take(&self.tasks, slot);
            }
            TaskState::Assigned(holding) | TaskState::Running(holding) => {
                let (worker, check_at, place) = (holding.key, holding.check_at, holding.place);
                self.timers.disarm(check_at, Timer::Held(slot));
                self.overdue.remove(&slot);
                self.release_held(worker, slot, place);
                self.count_tags(slot, |in_use| *in_use -= 1);
            }
            TaskState::Suspended(suspension) => {
                let holding = &suspension.holding;
                let (worker, check_at, place) = (holding.key, holding.check_at, holding.place);
                self.timers.disarm(check_at, Timer::Held(slot));
                self.withdraw_continuing(slot);
                self.reacquire_resources(worker, slot);
                self.release_held(worker, slot, place);
            }
            TaskState::Created
            | TaskState::Waiting { .. }
            | TaskState::Paused(_)
            | TaskState::Completed(_)
            | TaskState::Failed(_)
            | TaskState::Cancelled(_) => self.state_index.take(&self.tasks, slot),
        }
    }

    /// Adds a task to every index of its state.
    pub(crate) fn enter_state(&mut self, slot: Slot) {
        self.count(slot, |count| *count += 1);
        let task = self.tasks.at(slot);
        match &task.state {
            TaskState::Ready { .. } => {
                let key = self.terms.ready_queue(task.terms);
                let aging = self.settings.aging;
                let tasks = &self.tasks;
                let ready_queue = self.ready_queues.at_mut(key);
                ready_queue.ranked.insert(slot, |other| rank(tasks.at(other), aging));
                let is_dirty = std::mem::replace(&mut ready_queue.is_dirty, true);
                let (queue, share) = (ready_queue.queue, ready_queue.share);
                self.queues.at_mut(queue).note_ready(task.priority, share);
                self.note_waiting(queue, slot);
                if !is_dirty {
                    self.dirty.ready_queues.push(key);
                }
            }
            TaskState::Delayed { until } => {
                self.timers.arm(*until, Timer::Due(slot));
                self.state_index.put(&self.tasks, slot);
            }
            TaskState::Assigned(holding) | TaskState::Running(holding) => {
                let (worker, check_at) = (holding.key, holding.check_at);
                self.timers.arm_soon(check_at, Timer::Held(slot));
                self.hold(worker, slot);
                self.count_tags(slot, |in_use| *in_use += 1);
            }
            TaskState::Suspended(suspension) => {
                let (worker, check_at) = (suspension.holding.key, suspension.holding.check_at);
                let is_over = suspension.is_over();
                self.timers.arm(check_at, Timer::Held(slot));
                self.hold(worker, slot);
                self.release_resources(worker, slot);
                if is_over {
                    self.offer_continuing(slot);
                }
            }
            TaskState::Created | TaskState::Waiting { .. } | TaskState::Paused(_) => {
                self.state_index.put(&self.tasks, slot);
            }
            TaskState::Completed(_) | TaskState::Failed(_) | TaskState::Cancelled(_) => {
                self.state_index.put(&self.tasks, slot);
                let expires_at = task.extras.as_ref().and_then(|extras| extras.expires_at);
                if let Some(at) = expires_at {
                    self.timers.disarm(at, Timer::Expires(slot));
                }
            }
        }
    }

    /// Adds a task to what a worker holds. The caller updates the worker's place among the free workers.
    fn hold(&mut self, worker: WorkerKey, slot: Slot) {
        let holder = self.workers.at_mut(worker);
        let place = holder.held.len() as u32;
        holder.held.push(slot);
        let task = self.tasks.at(slot);
        holder.stock.occupy(&self.terms.get(task.terms).demand, task.devices());
        self.tasks.at_mut(slot).state.holding_mut().expect("it is held").place = place;
    }

    /// Removes a task from what a worker holds; the last task of the list moves into its place. The worker
    /// gets a free slot.
    fn release_held(&mut self, worker: WorkerKey, slot: Slot, place: u32) {
        let holder = self.workers.at_mut(worker);
        assert_eq!(holder.held.swap_remove(place as usize), slot, "a held task has its place");
        let task = self.tasks.at_mut(slot);
        let devices = task.state.holding_mut().expect("it is held").devices.take();
        holder.stock.vacate(&self.terms.get(task.terms).demand, devices.as_deref());
        if let Some(moved) = holder.held.get(place as usize) {
            self.tasks.at_mut(*moved).state.holding_mut().expect("it is held").place = place;
        } else if holder.busy_lost_after.is_some() && holder.held.is_empty() {
            // The worker may have a shorter silence limit from now on.
            self.watch_worker(worker);
        }
        if self.dirty.workers.last() != Some(&worker) {
            self.dirty.workers.push(worker);
        }
    }

    pub(crate) fn count(&mut self, slot: Slot, change: impl Fn(&mut u64)) {
        let task = self.tasks.at(slot);
        let state = task.state.name();
        let terms = task.terms;
        let queue = self.queues.at_mut(self.terms.queue(terms));
        change(queue.count(state));
        change(&mut self.namespaces.at_mut(queue.namespace_key).tasks[state as usize]);
        if let Some(array) = self.terms.array(terms) {
            change(&mut self.arrays.at_mut(array).counts[state as usize]);
        }
    }

    pub(crate) fn count_tags(&mut self, slot: Slot, change: impl Fn(&mut u32)) {
        let ready_queue = self.terms.ready_queue(self.tasks.at(slot).terms);
        for index in 0..self.ready_queues.at(ready_queue).tags.len() {
            let key = self.ready_queues.at(ready_queue).tags[index];
            let tag = self.tags.at_mut(key);
            change(&mut tag.in_use);
            self.dirty.reservations |= !tag.has_room();
            if (!tag.parked.is_empty() || !tag.continuing.is_empty()) && tag.has_room() {
                self.dirty.tags.push(key);
            }
        }
    }

    /// Emits the record of a task's new state.
    pub(crate) fn emit_task_record(
        &mut self,
        now: Timestamp,
        slot: Slot,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let seq = self.take_event();
        let task = self.tasks.at(slot);
        let terms = Arc::clone(self.terms.get(task.terms));
        let about = EventSubject::Task { id: task.id, attempt: task.attempt, terms };
        out.record(Event { seq, at: now, about, kind }, self.change_of(slot));
    }

    /// The record of a task's state.
    pub(crate) fn change_of(&mut self, slot: Slot) -> Change<'_> {
        let task = self.tasks.at(slot);
        let after: &[Dependency] = if task.edges.is_empty() {
            &[]
        } else {
            self.edges.write(task.edges, &mut self.scratch);
            &self.scratch
        };
        Change::Task { task, terms: self.terms.get(task.terms), after }
    }

    /// Emits an event about a task without a change of state.
    pub(crate) fn emit_task_event(
        &mut self,
        now: Timestamp,
        slot: Slot,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let seq = self.take_event();
        let task = self.tasks.at(slot);
        let terms = Arc::clone(self.terms.get(task.terms));
        let about = EventSubject::Task { id: task.id, attempt: task.attempt, terms };
        out.record(Event { seq, at: now, about, kind }, Change::Nothing);
    }

    pub(crate) fn emit_worker_record(
        &mut self,
        now: Timestamp,
        key: WorkerKey,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let seq = self.take_event();
        let is_news = std::mem::take(&mut self.workers.at_mut(key).profile_has_changed);
        let health = &self.workers.at(key).health;
        let about =
            EventSubject::Worker { namespace: health.namespace.clone(), worker: health.worker.clone() };
        // A worker that never crashed has no record to store. One that was cleared needs a record, or a
        // restart would bring its crashes back.
        let is_worth_it = health.crashes > 0 || is_news || matches!(kind, EventData::WorkerCleared);
        let change = if is_worth_it { Change::Worker(health) } else { Change::Nothing };
        out.record(Event { seq, at: now, about, kind }, change);
    }

    pub(crate) fn take_event(&mut self) -> u64 {
        let seq = self.next_event;
        self.next_event += 1;
        seq
    }

    /// A task in the peer's namespace.
    pub(crate) fn task_of(&self, peer: &Peer, id: TaskId) -> Result<Slot, Refusal> {
        self.task_found(peer, id, self.tasks.find(&id))
    }

    fn task_found(&self, peer: &Peer, id: TaskId, found: Option<Slot>) -> Result<Slot, Refusal> {
        let slot = found.ok_or(Refusal::UnknownTask { task: id })?;
        if self.terms.get(self.tasks.at(slot).terms).namespace != peer.namespace {
            return Err(Refusal::UnknownTask { task: id });
        }
        Ok(slot)
    }

    pub(crate) fn worker_of(&self, peer: &Peer) -> Result<WorkerKey, Refusal> {
        self.workers.of_session(peer.session).ok_or(Refusal::NotAWorker)
    }

    /// Refuses a peer that does not hold this attempt.
    pub fn check_holder(&self, peer: &Peer, held: Held) -> Result<(), Refusal> {
        self.held_by(peer, held).map(drop)
    }

    /// The fence: only the holder of the current attempt passes.
    pub(crate) fn held_by(&self, peer: &Peer, held: Held) -> Result<Slot, Refusal> {
        self.fence(self.worker_of(peer)?, peer, held, self.tasks.find(&held.task))
    }

    /// The fence, for a task that has already been looked up.
    pub(crate) fn fence(
        &self,
        worker: WorkerKey,
        peer: &Peer,
        held: Held,
        found: Option<Slot>,
    ) -> Result<Slot, Refusal> {
        let slot = self.task_found(peer, held.task, found)?;
        let task = self.tasks.at(slot);
        match task.state.holding() {
            Some(holding) if holding.key == worker && task.attempt == held.attempt => Ok(slot),
            _ => Err(Refusal::StaleAttempt {
                task: held.task,
                attempt: held.attempt,
                current: task.attempt,
                state: task.state.name(),
            }),
        }
    }

    pub(crate) fn wrong_state(&self, slot: Slot, verb: &'static str) -> Refusal {
        let task = self.tasks.at(slot);
        Refusal::WrongState { task: task.id, state: task.state.name(), verb }
    }

    pub(crate) fn state_name(&self, slot: Slot) -> StateName {
        self.tasks.at(slot).state.name()
    }

    /// The intent of a client for a held task, if there is one. An attempt that is stopped in place still has
    /// the intent to pause: if it ends, the task is paused.
    pub(crate) fn wanted_of(&self, slot: Slot) -> Option<Wanted> {
        let state = &self.tasks.at(slot).state;
        match (&state.holding()?.intent, state) {
            (Some(intent), _) => Some(intent.wanted),
            (None, TaskState::Suspended(suspension)) => suspension.is_paused().then_some(Wanted::Pause),
            (None, _) => None,
        }
    }

    pub(crate) fn rank_of(&self, slot: Slot) -> TaskRank {
        rank(self.tasks.at(slot), self.settings.aging)
    }

    /// The key of these terms. Creates the queue, tags and ready queue they need.
    pub(crate) fn terms_key(&mut self, terms: Terms) -> TermsKey {
        if let Some(key) = self.terms.find(&terms) {
            return key;
        }
        let namespace_key = self.namespaces.open(&terms.namespace);
        let queue = self.queues.open(&terms.namespace, &terms.queue, namespace_key);
        let mut tags: Vec<TagKey> =
            terms.tags.iter().map(|tag| self.tags.open(&terms.namespace, tag)).collect();
        let array = terms.array.map(|array| self.arrays.open(array, &terms));
        if let Some(array) = terms.array {
            // A tag of its own limits the array, and gives it a ready queue of its own.
            tags.push(self.tags.open_array(&terms.namespace, array.id));
        }
        let share = terms.share.as_ref().map(|share| self.shares.open(&terms.namespace, share));
        let ready_queue = self.open_ready_queue(queue, &terms.needs, &terms.demand, tags, share);
        self.ready_queues.retain(ready_queue);
        self.terms.insert(terms, queue, ready_queue, array)
    }

    /// Drops one user of these terms.
    pub(crate) fn release_terms(&mut self, key: TermsKey) {
        if let Some(ready_queue) = self.terms.release(key) {
            self.release_ready_queue(ready_queue);
        }
    }

    pub(crate) fn namespace_of(&self, slot: Slot) -> &Name {
        &self.terms.get(self.tasks.at(slot).terms).namespace
    }
}

/// Whether a timer of the FIFO is still valid: the task is held as it was when the timer was armed.
pub(crate) fn still_holds(tasks: &Tasks, at: Timestamp, timer: Timer) -> bool {
    match timer {
        Timer::Held(slot) => tasks
            .get(slot)
            .is_some_and(|task| task.state.holding().is_some_and(|holding| holding.check_at == at)),
        Timer::Due(_)
        | Timer::Expires(_)
        | Timer::Worker(_)
        | Timer::Quarantine(_)
        | Timer::Backlog(_)
        | Timer::Schedule(_)
        | Timer::Token(_) => true,
    }
}

/// Higher priority first, then the older. With aging, each period of waiting makes up for one step of
/// priority. That is a constant per task, so nothing has to be re-sorted as time passes.
pub(crate) fn rank(task: &Task, aging: Option<std::time::Duration>) -> TaskRank {
    let priority = i64::from(task.priority);
    let weight = match aging {
        None => -priority,
        Some(step) => {
            let step = i64::try_from(step.as_millis()).unwrap_or(i64::MAX);
            (task.submitted_at.0 as i64).saturating_sub(priority.saturating_mul(step))
        }
    };
    TaskRank { weight, age: task.age }
}
