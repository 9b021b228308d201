//! The RESP side of a worker: the worker actor of the kit, with the JSON and the challenges of this protocol.

mod challenges;
mod json;

use bytes::Bytes;
use tenure_door_kit::worker_actor::{self as actor, Caller, Dialect};
use tenure_hub::Response;
use tenure_hub::words::{Name, Refusal, TaskId, Timestamp};

pub(crate) use challenges::{Challenges, Question};
pub(crate) use json::{figures, introduction, report};

use crate::json::Outputs;
use crate::key::QueueKey;

pub type Worker = actor::WorkerActor<Resp>;
pub type Output = actor::ActorOutput<Resp>;
pub(crate) type Call = actor::WorkerRequest<Resp>;
pub type CallAnswer = actor::CallReply<Resp>;
pub(crate) type Pop = actor::Pull<QueueKey>;
pub type WorkerCall = actor::WorkerCall<Resp>;

/// This protocol, as far as workers are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resp;

/// Calls that only this protocol has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyCall {
    /// A capability is put to the test.
    Challenge(Question),
    /// The worker's answer to it.
    Answer { capability: String, output: String, exit_code: i32 },
}

/// What became of a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed { output: String },
    Failed,
    NoChallenge,
}

/// What a connection is told by others.
#[derive(Debug)]
pub enum News {
    Worker(actor::WorkerNotice<Resp>),
    /// Something this connection published has been heard.
    Published {
        token: u64,
        outcome: Result<u64, String>,
    },
}

impl From<actor::WorkerNotice<Resp>> for News {
    fn from(news: actor::WorkerNotice<Resp>) -> News {
        News::Worker(news)
    }
}

impl Dialect for Resp {
    const DOOR: &'static str = "resp";

    type Outputs = Outputs;
    type List = QueueKey;
    type Call = VerifyCall;
    type Answer = Verdict;
    /// The number of a challenge.
    type Pending = u64;
    type State = Challenges;
    type News = News;

    /// `queue:processing` shows everything that a worker holds.
    fn is_on(list: &QueueKey, own: Option<&QueueKey>) -> bool {
        *list == QueueKey::Processing || own == Some(list)
    }

    fn is_from_worker(call: &VerifyCall) -> bool {
        match call {
            VerifyCall::Challenge(_) => false,
            VerifyCall::Answer { .. } => true,
        }
    }

    fn call(worker: &mut Worker, now: Timestamp, caller: Caller, call: VerifyCall, out: &mut Output) {
        match call {
            VerifyCall::Challenge(question) => challenges::challenge(worker, now, caller, question, out),
            VerifyCall::Answer { capability, output, exit_code } => {
                challenges::verified(worker, caller, &capability, output, exit_code, out);
            }
        }
    }

    fn answered(worker: &mut Worker, number: u64, reply: Result<Response, Refusal>, out: &mut Output) {
        challenges::submitted(worker, number, reply, out);
    }

    fn before_pull(worker: &mut Worker, queue: &Name, out: &mut Output) {
        challenges::put_questions(worker, queue, out);
    }

    fn completes(worker: &mut Worker, task: TaskId, result: &Bytes) {
        worker.door.note(task, result);
    }

    fn has_ended(worker: &mut Worker, task: TaskId, out: &mut Output) {
        challenges::has_ended(worker, task, out);
    }

    fn is_gone(worker: &mut Worker, out: &mut Output) {
        challenges::drop_all(worker, out);
    }

    fn tick(worker: &mut Worker, now: Timestamp, out: &mut Output) {
        challenges::end_overdue(worker, now, out);
    }

    fn next_deadline(challenges: &Challenges) -> Option<Timestamp> {
        challenges.next_deadline()
    }

    fn is_needed(challenges: &Challenges) -> bool {
        !challenges.is_empty()
    }

    /// What only it offers is for challenges. Otherwise workers that offer the same are alike to the engine, however
    /// many there are.
    fn more_capabilities(worker: &Worker) -> Vec<Name> {
        let is_tested = worker.door.are_under_way();
        is_tested.then(|| crate::translate::itself(worker.name())).into_iter().collect()
    }
}
