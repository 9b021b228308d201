//! Who decides which request.

use std::sync::Arc;

use bytes::Bytes;
use tenure_engine::command::AttemptFailure;
use tenure_engine::state::Wanted;
use tenure_engine::{Command, Held, Peer, Refusal, Timestamp, WorkerSpec};

use super::Core;
use crate::refusal::HubRefusal;
use crate::request::{Request, Response};

impl Core {
    /// Decides a request that the session may make. `None`: there is no reply, or it comes later.
    pub(super) fn decide(
        &mut self,
        now: Timestamp,
        peer: &Arc<Peer>,
        token: u64,
        request: Request,
    ) -> Option<Result<Response, HubRefusal>> {
        let session = peer.session;
        Some(match request {
            Request::Submit(submissions) => self.submit(now, peer, submissions),
            Request::SubmitArray(submission) => self.submit_array(now, peer, *submission),
            Request::Complete(done) => self.complete(now, peer, &done),
            Request::Reconcile(page) => self.reconcile(now, peer, *page),
            Request::Fail { failure, result } => self.fail(now, peer, failure, &result),
            Request::Confirm { held, wanted, result } => self.confirm(now, peer, held, wanted, &result),
            Request::Checkpoint { held, checkpoint } => self.checkpoint(now, peer, held, &checkpoint),
            Request::AppendLog { held, piece } => self.append_log(now, peer, held, piece),
            Request::Logs { .. } => {
                Err(Refusal::BadValue { what: "logs", why: "are read by the runtime" }.into())
            }
            Request::Command(command) => self.plain_command(now, peer, command),
            Request::Query(query) => self.answer(session, |core| core.query(peer, &query)),
            Request::Stats => {
                self.answer(session, |core| Ok(Response::Stats(Box::new(core.stats_for(now, session)))))
            }
            Request::ShowCounters(counters) => {
                self.counters.push(counters);
                Ok(Response::Done)
            }
            Request::Watch(watch) => {
                self.watch(peer, token, watch);
                return None;
            }
            Request::Unwatch { watch } => self.unwatch(session, watch),
            Request::Listen { address } => {
                self.calls.listen(session, &peer.namespace, &address).map(|()| Response::Done)
            }
            Request::Unlisten { address } => {
                self.calls.unlisten(session, &peer.namespace, &address);
                Ok(Response::Done)
            }
            // The receiver of the call answers it.
            Request::Call { address, body } => Err(self.call(peer, token, address, body).err()?),
            Request::GiveUpCall { token } => {
                if let Some((call, receiver)) = self.calls.give_up(session, token) {
                    self.call_given_up(call, receiver);
                }
                Ok(Response::Done)
            }
            Request::CallAnswer { call, answer } => self.answer_call(session, call, answer),
            Request::ReceiveBroadcasts { hear } => {
                self.calls.set_broadcast_receiver(session, &peer.namespace, hear);
                Ok(Response::Done)
            }
            Request::Broadcast(broadcast) => Ok(self.broadcast(peer, &broadcast)),
            Request::Hooks => {
                self.answer(session, |core| Ok(Response::Hooks(core.hooks.list(&peer.namespace))))
            }
            Request::Undelivered { hook } => self.answer(session, |core| {
                core.hooks.undelivered(&peer.namespace, &hook).map(Response::Undelivered)
            }),
            Request::Redeliver { hook, seq } => {
                self.hooks.redeliver(&peer.namespace, &hook, seq).map(Response::Redelivered)
            }
            Request::Refused { .. } => return None,
            Request::Backup { .. } => {
                Err(Refusal::BadValue { what: "backup", why: "is made by the runtime" }.into())
            }
        })
    }

    fn fail(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        mut failure: AttemptFailure,
        result: &Bytes,
    ) -> Result<Response, HubRefusal> {
        let result = self.blob(result);
        failure.result = result;
        self.reporting(result, |core| core.command(now, peer, Command::Fail(failure)))
    }

    fn confirm(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: Held,
        wanted: Wanted,
        result: &Bytes,
    ) -> Result<Response, HubRefusal> {
        let result = self.blob(result);
        self.reporting(result, |core| core.command(now, peer, Command::Confirm { held, wanted, result }))
    }

    fn checkpoint(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: Held,
        checkpoint: &Bytes,
    ) -> Result<Response, HubRefusal> {
        if self.disk_full {
            return Err(HubRefusal::DiskFull);
        }
        let checkpoint = self.blob(checkpoint);
        self.reporting(checkpoint, |core| core.command(now, peer, Command::Checkpoint { held, checkpoint }))
    }

    /// A command of the engine that carries no bytes.
    fn plain_command(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        command: Command,
    ) -> Result<Response, HubRefusal> {
        match command {
            Command::Submit(_)
            | Command::SubmitArray(_)
            | Command::Complete(_)
            | Command::Fail(_)
            | Command::Confirm { .. }
            | Command::Checkpoint { .. } => {
                Err(Refusal::BadValue { what: "command", why: "carries bytes and has a request of its own" }
                    .into())
            }
            Command::Register(spec) => self.register(now, peer, spec),
            Command::SetSchedule(_) | Command::RunSchedule { .. } => {
                self.accepts_tasks().and_then(|()| self.command(now, peer, command))
            }
            _ => self.command(now, peer, command),
        }
    }

    fn register(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        mut spec: Box<WorkerSpec>,
    ) -> Result<Response, HubRefusal> {
        spec.owner = self.sessions.get(&peer.session).map(|entry| entry.principal.grant.name.clone());
        let worker = self.audit.as_ref().map(|_| spec.worker.clone());
        let reply = self.command(now, peer, Command::Register(spec));
        self.note_worker(peer.session, worker, &reply);
        reply
    }
}
