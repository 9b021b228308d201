//! Requests of doors to the hub, and deliveries of the hub to a session. Bodies and results travel beside the
//! engine's commands, because the engine never sees them.

use std::sync::Arc;

use bytes::Bytes;
use tenure_engine::command::{AttemptFailure, Completion, Held, NewTask};
use tenure_engine::notice::Assignment;
use tenure_engine::state::Wanted;
use tenure_engine::{
    AfterTask, Answer, Blob, Command, Event, EventFilter, Name, NewArray, Notice, Query, Refusal, Reply,
    TaskId,
};

use crate::counters::Counters;
use crate::hooks::{HookInfo, Undelivered};
use crate::reconcile::{Reconciled, Reconciliation};
use crate::refusal::HubRefusal;
use crate::stats::Stats;
use crate::task_logs::{LogPiece, PrintedPage};

/// One request of a session. The reply carries the same token; the hub does not interpret it.
#[derive(Debug)]
pub struct Ask {
    /// Chosen by the session.
    pub token: u64,
    /// The request itself.
    pub request: Request,
}

impl Ask {
    /// Reports a door's own refusal to the audit log. There is no reply, so the token is not used.
    pub fn refused(act: &'static str, no: &HubRefusal) -> Ask {
        Ask { token: 0, request: Request::Refused { act, no: no.clone() } }
    }
}

/// A request of a session to the hub.
#[derive(Debug)]
pub enum Request {
    /// Submit tasks with their bodies.
    Submit(Vec<Submission>),
    /// Submit an array with its bodies.
    SubmitArray(Box<ArraySubmission>),
    /// A page of a reconciliation with another store.
    Reconcile(Box<Reconciliation>),
    /// A worker has completed attempts.
    Complete(Vec<Done>),
    /// An attempt has failed.
    Fail {
        /// Which attempt, and why.
        failure: AttemptFailure,
        /// The result; may be empty.
        result: Bytes,
    },
    /// A worker saves a checkpoint; an empty one removes the last checkpoint.
    Checkpoint {
        /// The attempt.
        held: Held,
        /// The bytes; empty removes the last checkpoint.
        checkpoint: Bytes,
    },
    /// The worker has carried out an intent.
    Confirm {
        /// The attempt.
        held: Held,
        /// The intent.
        wanted: Wanted,
        /// The result so far; may be empty.
        result: Bytes,
    },
    /// A worker sends what its command printed.
    AppendLog {
        /// The attempt.
        held: Held,
        /// The piece of output.
        piece: LogPiece,
    },
    /// Reads the output of a task after a place in its log; 0 for everything.
    Logs {
        /// The task.
        task: TaskId,
        /// The place in its log.
        after: u64,
    },
    /// Any other command. Those above are refused here, because their bytes would be missing.
    Command(Command),
    /// A question to the engine.
    Query(Query),
    /// The counters and gauges of the broker.
    Stats,
    /// Adds a door's counters to the statistics.
    ShowCounters(Arc<Counters>),
    /// Deliver events to this session.
    Watch(Watch),
    /// End a watch.
    Unwatch {
        /// The number that the session chose for the watch.
        watch: u64,
    },
    /// Deliver calls to this address to this session from now on.
    Listen {
        /// The address.
        address: Name,
    },
    /// Deliver no more calls to this address.
    Unlisten {
        /// The address.
        address: Name,
    },
    /// Call the session that listens at an address.
    Call {
        /// The address.
        address: Name,
        /// The body of the call.
        body: Bytes,
    },
    /// The caller stops waiting for the answer to its call with this token. There will be no answer after
    /// this.
    GiveUpCall {
        /// The token of the call.
        token: u64,
    },
    /// The answer to a call that was delivered.
    CallAnswer {
        /// The number of the call, from its delivery.
        call: u64,
        /// The answer.
        answer: CallAnswer,
    },
    /// Deliver broadcasts of the namespace to this session from now on.
    ReceiveBroadcasts {
        /// Whether to deliver them.
        hear: bool,
    },
    /// Send a broadcast to the receivers in the namespace.
    Broadcast(Broadcast),
    /// The door itself refused something that this session's key does not allow: for the audit log. No reply.
    Refused {
        /// The refused act.
        act: &'static str,
        /// The refusal.
        no: HubRefusal,
    },
    /// The hooks of the namespace.
    Hooks,
    /// The events that a hook could not deliver.
    Undelivered {
        /// The name of the hook.
        hook: Name,
    },
    /// Send an event that a hook could not deliver again, or all such events.
    Redeliver {
        /// The name of the hook.
        hook: Name,
        /// The number of the event; `None` for all.
        seq: Option<u64>,
    },
    /// Copy the store to a new directory below the broker's `backup_dir` while the broker runs.
    Backup {
        /// The directory.
        directory: std::path::PathBuf,
    },
}

impl Request {
    /// The body of this task is gone: no worker can run it, and a retry would not help.
    pub fn cannot_be_run(assignment: &Assignment, no: &HubRefusal) -> Request {
        let failure = AttemptFailure {
            held: Held { task: assignment.task, attempt: assignment.attempt },
            exit_code: 1,
            message: Some(format!("the task cannot be run: {no}").into()),
            result: Blob::EMPTY,
            crashed: false,
            is_final: true,
        };
        Request::Fail { failure, result: Bytes::new() }
    }
}

/// A task to submit, with its body.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The task.
    pub task: NewTask,
    /// Its body.
    pub body: Bytes,
}

/// An array to submit, with its bodies.
#[derive(Clone, Debug)]
pub struct ArraySubmission {
    /// The array.
    pub array: NewArray,
    /// The body that all elements share, unless each has its own.
    pub body: Bytes,
    /// A body for each element, or none.
    pub bodies: Vec<Bytes>,
}

/// A completed attempt, with its result.
#[derive(Clone, Debug)]
pub struct Done {
    /// The attempt.
    pub held: Held,
    /// The result.
    pub result: Bytes,
}

impl Done {
    pub(crate) fn at(&self, result: Blob) -> Completion {
        Completion { held: self.held, result }
    }
}

/// A request for events, from a number on or from now on.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Chosen by the session; every delivery carries it.
    pub watch: u64,
    /// Which events.
    pub filter: EventFilter,
    /// The first event wanted. `None`: from now on.
    pub from: Option<u64>,
}

/// A message to all sessions of the namespace that receive broadcasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broadcast {
    /// The sender, in its own words.
    pub sender: Option<Name>,
    /// The subject by which receivers select.
    pub subject: Option<Name>,
    /// A correlation id for the receivers.
    pub correlation: Option<Name>,
    /// The bytes.
    pub body: Bytes,
}

/// How a call ends for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// The receiver succeeded.
    Result(Bytes),
    /// The receiver failed, with its own description.
    Error(Bytes),
    /// The receiver gave the call up.
    Cancelled,
    /// The receiver has the call and will answer later; not the end.
    Pending,
}

/// A delivery to a session's mailbox.
#[derive(Debug)]
pub enum Delivery {
    /// The reply to a request.
    Reply {
        /// The token of the request.
        token: u64,
        /// The response, or why it was refused.
        reply: Result<Response, HubRefusal>,
    },
    /// A notice of the engine to this peer.
    Notice(Notice),
    /// An event of a watch.
    Event {
        /// The number of the watch.
        watch: u64,
        /// The event.
        event: Arc<Event>,
    },
    /// Events before `oldest` are gone; the watch continues with `oldest`. If `oldest` is less than `from`, the log ends
    /// before `from`: it begins again, and what the watcher knows may have been undone.
    Gap {
        /// The number of the watch.
        watch: u64,
        /// The first event that was wanted.
        from: u64,
        /// The oldest event that is kept.
        oldest: u64,
    },
    /// All past events have been delivered; live events follow.
    Live {
        /// The number of the watch.
        watch: u64,
        /// The number of the next event.
        next: u64,
    },
    /// A call to an address of this session.
    Call {
        /// The number of the call, for its answer.
        call: u64,
        /// The identity of the caller.
        from: Name,
        /// The address that was called.
        address: Name,
        /// The body of the call.
        body: Bytes,
    },
    /// The caller no longer waits for the answer to this call.
    CallGivenUp {
        /// The number of the call.
        call: u64,
    },
    /// The answer to a call of this session.
    CallAnswered {
        /// The token of the call.
        token: u64,
        /// The answer.
        answer: CallAnswer,
    },
    /// A broadcast.
    Broadcast(Broadcast),
    /// The broker stops; the peer should reconnect later.
    Goodbye,
    /// The hub has ended this session for this reason. Nothing follows; the door closes the connection.
    Ended(HubRefusal),
}

/// An answer of the hub.
#[derive(Debug)]
pub enum Response {
    /// The reply of the engine to a command.
    Command(Reply),
    /// The answer of the engine to a query.
    Answer(Answer),
    /// The counters and gauges.
    Stats(Box<Stats>),
    /// Done; there is nothing to add.
    Done,
    /// How many sessions received a broadcast.
    Heard(usize),
    /// The backup is complete.
    BackedUp {
        /// Its size.
        bytes: u64,
        /// It holds everything that was acknowledged before this position of the journal.
        position: u64,
    },
    /// A page of what a task printed.
    Logs(PrintedPage),
    /// The hooks of the namespace.
    Hooks(Vec<HookInfo>),
    /// The events that a hook could not deliver.
    Undelivered(Vec<Undelivered>),
    /// How many events a hook sends again.
    Redelivered(usize),
    /// A page of a reconciliation.
    Reconciled(Box<Reconciled>),
}

impl Submission {
    /// Gives the task an id if it has none, and the digest that identifies a named submission.
    #[inline]
    pub fn new(mut task: NewTask, body: Bytes) -> Submission {
        task.body_digest = if task.name.is_some() { digest(&body) } else { 0 };
        Submission { task, body }
    }

    /// A door may refuse some tasks of a request itself. Then the indexes by which the others wait for earlier
    /// ones have to skip those. `refused` are the indexes of the refused tasks before this one.
    pub fn skip_refused(&mut self, refused: &[(usize, Refusal)]) -> Result<(), Refusal> {
        for after in &mut self.task.after {
            let AfterTask::Index(index) = &mut after.task else { continue };
            let place = *index as usize;
            if refused.iter().any(|(refused, _)| *refused == place) {
                return Err(Refusal::BadValue {
                    what: "after",
                    why: "names a task of the same submission that was refused",
                });
            }
            *index -= refused.iter().filter(|(refused, _)| *refused < place).count() as u32;
        }
        Ok(())
    }
}

impl ArraySubmission {
    /// Gives a named array the digest that identifies its submission.
    pub fn new(mut array: NewArray, body: Bytes, bodies: Vec<Bytes>) -> ArraySubmission {
        if array.task.name.is_some() {
            array.task.body_digest =
                bodies.iter().fold(digest(&body), |hash, body| hash.rotate_left(5) ^ digest(body));
        }
        ArraySubmission { array, body, bodies }
    }
}

/// A new id, ordered by time.
pub fn fresh_id() -> TaskId {
    TaskId(*uuid::Uuid::now_v7().as_bytes())
}

/// FNV-1a: stored with named tasks, so it must be the same in every version.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
