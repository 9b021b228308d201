//! What a worker holds, and whether it knows.

use tenure_door_kit::worker_actor::Evidence;
use tenure_hub::words::{
    Assignment, Blob, Command, Held, OnLost, StateName, StopWhy, TaskId, TaskInfo, Timestamp, Wanted,
};

use super::{CallAnswer, Caller, Output, Pending, Worker};
use crate::key::QueueKey;
use crate::shapes::Outputs;

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) held: Held,
    /// The id it goes by, if its submitter gave it one.
    pub(super) name: Option<String>,
    pub(super) connection: u64,
    pub(super) evidence: Evidence,
    /// The worker has reported its end, and the hub has not answered yet.
    pub(super) ending: bool,
    pub(super) wanted: Option<&'static str>,
    /// Outputs put aside until it ends.
    pub(super) outputs: Outputs,
    /// The list to which its worker moved it, if that is not `queue:processing`.
    pub(super) list: Option<QueueKey>,
}

impl Claim {
    pub(super) fn new(assignment: &Assignment, connection: u64, now: Timestamp, whole: bool) -> Self {
        Self {
            held: Held { task: assignment.task, attempt: assignment.attempt },
            name: assignment.name.as_deref().map(str::to_owned),
            connection,
            evidence: Evidence::handed_out(now, whole, assignment.terms.on_lost != OnLost::Requeue),
            ending: false,
            wanted: None,
            outputs: Outputs::default(),
            list: None,
        }
    }

    /// Whether it has put outputs aside, and where those lie.
    pub(super) fn put_aside(task: &TaskInfo) -> Option<Blob> {
        let own = task.checkpoint.filter(|checkpoint| checkpoint.attempt == task.attempt);
        own.map(|checkpoint| checkpoint.blob)
    }

    /// From before the broker or the worker was away. Whether the worker still has it is not known.
    pub(super) fn recalled(task: &TaskInfo) -> Self {
        let since = task.state.holding().map_or(task.submitted_at, |holding| holding.since);
        Self {
            held: Held { task: task.id, attempt: task.attempt },
            name: task.name.as_deref().map(str::to_owned),
            connection: 0,
            evidence: Evidence::recalled(since, task.state.name() == StateName::Running),
            ending: false,
            wanted: None,
            outputs: Outputs::default(),
            list: None,
        }
    }

    /// Whether the worker means this one.
    pub(super) fn goes_by(&self, job: &str) -> bool {
        self.name.as_deref() == Some(job) || job.parse() == Ok(self.held.task)
    }

    /// Whether the worker is done with it when it takes it off this list.
    pub(super) fn is_on(&self, list: &QueueKey) -> bool {
        *list == QueueKey::Processing || self.list.as_ref() == Some(list)
    }
}

impl Worker {
    /// Finds a claim by the id its worker uses.
    pub(super) fn claimed(&self, job: &str) -> Option<TaskId> {
        if let Ok(task) = job.parse::<TaskId>()
            && self.claims.contains_key(&task)
        {
            return Some(task);
        }
        self.claims.values().find(|claim| claim.name.as_deref() == Some(job)).map(|claim| claim.held.task)
    }

    pub(super) fn mention(&mut self, caller: Caller, job: &str, out: &mut Output) {
        let answer = match self.claimed(job) {
            Some(task) => {
                self.confirm(task, None, out);
                CallAnswer::Held(task)
            }
            None => CallAnswer::NotHeld,
        };
        out.answers.push((caller, answer));
    }

    /// The worker is at it. If that is news, the hub is told, and whoever waits is answered when it is on disk.
    pub(super) fn confirm(&mut self, task: TaskId, waits: Option<Caller>, out: &mut Output) -> bool {
        let Some(claim) = self.claims.get_mut(&task) else { return false };
        self.has_returned |= claim.evidence.becomes_known();
        let is_news = claim.evidence.starts();
        if is_news {
            let held = claim.held;
            let pending = Pending::Report { caller: waits, task, ends: false };
            self.command(Command::Start(vec![held]), pending, out);
        }
        is_news
    }

    pub(super) fn give_back(&mut self, task: TaskId, reason: &str, out: &mut Output) {
        let Some(claim) = self.claims.remove(&task) else { return };
        let give_back = Command::GiveBack { held: claim.held, reason: Some(reason.into()) };
        self.command(give_back, Pending::Nothing, out);
    }

    /// It was not handed to anybody.
    pub(super) fn return_undelivered(&mut self, held: Held, reason: &str, out: &mut Output) {
        let undelivered = Command::Undelivered { held, reason: Some(reason.into()) };
        self.command(undelivered, Pending::Nothing, out);
    }

    /// A worker that pops again did not read what it got before, unless it can do several things at once.
    pub(super) fn give_back_unread(&mut self, now: Timestamp, out: &mut Output) {
        let unread: Vec<(TaskId, bool, bool)> = self
            .claims
            .values()
            .filter(|claim| claim.evidence.is_unread())
            .map(|claim| (claim.held.task, claim.evidence.whole, claim.evidence.is_old(now)))
            .collect();
        for (task, whole, long_ago) in unread {
            if self.slots == 1 || (!whole && long_ago) {
                self.give_back(task, "the worker asked for more and never mentioned it", out);
            }
        }
    }

    pub(super) fn confirm_silently(&mut self, now: Timestamp, out: &mut Output) {
        let due = |claim: &&Claim| claim.evidence.silent_until().is_some_and(|until| until <= now);
        let due: Vec<TaskId> = self.claims.values().filter(due).map(|claim| claim.held.task).collect();
        for task in due {
            self.confirm(task, None, out);
        }
    }

    /// The worker asks for more than it can hold, as if it did not have what it has not mentioned. It gets a moment to mention
    /// it. One that can do several things at once may just be early.
    pub(super) fn doubt_unmentioned(&mut self, now: Timestamp) {
        let is_single = self.slots == 1;
        self.doubt(now, |claim| claim.evidence.recalled || is_single || !claim.evidence.whole);
    }

    /// The worker says that it works on nothing. What it was handed just now it may not have counted.
    pub(super) fn doubt_recalled(&mut self, now: Timestamp) {
        self.doubt(now, |claim| claim.evidence.recalled);
    }

    fn doubt(&mut self, now: Timestamp, may_be_gone: impl Fn(&Claim) -> bool) {
        let claims = self.claims.values_mut().filter(|claim| !claim.ending);
        for claim in claims.filter(|claim| may_be_gone(claim)) {
            claim.evidence.doubt(now);
        }
    }

    /// What it had time to mention and did not, it does not have.
    pub(super) fn disown(&mut self, now: Timestamp, out: &mut Output) {
        self.forget_claims(|claim| claim.evidence.disowned_at().is_some_and(|at| at <= now), out);
    }

    /// The worker does not have these: each follows its policy.
    pub(super) fn forget_claims(&mut self, gone: impl Fn(&Claim) -> bool, out: &mut Output) {
        let gone: Vec<Held> =
            self.claims.values().filter(|claim| gone(claim)).map(|claim| claim.held).collect();
        if gone.is_empty() {
            return;
        }
        for held in &gone {
            self.claims.remove(&held.task);
        }
        let tasks: Vec<TaskId> = gone.iter().map(|held| held.task).collect();
        self.command(Command::Forgotten(gone), Pending::Nothing, out);
        for task in tasks {
            self.challenge_over(task, out);
        }
    }

    pub(super) fn wanted(&mut self, task: TaskId, wanted: Wanted, out: &mut Output) {
        let Some(claim) = self.claims.get_mut(&task) else { return };
        let word = match wanted {
            Wanted::Cancel => "cancel",
            Wanted::Pause => "pause",
        };
        claim.wanted = Some(word);
        let job = crate::translate::known_as(claim.name.as_deref(), task);
        out.wishes.extend(self.connections.iter().map(|connection| (*connection, job.clone(), word)));
    }

    /// The attempt is over, whatever the worker does.
    pub(super) fn stopped(&mut self, task: TaskId, attempt: u32, why: StopWhy, out: &mut Output) {
        if self.claims.get(&task).is_none_or(|claim| claim.held.attempt != attempt) {
            return;
        }
        self.claims.remove(&task);
        self.challenge_over(task, out);
        match why {
            StopWhy::RunLimit => {
                // It may hang: whoever looks at the list of workers is told.
                self.hung += 1;
                let stats = Some(self.figures());
                self.command(Command::Heartbeat { held: None, stats }, Pending::Nothing, out);
            }
            StopWhy::Stale | StopWhy::TakenBack | StopWhy::Cancelled | StopWhy::Paused | StopWhy::Expired => {
            }
        }
    }
}
