//! Recovery: rebuilds an engine from its records. The last record of each thing wins; indexes, ready queues
//! and counts are built once, at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::array::{ArrayEnd, ArrayRecord};
use crate::arrays::ArrayKey;
use crate::command::OnClose;
use crate::commands::progress_of;
use crate::dependency::{Dependency, DependencyProgress};
use crate::edges::{EdgeKey, EdgeList};
use crate::engine::Engine;
use crate::event::LostReason;
use crate::id::{Slot, TaskId, WorkerKey};
use crate::name::Name;
use crate::ranked_list::TaskRank;
use crate::record::{LimitSetting, Output, QueueSetting, ShareSetting, WorkerHealth};
use crate::schedule::{ScheduleProgress, ScheduleSetting};
use crate::schedules::ScheduleEntry;
use crate::settings::Settings;
use crate::state::{PauseCause, PauseInfo, StateName, TaskState};
use crate::state_index::order;
use crate::task::{Task, TermsKey};
use crate::terms::Terms;
use crate::time::Timestamp;
use crate::timers::Timer;
use crate::workers::{Presence, Worker};

/// Takes records in the order in which they were written and builds an engine from them.
#[derive(Debug)]
pub struct Restore {
    engine: Engine,
    /// In the order in which they ended.
    ended: BTreeSet<(u64, Slot)>,
    /// The edges that wait for each task. Some may be gone or belong to another dependency by now.
    waiting: HashMap<TaskId, Vec<EdgeKey>, FixedState>,
    /// The elements that retention removed while the records were read: the event and the state of each end.
    forgotten: BTreeMap<ArrayKey, Vec<(u64, StateName)>>,
}

/// The tasks of a finished restore, by what is left to do for each.
#[derive(Default)]
struct SortedTasks {
    children: Vec<Slot>,
    dependents: Vec<(u64, Slot)>,
    held: Vec<Slot>,
    indexed: Vec<(u64, Slot)>,
    ready: Vec<(TaskRank, Slot)>,
}

impl Restore {
    /// A restore without facts.
    pub fn new(settings: Settings) -> Restore {
        let waiting = HashMap::with_hasher(FixedState::with_seed(settings.hash_seed));
        let forgotten = BTreeMap::new();
        Restore { engine: Engine::new(settings), ended: BTreeSet::new(), waiting, forgotten }
    }

    /// The key for tasks with these terms.
    pub fn terms(&mut self, terms: Terms) -> TermsKey {
        self.engine.terms_key(terms)
    }

    /// A task's newest state and its dependencies. `task.terms` comes from [`Restore::terms`].
    pub fn task(&mut self, mut task: Task, after: &[Dependency]) {
        // Parent and child links are built at the end, whatever a copy of a task contains.
        if let Some(extras) = &mut task.extras {
            extras.children.clear();
        }
        self.engine.terms.retain(task.terms);
        if let Some(slot) = self.engine.tasks.find(&task.id) {
            self.remove(slot);
        }
        // Of two tasks with one name, the older had ended and was forgotten before the newer was submitted.
        if let Some(slot) = self.task_named_like(&task) {
            self.remove(slot);
        }
        let ended = task.state.end().map(|end| end.event);
        let (id, state) = (task.id, task.state.name());
        task.edges = EdgeList::EMPTY;
        let slot = self.engine.tasks.insert(&self.engine.terms, task);
        self.note_dependencies(slot, after);
        self.note_end(id, state);
        if let Some(event) = ended {
            self.ended.insert((event, slot));
            self.retire();
        }
    }

    fn note_dependencies(&mut self, slot: Slot, after: &[Dependency]) {
        if after.is_empty() {
            return;
        }
        let engine = &mut self.engine;
        let list = engine.edges.add(slot, after.iter(), EdgeList::EMPTY);
        engine.tasks.at_mut(slot).edges = list;
        if engine.state_name(slot).has_ended() {
            return;
        }
        for (key, edge) in engine.edges.of(list).filter(|(_, edge)| edge.is_open()) {
            self.waiting.entry(edge.dependency).or_default().push(key);
        }
    }

    /// The record of an end is all that is written when a dependency is settled: the tasks that wait for it
    /// get no record, unless they change as well.
    fn note_end(&mut self, id: TaskId, state: StateName) {
        if !state.has_ended() || self.waiting.is_empty() {
            return;
        }
        for key in self.waiting.remove(&id).unwrap_or_default() {
            let edge = self.engine.edges.at(key);
            let waits =
                self.engine.tasks.get(edge.dependent).is_some_and(|task| !task.state.name().has_ended());
            if edge.dependency == id && edge.is_open() && waits {
                let progress = progress_of(edge.condition(), state);
                self.engine.edges.set_progress(key, progress);
            }
        }
    }

    fn task_named_like(&self, task: &Task) -> Option<Slot> {
        let engine = &self.engine;
        engine.tasks.find_name(&engine.terms, &engine.terms.get(task.terms).namespace, task.name()?)
    }

    /// Applies retention as it was applied when the record was new. At the end it would be too late: a client
    /// may have retried an ended task meanwhile, and then that task would no longer exceed the limit.
    fn retire(&mut self) {
        while self.ended.len() > self.engine.settings.ended_kept {
            let (event, slot) = self.ended.first().copied().expect("there are too many");
            let task = self.engine.tasks.at(slot);
            if let Some(array) = self.engine.terms.array(task.terms) {
                self.forgotten.entry(array).or_default().push((event, task.state.name()));
            }
            self.remove(slot);
        }
    }

    fn remove(&mut self, slot: Slot) {
        let old = self.engine.tasks.remove(&self.engine.terms, slot);
        self.engine.edges.remove(old.edges);
        if let Some(end) = old.state.end() {
            self.ended.remove(&(end.event, slot));
        }
        // Keep terms without users for now: the next record may use them.
        self.engine.terms.release_keeping(old.terms);
    }

    /// Adds the health of a worker.
    pub fn worker(&mut self, health: WorkerHealth) {
        let key = self.worker_named(&health.namespace.clone(), &health.worker.clone());
        self.engine.workers.at_mut(key).health = health;
    }

    /// Adds the settings of a queue.
    pub fn queue(&mut self, setting: QueueSetting) {
        let namespace_key = self.engine.namespaces.open(&setting.namespace);
        let key = self.engine.queues.open(&setting.namespace, &setting.queue, namespace_key);
        self.engine.queues.at_mut(key).setting = setting;
    }

    /// Adds the limit of a tag.
    pub fn limit(&mut self, setting: &LimitSetting) {
        let key = self.engine.tags.open(&setting.namespace, &setting.tag);
        let tag = self.engine.tags.at_mut(key);
        (tag.limit, tag.rate) = (setting.limit, setting.rate);
        self.engine.tags.close_if_unused(key);
    }

    /// Adds a schedule.
    pub fn schedule(&mut self, schedule: ScheduleSetting, progress: ScheduleProgress) {
        self.engine.schedules.put(ScheduleEntry::new(schedule, progress));
    }

    /// How far a schedule has come. One that is not known was removed later, or its record is lost.
    pub fn schedule_progress(&mut self, progress: ScheduleProgress) {
        self.engine.schedules.restore_progress(progress);
    }

    /// An array's newest state. Its elements may come before or after it.
    pub fn array(&mut self, record: ArrayRecord) {
        let (id, end) = (record.id, record.end);
        // Of two arrays with one name, the older was forgotten before the newer was submitted.
        if let Some(name) = &record.name
            && let Some(other) = self.engine.arrays.find_name(&record.namespace, name)
            && self.engine.arrays.at(other).record.id != id
        {
            let mut older = self.engine.arrays.at(other).record.clone();
            older.name = None;
            self.engine.arrays.replace(other, older);
        }
        let key = match self.engine.arrays.find(&id) {
            Some(key) => {
                // A younger array reuses the id of a forgotten one.
                if self.engine.arrays.at(key).record.age < record.age {
                    self.forgotten.remove(&key);
                }
                self.engine.arrays.replace(key, record);
                key
            }
            None => self.engine.arrays.insert(record),
        };
        let through = self.engine.arrays.at(key).record.forgotten.through;
        if let Some(removed) = self.forgotten.get_mut(&key) {
            removed.retain(|(event, _)| *event > through);
        }
        if let Some(ArrayEnd { state, .. }) = end {
            self.note_end(id, state);
        }
    }

    /// Adds the weight of a share key.
    pub fn share(&mut self, setting: &ShareSetting) {
        let key = self.engine.shares.open(&setting.namespace, &setting.share);
        self.engine.shares.set_weight(key, setting.weight);
    }

    /// Everything that came before is gone, if it is of this namespace. Arrays without elements are forgotten at the end.
    pub fn namespace_left(&mut self, namespace: &Name) {
        let engine = &self.engine;
        let is_of = |task: &Task| engine.terms.get(task.terms).namespace == *namespace;
        let tasks = engine.tasks.iter_from(Slot(0)).filter(|(_, task)| is_of(task));
        let slots: Vec<Slot> = tasks.map(|(slot, _)| slot).collect();
        for slot in slots {
            self.remove(slot);
        }
        let engine = &mut self.engine;
        let arrays = engine.arrays.iter().filter(|(_, array)| array.record.namespace == *namespace);
        for (key, _) in arrays {
            self.forgotten.remove(&key);
        }
        let workers: Vec<WorkerKey> = engine.workers.of(namespace).map(|(key, _)| key).collect();
        for key in workers {
            engine.workers.remove(key);
        }
        let queues: Vec<_> = engine.queues.of(namespace).map(|(key, _)| key).collect();
        for key in queues {
            let setting = &mut engine.queues.at_mut(key).setting;
            *setting = QueueSetting::new(setting.namespace.clone(), setting.queue.clone());
        }
        let tags = engine.tags.entries().filter(|(_, tag)| tag.namespace == *namespace);
        let tags: Vec<_> = tags.map(|(key, _)| key).collect();
        for key in tags {
            let tag = engine.tags.at_mut(key);
            (tag.limit, tag.rate) = (None, None);
            engine.tags.close_if_unused(key);
        }
        let shares = engine.shares.iter().filter(|(_, share)| share.namespace == *namespace);
        let shares: Vec<_> = shares.map(|(key, _)| key).collect();
        for key in shares {
            engine.shares.set_weight(key, None);
        }
        let schedules = engine.schedules.iter().filter(|(_, entry)| entry.schedule.namespace == *namespace);
        let schedules: Vec<_> = schedules.map(|(key, _)| key).collect();
        for key in schedules {
            engine.schedules.remove(key);
        }
    }

    /// Notes the number of a stored event. The next event gets a number higher than all of them.
    pub fn event(&mut self, seq: u64) {
        self.engine.next_event = self.engine.next_event.max(seq + 1);
    }

    /// The restored engine at a new time. Workers of held tasks have a grace period to return. Nothing is
    /// assigned yet, because no worker is connected.
    pub fn finish(mut self, now: Timestamp) -> Engine {
        self.settle_arrays();
        let mut sorted = self.sort_tasks();
        self.link_families(&sorted.children);
        self.link_dependents(&mut sorted);
        let SortedTasks { held, mut indexed, mut ready, .. } = sorted;
        self.find_holders(now, &held);
        let engine = &mut self.engine;
        for slot in held {
            engine.arm_expiry(now, slot);
            engine.enter_state(slot);
        }
        // Insert in the order of the state index and of the ready queues, so that each task goes to the end.
        indexed.sort_unstable();
        for (_, slot) in indexed {
            engine.shorten_retry(now, slot);
            engine.arm_expiry(now, slot);
            engine.enter_state(slot);
        }
        ready.sort_unstable();
        for (_, slot) in ready {
            // If the clock was set back, `since` must not lie in the future.
            if let TaskState::Ready { since } = &mut engine.tasks.at_mut(slot).state {
                *since = now.min(*since);
            }
            engine.arm_expiry(now, slot);
            engine.enter_state(slot);
        }
        for (key, until) in engine.quarantines() {
            engine.timers.arm(until, Timer::Quarantine(key));
        }
        for key in engine.terms.unused() {
            engine.terms.retain(key);
            engine.release_terms(key);
        }
        engine.restore_buckets(now);
        engine.close_service(now);
        engine.remove_unused_entries();
        engine.assign_tasks(now, &mut DiscardOutput);
        engine.retire_ended(now, &mut DiscardOutput);
        engine.mark_backlogs_dirty();
        engine.arm_schedules();
        self.engine
    }

    /// Compares the arrays with the elements that are there. An array that lost elements in a repair goes on
    /// without them, and one that has no element any more is forgotten.
    fn settle_arrays(&mut self) {
        if self.engine.arrays.is_empty() {
            return;
        }
        let mut elements: BTreeMap<ArrayKey, (u32, u32)> = BTreeMap::new();
        let mut removed = Vec::new();
        for (slot, task) in self.engine.tasks.iter_from(Slot(0)) {
            let Some(key) = self.engine.terms.array(task.terms) else { continue };
            let through = self.engine.arrays.at(key).record.forgotten.through;
            let end = task.state.end();
            if end.is_some_and(|end| end.event <= through) {
                // Retention had removed it by its age, and the array counts it.
                removed.push(slot);
                continue;
            }
            let (kept, ended) = elements.entry(key).or_default();
            *kept += 1;
            *ended += u32::from(end.is_some());
        }
        for slot in removed {
            self.remove(slot);
        }
        let keys: Vec<ArrayKey> = self.engine.arrays.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some((kept, ended)) = elements.get(&key).copied() else {
                self.engine.remove_array(key, &mut DiscardOutput);
                continue;
            };
            let record = &mut self.engine.arrays.at_mut(key).record;
            for (event, state) in self.forgotten.remove(&key).unwrap_or_default() {
                record.forgotten.add(state, event);
            }
            record.size = kept + record.forgotten.len();
            if ended < kept {
                record.end = None;
            } else if record.end.is_none() {
                self.engine.unended_arrays.push(key);
            }
            self.engine.limit_elements(key);
        }
    }

    /// A single pass over the whole table: the table is long, and most tasks are ready.
    fn sort_tasks(&self) -> SortedTasks {
        let mut sorted = SortedTasks::default();
        for (slot, task) in self.engine.tasks.iter_from(Slot(0)) {
            if task.parent().is_some() {
                sorted.children.push(slot);
            }
            if !task.edges.is_empty() && !task.state.name().has_ended() {
                sorted.dependents.push((task.age, slot));
            }
            if let TaskState::Ready { .. } = task.state {
                sorted.ready.push((self.engine.rank_of(slot), slot));
            } else if task.state.holding().is_some() {
                sorted.held.push(slot);
            } else {
                sorted.indexed.push((order(task), slot));
            }
        }
        sorted
    }

    fn link_families(&mut self, children: &[Slot]) {
        for slot in children {
            let child = self.engine.tasks.at(*slot);
            let Some(parent) = child.parent().and_then(|parent| self.engine.tasks.find(&parent)) else {
                continue;
            };
            // A task that is younger than its child is not the parent: it reuses the id of a forgotten one.
            let age = child.age;
            if self.engine.tasks.at(parent).age < age {
                self.engine.tasks.at_mut(parent).extras_mut().children.insert((age, *slot));
            }
        }
    }

    /// Links the open dependencies, in the order of submission, and counts them.
    fn link_dependents(&mut self, sorted: &mut SortedTasks) {
        sorted.dependents.sort_unstable();
        for (_, slot) in &sorted.dependents {
            self.settle_lost_dependencies(*slot);
            let engine = &mut self.engine;
            engine.link_dependencies(*slot);
            let task = engine.tasks.at(*slot);
            let counted = engine.edges.open_count(task.edges);
            match &mut engine.tasks.at_mut(*slot).state {
                TaskState::Waiting { open } => *open = counted,
                TaskState::Suspended(suspension) => suspension.open = counted,
                _ => {}
            }
        }
        // Without open dependencies a task waits only if records were lost. A person decides.
        for slot in sorted.indexed.iter().map(|(_, slot)| *slot) {
            let task = self.engine.tasks.at_mut(slot);
            if task.state == (TaskState::Waiting { open: 0 }) {
                let reason = Some("its dependencies are no longer known".into());
                let since = task.submitted_at;
                let why = PauseCause::DependencyBroken;
                task.state = TaskState::Paused(Box::new(PauseInfo { since, why, reason }));
            }
        }
    }

    /// An open dependency has not ended, unless a repair has lost its record.
    fn settle_lost_dependencies(&mut self, slot: Slot) {
        let engine = &self.engine;
        let own = engine.tasks.at(slot);
        let settled: Vec<(EdgeKey, DependencyProgress)> = engine
            .edges
            .of(own.edges)
            .filter(|(_, edge)| edge.is_open())
            .filter_map(|(key, edge)| {
                let lost =
                    if edge.is_wait() { DependencyProgress::Cancelled } else { DependencyProgress::Broken };
                let known = engine.dependency_of(own, edge).map(|found| engine.state_of(found));
                let progress = known.map_or(lost, |state| progress_of(edge.condition(), state));
                (progress != DependencyProgress::Open).then_some((key, progress))
            })
            .collect();
        for (key, progress) in settled {
            self.engine.edges.set_progress(key, progress);
        }
    }

    /// Recreates the worker of every held task: away, with a new lease.
    fn find_holders(&mut self, now: Timestamp, held: &[Slot]) {
        let lease_until = now + self.engine.settings.restart_grace;
        for slot in held {
            let task = self.engine.tasks.at(*slot);
            let Some(holding) = task.state.holding() else { continue };
            let (worker, started_at) = (holding.worker.clone(), holding.started_at);
            let namespace = self.engine.namespace_of(*slot).clone();
            let is_suspended = task.state.name() == StateName::Suspended;
            let suspended_for = task.suspended_for();
            let run_limit = self.engine.terms.get(task.terms).run_limit.filter(|_| !is_suspended);
            let key = self.worker_named(&namespace, &worker);
            let engine = &mut self.engine;
            if let Presence::Gone { .. } = engine.workers.at(key).presence {
                let reason = LostReason::NotBackAfterRestart;
                engine.set_presence(key, Presence::Lost { since: now, reason, lease_until, session: None });
                engine.workers.at_mut(key).on_close = OnClose::MayStillRun;
                engine.watch_worker(key);
            }
            let holding = engine.tasks.at_mut(*slot).state.holding_mut().expect("it is held");
            holding.key = key;
            holding.check_at = match (started_at, run_limit) {
                (Some(started), Some(limit)) => (started + suspended_for + limit).max(lease_until),
                // An unconfirmed task is settled when the worker returns or its lease ends.
                (Some(_), None) | (None, _) => Timestamp::NEVER,
            };
        }
    }

    fn worker_named(&mut self, namespace: &Name, worker: &Name) -> WorkerKey {
        let engine = &mut self.engine;
        if let Some(key) = engine.workers.find(namespace, worker) {
            return key;
        }
        let namespace_key = engine.namespaces.open(namespace);
        engine.workers.insert(Worker::new(namespace.clone(), namespace_key, worker.clone(), Timestamp::ZERO))
    }
}

impl Engine {
    fn arm_expiry(&mut self, now: Timestamp, slot: Slot) {
        // No client is connected after a restart, and a client that cannot come back will not.
        if self.set_abandoned(now, slot) {
            return;
        }
        let task = self.tasks.at(slot);
        let expires_at = task.extras.as_ref().and_then(|extras| extras.expires_at);
        if let Some(at) = expires_at
            && !task.state.name().has_ended()
        {
            self.timers.arm(at, Timer::Expires(slot));
        }
    }

    /// If the clock was set back, a retry must not wait longer than its longest delay.
    fn shorten_retry(&mut self, now: Timestamp, slot: Slot) {
        let task = self.tasks.at(slot);
        let terms = self.terms.get(task.terms);
        let crash_backoff = terms.crash_backoff.map_or(Duration::ZERO, |backoff| backoff.max);
        let longest = now + terms.backoff.max.max(crash_backoff);
        if let TaskState::Delayed { until } = task.state
            && until > longest
            && task.not_before() != Some(until)
        {
            self.tasks.at_mut(slot).state = TaskState::Delayed { until: longest };
        }
    }

    fn quarantines(&self) -> Vec<(WorkerKey, Timestamp)> {
        self.workers
            .iter()
            .filter_map(|(key, worker)| Some((key, worker.health.quarantined_until?)))
            .collect()
    }

    /// No worker is connected after a restart, so queues that were served are unserved from now on.
    fn close_service(&mut self, now: Timestamp) {
        let keys: Vec<_> = self.queues.keys().collect();
        for key in keys {
            let setting = &mut self.queues.at_mut(key).setting;
            if setting.ever_served && setting.unserved_since.is_none() {
                setting.unserved_since = Some(now);
            }
        }
    }

    /// Removes workers without tasks, crashes and profile, and queues that are no longer used.
    fn remove_unused_entries(&mut self) {
        let keys: Vec<WorkerKey> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.held.is_empty())
            .filter(|(_, worker)| worker.health.crashes == 0 && worker.health.profile.is_none())
            .map(|(key, _)| key)
            .collect();
        for key in keys {
            if let Some(until) = self.workers.at(key).health.quarantined_until {
                self.timers.disarm(until, Timer::Quarantine(key));
            }
            self.workers.remove(key);
        }
        let keys: Vec<_> = self.queues.keys().collect();
        for key in keys {
            self.close_queue_if_unused(key);
        }
    }
}

/// Discards output: an engine that is being restored has no listener.
struct DiscardOutput;

impl Output for DiscardOutput {
    fn record(&mut self, _: crate::Event, _: crate::Change<'_>) {}
    fn notice(&mut self, _: crate::SessionId, _: crate::Notice) {}
    fn body(&mut self, _: &[u8]) -> crate::Blob {
        unreachable!("no schedule fires while an engine is restored")
    }
    fn freed(&mut self, _: crate::Blob) {}
}
