//! Depend: a task waits for others to end. When one of them ends, exactly the tasks that wait for it are
//! visited: the last open dependency makes a task ready, and one that ended otherwise than it should breaks it.

use crate::arrays::Arrays;
use crate::command::{Accepted, NewTask, Peer};
use crate::dependency::{AfterTask, Condition, Dependency, DependencyProgress, OnBroken};
use crate::edges::{Awaited, EDGES_MAX, Edge, EdgeKey, EdgeList};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::limits::AFTER_MAX;
use crate::name;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{PauseCause, StateName, TaskState};
use crate::task::Task;
use crate::tasks::Tasks;
use crate::time::Timestamp;

impl Engine {
    /// The dependencies of a new task. `earlier` are the tasks of the same submission before it.
    pub(crate) fn dependencies_of(
        &self,
        peer: &Peer,
        new: &NewTask,
        earlier: &[Result<Accepted, Refusal>],
    ) -> Result<Vec<(Awaited, Dependency)>, Refusal> {
        if new.after.len() > AFTER_MAX {
            return Err(Refusal::TooMany { what: "tasks to wait for", limit: AFTER_MAX });
        }
        if self.edges.len() + new.after.len() > EDGES_MAX {
            return Err(Refusal::Full { what: "dependencies", limit: EDGES_MAX as u64 });
        }
        let resolve = |task: &AfterTask| match task {
            AfterTask::Id(id) => self.known_to(peer, *id),
            AfterTask::Name(name) => {
                name::check("task", name)?;
                let found = self.tasks.find_name(&self.terms, &peer.namespace, name).map(Awaited::Task);
                let found =
                    found.or_else(|| self.arrays.find_name(&peer.namespace, name).map(Awaited::Array));
                found.ok_or_else(|| Refusal::UnknownName { name: name.clone() })
            }
            AfterTask::Index(index) => match earlier.get(*index as usize) {
                Some(Ok(accepted)) => self.known_to(peer, accepted.task),
                Some(Err(_)) => Err(Refusal::BadValue {
                    what: "after",
                    why: "names a task of the same submission that was refused",
                }),
                None => Err(Refusal::BadValue {
                    what: "after",
                    why: "names a task that does not come before this one in the submission",
                }),
            },
        };
        let each = new.after.iter().map(|after| {
            let found = resolve(&after.task)?;
            let progress = progress_of(after.condition, self.state_of(found));
            Ok((found, Dependency { task: self.id_of(found), condition: after.condition, progress }))
        });
        each.collect()
    }

    /// A task or an array in the peer's namespace.
    pub(super) fn known_to(&self, peer: &Peer, id: TaskId) -> Result<Awaited, Refusal> {
        match self.array_of(peer, id) {
            Some(key) => Ok(Awaited::Array(key)),
            None => self.task_of(peer, id).map(Awaited::Task),
        }
    }

    fn id_of(&self, awaited: Awaited) -> TaskId {
        match awaited {
            Awaited::Task(slot) => self.tasks.at(slot).id,
            Awaited::Array(key) => self.arrays.at(key).record.id,
        }
    }

    pub(crate) fn state_of(&self, awaited: Awaited) -> StateName {
        match awaited {
            Awaited::Task(slot) => self.state_name(slot),
            Awaited::Array(key) => self.arrays.at(key).state(),
        }
    }

    pub(crate) fn name_of(&self, awaited: Awaited) -> Option<&name::Name> {
        match awaited {
            Awaited::Task(slot) => self.tasks.at(slot).name(),
            Awaited::Array(key) => self.arrays.at(key).record.name.as_ref(),
        }
    }

    /// Whether a task that is held up by these dependencies has to wait, or its policy has to act.
    pub(crate) fn holds_up(dependencies: &[(Awaited, Dependency)], on_broken: OnBroken) -> bool {
        dependencies.iter().any(|(_, dependency)| match dependency.progress {
            DependencyProgress::Open => true,
            DependencyProgress::Met => false,
            DependencyProgress::Broken | DependencyProgress::Cancelled => on_broken != OnBroken::Run,
        })
    }

    /// Gives a new task its edges, and puts the open ones into the lists of the tasks it waits for.
    pub(crate) fn add_dependencies(&mut self, slot: Slot, dependencies: &[(Awaited, Dependency)]) {
        let list =
            self.edges.add(slot, dependencies.iter().map(|(_, dependency)| dependency), EdgeList::EMPTY);
        self.tasks.at_mut(slot).edges = list;
        let mut next = self.edges.first(list);
        for (dependency, _) in dependencies {
            let Some(key) = next else { return };
            next = self.edges.next(key);
            if self.edges.at(key).is_open() {
                self.edges.link(key, *dependency);
            }
        }
    }

    /// Puts the open edges of a task into the lists of the tasks it waits for.
    pub(crate) fn link_dependencies(&mut self, slot: Slot) {
        let mut next = self.edges.first(self.tasks.at(slot).edges);
        while let Some(key) = next {
            next = self.edges.next(key);
            let edge = self.edges.at(key);
            if edge.is_open() {
                let found = find_awaited(&self.tasks, &self.arrays, &edge.dependency);
                self.edges.link(key, found.expect("what has not ended is not forgotten"));
            }
        }
    }

    fn unlink_dependencies(&mut self, slot: Slot) {
        let mut next = self.edges.first(self.tasks.at(slot).edges);
        while let Some(key) = next {
            next = self.edges.next(key);
            let (tasks, arrays) = (&self.tasks, &self.arrays);
            self.edges.unlink(key, |id| find_awaited(tasks, arrays, id));
        }
    }

    /// For a retry: dependencies that have not ended are open again.
    pub(crate) fn reopen_dependencies(&mut self, slot: Slot) {
        let own = self.tasks.at(slot);
        let states: Vec<(EdgeKey, bool)> = self
            .edges
            .of(own.edges)
            .map(|(key, edge)| {
                let dependency = self.dependency_of(own, edge);
                (key, dependency.is_some_and(|found| !self.state_of(found).has_ended()))
            })
            .collect();
        for (key, waits) in states {
            let progress = if waits { DependencyProgress::Open } else { DependencyProgress::Met };
            self.edges.set_progress(key, progress);
        }
        self.link_dependencies(slot);
    }

    /// The task or array that an edge names. A younger one is another, which reuses the id of a forgotten
    /// one, unless a suspended attempt waits for it: its children are younger.
    pub(crate) fn dependency_of(&self, own: &Task, edge: &Edge) -> Option<Awaited> {
        let age = |found: &Awaited| match found {
            Awaited::Task(slot) => self.tasks.at(*slot).age,
            Awaited::Array(key) => self.arrays.at(*key).record.age,
        };
        let is_meant = |found: &Awaited| edge.is_wait() || age(found) < own.age;
        find_awaited(&self.tasks, &self.arrays, &edge.dependency).filter(is_meant)
    }

    /// If the task has ended: it waits for nothing any more, and the tasks that wait for it learn how it
    /// ended. That may end some of them, which then follow in turn; a chain of any length needs no more stack.
    pub(crate) fn resolve_dependents(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        if !self.state_name(slot).has_ended() {
            return;
        }
        if !self.tasks.at(slot).edges.is_empty() {
            self.unlink_dependencies(slot);
        }
        self.resolve_awaited(now, Awaited::Task(slot), out);
    }

    /// The tasks that wait for what has ended learn how it ended.
    pub(crate) fn resolve_awaited(&mut self, now: Timestamp, ended: Awaited, out: &mut dyn Output) {
        if !self.edges.has_dependents(ended) {
            return;
        }
        let state = self.state_of(ended);
        self.edges.resolve(ended, |condition| progress_of(condition, state));
        self.resolving.push_back(ended);
        if self.resolving.len() > 1 {
            // A caller further up empties the list.
            return;
        }
        while let Some(ended) = self.resolving.front().copied() {
            while let Some(key) = self.edges.pop(ended) {
                self.resolve(now, ended, key, out);
            }
            self.resolving.pop_front();
        }
    }

    fn resolve(&mut self, now: Timestamp, ended: Awaited, key: EdgeKey, out: &mut dyn Output) {
        let edge = self.edges.at(key);
        let slot = edge.dependent;
        if edge.progress() == DependencyProgress::Broken && !edge.is_wait() {
            let reason = self.broken_reason(ended);
            return self.break_task(now, slot, reason, out);
        }
        self.count_down(now, slot, out);
    }

    /// One dependency less to wait for.
    fn count_down(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        let open = match &mut self.tasks.at_mut(slot).state {
            TaskState::Waiting { open } => open,
            TaskState::Suspended(suspension) => {
                suspension.open -= 1;
                if suspension.is_over() {
                    self.offer_continuing(slot);
                }
                return;
            }
            // A task that is held back or paused looks at its dependencies when it is released.
            _ => return,
        };
        *open -= 1;
        if *open == 0 {
            let next = self.waiting_state(now, slot);
            self.become_state(now, slot, next, EventData::DependenciesMet, out);
        }
    }

    /// A dependency ended otherwise than it should.
    fn break_task(&mut self, now: Timestamp, slot: Slot, reason: Box<str>, out: &mut dyn Output) {
        match self.terms.get(self.tasks.at(slot).terms).on_broken {
            OnBroken::Run => self.count_down(now, slot, out),
            OnBroken::Cancel => self.cancel_family(now, slot, Some(&reason), out),
            // A task that is held back or paused already waits for a person.
            OnBroken::Hold => {
                if let TaskState::Waiting { .. } = self.tasks.at(slot).state {
                    self.enter_paused(now, slot, PauseCause::DependencyBroken, Some(reason), out);
                }
            }
        }
    }

    /// For a new task: acts on the dependencies that were broken before it came.
    pub(crate) fn break_new(
        &mut self,
        now: Timestamp,
        slot: Slot,
        dependencies: &[(Awaited, Dependency)],
        out: &mut dyn Output,
    ) {
        let broken_one = dependencies.iter().find(|(_, each)| each.progress == DependencyProgress::Broken);
        let Some((first, _)) = broken_one else { return };
        let reason = self.broken_reason(*first);
        if self.terms.get(self.tasks.at(slot).terms).on_broken != OnBroken::Run {
            self.break_task(now, slot, reason, out);
        }
    }

    fn broken_reason(&self, ended: Awaited) -> Box<str> {
        let (id, state) = (self.id_of(ended), self.state_of(ended));
        match self.name_of(ended) {
            Some(name) => format!("dependency {id} ({name}) ended as {state}").into(),
            None => format!("dependency {id} ended as {state}").into(),
        }
    }
}

pub(super) fn find_awaited(tasks: &Tasks, arrays: &Arrays, id: &TaskId) -> Option<Awaited> {
    match tasks.find(id) {
        Some(slot) => Some(Awaited::Task(slot)),
        None => arrays.find(id).map(Awaited::Array),
    }
}

/// The progress of a dependency when the task that it names has ended in this state.
pub(crate) fn progress_of(condition: Condition, state: StateName) -> DependencyProgress {
    match (condition, state) {
        (_, state) if !state.has_ended() => DependencyProgress::Open,
        (Condition::Waited, StateName::Failed) => DependencyProgress::Broken,
        (Condition::Waited, StateName::Cancelled) => DependencyProgress::Cancelled,
        (Condition::Waited, _) => DependencyProgress::Met,
        (Condition::Ended, _)
        | (Condition::Completed, StateName::Completed)
        | (Condition::Failed, StateName::Failed) => DependencyProgress::Met,
        (Condition::Completed | Condition::Failed, _) => DependencyProgress::Broken,
    }
}
