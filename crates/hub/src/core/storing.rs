//! Requests that bring bytes: they go into the journal before the engine decides, and count as dead if it refuses.

use tenure_engine::{Blob, Command, Peer, Reply, Timestamp};

use super::Core;
use crate::refusal::HubRefusal;
use crate::request::{ArraySubmission, Done, Response, Submission};

impl Core {
    pub(super) fn submit(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        mut submissions: Vec<Submission>,
    ) -> Result<Response, HubRefusal> {
        self.accepts_tasks()?;
        let mut blobs = Vec::with_capacity(submissions.len());
        for Submission { task, body } in &mut submissions {
            task.body = self.batches.blob(body);
            blobs.push(task.body);
        }
        let tasks = submissions.into_iter().map(|submission| submission.task).collect();
        let reply = self.command(now, peer, Command::Submit(tasks))?;
        if let Response::Command(Reply::Submitted(each)) = &reply {
            let unused = each
                .iter()
                .zip(blobs)
                .filter(|(answer, _)| !matches!(answer, Ok(accepted) if !accepted.known));
            for (answer, blob) in unused {
                self.stats.refusals_total += u64::from(answer.is_err());
                self.batches.dead(blob);
            }
        }
        Ok(reply)
    }

    pub(super) fn submit_array(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        submission: ArraySubmission,
    ) -> Result<Response, HubRefusal> {
        self.accepts_tasks()?;
        let ArraySubmission { mut array, body, bodies } = submission;
        array.task.body = self.batches.blob(&body);
        array.bodies = bodies.iter().map(|body| self.batches.blob(body)).collect();
        let blobs: Vec<Blob> = std::iter::once(array.task.body).chain(array.bodies.iter().copied()).collect();
        let reply = self.command(now, peer, Command::SubmitArray(Box::new(array)));
        let is_used = matches!(
            &reply,
            Ok(Response::Command(Reply::ArraySubmitted(accepted))) if !accepted.known
        );
        if !is_used {
            blobs.into_iter().filter(|blob| !blob.is_empty()).for_each(|blob| self.batches.dead(blob));
        }
        reply
    }

    pub(super) fn complete(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        done: &[Done],
    ) -> Result<Response, HubRefusal> {
        let completions: Vec<_> = done.iter().map(|done| done.at(self.batches.blob(&done.result))).collect();
        let blobs: Vec<Blob> = completions.iter().map(|completion| completion.result).collect();
        let reply = self.command(now, peer, Command::Complete(completions));
        match &reply {
            Ok(Response::Command(Reply::Held(each))) => {
                for (answer, blob) in each.iter().zip(blobs) {
                    if answer.is_err() {
                        self.stats.stale_refusals_total += 1;
                        self.batches.dead(blob);
                    }
                }
            }
            _ => blobs.into_iter().for_each(|blob| self.batches.dead(blob)),
        }
        reply
    }

    /// Handles a report with bytes. If the engine refuses it, the bytes count as dead.
    pub(super) fn reporting(
        &mut self,
        blob: Blob,
        report: impl FnOnce(&mut Core) -> Result<Response, HubRefusal>,
    ) -> Result<Response, HubRefusal> {
        let reply = report(self);
        if reply.is_err() && !blob.is_empty() {
            self.batches.dead(blob);
        }
        reply
    }
}
