//! Checks the order of tasks that wait for each other, from the events alone: a task is not assigned before every task
//! that it waits for has ended, in the way it asked for, and a suspended attempt does not continue before what it waits
//! for has ended.

use std::collections::{BTreeMap, BTreeSet};

use tenure_hub::words::{
    AfterTask, Condition, Event, EventData, EventSubject, Held, NewTask, Next, OnBroken, StateName, TaskId,
};

#[derive(Debug, Default)]
pub(crate) struct OrderChecker {
    after: BTreeMap<TaskId, DependencyList>,
    /// How each task has ended so far. A retried task may end in several ways.
    ends: BTreeMap<TaskId, BTreeSet<StateName>>,
    /// A client has retried them, so how their dependencies ended no longer matters.
    retried: BTreeSet<TaskId>,
    /// What the workers said each attempt waits for. One that reconnects says it again.
    waits: BTreeMap<(TaskId, u32), Vec<Vec<TaskId>>>,
    /// Tasks that a client has paused and not resumed since.
    paused: BTreeSet<TaskId>,
}

#[derive(Debug)]
struct DependencyList {
    dependencies: Vec<(TaskId, Condition)>,
    on_broken: OnBroken,
}

impl OrderChecker {
    pub(crate) fn submitted(&mut self, task: &NewTask) {
        let dependencies = task.after.iter().filter_map(|after| match after.task {
            AfterTask::Id(id) => Some((id, after.condition)),
            AfterTask::Name(_) | AfterTask::Index(_) => None,
        });
        let waiting = DependencyList { dependencies: dependencies.collect(), on_broken: task.on_broken };
        self.after.insert(task.id, waiting);
    }

    pub(crate) fn retried(&mut self, task: TaskId) {
        self.retried.insert(task);
    }

    /// A worker says that an attempt waits for these tasks.
    pub(crate) fn suspended(&mut self, held: Held, on: Vec<TaskId>) {
        self.waits.entry((held.task, held.attempt)).or_default().push(on);
    }

    fn continued(&self, held: Held) -> Option<String> {
        let ended = |on: &Vec<TaskId>| on.iter().all(|task| self.ends.contains_key(task));
        let waits = self.waits.get(&(held.task, held.attempt)).map_or(&[][..], |waits| waits);
        let may_continue = waits.iter().any(ended) && !self.paused.contains(&held.task);
        (!may_continue).then(|| format!("{held:?} continues, but it waits for one of {waits:?}"))
    }

    /// The next event. Returns what is wrong with it.
    pub(crate) fn heard(&mut self, event: &Event) -> Option<String> {
        if let (Some(array), EventData::ArrayEnded { failed, cancelled, .. }) = (event.array(), &event.kind) {
            let state = match (failed, cancelled) {
                (0, 0) => StateName::Completed,
                (0, _) => StateName::Cancelled,
                _ => StateName::Failed,
            };
            self.ends.entry(array).or_default().insert(state);
        }
        let task = event.task()?;
        match event.kind {
            EventData::Paused { .. } => drop(self.paused.insert(task)),
            // A retry or a new attempt takes a pause back as well.
            EventData::Resumed | EventData::Retried | EventData::Assigned { .. } => {
                self.paused.remove(&task);
            }
            _ => {}
        }
        if let EventData::Assigned { .. } = event.kind {
            return self.assigned(task);
        }
        if let (EventData::Continued { .. }, EventSubject::Task { attempt, .. }) = (&event.kind, &event.about)
        {
            return self.continued(Held { task, attempt: *attempt });
        }
        if let Some(state) = end_of(&event.kind) {
            self.ends.entry(task).or_default().insert(state);
        }
        None
    }

    fn assigned(&self, task: TaskId) -> Option<String> {
        let waiting = self.after.get(&task)?;
        let strict = waiting.on_broken == OnBroken::Cancel && !self.retried.contains(&task);
        let is_met = |(dependency, condition): &&(TaskId, Condition)| {
            let Some(ends) = self.ends.get(dependency) else { return false };
            match condition {
                _ if !strict => true,
                Condition::Ended | Condition::Waited => true,
                Condition::Completed => ends.contains(&StateName::Completed),
                Condition::Failed => ends.contains(&StateName::Failed),
            }
        };
        let (dependency, condition) = waiting.dependencies.iter().find(|each| !is_met(each))?;
        let ends = self.ends.get(dependency);
        Some(format!("{task} was assigned, but {dependency} has not ended as {condition}: {ends:?}"))
    }
}

fn end_of(kind: &EventData) -> Option<StateName> {
    match kind {
        EventData::Completed { .. } => Some(StateName::Completed),
        EventData::Cancelled { .. } => Some(StateName::Cancelled),
        EventData::Expired
        | EventData::Failed { next: Next::Failed, .. }
        | EventData::Crashed { next: Next::Failed, .. } => Some(StateName::Failed),
        _ => None,
    }
}
