//! What a worker holds, and whether it knows.

use tenure_hub::words::{Assignment, Blob, Command, Held, StopWhy, TaskId, TaskInfo, Timestamp, Wanted};

use super::{CallAnswer, Caller, Output, Pending, UNREAD_FOR, Worker};
use crate::key::QueueKey;
use crate::shapes::Outputs;

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) held: Held,
    /// The id it goes by, if its submitter gave it one.
    pub(super) name: Option<String>,
    pub(super) connection: u64,
    pub(super) since: Timestamp,
    /// It went out whole: there is nothing to fetch.
    pub(super) whole: bool,
    /// The worker has mentioned it.
    pub(super) confirmed: bool,
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
            since: now,
            whole,
            confirmed: false,
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

    /// From before the broker or the worker was away. Registering again confirms it.
    pub(super) fn recalled(task: &TaskInfo) -> Self {
        Self {
            held: Held { task: task.id, attempt: task.attempt },
            name: task.name.as_deref().map(str::to_owned),
            connection: 0,
            since: task.state.holding().map_or(task.submitted_at, |holding| holding.since),
            whole: true,
            confirmed: true,
            ending: false,
            wanted: None,
            outputs: Outputs::default(),
            list: None,
        }
    }

    /// When silence about it means that the worker is at it.
    pub(super) fn silent_until(&self) -> Option<Timestamp> {
        (self.whole && !self.confirmed).then(|| self.since + UNREAD_FOR)
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
        let is_news = !std::mem::replace(&mut claim.confirmed, true);
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

    /// A worker that pops again did not read what it got before, unless it can do several things at once.
    pub(super) fn give_back_unread(&mut self, now: Timestamp, out: &mut Output) {
        let unread: Vec<(TaskId, bool, bool)> = self
            .claims
            .values()
            .filter(|claim| !claim.confirmed)
            .map(|claim| (claim.held.task, claim.whole, claim.since + UNREAD_FOR <= now))
            .collect();
        for (task, whole, long_ago) in unread {
            if self.slots == 1 || (!whole && long_ago) {
                self.give_back(task, "the worker asked for more and never mentioned it", out);
            }
        }
    }

    pub(super) fn confirm_silently(&mut self, now: Timestamp, out: &mut Output) {
        let due = |claim: &&Claim| claim.silent_until().is_some_and(|until| until <= now);
        let due: Vec<TaskId> = self.claims.values().filter(due).map(|claim| claim.held.task).collect();
        for task in due {
            self.confirm(task, None, out);
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
