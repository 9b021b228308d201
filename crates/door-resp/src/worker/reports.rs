//! Reports: what a worker says about the jobs it holds.

use bytes::Bytes;
use tenure_hub::words::{
    Command, EXIT_CANCELLED, EXIT_CRASHED, EXIT_EXPIRED, Failure, Held, Refusal, TaskId, Wanted,
};
use tenure_hub::{Done, Request, Response};

use super::claims::Claim;
use super::{CallAnswer, Caller, Output, Pending, Worker};
use crate::key::QueueKey;
use crate::shapes::{JobUpdate, Outputs, Report};

/// How much a job's outputs may come to before it ends.
const OUTPUT_BYTES_MAX: usize = crate::codec::Limits::MESSAGE_BYTES_MAX;
/// The exit code of a failure that names none.
const EXIT_FAILED: i32 = 1;

/// Whether the broker takes this for the code of a failure. The others mean other ends to it.
fn is_failure(code: i32) -> bool {
    ![0, EXIT_CANCELLED, EXIT_CRASHED, EXIT_EXPIRED].contains(&code)
}

impl Claim {
    /// Adds to what was put aside, unless it becomes too much. It stays until the hub has taken the end: one that is
    /// refused can be reported again.
    fn add_outputs(&mut self, later: Outputs) -> bool {
        let mut outputs = self.outputs.clone();
        outputs.add(later);
        let fits = outputs.size() <= OUTPUT_BYTES_MAX;
        if fits {
            self.outputs = outputs;
        }
        fits
    }
}

impl Worker {
    pub(super) fn report(&mut self, caller: Caller, job: &str, mut update: JobUpdate, out: &mut Output) {
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
        let brings_outputs = !update.outputs.is_empty();
        if !claim.add_outputs(std::mem::take(&mut update.outputs)) {
            return out.answers.push((caller, CallAnswer::TooLong));
        }
        match update.report {
            None | Some(Report::Running) => self.go_on(caller, held, &update, brings_outputs, out),
            Some(Report::Completed) => {
                let result = claim.outputs.stored();
                self.complete(Some(caller), held, result, out);
            }
            Some(Report::Failed) => {
                let mut outputs = claim.outputs.clone();
                let exit_code = update.exit_code.filter(|code| is_failure(*code));
                if exit_code.is_none() {
                    outputs.exit_code = update.exit_code;
                }
                let failure = Failure {
                    held,
                    exit_code: exit_code.unwrap_or(EXIT_FAILED),
                    message: update.error.map(|error| crate::translate::shortened(error).into_boxed_str()),
                    result: tenure_hub::words::Blob::EMPTY,
                    crashed: false,
                    is_final: false,
                };
                let result = outputs.stored();
                self.end(Some(caller), held.task, Request::Fail { failure, result }, out);
            }
            Some(Report::Cancelled) => self.confirm_wish(caller, held, Wanted::Cancel, update, out),
            Some(Report::Paused) => self.confirm_wish(caller, held, Wanted::Pause, update, out),
        }
    }

    pub(super) fn put_aside(&mut self, caller: Caller, job: &str, outputs: Outputs, out: &mut Output) {
        let Some(task) = self.claimed(job) else {
            return out.answers.push((caller, CallAnswer::NotHeld));
        };
        let claim = self.claims.get_mut(&task).expect("it is claimed");
        if !claim.add_outputs(outputs) {
            return out.answers.push((caller, CallAnswer::TooLong));
        }
        self.keep_outputs(task, Some(caller), out);
    }

    /// What was put aside is kept with the job, and whoever waits is answered when it is on disk.
    fn keep_outputs(&mut self, task: TaskId, waits: Option<Caller>, out: &mut Output) {
        let claim = self.claims.get_mut(&task).expect("it is claimed");
        claim.evidence.starts();
        self.has_returned |= claim.evidence.becomes_known();
        let request = Request::Checkpoint { held: claim.held, checkpoint: claim.outputs.put_aside() };
        self.ask(request, Pending::Report { caller: waits, task, ends: false }, out);
    }

    pub(super) fn finish(&mut self, caller: Caller, job: &str, list: &QueueKey, out: &mut Output) {
        let claim =
            self.claimed(job).and_then(|task| self.claims.get(&task)).filter(|claim| claim.is_on(list));
        let Some(claim) = claim else {
            return out.answers.push((caller, CallAnswer::NotHeld));
        };
        let (held, result) = (claim.held, claim.outputs.stored());
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
            (claim.evidence.started, claim.evidence.known, claim.ending) = (true, true, true);
        }
        self.ask(request, Pending::Report { caller, task, ends: true }, out);
    }

    fn confirm_wish(
        &mut self,
        caller: Caller,
        held: Held,
        wanted: Wanted,
        update: JobUpdate,
        out: &mut Output,
    ) {
        let mut outputs = self.claims.get(&held.task).expect("it is claimed").outputs.clone();
        outputs.add(Outputs { exit_code: update.exit_code, error: update.error, ..Outputs::default() });
        let result = outputs.stored();
        self.end(Some(caller), held.task, Request::Confirm { held, wanted, result }, out);
    }

    /// It runs, perhaps it says how far it is, and perhaps it has brought outputs. It is answered with the last of
    /// these, and at once if something is wanted of it.
    fn go_on(
        &mut self,
        caller: Caller,
        held: Held,
        update: &JobUpdate,
        brings_outputs: bool,
        out: &mut Output,
    ) {
        let wanted = self.claims.get(&held.task).expect("it is claimed").wanted;
        if let Some(word) = wanted {
            out.answers.push((caller, CallAnswer::Wanted(word)));
        }
        let waits = wanted.is_none().then_some(caller);
        let says_more = update.progress_percent.is_some() || update.current_task.is_some();
        if brings_outputs {
            self.keep_outputs(held.task, waits.filter(|_| !says_more), out);
        } else if !self.confirm(held.task, waits.filter(|_| !says_more), out) && !says_more {
            out.answers.extend(waits.map(|caller| (caller, CallAnswer::Done)));
        }
        if says_more {
            let percent = update.progress_percent.map(|percent| percent.round() as u8);
            let note = update.current_task.map(|task| crate::translate::progress_note(task).into_boxed_str());
            let progress = Command::Progress { held, percent, note };
            self.command(progress, Pending::Report { caller: waits, task: held.task, ends: false }, out);
        }
    }
}
