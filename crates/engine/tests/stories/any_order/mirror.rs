//! A model of the broker made of records alone: what somebody who reads the journal knows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_engine::event::{EventData, EventSubject};
use tenure_engine::{
    Blob, Condition, Demand, Dependency, DependencyProgress, Event, Name, Resource, StateName, Task, TaskId,
    TaskState, Terms, Threshold, Thresholds, Timestamp, Which, WorkerSpec,
};

use crate::broker::Kept;

#[derive(Default)]
pub(crate) struct Mirror {
    pub(crate) tasks: BTreeMap<TaskId, (Task, Terms)>,
    pub(crate) paused: BTreeMap<(Name, Name), bool>,
    pub(crate) limits: BTreeMap<(Name, Name), Option<u32>>,
    /// The own thresholds of queues, and the backlogs of which was told.
    pub(crate) thresholds: BTreeMap<(Name, Name), Option<Thresholds>>,
    pub(crate) backlogs: BTreeSet<(Name, Name, Threshold)>,
    pub(crate) last_event: u64,
    /// What each task waits for, as the ends of the others leave it.
    pub(crate) after: BTreeMap<TaskId, Vec<Dependency>>,
    pub(crate) aging: Option<Duration>,
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
                self.paused.insert(queue, setting.paused);
            }
            Kept::Limit(setting) => {
                self.limits.insert((setting.namespace.clone(), setting.tag.clone()), setting.limit);
            }
            Kept::Worker(_) | Kept::Nothing => {}
        }
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
                    );
                assert!(stays || state.may_become(next), "{state} became {next} by {:?}", event.kind);
                let expected = before.attempt + u32::from(matches!(event.kind, EventData::Assigned { .. }));
                assert_eq!(task.attempt, expected, "the attempt grows by one with each assignment");
                assert_eq!(task.age, before.age, "a task keeps its age");
            }
        }
        assert_eq!(event.kind.is_end(), next.has_ended(), "{:?} and {next}", event.kind);
        self.apply_dependencies(event, task, after);
        self.tasks.insert(task.id, (task.clone(), terms.clone()));
    }

    /// A simple model: an end settles every dependency on it, a retry opens those that have not ended.
    fn apply_dependencies(&mut self, event: &Event, task: &Task, after: &[Dependency]) {
        match event.kind {
            EventData::Submitted { .. } | EventData::Retried => {
                self.after.insert(task.id, after.to_vec());
                for each in after.iter().filter(|each| each.progress == DependencyProgress::Open) {
                    let (waited_for, _) = &self.tasks[&each.task];
                    assert!(!waited_for.state.name().has_ended(), "an open dependency has not ended");
                }
            }
            _ => {
                let known = self.after.get(&task.id).map_or(&[][..], |known| known);
                assert_eq!(after, known, "the dependencies of {} after {:?}", task.id, event.kind);
            }
        }
        let state = task.state.name();
        if !state.has_ended() {
            return;
        }
        let tasks = &self.tasks;
        let waits = |id: &TaskId| tasks.get(id).is_some_and(|(task, _)| !task.state.name().has_ended());
        for (_, dependencies) in self.after.iter_mut().filter(|(id, _)| **id != task.id && waits(id)) {
            let open =
                |each: &&mut Dependency| each.task == task.id && each.progress == DependencyProgress::Open;
            for each in dependencies.iter_mut().filter(open) {
                let met = match each.condition {
                    Condition::Completed => state == StateName::Completed,
                    Condition::Ended => true,
                    Condition::Failed => state == StateName::Failed,
                };
                each.progress = if met { DependencyProgress::Met } else { DependencyProgress::Broken };
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
        let held = || self.held_by(namespace, &spec.worker);
        let has_slots = match demand.slots {
            0 => held().filter(|(_, terms)| terms.demand.slots == 0).count() < spec.light_slots as usize,
            slots => held().map(|(_, terms)| terms.demand.slots).sum::<u32>() + slots <= spec.slots,
        };
        let has = |wanted: &Resource| {
            let declared = spec.resources.iter().find(|resource| resource.name == wanted.name);
            let total = declared.map_or(0, |resource| resource.quantity.0);
            let used: u64 = held().map(|(_, terms)| terms.demand.of(&wanted.name).0).sum();
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

    /// The thousandths of one gpu that the tasks of a worker use.
    pub(crate) fn gpu_use(&self, namespace: &str, worker: &str, gpu: u16) -> u64 {
        let uses = |(task, terms): &(Task, Terms)| {
            let has_it = task.devices().is_some_and(|devices| devices.gpus.contains(&gpu));
            if has_it { terms.demand.of("gpus").0.min(1000) } else { 0 }
        };
        self.held_by(namespace, worker).map(uses).sum()
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
                && terms.tags.iter().any(|known| &**known == tag)
        };
        self.tasks.values().filter(uses).count() as u32
    }

    /// Neither its queue nor its tags hold it back.
    pub(crate) fn is_free_to_go(&self, terms: &Terms) -> bool {
        let paused =
            self.paused.get(&(terms.namespace.clone(), terms.queue.clone())).copied().unwrap_or(false);
        !paused && terms.tags.iter().all(|tag| self.has_room(&terms.namespace, tag))
    }

    pub(crate) fn has_room(&self, namespace: &Name, tag: &Name) -> bool {
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
        self.tasks.values().flat_map(of).filter(|blob| !blob.is_empty())
    }
}
