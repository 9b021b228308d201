//! Challenges: a capability is put to the test by a job that only this worker may take.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_hub::words::{Command, Name, NewTask, OnLost, Refusal, Reply, TaskId, Timestamp};
use tenure_hub::{Request, Response, Submission, fresh_id};

use super::{CallAnswer, Caller, Output, Pending, Worker};

/// How long a worker has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How many challenges one worker may have open.
const CHALLENGES_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Challenge {
    number: u64,
    caller: Caller,
    capability: String,
    expect: Option<String>,
    pub(super) until: Timestamp,
    /// The job that asks, until a pop comes that could take it. Before that it would only lie in some queue, and handing
    /// it in would look like a sign of life.
    question: Option<Bytes>,
    task: Option<TaskId>,
    /// What came out, once something has.
    result: Option<(String, i32)>,
}

impl Worker {
    #[expect(clippy::too_many_arguments, reason = "the parts of one question")]
    pub(super) fn challenge(
        &mut self,
        now: Timestamp,
        caller: Caller,
        capability: String,
        command: &str,
        arguments: &[String],
        expect: Option<String>,
        out: &mut Output,
    ) {
        if !self.was_heard(now) {
            return out.answers.push((caller, CallAnswer::NotRegistered));
        }
        if self.challenges.len() >= CHALLENGES_MAX {
            let refusal = Refusal::TooMany { what: "open challenges of one worker", limit: CHALLENGES_MAX };
            return out.answers.push((caller, CallAnswer::Refused(refusal)));
        }
        let until = now + ANSWER_WITHIN;
        let step = json!({"task_number": 1, "command": command, "args": arguments, "timeout_secs": 60});
        let body = json!({
            "verify": capability, "plan_id": "verify", "tasks": [step],
            "plan": {"plan_id": "verify", "tasks": [step]}, "inputs": Value::Null,
        });
        let number = self.next_challenge;
        self.next_challenge += 1;
        self.challenges.push(Challenge {
            number,
            caller,
            capability,
            expect,
            until,
            question: Some(Bytes::from(body.to_string())),
            task: None,
            result: None,
        });
        if let Some(queue) = self.awaited_queue() {
            self.put_questions(&queue, out);
        }
    }

    /// Puts what is to be verified into a queue that the worker pops from at this moment.
    pub(super) fn put_questions(&mut self, queue: &Name, out: &mut Output) {
        let open = |challenge: &mut Challenge| {
            let body = challenge.question.take()?;
            Some((challenge.number, challenge.until, body))
        };
        let is_first = self.challenges.iter().all(|challenge| challenge.question.is_some());
        let questions: Vec<_> = self.challenges.iter_mut().filter_map(open).collect();
        if is_first && !questions.is_empty() {
            self.offer_anew(out);
        }
        for (number, until, body) in questions {
            let task = NewTask {
                needs: vec![crate::translate::itself(&self.name)],
                priority: Some(i32::MAX),
                expires_at: Some(until),
                run_limit: Some(ANSWER_WITHIN),
                on_lost: OnLost::Fail,
                ..NewTask::new(fresh_id(), queue.clone())
            };
            let submission = Submission::new(task, body);
            self.ask(Request::Submit(vec![submission]), Pending::Challenge { number }, out);
        }
    }

    /// Whether the hub has to know that this worker can be told from all others.
    pub(super) fn is_put_to_the_test(&self) -> bool {
        self.challenges.iter().any(|challenge| challenge.question.is_none())
    }

    pub(super) fn challenge_submitted(
        &mut self,
        number: u64,
        reply: Result<Response, Refusal>,
        out: &mut Output,
    ) {
        let Some(index) = self.challenges.iter().position(|challenge| challenge.number == number) else {
            return;
        };
        match reply {
            Ok(Response::Command(Reply::Submitted(each))) if matches!(each.first(), Some(Ok(_))) => {
                let Some(Ok(accepted)) = each.first() else { unreachable!("as above") };
                self.challenges[index].task = Some(accepted.task);
            }
            Ok(_) => self.end_challenge(index, out),
            Err(refusal) => {
                let challenge = self.challenges.remove(index);
                out.answers.push((challenge.caller, CallAnswer::Refused(refusal)));
            }
        }
    }

    /// The worker answers with a word of its own instead of reporting the job.
    pub(super) fn verified(
        &mut self,
        caller: Caller,
        capability: &str,
        output: String,
        exit_code: i32,
        out: &mut Output,
    ) {
        let open = self.challenges.iter().position(|challenge| {
            challenge.capability == capability
                && challenge.task.is_some_and(|task| self.claims.contains_key(&task))
        });
        let Some(index) = open else {
            return out.answers.push((caller, CallAnswer::NoChallenge));
        };
        let task = self.challenges[index].task.expect("it is claimed");
        let held = self.claims[&task].held;
        let result = Bytes::from(json!({"stdout": output, "exit_code": exit_code}).to_string());
        self.complete(Some(caller), held, result, out);
        self.challenges[index].result = Some((output, exit_code));
    }

    /// A challenge's job is about to be completed with this result.
    pub(super) fn note_challenge(&mut self, task: TaskId, result: &Bytes, exit_code: i32) {
        let found = self.challenges.iter_mut().find(|challenge| challenge.task == Some(task));
        if let Some(challenge) = found {
            let (output, code) = crate::translate::outcome(result);
            challenge.result = Some((output, code.unwrap_or(exit_code)));
        }
    }

    /// A challenge's job has ended, one way or the other.
    pub(super) fn challenge_over(&mut self, task: TaskId, out: &mut Output) {
        if let Some(index) = self.challenges.iter().position(|challenge| challenge.task == Some(task)) {
            self.end_challenge(index, out);
        }
    }

    pub(super) fn end_challenges(&mut self, now: Timestamp, out: &mut Output) {
        while let Some(index) = self.challenges.iter().position(|challenge| challenge.until <= now) {
            self.end_challenge(index, out);
        }
    }

    /// The worker is gone, and with it whatever would have answered.
    pub(super) fn drop_challenges(&mut self, out: &mut Output) {
        for challenge in std::mem::take(&mut self.challenges) {
            if let Some(task) = challenge.task {
                let reason = Some("the worker to be verified is gone".into());
                self.command(Command::Cancel { task, reason }, Pending::Nothing, out);
            }
            out.answers.push((challenge.caller, CallAnswer::NotVerified));
        }
    }

    fn end_challenge(&mut self, index: usize, out: &mut Output) {
        let challenge = self.challenges.remove(index);
        let as_expected = |output: &str| challenge.expect.as_deref().is_none_or(|text| output.contains(text));
        let answer = match challenge.result {
            Some((output, 0)) if as_expected(&output) => CallAnswer::Verified { output },
            _ => {
                // What it could not show it does not offer any more, until it registers again.
                self.offers.retain(|offer| **offer != *challenge.capability);
                CallAnswer::NotVerified
            }
        };
        if answer == CallAnswer::NotVerified || self.challenges.is_empty() {
            self.offer_anew(out);
        }
        out.answers.push((challenge.caller, answer));
    }

    /// Tells the hub what it offers now.
    fn offer_anew(&mut self, out: &mut Output) {
        // For one that may be dead this would be a sign of life; when it is back, it says anew what it offers.
        if self.was_heard(self.clock) {
            let now = self.heard;
            self.join(now, None, out);
        }
    }
}
