//! Sends jobs to a worker, and handles jobs that it no longer holds.

use bytes::Bytes;
use tenure_door_kit::worker_actor::refused;
use tenure_hub::words::{Assignment, Held, StopWhy, Wanted};
use tenure_hub::{HubRefusal, Request, Response};

use super::super::majordomo::{ReplyPurpose, SessionTurn};
use super::{Running, START_AFTER, START_AFTER_BYTES, WorkerSession, send};
use crate::body;
use crate::mdp::ToWorker;
use crate::translate;

impl WorkerSession {
    /// A job has come for this worker.
    pub(in crate::session) fn assigned(
        &mut self,
        assignment: &Assignment,
        task_body: Result<Bytes, HubRefusal>,
        turn: &mut SessionTurn<'_>,
    ) {
        let held = Held { task: assignment.task, attempt: assignment.attempt };
        if !matches!(self, WorkerSession::Simple(_) | WorkerSession::Plugin(_)) {
            // It left meanwhile, and the task went back with it.
            return;
        }
        let task_body = match task_body {
            Ok(task_body) => task_body,
            Err(refusal) => return turn.ask(translate::given_up(held, &refusal), ReplyPurpose::Nothing),
        };
        match self {
            WorkerSession::Unknown
            | WorkerSession::Arriving(_)
            | WorkerSession::Returned { .. }
            | WorkerSession::RequestsInFlight { .. } => {}
            WorkerSession::Simple(simple) => {
                let address = translate::address_of(held, &turn.me.name).to_frame();
                let request = ToWorker::Request { address, body: body::unpack(&task_body) };
                send(&request, simple.dialect, turn);
                simple.job = Some(Running::new(held, assignment.terms.submitter.clone()));
                simple.start_at = Some(turn.now.steady + START_AFTER);
                if task_body.len() > START_AFTER_BYTES {
                    simple.start(turn);
                }
            }
            WorkerSession::Plugin(plugin) => plugin.assigned(assignment, task_body, turn),
        }
    }

    /// Whether the hub accepted that the worker has begun.
    pub(in crate::session) fn started(
        &mut self,
        held: Held,
        reply: Result<Response, HubRefusal>,
        task_body: Result<Bytes, HubRefusal>,
        turn: &mut SessionTurn<'_>,
    ) {
        let went_on = refused(reply).is_ok();
        match self {
            _ if !went_on => self.stopped(held, StopWhy::Stale, turn),
            WorkerSession::Plugin(plugin) => plugin.started(held, task_body, turn),
            WorkerSession::Unknown
            | WorkerSession::Arriving(_)
            | WorkerSession::Returned { .. }
            | WorkerSession::RequestsInFlight { .. }
            | WorkerSession::Simple(_) => {}
        }
    }

    /// A client wants a job cancelled or paused, and Majordomo has no message for it: the attempt ends at once. A
    /// `_PL` worker cannot be disconnected for one of its jobs, so a job to be paused continues until the worker
    /// reports; a cancelled one is over, whatever its thread does.
    pub(in crate::session) fn wanted(&mut self, held: Held, wanted: Wanted, turn: &mut SessionTurn<'_>) {
        let (is_mine, is_plugin) = match self {
            WorkerSession::Simple(simple) => (simple.job.as_ref().is_some_and(|job| job.held == held), false),
            WorkerSession::Returned { jobs, .. } => (jobs.iter().any(|known| known.job.held == held), false),
            WorkerSession::Plugin(plugin) => (plugin.threads.held().contains(&held), true),
            WorkerSession::Unknown | WorkerSession::Arriving(_) | WorkerSession::RequestsInFlight { .. } => {
                (false, false)
            }
        };
        if is_mine && (wanted == Wanted::Cancel || !is_plugin) {
            turn.ask(Request::Confirm { held, wanted, result: Bytes::new() }, ReplyPurpose::Nothing);
            let why = match wanted {
                Wanted::Cancel => StopWhy::Cancelled,
                Wanted::Pause => StopWhy::Paused,
            };
            self.stopped(held, why, turn);
        }
    }

    /// An attempt is over, and Majordomo has no message to stop a worker. A simple worker is disconnected; otherwise
    /// its next job would wait behind the old one. A plugin worker's thread stays taken until it reports.
    pub(in crate::session) fn stopped(&mut self, held: Held, why: StopWhy, turn: &mut SessionTurn<'_>) {
        turn.drop(match why {
            StopWhy::Stale => "attempt_stale",
            StopWhy::TakenBack => "attempt_taken_back",
            StopWhy::Cancelled => "attempt_cancelled",
            StopWhy::Paused => "attempt_paused",
            StopWhy::RunLimit => "attempt_run_limit",
            StopWhy::Expired => "attempt_expired",
        });
        match self {
            WorkerSession::Simple(simple) if simple.job.as_ref().is_some_and(|job| job.held == held) => {
                let dialect = simple.dialect;
                self.disconnect(dialect, turn);
            }
            WorkerSession::Plugin(plugin) => plugin.stopped(held, turn),
            WorkerSession::Returned { jobs, .. } => jobs.retain(|known| known.job.held != held),
            WorkerSession::Simple(_)
            | WorkerSession::Arriving(_)
            | WorkerSession::RequestsInFlight { .. }
            | WorkerSession::Unknown => {}
        }
    }
}
