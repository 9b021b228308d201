//! The broker's replies. A reply carries the number of its request.

use bytes::Bytes;

use crate::Name;
use crate::address::Answered;
use crate::array::{ArrayAccepted, ArrayInfo, Arrays};
use crate::hello::Welcome;
use crate::hook::{HookList, Redelivered, UndeliveredList};
use crate::id::TaskId;
use crate::queue::{Counts, LimitInfo, QueueInfo, ShareInfo};
use crate::reconcile::Reconciled;
use crate::refusal::Refusal;
use crate::schedule::ScheduleList;
use crate::schema::{kinds, message, row};
use crate::task::{Accepted, Ended, TaskInfo};
use crate::time::Timestamp;
use crate::topic::{
    PublishedReply, Subscribed, SubscriptionList, SubscriptionPaused, TopicAnswer, TopicList,
};
use crate::verdict::Verdict;
use crate::why::Why;
use crate::worker::WorkerInfo;

kinds! {
    /// The answer to a request.
    pub enum Reply {
        /// Done, and there is nothing to add.
        Done = "done",
        /// Not done, and why.
        Refused(Box<Refusal>) = "refused",
        Welcome(Box<Welcome>) = "welcome",
        Pong(Pong) = "pong",
        Submitted(Submitted) = "submitted",
        ArraySubmitted(Box<ArrayAccepted>) = "array-submitted",
        /// To start, complete and heartbeat.
        Held(HeldReply) = "held",
        Registered(Registered) = "registered",
        Task(Box<TaskInfo>) = "task",
        Why(Box<Why>) = "why",
        Tasks(TaskList) = "tasks",
        Array(Box<ArrayInfo>) = "array",
        Arrays(Arrays) = "arrays",
        Queues(QueueList) = "queues",
        Workers(WorkerList) = "workers",
        Limits(LimitList) = "limits",
        Schedules(ScheduleList) = "schedules",
        Hooks(HookList) = "hooks",
        Undelivered(UndeliveredList) = "undelivered",
        Redelivered(Redelivered) = "redelivered",
        Shares(ShareList) = "shares",
        Reconciled(Box<Reconciled>) = "reconciled",
        Counts(Box<Counts>) = "counts",
        /// A body or a result.
        Bytes(BytesReply) = "bytes",
        Logs(LogsReply) = "logs",
        Watching(WatchOpened) = "watching",
        Ended(EndedReply) = "ended",
        /// To a call.
        Answered(Answered) = "answered",
        /// To a broadcast.
        Sent(BroadcastSent) = "sent",
        Stats(StatsReply) = "stats",
        BackedUp(BackedUp) = "backed-up",
        Published(PublishedReply) = "published",
        Subscribed(Box<Subscribed>) = "subscribed",
        SubscriptionPaused(SubscriptionPaused) = "subscription-paused",
        /// To a request on a topic.
        Response(Box<TopicAnswer>) = "response",
        Topics(TopicList) = "topics",
        Subscriptions(SubscriptionList) = "subscriptions",
    }
}

message! {
    /// Some of what a task printed, in the order in which it came.
    #[derive(Default)]
    pub struct LogsReply {
        pieces: Vec<OutputRow>,
        /// The place to ask for next.
        next: u64 = 0,
        /// There is more already.
        more: bool = false,
    }
}

row! {
    /// A piece of what an attempt printed.
    pub struct OutputRow {
        attempt: u32,
        /// 1 is stdout, 2 is stderr.
        stream: u8,
        offset: u64,
        at: Timestamp,
        bytes: Bytes,
    }
}

message! {
    /// The answer to a ping.
    pub struct Pong {
        now: Timestamp,
    }
}

message! {
    /// One entry for each task of the submission, in order: accepted, or why not.
    #[derive(Default)]
    pub struct Submitted {
        tasks: Vec<Verdict<Accepted>>,
    }
}

message! {
    /// The attempts that must stop, of those presented. All others continue.
    #[derive(Default)]
    pub struct HeldReply {
        refused: Vec<RefusedEntry>,
    }
}

row! {
    /// An entry of the request's list that was refused.
    pub struct RefusedEntry {
        /// Its position in the request's list, from 0.
        index: u32,
        refusal: Refusal,
    }
}

message! {
    /// The worker is registered.
    #[derive(Default)]
    pub struct Registered {
        /// The worker was known and lost, and is back.
        returned: bool,
        /// Of the attempts the worker presented, those that must stop. It continues with all others.
        refused: Vec<RefusedEntry>,
    }
}

message! {
    /// A page may be short, even empty, while there is a `next`: the search is not over.
    #[derive(Default)]
    pub struct TaskList {
        tasks: Vec<TaskInfo>,
        /// The cursor for the next page; absent at the end.
        next: Option<Box<str>>,
    }
}

message! {
    /// The list of queues.
    #[derive(Default)]
    pub struct QueueList {
        queues: Vec<QueueInfo>,
    }
}

message! {
    /// The list of workers.
    #[derive(Default)]
    pub struct WorkerList {
        workers: Vec<WorkerInfo>,
    }
}

message! {
    /// The list of limits.
    #[derive(Default)]
    pub struct LimitList {
        limits: Vec<LimitInfo>,
    }
}

message! {
    /// The list of share keys.
    #[derive(Default)]
    pub struct ShareList {
        shares: Vec<ShareInfo>,
    }
}

message! {
    /// A body, result or checkpoint.
    #[derive(Default)]
    pub struct BytesReply {
        bytes: Bytes,
    }
}

message! {
    /// A watch has begun.
    pub struct WatchOpened {
        /// As requested.
        from: Option<u64>,
    }
}

message! {
    /// How tasks ended.
    #[derive(Default)]
    pub struct EndedReply {
        tasks: Vec<Ended>,
        /// Tasks that had not ended when the time was up.
        pending: Vec<TaskId>,
    }
}

message! {
    /// A broadcast was sent.
    pub struct BroadcastSent {
        /// How many peers in the namespace hear broadcasts.
        receivers: u64,
    }
}

message! {
    /// Figures of the broker.
    #[derive(Default)]
    pub struct StatsReply {
        figures: Vec<Figure>,
    }
}

row! {
    /// One counter or gauge of the broker, under the name of its metric.
    pub struct Figure {
        name: Name,
        value: f64,
    }
}

message! {
    /// A backup is complete.
    pub struct BackedUp {
        bytes: u64,
        /// The backup holds everything that was acknowledged before this position of the journal.
        position: u64,
        /// The member of a group that has written it.
        member: Option<Name>,
    }
}
