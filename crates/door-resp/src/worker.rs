//! Workers of the RESP door: the worker actor of the kit, with the JSON and the challenges of this protocol.

mod challenges;
mod json;

use bytes::Bytes;
use tenure_door_kit::worker_actor::{self as actor, Caller, Dialect};
use tenure_hub::words::{Name, TaskId, Timestamp};
use tenure_hub::{HubRefusal, Response};

pub(crate) use challenges::{Challenges, Question};
pub(crate) use json::{figures, introduction, report};

use crate::json::Outputs;
use crate::key::RespQueueKey;

/// A worker of this door.
pub type RespWorker = actor::WorkerActor<Resp>;
/// What its actor wants done.
pub type RespWorkerOutput = actor::ActorOutput<Resp>;
pub(crate) type RespCall = actor::WorkerRequest<Resp>;
/// The actor's answer to a call.
pub type RespCallReply = actor::CallReply<Resp>;
pub(crate) type Pop = actor::Pull<RespQueueKey>;
/// A call to the actor.
pub type RespWorkerCall = actor::WorkerCall<Resp>;

/// This protocol, as far as workers are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resp;

/// Calls that only this protocol has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyCall {
    /// A client tests a capability.
    Challenge(Question),
    /// The worker's answer to it.
    Answer { capability: String, output: String, exit_code: i32 },
}

/// The outcome of a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChallengeVerdict {
    Passed { output: String },
    Failed,
    NoChallenge,
}

/// Notices for a connection from other tasks.
#[derive(Debug)]
pub enum RespNotice {
    Worker(actor::WorkerNotice<Resp>),
    /// A message that this connection published has been delivered.
    Published {
        token: u64,
        outcome: Result<u64, String>,
    },
}

impl From<actor::WorkerNotice<Resp>> for RespNotice {
    fn from(notice: actor::WorkerNotice<Resp>) -> RespNotice {
        RespNotice::Worker(notice)
    }
}

impl Dialect for Resp {
    const DOOR: &'static str = "resp";

    type Outputs = Outputs;
    type List = RespQueueKey;
    type Call = VerifyCall;
    type Answer = ChallengeVerdict;
    /// The number of a challenge.
    type Pending = u64;
    type State = Challenges;
    type ConnectionNotice = RespNotice;

    /// `queue:processing` shows everything that a worker holds.
    fn is_on(list: &RespQueueKey, own: Option<&RespQueueKey>) -> bool {
        *list == RespQueueKey::Processing || own == Some(list)
    }

    fn is_from_worker(call: &VerifyCall) -> bool {
        match call {
            VerifyCall::Challenge(_) => false,
            VerifyCall::Answer { .. } => true,
        }
    }

    fn call(
        worker: &mut RespWorker,
        now: Timestamp,
        caller: Caller,
        call: VerifyCall,
        out: &mut RespWorkerOutput,
    ) {
        match call {
            VerifyCall::Challenge(question) => challenges::challenge(worker, now, caller, question, out),
            VerifyCall::Answer { capability, output, exit_code } => {
                challenges::verified(worker, caller, &capability, output, exit_code, out);
            }
        }
    }

    fn answered(
        worker: &mut RespWorker,
        number: u64,
        reply: Result<Response, HubRefusal>,
        out: &mut RespWorkerOutput,
    ) {
        challenges::submitted(worker, number, reply, out);
    }

    fn before_pull(worker: &mut RespWorker, queue: &Name, out: &mut RespWorkerOutput) {
        challenges::put_questions(worker, queue, out);
    }

    fn completes(worker: &mut RespWorker, task: TaskId, result: &Bytes) {
        worker.door.note(task, result);
    }

    fn has_ended(worker: &mut RespWorker, task: TaskId, out: &mut RespWorkerOutput) {
        challenges::has_ended(worker, task, out);
    }

    fn is_gone(worker: &mut RespWorker, out: &mut RespWorkerOutput) {
        challenges::drop_all(worker, out);
    }

    fn tick(worker: &mut RespWorker, now: Timestamp, out: &mut RespWorkerOutput) {
        challenges::end_overdue(worker, now, out);
    }

    fn next_deadline(challenges: &Challenges) -> Option<Timestamp> {
        challenges.next_deadline()
    }

    fn is_needed(challenges: &Challenges) -> bool {
        !challenges.is_empty()
    }

    /// The capability that only this worker offers is set only for challenges. Otherwise the engine can treat workers
    /// with the same offer as one group.
    fn more_capabilities(worker: &RespWorker) -> Vec<Name> {
        let is_tested = worker.door.are_under_way();
        is_tested.then(|| crate::translate::itself(worker.name())).into_iter().collect()
    }
}
