//! Depend: a task waits for others to end. When one of them ends, exactly the tasks that wait for it are
//! visited: the last open dependency makes a task ready, and one that ended otherwise than it should breaks it.

use crate::command::{Accepted, NewTask, Peer};
use crate::dependency::{AfterTask, Condition, Dependency, DependencyProgress, OnBroken};
use crate::edges::{EDGES_MAX, Edge, EdgeKey, EdgeList};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::limits::AFTER_MAX;
use crate::name;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{PauseCause, StateName, TaskState};
use crate::task::Task;
use crate::time::Timestamp;

impl Engine {
    /// The dependencies of a new task. `earlier` are the tasks of the same submission before it.
    pub(crate) fn dependencies_of(
        &self,
        peer: &Peer,
        new: &NewTask,
        earlier: &[Result<Accepted, Refusal>],
    ) -> Result<Vec<(Slot, Dependency)>, Refusal> {
        if new.after.len() > AFTER_MAX {
            return Err(Refusal::TooMany { what: "tasks to wait for", limit: AFTER_MAX });
        }
        if self.edges.len() + new.after.len() > EDGES_MAX {
            return Err(Refusal::Full { what: "dependencies", limit: EDGES_MAX as u64 });
        }
        let resolve = |task: &AfterTask| match task {
            AfterTask::Id(id) => self.task_of(peer, *id),
            AfterTask::Name(name) => {
                name::check("task", name)?;
                let found = self.tasks.find_name(&self.terms, &peer.namespace, name);
                found.ok_or_else(|| Refusal::UnknownName { name: name.clone() })
            }
            AfterTask::Index(index) => match earlier.get(*index as usize) {
                Some(Ok(accepted)) => self.task_of(peer, accepted.task),
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
            let slot = resolve(&after.task)?;
            let dependency = self.tasks.at(slot);
            let progress = progress_of(after.condition, dependency.state.name());
            Ok((slot, Dependency { task: dependency.id, condition: after.condition, progress }))
        });
        each.collect()
    }

    /// Whether a task that is held up by these dependencies has to wait, or its policy has to act.
    pub(crate) fn holds_up(dependencies: &[(Slot, Dependency)], on_broken: OnBroken) -> bool {
        dependencies.iter().any(|(_, dependency)| match dependency.progress {
            DependencyProgress::Open => true,
            DependencyProgress::Met => false,
            DependencyProgress::Broken | DependencyProgress::Cancelled => on_broken != OnBroken::Run,
        })
    }

    /// Gives a new task its edges, and puts the open ones into the lists of the tasks it waits for.
    pub(crate) fn add_dependencies(&mut self, slot: Slot, dependencies: &[(Slot, Dependency)]) {
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
                let found = self.tasks.find(&edge.dependency);
                self.edges.link(key, found.expect("a task that has not ended is not forgotten"));
            }
        }
    }

    fn unlink_dependencies(&mut self, slot: Slot) {
        let mut next = self.edges.first(self.tasks.at(slot).edges);
        while let Some(key) = next {
            next = self.edges.next(key);
            let tasks = &self.tasks;
            self.edges.unlink(key, |id| tasks.find(id));
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
                (key, dependency.is_some_and(|slot| !self.state_name(slot).has_ended()))
            })
            .collect();
        for (key, waits) in states {
            let progress = if waits { DependencyProgress::Open } else { DependencyProgress::Met };
            self.edges.set_progress(key, progress);
        }
        self.link_dependencies(slot);
    }

    /// The task that an edge names. A younger one is another task, which reuses the id of a forgotten one,
    /// unless a suspended attempt waits for it: its children are younger.
    pub(crate) fn dependency_of(&self, own: &Task, edge: &Edge) -> Option<Slot> {
        let is_meant = |slot: &Slot| edge.is_wait() || self.tasks.at(*slot).age < own.age;
        self.tasks.find(&edge.dependency).filter(is_meant)
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
        if !self.edges.has_dependents(slot) {
            return;
        }
        let state = self.state_name(slot);
        self.edges.settle(slot, |condition| progress_of(condition, state));
        self.resolving.push_back(slot);
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

    fn resolve(&mut self, now: Timestamp, ended: Slot, key: EdgeKey, out: &mut dyn Output) {
        let edge = self.edges.at(key);
        let slot = edge.dependent;
        if edge.progress() == DependencyProgress::Broken && !edge.is_wait() {
            let task = self.tasks.at(ended);
            return self.break_task(now, slot, broken(task.id, task.name(), task.state.name()), out);
        }
        self.count_down(now, slot, out);
    }

    /// One dependency less to wait for.
    fn count_down(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        let open = match &mut self.tasks.at_mut(slot).state {
            TaskState::Waiting { open } => open,
            TaskState::Suspended(suspension) => {
                suspension.open -= 1;
                if suspension.open == 0 {
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
        dependencies: &[(Slot, Dependency)],
        out: &mut dyn Output,
    ) {
        let broken_one = dependencies.iter().find(|(_, each)| each.progress == DependencyProgress::Broken);
        let Some((first, _)) = broken_one else { return };
        let task = self.tasks.at(*first);
        let reason = broken(task.id, task.name(), task.state.name());
        if self.terms.get(self.tasks.at(slot).terms).on_broken != OnBroken::Run {
            self.break_task(now, slot, reason, out);
        }
    }
}

/// What the end of a task means for one that waits for it.
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

fn broken(task: TaskId, name: Option<&name::Name>, state: StateName) -> Box<str> {
    match name {
        Some(name) => format!("dependency {task} ({name}) ended as {state}").into(),
        None => format!("dependency {task} ended as {state}").into(),
    }
}
