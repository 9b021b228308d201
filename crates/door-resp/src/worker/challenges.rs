//! Challenges: test a capability with a job that only this worker can take.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_door_kit::worker_actor::Caller;
use tenure_hub::words::{Command, Name, NewTask, OnLost, Refusal, Reply, TaskId, Timestamp};
use tenure_hub::{HubRefusal, Request, Response, Submission, fresh_id};

use super::{ChallengeVerdict, RespCallReply, RespWorker, RespWorkerOutput};

/// How long a worker has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How many challenges one worker may have open.
const CHALLENGES_MAX: usize = 64;

/// The challenges of one worker.
#[derive(Debug, Default)]
pub struct Challenges {
    open: Vec<Challenge>,
    next_number: u64,
}

/// What a capability is tested with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub capability: String,
    pub command: String,
    pub arguments: Vec<String>,
    pub expect: Option<String>,
}

#[derive(Debug)]
struct Challenge {
    number: u64,
    caller: Caller,
    capability: String,
    expect: Option<String>,
    until: Timestamp,
    /// The job that asks, until a pop comes that could take it. Submitted earlier, it would only wait in some queue,
    /// and the submission would look like a sign of life.
    question: Option<Bytes>,
    task: Option<TaskId>,
    /// The outcome, once there is one.
    result: Option<(String, i32)>,
}

impl Challenges {
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.open.iter().map(|challenge| challenge.until).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether the hub must be able to single out this worker.
    pub(super) fn are_under_way(&self) -> bool {
        self.open.iter().any(|challenge| challenge.question.is_none())
    }

    /// A challenge's job is about to be completed with this result.
    pub(super) fn note(&mut self, task: TaskId, result: &Bytes) {
        let found = self.open.iter_mut().find(|challenge| challenge.task == Some(task));
        if let Some(challenge) = found {
            let (output, code) = crate::translate::outcome(result);
            challenge.result = Some((output, code.unwrap_or(0)));
        }
    }

    fn add(&mut self, now: Timestamp, caller: Caller, question: Question) {
        let Question { capability, command, arguments, expect } = question;
        let step = json!({"task_number": 1, "command": command, "args": arguments, "timeout_secs": 60});
        let body = json!({
            "verify": capability, "plan_id": "verify", "tasks": [step],
            "plan": {"plan_id": "verify", "tasks": [step]}, "inputs": Value::Null,
        });
        self.open.push(Challenge {
            number: self.next_number,
            caller,
            capability,
            expect,
            until: now + ANSWER_WITHIN,
            question: Some(Bytes::from(body.to_string())),
            task: None,
            result: None,
        });
        self.next_number += 1;
    }
}

pub(super) fn challenge(
    worker: &mut RespWorker,
    now: Timestamp,
    caller: Caller,
    question: Question,
    out: &mut RespWorkerOutput,
) {
    if !worker.was_heard(now) {
        return out.answers.push((caller, RespCallReply::NotRegistered));
    }
    if worker.door.open.len() >= CHALLENGES_MAX {
        let refusal = Refusal::TooMany { what: "open challenges of one worker", limit: CHALLENGES_MAX };
        return out.answers.push((caller, RespCallReply::Refused(refusal.into())));
    }
    worker.door.add(now, caller, question);
    if let Some(queue) = worker.awaited_queue() {
        put_questions(worker, &queue, out);
    }
}

/// Submits pending challenges to the queue from which the worker is popping.
pub(super) fn put_questions(worker: &mut RespWorker, queue: &Name, out: &mut RespWorkerOutput) {
    let open = |challenge: &mut Challenge| {
        let body = challenge.question.take()?;
        Some((challenge.number, challenge.until, body))
    };
    let is_first = !worker.door.are_under_way();
    let questions: Vec<_> = worker.door.open.iter_mut().filter_map(open).collect();
    if is_first && !questions.is_empty() {
        worker.offer_again(out);
    }
    for (number, until, body) in questions {
        let task = NewTask {
            needs: vec![crate::translate::itself(worker.name())],
            priority: Some(i32::MAX),
            expires_at: Some(until),
            run_limit: Some(ANSWER_WITHIN),
            on_lost: OnLost::Fail,
            ..NewTask::new(fresh_id(), queue.clone())
        };
        let submission = Submission::new(task, body);
        worker.request(Request::Submit(vec![submission]), number, out);
    }
}

pub(super) fn submitted(
    worker: &mut RespWorker,
    number: u64,
    reply: Result<Response, HubRefusal>,
    out: &mut RespWorkerOutput,
) {
    let Some(index) = worker.door.open.iter().position(|challenge| challenge.number == number) else {
        return;
    };
    match reply {
        Ok(Response::Command(Reply::Submitted(each))) if matches!(each.first(), Some(Ok(_))) => {
            let Some(Ok(accepted)) = each.first() else { unreachable!("as above") };
            worker.door.open[index].task = Some(accepted.task);
        }
        Ok(_) => end(worker, index, out),
        Err(refusal) => {
            let challenge = worker.door.open.remove(index);
            out.answers.push((challenge.caller, RespCallReply::Refused(refusal)));
        }
    }
}

/// The worker answers with its own command instead of reporting the job.
pub(super) fn verified(
    worker: &mut RespWorker,
    caller: Caller,
    capability: &str,
    output: String,
    exit_code: i32,
    out: &mut RespWorkerOutput,
) {
    let held = |challenge: &Challenge| {
        let claim = challenge.task.and_then(|task| worker.claims.get(task));
        claim.filter(|_| challenge.capability == capability).map(|claim| claim.held)
    };
    let found = worker.door.open.iter().enumerate().find_map(|(index, open)| Some((index, held(open)?)));
    let Some((index, held)) = found else {
        return out.answers.push((caller, RespCallReply::Own(ChallengeVerdict::NoChallenge)));
    };
    let result = Bytes::from(json!({"stdout": output, "exit_code": exit_code}).to_string());
    worker.complete(Some(caller), held, result, out);
    worker.door.open[index].result = Some((output, exit_code));
}

/// A challenge's job has ended in any way.
pub(super) fn has_ended(worker: &mut RespWorker, task: TaskId, out: &mut RespWorkerOutput) {
    if let Some(index) = worker.door.open.iter().position(|challenge| challenge.task == Some(task)) {
        end(worker, index, out);
    }
}

pub(super) fn end_overdue(worker: &mut RespWorker, now: Timestamp, out: &mut RespWorkerOutput) {
    while let Some(index) = worker.door.open.iter().position(|challenge| challenge.until <= now) {
        end(worker, index, out);
    }
}

/// The worker is gone, so its challenges cannot be answered.
pub(super) fn drop_all(worker: &mut RespWorker, out: &mut RespWorkerOutput) {
    for challenge in std::mem::take(&mut worker.door.open) {
        if let Some(task) = challenge.task {
            let reason = Some("the worker to be verified is gone".into());
            worker.send_without_reply(Command::Cancel { task, reason }, out);
        }
        out.answers.push((challenge.caller, RespCallReply::Own(ChallengeVerdict::Failed)));
    }
}

fn end(worker: &mut RespWorker, index: usize, out: &mut RespWorkerOutput) {
    let challenge = worker.door.open.remove(index);
    let as_expected = |output: &str| challenge.expect.as_deref().is_none_or(|text| output.contains(text));
    let verdict = match challenge.result {
        Some((output, 0)) if as_expected(&output) => ChallengeVerdict::Passed { output },
        _ => {
            // A worker no longer offers a capability that it failed to show, until it registers again.
            worker.terms.capabilities.retain(|offer| **offer != *challenge.capability);
            ChallengeVerdict::Failed
        }
    };
    if verdict == ChallengeVerdict::Failed || worker.door.is_empty() {
        worker.offer_again(out);
    }
    out.answers.push((challenge.caller, RespCallReply::Own(verdict)));
}
