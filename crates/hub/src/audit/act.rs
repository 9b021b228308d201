//! A request in the audit log: its name, its subject, and whether it is logged at all.

use std::time::Duration;

use tenure_engine::command::{Held, Reply};
use tenure_engine::{Command, Rate, Refusal, TaskId, Thresholds};

use super::AuditLevel;
use super::line::{AuditField, AuditOutcome, TASKS_LISTED_MAX};
use crate::refusal::HubRefusal;
use crate::request::{Request, Response};

/// A request in short.
#[derive(Debug)]
pub(crate) struct AuditAct {
    name: &'static str,
    kind: Kind,
    fields: Vec<(&'static str, AuditField)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A client, an administrator or a worker changes something.
    Act,
    /// A worker reports on its task.
    Report,
    /// Queries, heartbeats, and messages between peers: they change nothing that is stored.
    Other,
}

impl AuditAct {
    pub(crate) fn of(request: &Request) -> AuditAct {
        match request {
            Request::Submit(submissions) => {
                let mut queues = submissions.iter().map(|submission| &submission.task.queue);
                let queue = queues.next().filter(|first| queues.all(|queue| queue == *first));
                act("submit").maybe("queue", queue.map(|queue| AuditField::Text(queue.clone())))
            }
            Request::SubmitArray(submission) => {
                let task = &submission.array.task;
                act("submit-array").with("queue", AuditField::Text(task.queue.clone()))
            }
            Request::Reconcile(page) if page.apply => act("reconcile")
                .with("prefix", AuditField::Text((*page.prefix).into()))
                .with("tasks", AuditField::Number(page.declared.len() as i64)),
            Request::Reconcile(_) => other("reconcile"),
            Request::Complete(done) => report("complete").held(done.iter().map(|done| done.held)),
            Request::Fail { failure, .. } => report("fail")
                .held([failure.held])
                .with("exit_code", AuditField::Number(i64::from(failure.exit_code))),
            Request::Checkpoint { held, .. } => report("checkpoint").held([*held]),
            Request::Confirm { held, .. } => report("confirm").held([*held]),
            Request::AppendLog { .. } => other("log"),
            Request::Logs { .. } => other("logs"),
            Request::Command(command) => AuditAct::of_command(command),
            Request::Backup { directory } => {
                act("backup").with("directory", AuditField::Text(directory.display().to_string().into()))
            }
            Request::Redeliver { hook, seq } => act("redeliver")
                .with("hook", AuditField::Text(hook.clone()))
                .maybe("event", seq.and_then(|seq| i64::try_from(seq).ok()).map(AuditField::Number)),
            Request::Hooks | Request::Undelivered { .. } => other("hooks"),
            Request::Refused { act, .. } => other(act),
            Request::Query(_) => other("query"),
            Request::Stats | Request::ShowCounters(_) => other("stats"),
            Request::Watch(_) => other("watch"),
            Request::Unwatch { .. } => other("unwatch"),
            Request::Listen { .. } => other("listen"),
            Request::Unlisten { .. } => other("unlisten"),
            Request::Call { .. } => other("call"),
            Request::GiveUpCall { .. } => other("drop-call"),
            Request::CallAnswer { .. } => other("answer"),
            Request::ReceiveBroadcasts { .. } => other("hear"),
            Request::Broadcast(_) => other("broadcast"),
        }
    }

    #[expect(clippy::too_many_lines, reason = "a table")]
    fn of_command(command: &Command) -> AuditAct {
        match command {
            Command::Submit(_) => act("submit"),
            Command::SubmitArray(_) => act("submit-array"),
            Command::LimitArray { array, limit } => {
                let limit = limit.map_or(AuditField::Null, |limit| AuditField::Number(i64::from(limit)));
                act("limit-array").task(*array).with("limit", limit)
            }
            Command::Release { task } => act("release").task(*task),
            Command::Cancel { task, .. } => act("cancel").task(*task),
            Command::Pause { task, .. } => act("pause").task(*task),
            Command::Resume { task } => act("resume").task(*task),
            Command::Retry { task } => act("retry").task(*task),
            Command::Abandon(tasks) => act("abandon").tasks(tasks.iter().copied()),
            Command::Move { task, to } => act("move")
                .task(*task)
                .maybe("queue", to.queue.clone().map(AuditField::Text))
                .maybe("priority", to.priority.map(|priority| AuditField::Number(i64::from(priority))))
                .maybe("tags", to.tags.clone().map(AuditField::names)),
            Command::SetLimit { tag, limit } => {
                let limit = limit.map_or(AuditField::Null, |limit| AuditField::Number(i64::from(limit)));
                act("set-limit").with("tag", AuditField::Text(tag.clone())).with("limit", limit)
            }
            Command::SetTagRate { tag, rate } => {
                act("set-rate").with("tag", AuditField::Text(tag.clone())).with("rate", rate_field(*rate))
            }
            Command::SetQueueRate { queue, rate } => {
                act("set-rate").with("queue", AuditField::Text(queue.clone())).with("rate", rate_field(*rate))
            }
            Command::SetShare { share, weight } => {
                let weight = weight.map_or(AuditField::Null, |weight| AuditField::Number(i64::from(weight)));
                act("set-share").with("share", AuditField::Text(share.clone())).with("weight", weight)
            }
            Command::PauseQueue { queue } => {
                act("pause-queue").with("queue", AuditField::Text(queue.clone()))
            }
            Command::ResumeQueue { queue } => {
                act("resume-queue").with("queue", AuditField::Text(queue.clone()))
            }
            Command::SetThresholds { queue, thresholds } => {
                let set = act("set-thresholds").with("queue", AuditField::Text(queue.clone()));
                let Some(Thresholds { depth, age }) = thresholds else {
                    return set.with("thresholds", AuditField::Null);
                };
                let depth = depth.map_or(AuditField::Null, |depth| AuditField::Number(i64::from(depth)));
                let millis = |age: &Duration| i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
                let age = age.as_ref().map_or(AuditField::Null, |age| AuditField::Number(millis(age)));
                set.with("depth", depth).with("age_ms", age)
            }
            Command::SetSchedule(new) => act("set-schedule")
                .with("schedule", AuditField::Text(new.name.clone()))
                .with("when", AuditField::Text((*new.when).into()))
                .with("queue", AuditField::Text(new.task.queue.clone())),
            Command::PauseSchedule { schedule } => {
                act("pause-schedule").with("schedule", AuditField::Text(schedule.clone()))
            }
            Command::ResumeSchedule { schedule } => {
                act("resume-schedule").with("schedule", AuditField::Text(schedule.clone()))
            }
            Command::RemoveSchedule { schedule } => {
                act("remove-schedule").with("schedule", AuditField::Text(schedule.clone()))
            }
            Command::RunSchedule { schedule } => {
                act("run-schedule").with("schedule", AuditField::Text(schedule.clone()))
            }
            Command::DrainWorker { worker } => {
                act("drain-worker").with("target", AuditField::Text(worker.clone()))
            }
            Command::ClearWorker { worker } => {
                act("clear-worker").with("target", AuditField::Text(worker.clone()))
            }
            Command::Register(spec) => act("register").with("target", AuditField::Text(spec.worker.clone())),
            Command::Drain => act("drain"),
            Command::Leave => act("leave"),
            Command::Start(held) => report("start").held(held.iter().copied()),
            Command::Progress { held, .. } => report("progress").held([*held]),
            Command::Checkpoint { held, .. } => report("checkpoint").held([*held]),
            Command::Suspend { held, .. } => report("suspend").held([*held]),
            Command::Complete(done) => report("complete").held(done.iter().map(|done| done.held)),
            Command::Fail(failure) => report("fail").held([failure.held]),
            Command::Confirm { held, .. } => report("confirm").held([*held]),
            Command::GiveBack { held, .. } => report("give-back").held([*held]),
            Command::Undelivered { held, .. } => report("undelivered").held([*held]),
            Command::Forgotten(held) => report("forgotten").held(held.iter().copied()),
            Command::Heartbeat { .. } => other("heartbeat"),
            Command::Ask { .. } => other("ask"),
            Command::Unask => other("unask"),
            Command::SessionClosed => other("session-closed"),
        }
    }

    /// Whether the log has a line for it. A missing right is always logged.
    pub(crate) fn is_logged(&self, level: AuditLevel, reply: &Result<Response, HubRefusal>) -> bool {
        let by_kind = match self.kind {
            Kind::Act => true,
            Kind::Report => level == AuditLevel::All,
            Kind::Other => false,
        };
        by_kind || matches!(reply, Err(HubRefusal::Engine(Refusal::NotAllowed { .. })))
    }

    /// The name, the outcome, and the subject.
    pub(crate) fn end(
        mut self,
        reply: &Result<Response, HubRefusal>,
    ) -> (&'static str, AuditOutcome, Vec<(&'static str, AuditField)>) {
        let outcome = match reply {
            Err(no) => AuditOutcome::of(no),
            Ok(Response::Command(Reply::Submitted(each))) => {
                let accepted = each.iter().flatten();
                let known = accepted.clone().filter(|accepted| accepted.known).count();
                let ids = accepted.map(|accepted| accepted.task);
                self = self.tasks(ids);
                if known > 0 {
                    self = self.with("known", AuditField::count(known));
                }
                AuditOutcome::of_many(each.iter().map(|answer| answer.as_ref().err()))
            }
            Ok(Response::Command(Reply::ArraySubmitted(accepted))) => {
                self = self.task(accepted.array).with("count", AuditField::count(accepted.size as usize));
                if accepted.known {
                    self = self.with("known", AuditField::count(1));
                }
                AuditOutcome::Done
            }
            Ok(Response::Command(Reply::Held(each))) => {
                AuditOutcome::of_many(each.iter().map(|answer| answer.as_ref().err()))
            }
            Ok(Response::Reconciled(answer)) => {
                AuditOutcome::of_many(answer.tasks.iter().map(|task| match &task.refusal {
                    Some(HubRefusal::Engine(refusal)) => Some(refusal),
                    _ => None,
                }))
            }
            Ok(Response::BackedUp { bytes, .. }) => {
                self = self.with("bytes", AuditField::Number(i64::try_from(*bytes).unwrap_or(i64::MAX)));
                AuditOutcome::Done
            }
            Ok(
                Response::Command(Reply::Done | Reply::Registered { .. })
                | Response::Answer(_)
                | Response::Stats(_)
                | Response::Done
                | Response::Heard(_)
                | Response::Logs(_)
                | Response::Hooks(_)
                | Response::Undelivered(_)
                | Response::Redelivered(_),
            ) => AuditOutcome::Done,
        };
        (self.name, outcome, self.fields)
    }

    fn task(self, task: TaskId) -> AuditAct {
        self.with("task", AuditField::Task(task))
    }

    /// One task by itself; several as a list with a limit and their total number.
    fn tasks(self, tasks: impl Iterator<Item = TaskId> + Clone) -> AuditAct {
        let count = tasks.clone().count();
        let mut listed = tasks.take(TASKS_LISTED_MAX);
        match count {
            0 => self,
            1 => self.maybe("task", listed.next().map(AuditField::Task)),
            _ => self
                .with("count", AuditField::count(count))
                .with("tasks", AuditField::Tasks(listed.collect())),
        }
    }

    fn held(self, held: impl IntoIterator<Item = Held, IntoIter: Clone>) -> AuditAct {
        let held = held.into_iter();
        let mut all = held.clone();
        let only = all.next().filter(|_| all.next().is_none());
        self.tasks(held.map(|held| held.task))
            .maybe("attempt", only.map(|held| AuditField::Number(i64::from(held.attempt))))
    }

    fn with(mut self, name: &'static str, field: AuditField) -> AuditAct {
        self.fields.push((name, field));
        self
    }

    fn maybe(self, name: &'static str, field: Option<AuditField>) -> AuditAct {
        match field {
            Some(field) => self.with(name, field),
            None => self,
        }
    }
}

fn rate_field(rate: Option<Rate>) -> AuditField {
    rate.map_or(AuditField::Null, |rate| AuditField::Text(rate.to_string().into()))
}

fn act(name: &'static str) -> AuditAct {
    AuditAct { name, kind: Kind::Act, fields: Vec::new() }
}

fn report(name: &'static str) -> AuditAct {
    AuditAct { name, kind: Kind::Report, fields: Vec::new() }
}

fn other(name: &'static str) -> AuditAct {
    AuditAct { name, kind: Kind::Other, fields: Vec::new() }
}
