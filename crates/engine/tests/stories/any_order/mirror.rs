//! A model of the broker made of records alone: what somebody who reads the journal knows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_engine::event::{EventData, EventSubject};
use tenure_engine::{
    Blob, Condition, Dependency, DependencyProgress, Event, Name, StateName, Task, TaskId, TaskState, Terms,
    Threshold, Thresholds, Timestamp, Which,
};

use crate::broker::Kept;

#[derive(Default)]
pub(crate) struct Mirror {
    pub(crate) tasks: BTreeMap<TaskId, (Task, Terms)>,
    pub(crate) paused: BTreeMap<(Name, Name), bool>,
    pub(crate) limits: BTreeMap<(Name, Name), Option<u32>>,
    /// The queues and tags that have a rate.
    pub(crate) rated_queues: BTreeMap<(Name, Name), bool>,
    pub(crate) rated_tags: BTreeMap<(Name, Name), bool>,
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
                self.rated_queues.insert(queue.clone(), setting.rate.is_some());
                self.paused.insert(queue, setting.paused);
            }
            Kept::Limit(setting) => {
                let tag = (setting.namespace.clone(), setting.tag.clone());
                self.rated_tags.insert(tag.clone(), setting.rate.is_some());
                self.limits.insert(tag, setting.limit);
            }
            Kept::Worker(_) | Kept::Share(_) | Kept::Nothing => {}
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

    pub(crate) fn held_by(&self, namespace: &str, worker: &str) -> usize {
        let holds = |(task, terms): &&(Task, Terms)| {
            &*terms.namespace == namespace
                && task.state.holding().is_some_and(|holding| &*holding.worker == worker)
        };
        self.tasks.values().filter(holds).count()
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
