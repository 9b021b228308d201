//! Reports: what a worker says about the jobs it holds.

use bytes::Bytes;
use tenure_hub::words::{Command, Failure, Held, Refusal, TaskId, Wanted};
use tenure_hub::{Done, Request, Response};

use super::{CallAnswer, Caller, Output, Pending, Worker};
use crate::shapes::{JobUpdate, Report};

/// How much a job's outputs may come to before it ends.
const OUTPUT_BYTES_MAX: usize = crate::codec::Limits::MESSAGE_BYTES_MAX;
/// The exit code of a failure that names none.
const EXIT_FAILED: i32 = 1;

impl Worker {
    pub(super) fn report(&mut self, caller: Caller, job: &str, update: JobUpdate, out: &mut Output) {
        let Some(task) = self.claimed(job) else {
            return out.answers.push((caller, CallAnswer::NotHeld));
        };
        let claim = self.claims.get_mut(&task).expect("it is claimed");
        let held = claim.held;
        if let Some(attempt) = update.attempt
            && attempt != u64::from(held.attempt)
        {
            return out.answers.push((caller, CallAnswer::Stale { attempt, current: held.attempt }));
        }
        match update.report {
            None | Some(Report::Running) => self.go_on(caller, held, &update, out),
            Some(Report::Completed) => {
                let result = update.result.or_else(|| claim.take_outputs()).unwrap_or_default();
                self.complete(Some(caller), held, result, out);
            }
            Some(Report::Failed) => {
                let result = update.result.or_else(|| claim.take_outputs()).unwrap_or_default();
                let exit_code = update.exit_code.filter(|code| *code > 0).unwrap_or(EXIT_FAILED);
                let failure = Failure {
                    held,
                    exit_code,
                    message: update.error.map(|error| crate::translate::shortened(error).into_boxed_str()),
                    result: tenure_hub::words::Blob::EMPTY,
                    crashed: false,
                    is_final: false,
                };
                self.end(Some(caller), held.task, Request::Fail { failure, result }, out);
            }
            Some(Report::Cancelled) => self.confirm_wish(caller, held, Wanted::Cancel, update.result, out),
            Some(Report::Paused) => self.confirm_wish(caller, held, Wanted::Pause, update.result, out),
        }
    }

    pub(super) fn put_aside(
        &mut self,
        caller: Caller,
        job: &str,
        field: &'static str,
        value: Bytes,
        out: &mut Output,
    ) {
        let Some(task) = self.claimed(job) else {
            return out.answers.push((caller, CallAnswer::NotHeld));
        };
        let claim = self.claims.get_mut(&task).expect("it is claimed");
        claim.outputs.retain(|(known, _)| *known != field);
        let before: usize = claim.outputs.iter().map(|(_, value)| value.len()).sum();
        if before + value.len() > OUTPUT_BYTES_MAX {
            return out.answers.push((caller, CallAnswer::TooLong));
        }
        claim.outputs.push((field, value));
        self.confirm(task, out);
        out.answers.push((caller, CallAnswer::Done));
    }

    pub(super) fn finish(&mut self, caller: Caller, job: &str, out: &mut Output) {
        let Some(task) = self.claimed(job) else {
            return out.answers.push((caller, CallAnswer::NotHeld));
        };
        let claim = self.claims.get_mut(&task).expect("it is claimed");
        let (held, result) = (claim.held, claim.take_outputs().unwrap_or_default());
        self.complete(Some(caller), held, result, out);
    }

    pub(super) fn complete(&mut self, caller: Option<Caller>, held: Held, result: Bytes, out: &mut Output) {
        self.note_challenge(held.task, &result, 0);
        self.end(caller, held.task, Request::Complete(vec![Done { held, result }]), out);
    }

    pub(super) fn reported(
        &mut self,
        caller: Option<Caller>,
        task: TaskId,
        reply: Result<Response, Refusal>,
        out: &mut Output,
    ) {
        let answer = match crate::translate::refused(reply) {
            Ok(_) | Err(Refusal::StaleAttempt { .. } | Refusal::UnknownTask { .. }) => {
                self.claims.remove(&task);
                self.challenge_over(task, out);
                CallAnswer::Done
            }
            Err(Refusal::NotAWorker) => CallAnswer::NotRegistered,
            Err(refusal) => {
                if let Some(claim) = self.claims.get_mut(&task) {
                    claim.ending = false;
                }
                CallAnswer::Refused(refusal)
            }
        };
        if let Some(caller) = caller {
            out.answers.push((caller, answer));
        }
    }

    fn end(&mut self, caller: Option<Caller>, task: TaskId, request: Request, out: &mut Output) {
        // Whoever reports the end has read the job, and may pop the next one before the hub has heard of it.
        if let Some(claim) = self.claims.get_mut(&task) {
            (claim.confirmed, claim.ending) = (true, true);
        }
        self.ask(request, Pending::Report { caller, task, ends: true }, out);
    }

    fn confirm_wish(
        &mut self,
        caller: Caller,
        held: Held,
        wanted: Wanted,
        result: Option<Bytes>,
        out: &mut Output,
    ) {
        let result = result.unwrap_or_default();
        self.end(Some(caller), held.task, Request::Confirm { held, wanted, result }, out);
    }

    /// It runs, and perhaps it says how far it is.
    fn go_on(&mut self, caller: Caller, held: Held, update: &JobUpdate, out: &mut Output) {
        self.confirm(held.task, out);
        let claim = self.claims.get_mut(&held.task).expect("it is claimed");
        let wanted = claim.wanted;
        if let Some(result) = &update.result {
            claim.outputs.retain(|(known, _)| *known != "result");
            claim.outputs.push(("result", result.clone()));
        }
        if update.progress_percent.is_none() && update.current_task.is_none() {
            return out.answers.push((caller, wanted.map_or(CallAnswer::Done, CallAnswer::Wanted)));
        }
        let percent = update.progress_percent.map(|percent| percent.round() as u8);
        let note = update.current_task.map(|task| crate::translate::progress_note(task).into_boxed_str());
        let progress = Command::Progress { held, percent, note };
        let answered = wanted.is_some();
        if let Some(word) = wanted {
            out.answers.push((caller, CallAnswer::Wanted(word)));
        }
        let caller = (!answered).then_some(caller);
        self.command(progress, Pending::Report { caller, task: held.task, ends: false }, out);
    }
}
