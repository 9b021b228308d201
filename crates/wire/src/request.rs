//! The requests of a peer. `spec/native.md` has a section on each kind.

use bytes::Bytes;

use crate::Name;
use crate::address::{Answer, Broadcast, Call, Hear, Listen};
use crate::array::{ArraysQuery, LimitArray, OneArray, SubmitArray};
use crate::event::EventKind;
use crate::hello::Hello;
use crate::hook::{OneHook, Redeliver};
use crate::id::TaskId;
use crate::queue::Thresholds;
use crate::rate::Rate;
use crate::reconcile::Reconcile;
use crate::schedule::{OneSchedule, SetSchedule};
use crate::schema::{kinds, message};
use crate::task::{Completion, Held, NewTask, Terms};
use crate::time::Timestamp;
use crate::topic::{
    Acknowledge, OneSubscription, Publish, Subscribe, SubscriptionsQuery, TopicRequest, TopicsQuery,
};
use crate::words::{StateName, Wanted};
use crate::worker::{FailureReport, WorkerSpec, WorkerStats};

kinds! {
    /// A request of a peer.
    pub enum Request {
        Hello(Box<Hello>) = "hello",
        Ping = "ping",

        // Clients: commands.
        Submit(Submit) = "submit",
        SubmitArray(Box<SubmitArray>) = "submit-array",
        LimitArray(LimitArray) = "limit-array",
        Reconcile(Box<Reconcile>) = "reconcile",
        Release(OneTask) = "release",
        Cancel(OneTaskWhy) = "cancel",
        Pause(PauseTask) = "pause",
        Resume(OneTask) = "resume",
        Retry(OneTask) = "retry",
        Move(Move) = "move",
        SetLimit(SetLimit) = "set-limit",
        SetRate(SetRate) = "set-rate",
        SetShare(SetShare) = "set-share",
        PauseQueue(OneQueue) = "pause-queue",
        ResumeQueue(OneQueue) = "resume-queue",
        SetThresholds(SetThresholds) = "set-thresholds",
        SetSchedule(Box<SetSchedule>) = "set-schedule",
        PauseSchedule(OneSchedule) = "pause-schedule",
        ResumeSchedule(OneSchedule) = "resume-schedule",
        RemoveSchedule(OneSchedule) = "remove-schedule",
        RunSchedule(OneSchedule) = "run-schedule",
        DrainWorker(OneWorker) = "drain-worker",
        ClearWorker(OneWorker) = "clear-worker",
        Backup(Backup) = "backup",
        Redeliver(Redeliver) = "redeliver",

        // Clients: queries.
        Show(OneTask) = "show",
        Find(OneName) = "find",
        Array(OneArray) = "array",
        FindArray(OneName) = "find-array",
        Arrays(ArraysQuery) = "arrays",
        Explain(OneTask) = "explain",
        List(Box<ListQuery>) = "list",
        Queues = "queues",
        Workers = "workers",
        Limits = "limits",
        Schedules = "schedules",
        Schedule(OneSchedule) = "schedule",
        Hooks = "hooks",
        Undelivered(OneHook) = "undelivered",
        Shares = "shares",
        Counts = "counts",
        Stats = "stats",
        Body(OneTask) = "body",
        Result(OneTask) = "result",
        Checkpoint(OneTask) = "checkpoint",
        Logs(LogsQuery) = "logs",
        Watch(Box<Watch>) = "watch",
        Unwatch(OneNumber) = "unwatch",
        Wait(WaitRequest) = "wait",

        // Workers.
        Register(Box<WorkerSpec>) = "register",
        Heartbeat(Heartbeat) = "heartbeat",
        Start(Start) = "start",
        Progress(ReportProgress) = "progress",
        SaveCheckpoint(SaveCheckpoint) = "save-checkpoint" | "put-aside",
        Suspend(Suspend) = "suspend",
        AppendLog(AppendLog) = "append-log",
        Complete(Complete) = "complete",
        Fail(Box<FailureReport>) = "fail",
        Confirm(Confirm) = "confirm",
        GiveBack(GiveBack) = "give-back",
        Ask(FetchRequest) = "ask",
        Unask = "unask",
        Drain = "drain",
        Leave = "leave",

        // Calls and broadcasts between peers.
        Listen(Listen) = "listen",
        Unlisten(Listen) = "unlisten",
        Call(Call) = "call",
        DropCall(OneNumber) = "drop-call",
        Answer(Answer) = "answer",
        Broadcast(Broadcast) = "broadcast",
        Hear(Hear) = "hear",
        Unhear = "unhear",

        // Topics.
        Publish(Publish) = "publish",
        Subscribe(Box<Subscribe>) = "subscribe",
        Unsubscribe(OneSubscription) = "unsubscribe",
        PauseSubscription(OneSubscription) = "pause-subscription",
        Acknowledge(Acknowledge) = "acknowledge",
        Request(Box<TopicRequest>) = "request",
        Topics(TopicsQuery) = "topics",
        Subscriptions(SubscriptionsQuery) = "subscriptions",
    }
}

message! {
    /// Tasks to submit. `terms` holds each distinct set once.
    #[derive(Default)]
    pub struct Submit {
        terms: Vec<Terms>,
        tasks: Vec<NewTask>,
    }
}

impl Submit {
    /// Adds a task. Terms that equal those of the previous task are not repeated.
    pub fn push(&mut self, terms: &Terms, mut task: NewTask) {
        if self.terms.last() != Some(terms) {
            self.terms.push(terms.clone());
        }
        task.terms = (self.terms.len() - 1) as u32;
        self.tasks.push(task);
    }
}

message! {
    /// A request that names one task.
    pub struct OneTask {
        task: TaskId,
    }
}

message! {
    /// A request that names one task and gives a reason.
    pub struct OneTaskWhy {
        task: TaskId,
        reason: Option<Box<str>>,
    }
}

message! {
    /// Pauses a task.
    pub struct PauseTask {
        task: TaskId,
        reason: Option<Box<str>>,
        /// The worker ends the attempt even if it could stop it in place.
        terminate: bool,
    }
}

message! {
    /// A request that names one task by its idempotency key.
    pub struct OneName {
        name: Name,
    }
}

message! {
    /// A request that names one queue.
    pub struct OneQueue {
        queue: Name,
    }
}

message! {
    /// A request that names one worker.
    pub struct OneWorker {
        worker: Name,
    }
}

message! {
    /// A watch or a call, by the number of the request that opened it.
    pub struct OneNumber {
        number: u64,
    }
}

message! {
    /// A change of a waiting task. Absent fields stay as they are.
    pub struct Move {
        task: TaskId,
        queue: Option<Name>,
        priority: Option<i32>,
        tags: Option<Vec<Name>>,
    }
}

message! {
    /// Sets how many tasks with a tag run at once.
    pub struct SetLimit {
        tag: Name,
        /// Absent: removes the limit.
        limit: Option<u32>,
    }
}

message! {
    /// The rate of a tag or of a queue: exactly one of the two is named.
    pub struct SetRate {
        tag: Option<Name>,
        queue: Option<Name>,
        /// Absent: removes the rate.
        rate: Option<Rate>,
    }
}

message! {
    /// Sets the weight of a share key.
    pub struct SetShare {
        share: Name,
        /// Absent: the default weight, 1.
        weight: Option<u32>,
    }
}

message! {
    /// Sets from when on a queue has a backlog.
    pub struct SetThresholds {
        queue: Name,
        /// Absent: the broker-wide thresholds apply again.
        thresholds: Option<Thresholds>,
    }
}

message! {
    /// Copies the store of the running broker to a new directory below its `backup_dir`.
    pub struct Backup {
        directory: Box<str>,
    }
}

message! {
    /// Which tasks to list. An absent field matches all tasks.
    pub struct ListQuery {
        states: Vec<StateName>,
        queue: Option<Name>,
        tag: Option<Name>,
        worker: Option<Name>,
        parent: Option<TaskId>,
        /// The elements of this array, in the order of their indexes.
        array: Option<TaskId>,
        /// Leave out the elements of arrays.
        without_elements: bool,
        submitter: Option<Name>,
        submitted_after: Option<Timestamp>,
        submitted_before: Option<Timestamp>,
        /// From the previous page, unchanged.
        cursor: Option<Box<str>>,
        limit: u32 = 100,
    }
}

impl Default for ListQuery {
    fn default() -> ListQuery {
        ListQuery {
            states: Vec::new(),
            queue: None,
            tag: None,
            worker: None,
            parent: None,
            array: None,
            without_elements: false,
            submitter: None,
            submitted_after: None,
            submitted_before: None,
            cursor: None,
            limit: 100,
        }
    }
}

message! {
    /// Which events to send, and from which number on. Every field that is set must match.
    #[derive(Default)]
    pub struct Watch {
        /// The first event; absent means only events from now on.
        from: Option<u64>,
        task: Option<TaskId>,
        queue: Option<Name>,
        submitter: Option<Name>,
        worker: Option<Name>,
        kinds: Vec<EventKind>,
    }
}

message! {
    /// The broker replies when all these tasks have ended, or when the time is up.
    pub struct WaitRequest {
        tasks: Vec<TaskId>,
        timeout_ms: Option<u64>,
        /// Include the results.
        results: bool,
    }
}

message! {
    /// A worker's sign of life.
    #[derive(Default)]
    pub struct Heartbeat {
        /// All attempts the worker holds. Absent means unknown; an empty list means none.
        held: Option<Vec<Held>>,
        stats: Option<Box<WorkerStats>>,
    }
}

message! {
    /// A worker has started tasks.
    #[derive(Default)]
    pub struct Start {
        held: Vec<Held>,
    }
}

message! {
    /// A worker reports how far it is.
    pub struct ReportProgress {
        task: TaskId,
        attempt: u32,
        /// 0 to 100, if the worker knows.
        percent: Option<u8>,
        note: Option<Box<str>>,
    }
}

message! {
    /// Asks for the output of a task after a place in its log.
    pub struct LogsQuery {
        task: TaskId,
        /// `next` of the previous page; 0 for everything.
        after: u64 = 0,
    }
}

message! {
    /// A piece of what a command printed.
    pub struct AppendLog {
        task: TaskId,
        attempt: u32,
        /// 1 is stdout, 2 is stderr.
        stream: u8,
        /// Where it begins in its stream.
        offset: u64 = 0,
        bytes: Bytes,
    }
}

message! {
    /// How far the worker got, for itself after a reconnect and for the next attempt.
    pub struct SaveCheckpoint {
        task: TaskId,
        attempt: u32,
        /// Replaces the previous checkpoint. An empty one removes it.
        checkpoint: Bytes,
    }
}

message! {
    /// The attempt waits for other tasks to end and takes no slot until then. Said again, it replaces what the attempt
    /// waits for.
    pub struct Suspend {
        task: TaskId,
        attempt: u32,
        on: Vec<TaskId>,
        /// Wait for the task's children instead of `on`.
        children: bool,
        /// Wait until a client resumes the task, instead of `on`: the worker has stopped the attempt in place.
        resume: bool,
    }
}

message! {
    /// A worker has completed tasks.
    #[derive(Default)]
    pub struct Complete {
        done: Vec<Completion>,
    }
}

message! {
    /// The worker has carried out the cancellation or the pause.
    pub struct Confirm {
        task: TaskId,
        attempt: u32,
        wanted: Wanted,
        result: Bytes,
    }
}

message! {
    /// A worker returns a task unfinished.
    pub struct GiveBack {
        task: TaskId,
        attempt: u32,
        reason: Option<Box<str>>,
    }
}

message! {
    /// A pulling worker has a free slot, for one task of the first queue that has one.
    #[derive(Default)]
    pub struct FetchRequest {
        /// Empty means the queues it registered with.
        queues: Vec<Name>,
    }
}
