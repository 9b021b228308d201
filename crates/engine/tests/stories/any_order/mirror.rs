//! A model of the broker made of records alone: what a reader of the journal knows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_engine::event::{EventData, EventSubject, Next};
use tenure_engine::terms::OnLost;
use tenure_engine::{
    ArrayRecord, Blob, Condition, Demand, Dependency, DependencyProgress, Event, Name, Resource, StateName,
    Task, TaskId, TaskState, Terms, Threshold, Thresholds, Timestamp, Which, WorkerSpec,
};

use crate::broker::Kept;

/// An array and the states of all its elements, whether retention has removed them or not.
pub(crate) struct MirrorArray {
    pub(crate) record: ArrayRecord,
    pub(crate) elements: BTreeMap<TaskId, StateName>,
    pub(crate) has_ended: bool,
}

impl MirrorArray {
    pub(crate) fn counts(&self) -> [u64; StateName::COUNT] {
        let mut counts = [0; StateName::COUNT];
        for state in self.elements.values() {
            counts[*state as usize] += 1;
        }
        counts
    }

    fn outcome(&self) -> StateName {
        let counts = self.counts();
        let is_there = |state: &StateName| counts[*state as usize] > 0;
        let mut bad = [StateName::Failed, StateName::Cancelled].into_iter();
        bad.find(is_there).unwrap_or(StateName::Completed)
    }
}

#[derive(Default)]
pub(crate) struct Mirror {
    pub(crate) arrays: BTreeMap<TaskId, MirrorArray>,
    pub(crate) tasks: BTreeMap<TaskId, (Task, Terms)>,
    pub(crate) paused: BTreeMap<(Name, Name), bool>,
    pub(crate) limits: BTreeMap<(Name, Name), Option<u32>>,
    /// The queues and tags that have a rate.
    pub(crate) rated_queues: BTreeMap<(Name, Name), bool>,
    pub(crate) rated_tags: BTreeMap<(Name, Name), bool>,
    /// The own thresholds of queues, and the backlogs with an event.
    pub(crate) thresholds: BTreeMap<(Name, Name), Option<Thresholds>>,
    pub(crate) backlogs: BTreeSet<(Name, Name, Threshold)>,
    pub(crate) last_event: u64,
    /// What each task waits for, as the ends of the others leave it.
    pub(crate) after: BTreeMap<TaskId, Vec<Dependency>>,
    pub(crate) aging: Option<Duration>,
    /// Tasks that must not run twice by themselves, and have begun.
    pub(crate) begun: BTreeSet<TaskId>,
}

impl Mirror {
    pub(crate) fn apply(&mut self, event: &Event, kept: &Kept) {
        assert_eq!(event.seq, self.last_event + 1, "event numbers have no holes");
        self.last_event = event.seq;
        match kept {
            Kept::Task(task, terms, after) => self.apply_task(event, task, terms, after),
            Kept::Queue(setting) => {
                let queue = (setting.namespace.clone(), setting.queue.clone());
                self.apply_backlog(&queue, &event.kind);
                self.thresholds.insert(queue.clone(), setting.thresholds);
                self.rated_queues.insert(queue.clone(), setting.rate.is_some());
                self.paused.insert(queue, setting.paused);
            }
            Kept::Limit(setting) => {
                let tag = (setting.namespace.clone(), setting.tag.clone());
                self.rated_tags.insert(tag.clone(), setting.rate.is_some());
                self.limits.insert(tag, setting.limit);
            }
            Kept::Array(record) => self.apply_array(event, record),
            Kept::Worker(_)
            | Kept::Schedule(..)
            | Kept::ScheduleProgress(_)
            | Kept::Share(_)
            | Kept::Nothing => {}
        }
    }

    /// An array ends once, when its last element has, and again after a retry.
    fn apply_array(&mut self, event: &Event, record: &ArrayRecord) {
        let EventSubject::Array { id, .. } = &event.about else {
            panic!("the record of an array comes with an event about it")
        };
        assert_eq!(*id, record.id, "event and record agree");
        if let EventData::ArraySubmitted { size } = event.kind {
            assert_eq!(size, record.size);
            let known = MirrorArray { record: record.clone(), elements: BTreeMap::new(), has_ended: false };
            self.arrays.insert(*id, known);
            return;
        }
        let array = self.arrays.get_mut(id).expect("an array begins with its submission");
        array.record = record.clone();
        if let EventData::ArrayEnded { completed, failed, cancelled } = event.kind {
            assert!(!std::mem::replace(&mut array.has_ended, true), "an end has one event");
            let counts = array.counts();
            let of = |state: StateName| counts[state as usize];
            let told = [completed, failed, cancelled].map(u64::from);
            assert_eq!(told, [StateName::Completed, StateName::Failed, StateName::Cancelled].map(of));
            assert_eq!(told.iter().sum::<u64>(), u64::from(record.size), "all elements have ended");
            let outcome = array.outcome();
            self.settle(*id, outcome);
        }
    }

    /// A task that must not run twice by itself begins again only if a client or a reported failure wants it.
    fn check_begin(&mut self, kind: &EventData, task: &Task, terms: &Terms) {
        match kind {
            EventData::Submitted { .. }
            | EventData::Resumed
            | EventData::Retried
            | EventData::Failed { next: Next::RetriedAt(_) | Next::Paused, .. } => {
                self.begun.remove(&task.id);
            }
            _ => {}
        }
        let before = self.tasks.get(&task.id).map(|(before, _)| before.state.name());
        let begins = before == Some(StateName::Assigned)
            && matches!(task.state.name(), StateName::Running | StateName::Completed);
        if begins && terms.on_lost != OnLost::Requeue {
            assert!(self.begun.insert(task.id), "{} begins for the second time", task.id);
        }
    }

    fn apply_element(&mut self, task: &Task, terms: &Terms) {
        let Some(array) = terms.array else { return };
        let known = self.arrays.get_mut(&array.id).expect("the array comes before its elements");
        known.elements.insert(task.id, task.state.name());
        known.has_ended &= task.state.name().has_ended();
    }

    /// A backlog begins once and ends once.
    fn apply_backlog(&mut self, (namespace, queue): &(Name, Name), kind: &EventData) {
        let entry = |threshold: Threshold| (namespace.clone(), queue.clone(), threshold);
        match kind {
            EventData::QueueBacklog { threshold, depth, .. } => {
                assert!(self.backlogs.insert(entry(*threshold)), "{queue} has this backlog already");
                assert_eq!(*depth, self.waiting(namespace, queue).count() as u64, "ready in {queue}");
            }
            EventData::QueueBacklogCleared { threshold, .. } => {
                assert!(self.backlogs.remove(&entry(*threshold)), "{queue} has no backlog to clear");
            }
            _ => {}
        }
    }

    /// Since when each ready task of a queue is ready.
    pub(crate) fn waiting(&self, namespace: &Name, queue: &Name) -> impl Iterator<Item = Timestamp> {
        self.tasks.values().filter_map(move |(task, terms)| match task.state {
            TaskState::Ready { since } if terms.namespace == *namespace && terms.queue == *queue => {
                Some(since)
            }
            _ => None,
        })
    }

    fn apply_task(&mut self, event: &Event, task: &Task, terms: &Terms, after: &[Dependency]) {
        let EventSubject::Task { id, attempt, terms: told } = &event.about else {
            panic!("the record of a task comes with an event about it")
        };
        assert_eq!((*id, *attempt, &**told), (task.id, task.attempt, terms), "event and record agree");
        let next = task.state.name();
        self.check_begin(&event.kind, task, terms);
        match self.tasks.get(&task.id) {
            None => {
                assert!(
                    matches!(event.kind, EventData::Submitted { .. }),
                    "a task begins with its submission"
                );
            }
            // Only an id that was forgotten may come again; the world takes those out.
            Some((before, _)) => {
                let state = before.state.name();
                let stays = state == next
                    && matches!(
                        event.kind,
                        EventData::Progress { .. }
                            | EventData::Checkpoint { .. }
                            | EventData::Moved
                            | EventData::CancelRequested { .. }
                            | EventData::PauseRequested { .. }
                            | EventData::IntentDelivered { .. }
                            | EventData::Suspended { .. }
                            | EventData::Continued { .. }
                    )
                    || next == StateName::Suspended
                        && state == next
                        && matches!(event.kind, EventData::Paused { .. } | EventData::Resumed);
                assert!(stays || state.may_become(next), "{state} became {next} by {:?}", event.kind);
                let expected = before.attempt + u32::from(matches!(event.kind, EventData::Assigned { .. }));
                assert_eq!(task.attempt, expected, "the attempt grows by one with each assignment");
                assert_eq!(task.age, before.age, "a task keeps its age");
            }
        }
        assert_eq!(event.kind.is_end(), next.has_ended(), "{:?} and {next}", event.kind);
        self.apply_dependencies(event, task, after);
        self.tasks.insert(task.id, (task.clone(), terms.clone()));
        self.apply_element(task, terms);
    }

    /// A simple model: an end settles every dependency on it, a retry opens those that have not ended.
    fn apply_dependencies(&mut self, event: &Event, task: &Task, after: &[Dependency]) {
        let ends_attempt = task.state.name().has_ended() || matches!(event.kind, EventData::Failed { .. });
        if ends_attempt && let Some(known) = self.after.get_mut(&task.id) {
            known.retain(|each| each.condition != Condition::Waited);
        }
        match event.kind {
            EventData::Submitted { .. }
            | EventData::Retried
            | EventData::Suspended { .. }
            | EventData::Continued { .. } => {
                self.after.insert(task.id, after.to_vec());
                for each in after.iter().filter(|each| each.progress == DependencyProgress::Open) {
                    let has_ended = match self.arrays.get(&each.task) {
                        Some(array) => array.has_ended,
                        None => self.tasks[&each.task].0.state.name().has_ended(),
                    };
                    assert!(!has_ended, "an open dependency has not ended");
                }
            }
            _ => {
                let known = self.after.get(&task.id).map_or(&[][..], |known| known);
                assert_eq!(after, known, "the dependencies of {} after {:?}", task.id, event.kind);
            }
        }
        if task.state.name().has_ended() {
            self.settle(task.id, task.state.name());
        }
    }

    fn settle(&mut self, ended: TaskId, state: StateName) {
        let tasks = &self.tasks;
        let waits = |id: &TaskId| tasks.get(id).is_some_and(|(task, _)| !task.state.name().has_ended());
        for (_, dependencies) in self.after.iter_mut().filter(|(id, _)| **id != ended && waits(id)) {
            let open =
                |each: &&mut Dependency| each.task == ended && each.progress == DependencyProgress::Open;
            for each in dependencies.iter_mut().filter(open) {
                let met = match each.condition {
                    Condition::Completed => state == StateName::Completed,
                    Condition::Ended => true,
                    Condition::Failed => state == StateName::Failed,
                    Condition::Waited => state == StateName::Completed,
                };
                each.progress = match (met, each.condition, state) {
                    (true, ..) => DependencyProgress::Met,
                    (false, Condition::Waited, StateName::Cancelled) => DependencyProgress::Cancelled,
                    (false, ..) => DependencyProgress::Broken,
                };
            }
        }
    }

    /// No dependency of the task is open.
    pub(crate) fn is_released(&self, task: TaskId) -> bool {
        let after = self.after.get(&task).map_or(&[][..], |after| after);
        after.iter().all(|each| each.progress != DependencyProgress::Open)
    }

    pub(crate) fn of_state(&self, state: StateName) -> impl Iterator<Item = &(Task, Terms)> {
        self.tasks.values().filter(move |(task, _)| task.state.name() == state)
    }

    /// Whether a worker that declares this has room for one more task, besides those it holds: slots, light
    /// slots, and every resource; of gpus, every single one.
    pub(crate) fn has_capacity(&self, namespace: &str, spec: &WorkerSpec, demand: &Demand) -> bool {
        let has_slots = self.has_slots(namespace, spec, demand);
        let has = |wanted: &Resource| {
            let (used, total) = self.used_of(namespace, spec, &wanted.name);
            if &*wanted.name == "gpus" && used + wanted.quantity.0 <= total {
                let free =
                    (0..(total / 1000) as u16).map(|gpu| 1000 - self.gpu_use(namespace, &spec.worker, gpu));
                let enough = free.filter(|free| *free >= wanted.quantity.0.min(1000)).count() as u64;
                return enough >= wanted.quantity.0.div_ceil(1000);
            }
            used + wanted.quantity.0 <= total
        };
        has_slots && demand.resources.iter().all(has)
    }

    /// Whether a worker that declares this could continue a suspended attempt: it has room for all that the attempt
    /// had, the same gpus included, or it does nothing else.
    pub(crate) fn has_room_again(&self, spec: &WorkerSpec, task: &Task, terms: &Terms) -> bool {
        let namespace = &terms.namespace;
        let gpus = task.devices().map_or(&[][..], |devices| &devices.gpus);
        let of_each = terms.demand.of("gpus").0.min(1000);
        let is_free = |gpu: &u16| self.gpu_use(namespace, &spec.worker, *gpu) + of_each <= 1000;
        let has = |wanted: &Resource| {
            let (used, total) = self.used_of(namespace, spec, &wanted.name);
            used + wanted.quantity.0 <= total
        };
        let fits = self.has_slots(namespace, spec, &terms.demand)
            && terms.demand.resources.iter().all(has)
            && gpus.iter().all(is_free);
        fits || self.working_on(namespace, &spec.worker).next().is_none()
    }

    /// How much of a resource the tasks of a worker use, and how much the worker has.
    fn used_of(&self, namespace: &str, spec: &WorkerSpec, name: &str) -> (u64, u64) {
        let declared = spec.resources.iter().find(|resource| &*resource.name == name);
        let total = declared.map_or(0, |resource| resource.quantity.0);
        (self.working_on(namespace, &spec.worker).map(|(_, terms)| terms.demand.of(name).0).sum(), total)
    }

    /// Whether a worker that declares this has slots for one more task.
    pub(crate) fn has_slots(&self, namespace: &str, spec: &WorkerSpec, demand: &Demand) -> bool {
        let held = || self.working_on(namespace, &spec.worker);
        match demand.slots {
            0 => held().filter(|(_, terms)| terms.demand.slots == 0).count() < spec.light_slots as usize,
            slots => held().map(|(_, terms)| terms.demand.slots).sum::<u32>() + slots <= spec.slots,
        }
    }

    /// The thousandths of one gpu that the tasks of a worker use.
    pub(crate) fn gpu_use(&self, namespace: &str, worker: &str, gpu: u16) -> u64 {
        let uses = |(task, terms): &(Task, Terms)| {
            let has_it = task.devices().is_some_and(|devices| devices.gpus.contains(&gpu));
            if has_it { terms.demand.of("gpus").0.min(1000) } else { 0 }
        };
        self.working_on(namespace, worker).map(uses).sum()
    }

    /// What a worker holds, except what is suspended: that takes no room.
    fn working_on<'a>(
        &'a self,
        namespace: &'a str,
        worker: &'a str,
    ) -> impl Iterator<Item = &'a (Task, Terms)> {
        let held = self.held_by(namespace, worker);
        held.filter(|(task, _)| task.state.name() != StateName::Suspended)
    }

    pub(crate) fn held_by<'a>(
        &'a self,
        namespace: &'a str,
        worker: &'a str,
    ) -> impl Iterator<Item = &'a (Task, Terms)> {
        let holds = move |(task, terms): &&(Task, Terms)| {
            &*terms.namespace == namespace
                && task.state.holding().is_some_and(|holding| &*holding.worker == worker)
        };
        self.tasks.values().filter(holds)
    }

    pub(crate) fn in_use(&self, namespace: &str, tag: &str) -> u32 {
        let uses = |(task, terms): &&(Task, Terms)| {
            &*terms.namespace == namespace
                && task.state.name().is_held()
                && task.state.name() != StateName::Suspended
                && terms.tags.iter().any(|known| &**known == tag)
        };
        self.tasks.values().filter(uses).count() as u32
    }

    /// Neither its queue nor its tags hold it back.
    pub(crate) fn is_free_to_go(&self, terms: &Terms) -> bool {
        let paused =
            self.paused.get(&(terms.namespace.clone(), terms.queue.clone())).copied().unwrap_or(false);
        !paused && self.limits_allow(terms)
    }

    /// Neither its tags nor its array are at their limits. What is suspended does not count.
    pub(crate) fn limits_allow(&self, terms: &Terms) -> bool {
        let array_allows = terms.array.is_none_or(|array| {
            let array = &self.arrays[&array.id];
            let is_counted = |state: &&StateName| state.is_held() && **state != StateName::Suspended;
            let in_use = array.elements.values().filter(is_counted).count();
            array.record.limit.is_none_or(|limit| in_use < limit as usize)
        });
        array_allows && terms.tags.iter().all(|tag| self.has_room(&terms.namespace, tag))
    }

    /// The arrays of which an element is kept.
    pub(crate) fn kept_arrays(&self) -> impl Iterator<Item = &MirrorArray> {
        // Another task may have the id of an element that is gone with its array.
        let tasks = &self.tasks;
        let is_element = move |id: &TaskId, array: &MirrorArray| {
            tasks.get(id).is_some_and(|(_, terms)| terms.array == Some(array.record.terms()))
        };
        let is_kept = move |array: &&MirrorArray| array.elements.keys().any(|id| is_element(id, array));
        self.arrays.values().filter(is_kept)
    }

    /// Its queue or a tag has a rate, which may hold it back.
    pub(crate) fn is_rated(&self, terms: &Terms) -> bool {
        let key = |name: &Name| (terms.namespace.clone(), name.clone());
        self.rated_queues.get(&key(&terms.queue)).copied().unwrap_or(false)
            || terms.tags.iter().any(|tag| self.rated_tags.get(&key(tag)).copied().unwrap_or(false))
    }

    /// Whether the queue of these terms has tasks that take turns.
    pub(crate) fn takes_turns(&self, terms: &Terms) -> bool {
        let is_same = |other: &Terms| other.namespace == terms.namespace && other.queue == terms.queue;
        self.tasks.values().any(|(_, other)| is_same(other) && other.share.is_some())
    }

    /// Tasks of one level take turns.
    pub(crate) fn level(&self, task: &Task) -> i64 {
        let (weight, _) = self.rank(task);
        self.aging.map_or(weight, |step| weight.div_euclid(step.as_millis() as i64))
    }

    fn has_room(&self, namespace: &Name, tag: &Name) -> bool {
        let limit = self.limits.get(&(namespace.clone(), tag.clone())).copied().flatten();
        limit.is_none_or(|limit| self.in_use(namespace, tag) < limit)
    }

    /// The smaller goes first.
    pub(crate) fn rank(&self, task: &Task) -> (i64, u64) {
        let priority = i64::from(task.priority);
        let weight = match self.aging {
            None => -priority,
            Some(step) => task.submitted_at.0 as i64 - priority * step.as_millis() as i64,
        };
        (weight, task.age)
    }

    pub(crate) fn blobs(&self) -> impl Iterator<Item = Blob> {
        let of = |(task, _): &(Task, Terms)| Which::ALL.map(|which| which.of(task));
        let shared = self.kept_arrays().map(|array| array.record.body);
        self.tasks.values().flat_map(of).chain(shared).filter(|blob| !blob.is_empty())
    }
}
