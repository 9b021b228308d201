//! Suspend: a running task waits for its children, or for any tasks, to end. Its attempt stays with its worker
//! but takes no slot and no resources, so that the tasks it waits for can run there. `continue_attempt.rs` brings it
//! back.

use std::collections::BTreeSet;

use crate::arrays::ArrayKey;
use crate::command::{Held, Peer, Reply};
use crate::commands::progress_of;
use crate::dependency::{Condition, Dependency, DependencyProgress, WaitEnd, WaitOn};
use crate::edges::{Awaited, EDGES_MAX};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::limits::AFTER_MAX;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{StateName, Suspension, TaskState, Wanted};
use crate::time::Timestamp;
use crate::timers::Timer;

use super::depend::find_awaited;

/// How many tasks the search for a cycle visits. A longer cycle is accepted and ends with a cancellation.
const CYCLE_LOOKS: usize = 10_000;

impl Engine {
    pub(crate) fn suspend(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: Held,
        on: &WaitOn,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.held_by(peer, held)?;
        let waits = match on {
            WaitOn::Tasks(tasks) => self.waits_for_tasks(peer, slot, tasks)?,
            WaitOn::Children => self.waits_for_children(slot),
            WaitOn::Resume => {
                self.stop_in_place(now, slot, out);
                return Ok(Reply::Done);
            }
        };
        if self.edges.len() + waits.len() > EDGES_MAX {
            return Err(Refusal::Full { what: "dependencies", limit: EDGES_MAX as u64 });
        }
        // A worker whose task waits has started it.
        self.mark_started(now, slot, out);
        let is_repeated = self.waits_of(slot).map(|(task, _)| task).eq(waits.iter().map(|wait| wait.task));
        if !is_repeated {
            self.replace_waits(slot, &waits);
        }
        let open = self.edges.open_count(self.tasks.at(slot).edges);
        match (&self.tasks.at(slot).state, open) {
            (TaskState::Running(_), 0) => {
                if !is_repeated {
                    let worker = self.holder_name(slot);
                    self.emit_task_record(now, slot, EventData::Continued { worker }, out);
                }
                self.tell_continue(slot, out);
            }
            (TaskState::Running(_), _) => self.enter_suspended(now, slot, open, out),
            (TaskState::Suspended(_), _) if is_repeated => self.report_again(slot),
            _ => self.wait_for_others(now, slot, open, out),
        }
        Ok(Reply::Done)
    }

    /// The waits for these tasks, each once.
    fn waits_for_tasks(&self, peer: &Peer, slot: Slot, tasks: &[TaskId]) -> Result<Vec<Dependency>, Refusal> {
        if tasks.len() > AFTER_MAX {
            return Err(Refusal::TooMany { what: "tasks to wait for", limit: AFTER_MAX });
        }
        let mut seen = BTreeSet::new();
        let mut waits = Vec::with_capacity(tasks.len());
        for task in tasks.iter().filter(|task| seen.insert(**task)) {
            let progress = match (self.known_to(peer, *task), self.known_end(slot, *task)) {
                (Ok(Awaited::Task(other)), _) if other == slot => {
                    return Err(Refusal::BadValue { what: "on", why: "names the task itself" });
                }
                (Ok(other), _) => progress_of(Condition::Waited, self.state_of(other)),
                // The broker has forgotten the task, but not that this one has waited for it.
                (Err(_), Some(progress)) => progress,
                (Err(refusal), None) => return Err(refusal),
            };
            waits.push(Dependency { task: *task, condition: Condition::Waited, progress });
        }
        let mut looks = CYCLE_LOOKS;
        let is_open = |wait: &&Dependency| wait.progress == DependencyProgress::Open;
        if waits.iter().filter(is_open).any(|wait| self.waits_for(wait.task, slot, &mut looks)) {
            let why = "names a task that waits for this one, so that neither could ever continue";
            return Err(Refusal::BadValue { what: "on", why });
        }
        Ok(waits)
    }

    /// The waits for the children that have not ended, except those that wait for their parent: they run after
    /// it. If there is room, the ended ones follow, so that their parent learns of them, too.
    fn waits_for_children(&self, slot: Slot) -> Vec<Dependency> {
        let Some(extras) = &self.tasks.at(slot).extras else { return Vec::new() };
        let mut looks = CYCLE_LOOKS;
        let all = || extras.children.iter().map(|(_, child)| self.tasks.at(*child));
        let unfinished = all()
            .filter(|child| !child.state.name().has_ended() && !self.waits_for(child.id, slot, &mut looks));
        let ended = all().filter(|child| child.state.name().has_ended());
        let wait = |child: &crate::Task| {
            let progress = progress_of(Condition::Waited, child.state.name());
            Dependency { task: child.id, condition: Condition::Waited, progress }
        };
        unfinished.chain(ended).take(AFTER_MAX).map(wait).collect()
    }

    /// Whether a task waits for this one, possibly through others. `looks` is how many tasks may be visited.
    fn waits_for(&self, task: TaskId, slot: Slot, looks: &mut usize) -> bool {
        let mut reached: Vec<Awaited> = find_awaited(&self.tasks, &self.arrays, &task).into_iter().collect();
        let mut seen: BTreeSet<Awaited> = reached.iter().copied().collect();
        while let Some(next) = reached.pop() {
            if next == Awaited::Task(slot) {
                return true;
            }
            let Some(left) = looks.checked_sub(1) else { return false };
            *looks = left;
            match next {
                Awaited::Task(next) => {
                    let task = self.tasks.at(next);
                    let open = self.edges.of(task.edges).filter(|(_, edge)| edge.is_open());
                    let others = open.filter_map(|(_, edge)| self.dependency_of(task, edge));
                    reached.extend(others.filter(|other| seen.insert(*other)));
                }
                // An array waits for each of its elements.
                Awaited::Array(key) => {
                    let elements = self.unended_elements(key).take(*looks).map(Awaited::Task);
                    reached.extend(elements.filter(|element| seen.insert(*element)));
                }
            }
        }
        false
    }

    fn unended_elements(&self, key: ArrayKey) -> impl Iterator<Item = Slot> {
        let record = &self.arrays.at(key).record;
        let (terms, size) = (record.terms(), record.size);
        let elements =
            (0..size).take(CYCLE_LOOKS).filter_map(move |place| self.tasks.find(&terms.element_id(place)));
        elements.filter(|element| !self.state_name(*element).has_ended())
    }

    /// How a task ended for which this one has waited before.
    fn known_end(&self, slot: Slot, task: TaskId) -> Option<DependencyProgress> {
        let known = self.waits_of(slot).find(|(known, _)| *known == task);
        known.map(|(_, progress)| progress).filter(|progress| *progress != DependencyProgress::Open)
    }

    /// The tasks for which the attempt, or the one before it, has waited.
    fn waits_of(&self, slot: Slot) -> impl Iterator<Item = (TaskId, DependencyProgress)> {
        let edges = self.edges.of(self.tasks.at(slot).edges).map(|(_, edge)| edge);
        edges.take_while(|edge| edge.is_wait()).map(|edge| (edge.dependency, edge.progress()))
    }

    /// How the tasks ended for which the attempt has waited.
    pub(crate) fn wait_ends(&self, slot: Slot) -> Vec<WaitEnd> {
        let state = |progress| match progress {
            DependencyProgress::Open | DependencyProgress::Met => StateName::Completed,
            DependencyProgress::Broken => StateName::Failed,
            DependencyProgress::Cancelled => StateName::Cancelled,
        };
        self.waits_of(slot).map(|(task, progress)| WaitEnd { task, state: state(progress) }).collect()
    }

    fn replace_waits(&mut self, slot: Slot, waits: &[Dependency]) {
        let is_suspended = self.state_name(slot) == StateName::Suspended;
        if is_suspended {
            // What it waits for decides where it stands.
            self.withdraw_continuing(slot);
        }
        self.drop_waits(slot);
        let others = self.tasks.at(slot).edges;
        let list = self.edges.add(slot, waits.iter(), others);
        self.tasks.at_mut(slot).edges = list;
        self.link_dependencies(slot);
        if is_suspended {
            let open = self.edges.open_count(list);
            let suspension = self.suspension_mut(slot);
            (suspension.open, suspension.is_reported_by_session) = (open, true);
            if suspension.is_over() {
                self.offer_continuing(slot);
            }
        }
    }

    /// Forgets what the task has waited for in this attempt or the one before.
    pub(crate) fn drop_waits(&mut self, slot: Slot) {
        let list = self.tasks.at(slot).edges;
        if list.is_empty() || self.waits_of(slot).next().is_none() {
            return;
        }
        self.unlink_waits(slot);
        let others = self.edges.remove_waits(list);
        self.tasks.at_mut(slot).edges = others;
    }

    fn unlink_waits(&mut self, slot: Slot) {
        let mut next = self.edges.first(self.tasks.at(slot).edges);
        while let Some(key) = next
            && self.edges.at(key).is_wait()
        {
            next = self.edges.next(key);
            let (tasks, arrays) = (&self.tasks, &self.arrays);
            self.edges.unlink(key, |id| find_awaited(tasks, arrays, id));
        }
    }

    fn enter_suspended(&mut self, now: Timestamp, slot: Slot, open: u32, out: &mut dyn Output) {
        self.become_suspended(now, slot, open);
        let worker = self.holder_name(slot);
        self.emit_task_record(now, slot, EventData::Suspended { worker, open }, out);
    }

    /// Suspends a running attempt. The caller emits the record.
    pub(crate) fn become_suspended(&mut self, now: Timestamp, slot: Slot, open: u32) {
        let TaskState::Running(holding) = &self.tasks.at(slot).state else {
            unreachable!("only a running task is suspended")
        };
        let mut holding = (**holding).clone();
        let (key, before) = (holding.key, holding.check_at);
        // The run limit stands still, a cancel timeout does not.
        if self.wanted_of(slot) != Some(Wanted::Cancel) {
            holding.check_at = Timestamp::NEVER;
        }
        let check_at = holding.check_at;
        let suspension =
            Suspension { holding, since: now, open, parked: None, is_reported_by_session: true, stop: None };
        self.count(slot, |count| *count -= 1);
        self.count_tags(slot, |in_use| *in_use -= 1);
        // The holder stays, with its place and its devices.
        self.tasks.at_mut(slot).state = TaskState::Suspended(Box::new(suspension));
        self.timers.disarm(before, Timer::Held(slot));
        self.timers.arm(check_at, Timer::Held(slot));
        self.release_resources(key, slot);
        self.dirty.workers.push(key);
        self.count(slot, |count| *count += 1);
    }

    /// The worker says again, over another session, that the attempt waits.
    pub(crate) fn report_again(&mut self, slot: Slot) {
        let suspension = self.suspension_mut(slot);
        if !std::mem::replace(&mut suspension.is_reported_by_session, true) && suspension.is_over() {
            self.offer_continuing(slot);
        }
    }

    /// The worker has a new session. What it still waits for it will say again.
    pub(crate) fn require_report(&mut self, slot: Slot) {
        self.withdraw_continuing(slot);
        self.suspension_mut(slot).is_reported_by_session = false;
    }

    pub(crate) fn suspension_mut(&mut self, slot: Slot) -> &mut Suspension {
        match &mut self.tasks.at_mut(slot).state {
            TaskState::Suspended(suspension) => suspension,
            other => unreachable!("it is {}, not suspended", other.name()),
        }
    }

    /// A suspended attempt waits for other tasks than before.
    fn wait_for_others(&mut self, now: Timestamp, slot: Slot, open: u32, out: &mut dyn Output) {
        let worker = self.holder_name(slot);
        self.emit_task_record(now, slot, EventData::Suspended { worker, open }, out);
    }
}
