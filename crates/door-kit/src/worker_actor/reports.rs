//! Reports of a worker about the tasks it holds.

use bytes::Bytes;
use tenure_hub::words::{AttemptFailure, Blob, Command, Held, Refusal, TaskId};
use tenure_hub::{Done, HubRefusal, Request, Response};

use super::claims::Claim;
use super::requests::{PendingRequest, refused};
use super::{ActorOutput, CallReply, Caller, Dialect, Status, TaskOutputs, TaskReport, WorkerActor};

impl<D: Dialect> Claim<D> {
    /// Adds to the saved outputs, unless they become too long. They stay until the hub has accepted the end, because a
    /// refused end can be reported again.
    fn add_outputs(&mut self, later: D::Outputs) -> bool {
        let mut outputs = self.outputs.clone();
        outputs.add(later);
        let fits = outputs.bytes() <= D::Outputs::BYTES_MAX;
        if fits {
            self.outputs = outputs;
        }
        fits
    }

    /// The result of an end that includes `last`.
    fn result_with(&self, last: D::Outputs) -> Bytes {
        let mut outputs = self.outputs.clone();
        outputs.add(last);
        outputs.result()
    }
}

impl<D: Dialect> WorkerActor<D> {
    pub(super) fn report(
        &mut self,
        caller: Caller,
        task: &str,
        report: TaskReport<D::Outputs>,
        out: &mut ActorOutput<D>,
    ) {
        let Some(claim) = self.claims.find(task).and_then(|task| self.claims.get_mut(task)) else {
            return out.answers.push((caller, CallReply::NotHeld));
        };
        let held = claim.held;
        claim.evidence.reported();
        if let Some(attempt) = report.attempt
            && attempt != u64::from(held.attempt)
        {
            return out.answers.push((caller, CallReply::Stale { attempt, current: held.attempt }));
        }
        let brings_outputs = !report.outputs.is_empty();
        if !claim.add_outputs(report.outputs) {
            return out.answers.push((caller, CallReply::TooLong));
        }
        match report.status {
            Status::Running { percent, note } => {
                self.report_running(caller, held, percent, note, brings_outputs, out);
            }
            Status::Completed => {
                let result = claim.outputs.result();
                self.complete(Some(caller), held, result, out);
            }
            Status::Failed { exit_code, message, last } => {
                let result = claim.result_with(last);
                let failure = AttemptFailure {
                    held,
                    exit_code,
                    message,
                    result: Blob::EMPTY,
                    crashed: false,
                    is_final: false,
                };
                self.end(Some(caller), held.task, Request::Fail { failure, result }, out);
            }
            Status::Stopped { wanted, last } => {
                let result = claim.result_with(last);
                self.end(Some(caller), held.task, Request::Confirm { held, wanted, result }, out);
            }
        }
    }

    pub(super) fn save_outputs(
        &mut self,
        caller: Caller,
        task: &str,
        outputs: D::Outputs,
        out: &mut ActorOutput<D>,
    ) {
        let Some(claim) = self.claims.find(task).and_then(|task| self.claims.get_mut(task)) else {
            return out.answers.push((caller, CallReply::NotHeld));
        };
        let task = claim.held.task;
        if !claim.add_outputs(outputs) {
            return out.answers.push((caller, CallReply::TooLong));
        }
        self.keep_outputs(task, Some(caller), out);
    }

    /// Saves the outputs with the task; the waiting caller gets its reply when they are on disk.
    fn keep_outputs(&mut self, task: TaskId, waits: Option<Caller>, out: &mut ActorOutput<D>) {
        let claim = self.claims.get_mut(task).expect("it is claimed");
        claim.evidence.reported();
        claim.evidence.starts();
        self.recovery.has_returned |= claim.evidence.confirm_held();
        let request = Request::Checkpoint { held: claim.held, checkpoint: claim.outputs.checkpoint() };
        self.ask(request, PendingRequest::Report { caller: waits, task, ends: false }, out);
    }

    pub(super) fn finish(&mut self, caller: Caller, task: &str, list: &D::List, out: &mut ActorOutput<D>) {
        let claim = self.claims.find(task).and_then(|task| self.claims.get(task));
        let Some(claim) = claim.filter(|claim| D::is_on(list, claim.list.as_ref())) else {
            return out.answers.push((caller, CallReply::NotHeld));
        };
        let (held, result) = (claim.held, claim.outputs.result());
        self.complete(Some(caller), held, result, out);
    }

    /// Completes a task with its result.
    pub fn complete(&mut self, caller: Option<Caller>, held: Held, result: Bytes, out: &mut ActorOutput<D>) {
        D::completes(self, held.task, &result);
        self.end(caller, held.task, Request::Complete(vec![Done { held, result }]), out);
    }

    pub(super) fn reported(
        &mut self,
        caller: Option<Caller>,
        task: TaskId,
        reply: Result<Response, HubRefusal>,
        out: &mut ActorOutput<D>,
    ) {
        let answer = match refused(reply) {
            Ok(_) | Err(HubRefusal::Engine(Refusal::StaleAttempt { .. } | Refusal::UnknownTask { .. })) => {
                self.claims.remove(task);
                D::has_ended(self, task, out);
                CallReply::Done
            }
            Err(HubRefusal::Engine(Refusal::NotAWorker)) => CallReply::NotRegistered,
            Err(refusal) => {
                if let Some(claim) = self.claims.get_mut(task) {
                    claim.ending = false;
                }
                CallReply::Refused(refusal)
            }
        };
        if let Some(caller) = caller {
            out.answers.push((caller, answer));
        }
    }

    fn end(&mut self, caller: Option<Caller>, task: TaskId, request: Request, out: &mut ActorOutput<D>) {
        // A worker that reports the end has read the task, and may pull the next one before the hub has recorded the
        // end.
        if let Some(claim) = self.claims.get_mut(task) {
            (claim.evidence.started, claim.evidence.known, claim.ending) = (true, true, true);
        }
        self.ask(request, PendingRequest::Report { caller, task, ends: true }, out);
    }

    /// The task runs, possibly with progress and outputs. The reply comes with the last of these, and at once if a
    /// client wants something of it.
    fn report_running(
        &mut self,
        caller: Caller,
        held: Held,
        percent: Option<u8>,
        note: Option<Box<str>>,
        brings_outputs: bool,
        out: &mut ActorOutput<D>,
    ) {
        let wanted = self.claims.get(held.task).expect("it is claimed").wanted;
        if let Some(wanted) = wanted {
            out.answers.push((caller, CallReply::Wanted(wanted)));
        }
        let waits = wanted.is_none().then_some(caller);
        let says_more = percent.is_some() || note.is_some();
        if brings_outputs {
            self.keep_outputs(held.task, waits.filter(|_| !says_more), out);
        } else if !self.confirm(held.task, waits.filter(|_| !says_more), out) && !says_more {
            out.answers.extend(waits.map(|caller| (caller, CallReply::Done)));
        }
        if says_more {
            let progress = Command::Progress { held, percent, note };
            self.command(
                progress,
                PendingRequest::Report { caller: waits, task: held.task, ends: false },
                out,
            );
        }
    }
}
