//! Results of a worker: whole, in parts, and late ones.

use bytes::Bytes;
use tenure_hub::Request;
use tenure_hub::limits::BODY_BYTES_MAX;
use tenure_hub::words::{Command, Held, Name, Refusal};

use super::super::client::partial_address;
use super::super::majordomo::{ReplyPurpose, SessionTurn};
use super::{Returning, Simple, WorkerSession, send};
use crate::body;
use crate::mdp::{MdpAddress, MdpDialect, ToWorker};
use crate::translate;

impl WorkerSession {
    pub(super) fn reply(
        &mut self,
        dialect: MdpDialect,
        address: &Bytes,
        result: &[Bytes],
        turn: &mut SessionTurn<'_>,
    ) {
        let Some(address) = MdpAddress::parse(address) else {
            return self.disconnect(dialect, turn);
        };
        let held = translate::held_of(&address);
        match self {
            WorkerSession::Simple(simple) => match &simple.job {
                Some(job) if job.held == held => {
                    simple.start(turn);
                    simple.job = None;
                    complete(held, result, turn);
                }
                Some(_) => self.disconnect(dialect, turn),
                None => turn.drop("stale"),
            },
            WorkerSession::Returned { jobs, .. } if jobs.iter().any(|known| known.job.held == held) => {
                complete(held, result, turn);
                self.disconnect(dialect, turn);
            }
            WorkerSession::Unknown
            | WorkerSession::Arriving(_)
            | WorkerSession::Returned { .. }
            | WorkerSession::RequestsInFlight { .. } => {
                self.late_reply(&address, held, result, turn);
                self.disconnect(dialect, turn);
            }
            WorkerSession::Plugin(_) => self.disconnect(dialect, turn),
        }
    }

    /// A result from a connection that never said READY: the worker kept its socket while the broker restarted. The
    /// address names the worker and its attempt, and the engine decides whether that still counts.
    fn late_reply(&mut self, address: &MdpAddress, held: Held, result: &[Bytes], turn: &mut SessionTurn<'_>) {
        if !matches!(self, WorkerSession::Unknown) || !turn.me.check_work(turn.out) {
            return turn.drop("stale");
        }
        let worker: Name = address.worker.as_str().into();
        // A name that a peer chose belongs to that peer, and may have its own key.
        let is_its_own =
            if turn.me.is_chosen { worker == turn.me.name } else { translate::is_given_name(&worker) };
        if !is_its_own {
            return turn.drop("stale");
        }
        let spec = translate::returned_worker(&worker, vec![held], turn.settings);
        turn.command(Command::Register(Box::new(spec)), ReplyPurpose::Nothing);
        complete(held, result, turn);
        turn.command(Command::Leave, ReplyPurpose::Nothing);
    }

    pub(super) fn partial(
        &mut self,
        dialect: MdpDialect,
        address: &Bytes,
        part: Vec<Bytes>,
        turn: &mut SessionTurn<'_>,
    ) {
        if let WorkerSession::Simple(simple) = self {
            simple.start(turn);
        }
        let WorkerSession::Simple(Simple { job: Some(job), .. }) = self else {
            return self.disconnect(dialect, turn);
        };
        if MdpAddress::parse(address).map(|address| translate::held_of(&address)) != Some(job.held) {
            return turn.drop("stale");
        }
        let mut frames = vec![address.clone()];
        frames.extend(part);
        let body = body::pack(&frames);
        let bytes = body.len();
        turn.ask(Request::Call { address: partial_address(&job.client), body }, ReplyPurpose::Part { bytes });
        // A part of a result is a sign of life, whether or not a client receives it.
        turn.command(Command::Heartbeat { held: None, stats: None }, ReplyPurpose::Known);
    }

    /// An invalid message. From a simple worker with a job it may be the result, which will not come again: the worker
    /// and the job start again.
    pub(in crate::session) fn garbled(&mut self, turn: &mut SessionTurn<'_>) {
        if let WorkerSession::Simple(Simple { job: Some(_), dialect, .. }) = self {
            let dialect = *dialect;
            self.disconnect(dialect, turn);
        }
    }

    /// A message above the limit. From a simple worker with a job it is the result, and the next attempt would produce
    /// the same.
    pub(in crate::session) fn too_long(&mut self, turn: &mut SessionTurn<'_>) {
        if let WorkerSession::Simple(simple) = self {
            simple.start(turn);
            if let Some(job) = simple.job.take() {
                let refusal = Refusal::TooMany { what: "bytes in a result", limit: BODY_BYTES_MAX };
                turn.ask(translate::given_up(job.held, &refusal), ReplyPurpose::Nothing);
            }
        }
    }

    /// `_PL`: a thread has finished.
    pub(super) fn finished(
        &mut self,
        client: &Bytes,
        thread: u32,
        result: &[Bytes],
        turn: &mut SessionTurn<'_>,
    ) {
        match self {
            WorkerSession::Plugin(plugin) => {
                if let Some((held, result)) = plugin.finished(client, thread, result, turn) {
                    complete(held, &result, turn);
                }
            }
            WorkerSession::Returned { jobs, free } => {
                let is_it = |known: &Returning| {
                    known.thread == Some(thread as usize) && known.job.client.as_bytes() == client
                };
                *free = free.map(|free| free + 1);
                match jobs.iter().position(is_it) {
                    Some(place) => complete(jobs.swap_remove(place).job.held, result, turn),
                    None => turn.drop("stale"),
                }
                // It has not registered yet.
                send(&ToWorker::TellProcesses, MdpDialect::Pl, turn);
            }
            // The broker does not wait for this job.
            WorkerSession::RequestsInFlight { jobs, free } => {
                *free = free.map(|free| free + 1);
                let place = jobs.get_mut(thread as usize);
                place.and_then(|place| place.take_if(|job| job.client.as_bytes() == client));
                turn.drop("stale");
            }
            WorkerSession::Unknown | WorkerSession::Arriving(_) | WorkerSession::Simple(_) => {
                turn.drop("stale");
                self.start_again(MdpDialect::Pl, turn);
            }
        }
    }
}

fn complete(held: Held, result: &[Bytes], turn: &mut SessionTurn<'_>) {
    turn.ask(translate::report(held, result), ReplyPurpose::Nothing);
}
