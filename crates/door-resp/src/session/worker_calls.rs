//! Calls to worker actors, and which worker this connection acts as.

use tenure_door_kit::worker_actor::WorkerKind;
use tenure_hub::ClockReading;
use tenure_hub::words::Name;

use super::{Expectation, Session, SessionOutput};
use crate::flow::{CommandFlow, Input, TargetWorker};
use crate::worker::{RespCall, RespCallReply, RespWorkerCall};

/// Calls to several worker actors, until all have answered.
#[derive(Debug)]
pub(super) struct Group {
    place: u64,
    answers: Vec<(u64, Option<RespCallReply>)>,
    flow: CommandFlow,
}

impl Session {
    /// Every command on the connection of a worker is a sign of life. Its actor need not learn of each.
    pub(super) fn note_worker_alive(&mut self, now: ClockReading, out: &mut SessionOutput) {
        let Some(worker) = self.identity.worker.as_ref().or(self.identity.hinted.as_ref()) else { return };
        if self.settings.heartbeats().is_fresh(now.steady, self.identity.showed_life)
            || *worker == self.identity.unnamed
        {
            return;
        }
        let worker = worker.clone();
        self.identity.showed_life = now.steady;
        out.calls.push(RespWorkerCall { token: self.token(), worker, open_as: None, call: RespCall::Sign });
    }

    pub(super) fn call_worker(
        &mut self,
        now: ClockReading,
        place: u64,
        whom: TargetWorker,
        call: RespCall,
        flow: CommandFlow,
        out: &mut SessionOutput,
    ) {
        let Some(CallTarget { worker, open_as, becomes }) = self.address(whom, &call) else {
            let step = flow.resume(now.wall, Input::Call(RespCallReply::NotHeld));
            return self.run(now, place, step, out);
        };
        let token = self.token();
        self.pending.insert(token, Expectation::Call { reply: place, flow, becomes });
        out.calls.push(RespWorkerCall { token, worker, open_as, call });
    }

    pub(super) fn call_workers(
        &mut self,
        now: ClockReading,
        place: u64,
        calls: Vec<(TargetWorker, RespCall)>,
        flow: CommandFlow,
        out: &mut SessionOutput,
    ) {
        let mut answers = Vec::with_capacity(calls.len());
        for (whom, call) in calls {
            let token = self.token();
            match self.address(whom, &call) {
                Some(CallTarget { worker, open_as, .. }) => {
                    answers.push((token, None));
                    out.calls.push(RespWorkerCall { token, worker, open_as, call });
                }
                None => answers.push((token, Some(RespCallReply::NotHeld))),
            }
        }
        self.group = Some(Group { place, answers, flow });
        self.go_on_when_all_answered(now, out);
    }

    pub(super) fn collect(
        &mut self,
        now: ClockReading,
        token: u64,
        answer: RespCallReply,
        out: &mut SessionOutput,
    ) {
        if let Some(Expectation::Call { reply, flow, becomes }) = self.pending.take(token) {
            if !matches!(
                answer,
                RespCallReply::NotRegistered | RespCallReply::Taken | RespCallReply::Refused(_)
            ) && let Some(name) = becomes
            {
                let before = self.identity.worker.replace(name);
                self.identity.introduced = true;
                self.identity.hinted = None;
                // The connection has a name now, so its nameless worker is not needed any more.
                out.leaves.extend(before.filter(|before| *before == self.identity.unnamed));
            }
            let step = flow.resume(now.wall, Input::Call(answer));
            return self.run(now, reply, step, out);
        }
        let Some(group) = &mut self.group else { return };
        if let Some((_, place)) = group.answers.iter_mut().find(|(awaited, _)| *awaited == token) {
            *place = Some(answer);
            self.go_on_when_all_answered(now, out);
        }
    }

    /// Which worker pops here: the connection's worker, the one a ping named, or the connection itself.
    fn puller(&mut self) -> (Name, WorkerKind) {
        if let Some(worker) = &self.identity.worker {
            let nameless = *worker == self.identity.unnamed;
            return (worker.clone(), if nameless { WorkerKind::Nameless } else { WorkerKind::Implied });
        }
        let (worker, kind) = match self.identity.hinted.take() {
            Some(hinted) => (hinted, WorkerKind::Implied),
            None => (self.identity.unnamed.clone(), WorkerKind::Nameless),
        };
        self.identity.worker = Some(worker.clone());
        (worker, kind)
    }

    /// Which actor a call goes to; `None` if the peer has not named its worker.
    fn address(&mut self, whom: TargetWorker, call: &RespCall) -> Option<CallTarget> {
        Some(match whom {
            TargetWorker::Own => {
                CallTarget::known(self.identity.worker.clone().or_else(|| self.identity.hinted.clone())?)
            }
            TargetWorker::Puller => {
                let (worker, kind) = self.puller();
                CallTarget { open_as: Some(kind), ..CallTarget::known(worker) }
            }
            TargetWorker::Known(name) => {
                let says_so = self.identity.worker.is_none() && call.is_from_worker_itself();
                let becomes = says_so.then(|| name.clone());
                CallTarget { becomes, ..CallTarget::known(name) }
            }
            TargetWorker::Opened(name) => {
                CallTarget { open_as: Some(WorkerKind::Implied), ..CallTarget::known(name) }
            }
            TargetWorker::Become(name) => {
                let becomes = Some(name.clone());
                CallTarget { worker: name, open_as: Some(WorkerKind::Implied), becomes }
            }
        })
    }

    fn go_on_when_all_answered(&mut self, now: ClockReading, out: &mut SessionOutput) {
        let all = |group: &mut Group| group.answers.iter().all(|(_, answer)| answer.is_some());
        if let Some(Group { place, answers, flow }) = self.group.take_if(all) {
            let answers = answers.into_iter().filter_map(|(_, answer)| answer).collect();
            let step = flow.resume(now.wall, Input::Calls(answers));
            self.run(now, place, step, out);
        }
    }
}

/// The worker name of a connection that has not named one. No worker can choose such an id, and none is reused:
/// connection numbers restart with the broker, but the other part of the name is unique.
pub(super) fn nameless(connection: u64) -> Name {
    let fresh = tenure_hub::fresh_id().to_string();
    let (_, chance) = fresh.rsplit_once('-').unwrap_or_default();
    format!("resp.{connection}.{chance}").into()
}

/// Whose actor is called.
struct CallTarget {
    worker: Name,
    /// Whether the actor is started if there is none, and for what kind of worker.
    open_as: Option<WorkerKind>,
    /// The worker that this connection becomes if the call succeeds.
    becomes: Option<Name>,
}

impl CallTarget {
    fn known(worker: Name) -> CallTarget {
        CallTarget { worker, open_as: None, becomes: None }
    }
}
