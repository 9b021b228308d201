//! What a door adds to the worker actor: the types of its protocol, and its own calls.

use std::fmt::Debug;

use bytes::Bytes;
use tenure_hub::words::{Name, TaskId, Timestamp};
use tenure_hub::{HubRefusal, Response};

use super::directory::WorkerNotice;
use super::{ActorOutput, Caller, WorkerActor};

/// The protocol of a door, as far as its workers are concerned. The type is a marker; [`Dialect::State`] holds the
/// door's data about one worker, which its functions reach through [`WorkerActor::door`].
pub trait Dialect: Copy + Debug + PartialEq + Send + Sync + Sized + 'static {
    /// The name of the door in the list of workers.
    const DOOR: &'static str;

    /// Results that a worker reports in parts.
    type Outputs: TaskOutputs;
    /// The list in which a worker stores what it has taken, if its protocol has such lists.
    type List: Clone + Debug + PartialEq + Send;
    /// Calls that only this protocol has.
    type Call: Clone + Debug + PartialEq + Send;
    /// Answers that only this protocol has.
    type Answer: Clone + Debug + PartialEq + Send;
    /// The purpose of a door's request to the hub.
    type Pending: Copy + Debug + Send;
    /// The door's data about one worker.
    type State: Debug + Default + Send;
    /// What a connection receives from worker actors, in the door's own type.
    type ConnectionNotice: Debug + From<WorkerNotice<Self>> + Send;

    /// Whether a task on the list `own` is also on `list`.
    fn is_on(list: &Self::List, own: Option<&Self::List>) -> bool;

    /// Whether the worker itself makes this call, so that it is a sign of life.
    fn is_from_worker(call: &Self::Call) -> bool;

    fn call(
        worker: &mut WorkerActor<Self>,
        now: Timestamp,
        caller: Caller,
        call: Self::Call,
        out: &mut ActorOutput<Self>,
    );

    /// The hub has answered a request of the door.
    fn answered(
        worker: &mut WorkerActor<Self>,
        pending: Self::Pending,
        reply: Result<Response, HubRefusal>,
        out: &mut ActorOutput<Self>,
    );

    /// The worker pulls from this queue; the hub has not been asked yet.
    fn before_pull(_worker: &mut WorkerActor<Self>, _queue: &Name, _out: &mut ActorOutput<Self>) {}

    /// The worker is about to complete a task with this result.
    fn completes(_worker: &mut WorkerActor<Self>, _task: TaskId, _result: &Bytes) {}

    /// The worker does not hold the task any more.
    fn has_ended(_worker: &mut WorkerActor<Self>, _task: TaskId, _out: &mut ActorOutput<Self>) {}

    /// The worker is gone.
    fn is_gone(_worker: &mut WorkerActor<Self>, _out: &mut ActorOutput<Self>) {}

    fn tick(_worker: &mut WorkerActor<Self>, _now: Timestamp, _out: &mut ActorOutput<Self>) {}

    fn next_deadline(_state: &Self::State) -> Option<Timestamp> {
        None
    }

    /// Whether the door still waits for this worker.
    fn is_needed(_state: &Self::State) -> bool {
        false
    }

    /// Capabilities that the worker has for now, beside those that it offers.
    fn more_capabilities(_worker: &WorkerActor<Self>) -> Vec<Name> {
        Vec::new()
    }
}

/// Results that a worker reports in parts. They are stored with the task until it ends.
pub trait TaskOutputs: Clone + Debug + Default + PartialEq + Send {
    /// Maximum total length.
    const BYTES_MAX: usize;

    fn is_empty(&self) -> bool;

    /// Adds what came later.
    fn add(&mut self, later: Self);

    fn bytes(&self) -> usize;

    /// The result of the task, if it ends now.
    fn result(&self) -> Bytes;

    /// What is stored on disk until the task ends.
    fn checkpoint(&self) -> Bytes;

    /// Reads a checkpoint; `None` if another door wrote it.
    fn from_checkpoint(checkpoint: &[u8]) -> Option<Self>;
}
