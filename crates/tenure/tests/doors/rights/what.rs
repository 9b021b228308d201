//! What the verbs of the doors stand for: requests of the hub and acts on topics, all of them, by name.

use std::collections::BTreeSet;

use bytes::Bytes;
use tenure_hub::words::{Command, Held, NewArray, NewSchedule, NewTask, Query, TaskId, WorkerSpec};
use tenure_hub::{
    ArraySubmission, Broadcast, CallAnswer, KeyspaceAct, LogPiece, OutputStream, Reconciliation, Request,
    Rights, TopicAct, Watch,
};

/// Names for all variants of an enum. A variant that is not here does not compile.
macro_rules! names {
    ($list:ident, $name:ident($kind:ty) { $($variant:pat => $text:literal),* $(,)? }) => {
        const $list: &[&str] = &[$($text),*];

        fn $name(of: &$kind) -> &'static str {
            match of {
                $($variant => $text,)*
            }
        }
    };
}

pub(crate) use names;

/// What a verb stands for.
pub(crate) enum What {
    /// Talk between the peer and the door. Every authenticated peer may do it.
    Protocol,
    Hub(Request),
    Topic(TopicAct),
    Keys(KeyspaceAct),
    /// The right for one of them is enough.
    Either(Box<What>, Box<What>),
    /// The rights for both are needed.
    Both(Box<What>, Box<What>),
}

impl What {
    pub(crate) fn command(command: Command) -> What {
        What::Hub(Request::Command(command))
    }

    pub(crate) fn either(one: What, other: What) -> What {
        What::Either(Box::new(one), Box::new(other))
    }

    pub(crate) fn both(one: What, other: What) -> What {
        What::Both(Box::new(one), Box::new(other))
    }

    pub(crate) fn submit() -> What {
        What::Hub(Request::Submit(Vec::new()))
    }

    pub(crate) fn submit_array() -> What {
        let task = NewTask::new(TaskId([7; 16]), "q");
        let array = NewArray { task, size: 1, first: 0, step: 1, limit: None, bodies: Vec::new() };
        What::Hub(Request::SubmitArray(Box::new(ArraySubmission::new(array, Bytes::new(), Vec::new()))))
    }

    pub(crate) fn read() -> What {
        What::Hub(Request::Query(Query::Workers))
    }

    pub(crate) fn reconcile() -> What {
        What::Hub(Request::Reconcile(Box::new(Reconciliation { apply: true, ..Reconciliation::default() })))
    }

    pub(crate) fn new_schedule() -> Command {
        let task = NewTask::new(TASK, "q");
        Command::SetSchedule(Box::new(NewSchedule::new("s", "@yearly", task)))
    }

    /// A worker takes a task.
    pub(crate) fn take() -> What {
        What::command(Command::Ask { queues: Vec::new() })
    }

    pub(crate) fn complete() -> What {
        What::Hub(Request::Complete(Vec::new()))
    }

    pub(crate) fn register() -> What {
        What::command(Command::Register(Box::new(WorkerSpec::new("w", Vec::new(), 1))))
    }

    pub(crate) fn watch() -> What {
        What::Hub(Request::Watch(Watch::default()))
    }

    pub(crate) fn is_allowed(&self, rights: Rights) -> bool {
        match self {
            What::Protocol => true,
            What::Hub(request) => rights.suffice(request.needs()),
            What::Topic(act) => rights.suffice(act.needs()),
            What::Keys(act) => rights.suffice(act.needs()),
            What::Either(one, other) => one.is_allowed(rights) || other.is_allowed(rights),
            What::Both(one, other) => one.is_allowed(rights) && other.is_allowed(rights),
        }
    }

    /// Adds the names of what it stands for.
    pub(crate) fn names(&self, names: &mut BTreeSet<&'static str>) {
        match self {
            What::Protocol => {}
            What::Hub(Request::Command(command)) => drop(names.insert(command_name(command))),
            What::Hub(request) => drop(names.insert(request_name(request))),
            What::Topic(act) => drop(names.insert(act_name(act))),
            What::Keys(act) => drop(names.insert(key_act_name(act))),
            What::Either(one, other) | What::Both(one, other) => {
                one.names(names);
                other.names(names);
            }
        }
    }
}

/// Every name that a row has to stand for.
pub(crate) fn all_names() -> impl Iterator<Item = &'static str> {
    let names = REQUESTS.iter().chain(COMMANDS).chain(ACTS).chain(KEY_ACTS);
    names.copied().filter(|name| !WITHIN.contains(name))
}

/// No peer can ask for these: the broker asks them of itself, or refuses them because they come without their bytes, or
/// there is nothing to ask them about before something else was allowed.
const WITHIN: &[&str] = &[
    "any command",
    "show counters",
    "submit without bodies",
    "submit array without bodies",
    "complete without results",
    "fail without a result",
    "confirm without a result",
    "checkpoint without bytes",
    "undelivered",
    "forgotten",
    "session closed",
    // For the audit log.
    "refused by the door",
    // A door says it of a client whose connection is gone.
    "abandon",
    // The call has to be one of its own.
    "give up call",
];

names!(REQUESTS, request_name(Request) {
    Request::Submit(_) => "submit",
    Request::SubmitArray(_) => "submit array",
    Request::Complete(_) => "complete",
    Request::Fail { .. } => "fail",
    Request::Checkpoint { .. } => "checkpoint",
    Request::Confirm { .. } => "confirm",
    Request::AppendLog { .. } => "append log",
    Request::Logs { .. } => "logs",
    Request::Hooks => "hooks",
    Request::Undelivered { .. } => "undelivered events",
    Request::Redeliver { .. } => "redeliver",
    Request::Command(_) => "any command",
    Request::Query(_) => "query",
    Request::Stats => "stats",
    Request::ShowCounters(_) => "show counters",
    Request::Watch(_) => "watch",
    Request::Unwatch { .. } => "unwatch",
    Request::Listen { .. } => "listen",
    Request::Unlisten { .. } => "unlisten",
    Request::Call { .. } => "call",
    Request::GiveUpCall { .. } => "give up call",
    Request::CallAnswer { .. } => "answer a call",
    Request::ReceiveBroadcasts { .. } => "hear broadcasts",
    Request::Broadcast(_) => "broadcast",
    Request::Reconcile(_) => "reconcile",
    Request::Backup { .. } => "backup",
    Request::Refused { .. } => "refused by the door",
});

names!(COMMANDS, command_name(Command) {
    Command::Submit(_) => "submit without bodies",
    Command::SubmitArray(_) => "submit array without bodies",
    Command::LimitArray { .. } => "limit array",
    Command::Release { .. } => "release",
    Command::Cancel { .. } => "cancel",
    Command::Pause { .. } => "pause",
    Command::Resume { .. } => "resume",
    Command::Retry { .. } => "retry",
    Command::Move { .. } => "move",
    Command::Abandon(_) => "abandon",
    Command::SetLimit { .. } => "set limit",
    Command::SetTagRate { .. } => "set the rate of a tag",
    Command::SetQueueRate { .. } => "set the rate of a queue",
    Command::SetShare { .. } => "set share",
    Command::PauseQueue { .. } => "pause queue",
    Command::ResumeQueue { .. } => "resume queue",
    Command::SetThresholds { .. } => "set thresholds",
    Command::SetSchedule(_) => "set schedule",
    Command::PauseSchedule { .. } => "pause schedule",
    Command::ResumeSchedule { .. } => "resume schedule",
    Command::RemoveSchedule { .. } => "remove schedule",
    Command::RunSchedule { .. } => "run schedule",
    Command::DrainWorker { .. } => "drain worker",
    Command::ClearWorker { .. } => "clear worker",
    Command::Register(_) => "register",
    Command::Heartbeat { .. } => "heartbeat",
    Command::Start(_) => "start",
    Command::Progress { .. } => "progress",
    Command::Checkpoint { .. } => "checkpoint without bytes",
    Command::Suspend { .. } => "suspend",
    Command::Complete(_) => "complete without results",
    Command::Fail(_) => "fail without a result",
    Command::Confirm { .. } => "confirm without a result",
    Command::GiveBack { .. } => "give back",
    Command::Ask { .. } => "ask",
    Command::Unask => "unask",
    Command::Undelivered { .. } => "undelivered",
    Command::Forgotten(_) => "forgotten",
    Command::Drain => "drain",
    Command::Leave => "leave",
    Command::SessionClosed => "session closed",
});

names!(ACTS, act_name(TopicAct) {
    TopicAct::Publish => "publish",
    TopicAct::Subscribe => "subscribe",
    TopicAct::SubscribeToEvents => "subscribe to events",
    TopicAct::ChangeSubscription => "change subscription",
    TopicAct::Request => "request",
    TopicAct::List => "list topics",
});

names!(KEY_ACTS, key_act_name(KeyspaceAct) {
    KeyspaceAct::Read => "read keys",
    KeyspaceAct::Write => "write keys",
});

/// A task that does not exist.
pub(crate) const TASK: TaskId = TaskId([7; 16]);
pub(crate) const HELD: Held = Held { task: TASK, attempt: 1 };

pub(crate) fn log_piece() -> LogPiece {
    LogPiece { stream: OutputStream::Stdout, offset: 0, bytes: Bytes::new() }
}

pub(crate) fn broadcast() -> Request {
    Request::Broadcast(Broadcast { sender: None, subject: None, correlation: None, body: Bytes::new() })
}

pub(crate) fn call_answer() -> Request {
    Request::CallAnswer { call: 1, answer: CallAnswer::Cancelled }
}
