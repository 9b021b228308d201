//! The tasks a worker holds, and whether the worker knows that it holds them.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tenure_hub::ClockReading;
use tenure_hub::words::{
    Assignment, Blob, Command, Held, OnLost, StateName, StopWhy, TaskId, TaskInfo, Timestamp, Wanted,
};

use super::requests::PendingRequest;
use super::{ActorOutput, CallReply, Caller, Dialect, Evidence, WorkerActor};

/// A task that the worker holds.
#[derive(Debug)]
pub struct Claim<D: Dialect> {
    /// The task and its attempt.
    pub held: Held,
    /// The submitter's name for the task, if there is one.
    name: Option<String>,
    /// How many slots of the worker it occupies.
    slots: u32,
    pub(super) connection: u64,
    pub(super) evidence: Evidence,
    /// The worker has reported its end, and the hub has not answered yet.
    pub(super) ending: bool,
    pub(super) wanted: Option<Wanted>,
    /// Outputs kept until it ends.
    pub(super) outputs: D::Outputs,
    /// The list in which the worker stores it, if it named one.
    pub(super) list: Option<D::List>,
}

impl<D: Dialect> Claim<D> {
    pub(super) fn new(assignment: &Assignment, connection: u64, now: Timestamp, whole: bool) -> Self {
        Self {
            held: Held { task: assignment.task, attempt: assignment.attempt },
            name: assignment.name.as_deref().map(str::to_owned),
            slots: assignment.terms.demand.slots,
            connection,
            evidence: Evidence::handed_out(now, whole, starts_on_assignment(assignment)),
            ending: false,
            wanted: None,
            outputs: D::Outputs::default(),
            list: None,
        }
    }

    /// A claim from before the broker or the worker was away. It is unknown whether the worker still has the task.
    pub(super) fn recovered(task: &TaskInfo, now: ClockReading) -> Self {
        let since = now.steady_at(task.state.holding().map_or(task.submitted_at, |holding| holding.since));
        Self {
            held: Held { task: task.id, attempt: task.attempt },
            name: task.name.as_deref().map(str::to_owned),
            slots: task.terms.demand.slots,
            connection: 0,
            evidence: Evidence::recovered(since, task.state.name() == StateName::Running),
            ending: false,
            wanted: None,
            outputs: D::Outputs::default(),
            list: None,
        }
    }

    /// Whether the worker's id means this claim.
    pub(super) fn has_id(&self, task: &str) -> bool {
        self.name.as_deref() == Some(task) || task.parse() == Ok(self.held.task)
    }

    /// The id under which the worker knows it.
    fn id(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.held.task.to_string())
    }
}

/// Whether a task must not run twice: its start must be on disk before any door sends it.
pub fn starts_on_assignment(assignment: &Assignment) -> bool {
    assignment.terms.on_lost != OnLost::Requeue
}

/// Where the outputs that the current attempt of a task has saved are stored.
pub(super) fn checkpoint_of(task: &TaskInfo) -> Option<Blob> {
    let own = task.checkpoint.filter(|checkpoint| checkpoint.attempt == task.attempt);
    own.map(|checkpoint| checkpoint.blob)
}

/// The claims of one worker.
#[derive(Debug)]
pub struct Claims<D: Dialect>(ClaimMap<D>);

/// Claims by task.
pub(super) type ClaimMap<D> = HashMap<TaskId, Claim<D>, RandomState>;

impl<D: Dialect> Default for Claims<D> {
    fn default() -> Self {
        Claims(HashMap::default())
    }
}

impl<D: Dialect> Claims<D> {
    /// The claim for this task.
    pub fn get(&self, task: TaskId) -> Option<&Claim<D>> {
        self.0.get(&task)
    }

    pub(super) fn get_mut(&mut self, task: TaskId) -> Option<&mut Claim<D>> {
        self.0.get_mut(&task)
    }

    pub(super) fn insert(&mut self, claim: Claim<D>) {
        self.0.insert(claim.held.task, claim);
    }

    pub(super) fn remove(&mut self, task: TaskId) -> Option<Claim<D>> {
        self.0.remove(&task)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn take(&mut self) -> ClaimMap<D> {
        std::mem::take(&mut self.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Claim<D>> {
        self.0.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Claim<D>> {
        self.0.values_mut()
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Claim<D>) -> bool) {
        self.0.retain(|_, claim| keep(claim));
    }

    /// Finds a claim by the id that its worker uses.
    pub(super) fn find(&self, task: &str) -> Option<TaskId> {
        if let Ok(task) = task.parse::<TaskId>()
            && self.0.contains_key(&task)
        {
            return Some(task);
        }
        self.iter().find(|claim| claim.name.as_deref() == Some(task)).map(|claim| claim.held.task)
    }

    /// How many slots its tasks occupy, without those whose end is on its way to the hub.
    pub(super) fn slots(&self) -> usize {
        self.iter().filter(|claim| !claim.ending).map(|claim| claim.slots as usize).sum()
    }

    /// The attempts that the worker has shown that it holds.
    pub(super) fn confirmed_attempts(&self) -> Vec<Held> {
        self.iter().filter(|claim| claim.evidence.known).map(|claim| claim.held).collect()
    }

    /// Tasks sent over this connection that the worker has not read.
    pub(super) fn unread_of(&self, connection: u64) -> Vec<TaskId> {
        let is_unread = |claim: &&Claim<D>| {
            claim.connection == connection && claim.evidence.is_unread() && claim.evidence.is_new()
        };
        self.iter().filter(is_unread).map(|claim| claim.held.task).collect()
    }

    /// Tasks that the worker cannot have read, because it asks for more: all unread ones if it has one slot, otherwise
    /// only those whose parts it has not fetched for a while.
    pub(super) fn unread(&self, now: Timestamp, slots: u32) -> Vec<TaskId> {
        let is_unread = |claim: &&Claim<D>| {
            let is_forgotten = !claim.evidence.whole && claim.evidence.is_old(now);
            claim.evidence.is_unread() && (slots == 1 || is_forgotten)
        };
        self.iter().filter(is_unread).map(|claim| claim.held.task).collect()
    }

    fn fetched(&mut self, task: TaskId, connection: u64) {
        if let Some(claim) = self.get_mut(task)
            && claim.connection == connection
        {
            claim.evidence.fetched();
        }
    }

    /// The worker sends a heartbeat on this connection.
    pub(super) fn heartbeat(&mut self, connection: u64) {
        for claim in self.iter_mut().filter(|claim| claim.connection == connection) {
            claim.evidence.heartbeat();
        }
    }

    /// Tasks that the worker does not have, although it has fetched them: its heartbeat interrupted it, and it pulls
    /// again on the same connection.
    fn interrupted(&mut self, now: Timestamp, connection: u64) -> Vec<TaskId> {
        let received_here = |claim: &&mut Claim<D>| claim.connection == connection && !claim.ending;
        let mut interrupted = Vec::new();
        for claim in self.iter_mut().filter(received_here) {
            if claim.evidence.pulled_again(now) && claim.evidence.lost(now) {
                interrupted.push(claim.held.task);
            }
        }
        interrupted
    }

    /// Tasks about which the worker has been silent for so long that it must be working on them.
    pub(super) fn presumed_started(&self, now: Timestamp) -> Vec<TaskId> {
        let is_due = |claim: &&Claim<D>| claim.evidence.silent_until().is_some_and(|until| until <= now);
        self.iter().filter(is_due).map(|claim| claim.held.task).collect()
    }

    /// The worker behaves as if it did not have these.
    pub(super) fn doubt(&mut self, now: Timestamp, may_be_gone: impl Fn(&Claim<D>) -> bool) {
        for claim in self.iter_mut().filter(|claim| !claim.ending) {
            if may_be_gone(claim) {
                claim.evidence.doubt(now);
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let times =
            self.iter().flat_map(|claim| [claim.evidence.silent_until(), claim.evidence.unmentioned_until()]);
        times.flatten().min()
    }
}

impl<D: Dialect> WorkerActor<D> {
    pub(super) fn mention(&mut self, caller: Caller, task: &str, out: &mut ActorOutput<D>) {
        let answer = match self.claims.find(task) {
            Some(task) => {
                self.confirm(task, None, out);
                self.claims.fetched(task, caller.connection);
                CallReply::Held(task)
            }
            None => CallReply::NotHeld,
        };
        out.answers.push((caller, answer));
    }

    /// The worker is running the task. Reports the start to the hub if that is new; the waiting caller gets its reply
    /// when the start is on disk.
    pub(super) fn confirm(&mut self, task: TaskId, waits: Option<Caller>, out: &mut ActorOutput<D>) -> bool {
        let Some(claim) = self.claims.get_mut(task) else { return false };
        self.recovery.has_returned |= claim.evidence.confirm_held();
        let is_news = claim.evidence.starts();
        if is_news {
            let held = claim.held;
            let pending = PendingRequest::Report { caller: waits, task, ends: false };
            self.command(Command::Start(vec![held]), pending, out);
        }
        is_news
    }

    pub(super) fn give_back(&mut self, task: TaskId, reason: &str, out: &mut ActorOutput<D>) {
        let Some(claim) = self.claims.remove(task) else { return };
        let give_back = Command::GiveBack { held: claim.held, reason: Some(reason.into()) };
        self.command(give_back, PendingRequest::Nothing, out);
    }

    /// The task was not sent to any connection.
    pub(super) fn return_undelivered(&mut self, held: Held, reason: &str, out: &mut ActorOutput<D>) {
        let undelivered = Command::Undelivered { held, reason: Some(reason.into()) };
        self.command(undelivered, PendingRequest::Nothing, out);
    }

    pub(super) fn give_back_unread(&mut self, now: Timestamp, out: &mut ActorOutput<D>) {
        for task in self.claims.unread(now, self.terms.slots) {
            self.give_back(task, "the worker asked for more tasks and never mentioned this one", out);
        }
    }

    /// A worker with one slot that pulls again, with only a heartbeat since it fetched a task, has dropped the task.
    pub(super) fn give_back_interrupted(
        &mut self,
        now: Timestamp,
        connection: u64,
        out: &mut ActorOutput<D>,
    ) {
        if self.terms.slots != 1 {
            return;
        }
        for task in self.claims.interrupted(now, connection) {
            self.give_back(task, "a heartbeat interrupted the worker while it fetched this task", out);
        }
    }

    pub(super) fn confirm_silently(&mut self, now: Timestamp, out: &mut ActorOutput<D>) {
        for task in self.claims.presumed_started(now) {
            self.confirm(task, None, out);
        }
    }

    /// The worker asks for more than it can hold, as if it did not have the tasks it has not mentioned. It gets some
    /// time to mention them. A worker with several slots may just be early.
    pub(super) fn doubt_unmentioned(&mut self, now: Timestamp) {
        let is_single = self.terms.slots == 1;
        self.claims.doubt(now, |claim| claim.evidence.recovered || is_single || !claim.evidence.whole);
    }

    /// The worker says that it works on nothing. It may not have counted a task that it has just received.
    pub(super) fn doubt_recovered(&mut self, now: Timestamp) {
        self.claims.doubt(now, |claim| claim.evidence.recovered);
    }

    /// Drops the tasks that the worker had time to mention and did not.
    pub(super) fn drop_unmentioned(&mut self, now: Timestamp, out: &mut ActorOutput<D>) {
        self.forget_claims(|claim| claim.evidence.unmentioned_until().is_some_and(|at| at <= now), out);
    }

    /// The worker does not have these tasks: each follows its policy.
    pub(super) fn forget_claims(&mut self, gone: impl Fn(&Claim<D>) -> bool, out: &mut ActorOutput<D>) {
        let gone: Vec<Held> =
            self.claims.iter().filter(|claim| gone(claim)).map(|claim| claim.held).collect();
        if gone.is_empty() {
            return;
        }
        for held in &gone {
            self.claims.remove(held.task);
        }
        let tasks: Vec<TaskId> = gone.iter().map(|held| held.task).collect();
        self.command(Command::Forgotten(gone), PendingRequest::Nothing, out);
        for task in tasks {
            D::has_ended(self, task, out);
        }
    }

    pub(super) fn wanted(&mut self, task: TaskId, wanted: Wanted, out: &mut ActorOutput<D>) {
        let Some(claim) = self.claims.get_mut(task) else { return };
        claim.wanted = Some(wanted);
        let id = claim.id();
        let connections = self.presence.connections.iter();
        out.wishes.extend(connections.map(|connection| (*connection, id.clone(), wanted)));
    }

    /// The attempt is over, whatever the worker does.
    pub(super) fn stopped(&mut self, task: TaskId, attempt: u32, why: StopWhy, out: &mut ActorOutput<D>) {
        if self.claims.get(task).is_none_or(|claim| claim.held.attempt != attempt) {
            return;
        }
        self.claims.remove(task);
        D::has_ended(self, task, out);
        match why {
            StopWhy::RunLimit => {
                // It may hang: the list of workers shows it.
                self.terms.hung += 1;
                let stats = Some(self.terms.figures());
                self.command(Command::Heartbeat { held: None, stats }, PendingRequest::Nothing, out);
            }
            StopWhy::Stale | StopWhy::TakenBack | StopWhy::Cancelled | StopWhy::Paused | StopWhy::Expired => {
            }
        }
    }
}
