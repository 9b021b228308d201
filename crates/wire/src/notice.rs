//! Notices, which the broker sends without a request: work for a worker, events for a watcher, calls for a listener.

use crate::Name;
use crate::address::{Broadcast, CallGivenUp, Called};
use crate::event::Event;
use crate::id::TaskId;
use crate::refusal::Refusal;
use crate::schema::{kinds, message};
use crate::task::{Assignment, Terms, WaitEnd};
use crate::topic::{MessageBatch, ReplayComplete, SubscriptionEnded, TopicGap, Warning};
use crate::words::{StopWhy, Wanted};

kinds! {
    /// A message of the broker to a peer that did not ask for it.
    pub enum Notice {
        /// Tasks for the worker, never more than it has free slots.
        Assign(Assign) = "assign",
        /// A client wants a task cancelled or paused. The worker stops it and confirms.
        Wanted(IntentNotice) = "wanted",
        /// The tasks that a suspended attempt waited for have ended. It has a slot again.
        Continue(Continue) = "continue",
        /// The attempt is over, whatever the worker does: drop it without a report.
        Stop(Stop) = "stop",
        /// Take nothing new, finish what runs, leave.
        Drain = "drain",
        /// Another session of the same worker has taken over.
        Replaced(Replaced) = "replaced",
        Events(EventBatch) = "events",
        /// Events that the broker no longer keeps, so the watcher misses them.
        Gap(Gap) = "gap",
        /// The watcher has received all events up to the present; what follows is new.
        Live(Live) = "live",
        Call(Called) = "call",
        /// The caller no longer waits for the answer to this call.
        CallGivenUp(CallGivenUp) = "call-given-up",
        Broadcast(Broadcast) = "broadcast",
        Messages(MessageBatch) = "messages",
        /// Messages that a subscriber will not get.
        TopicGap(TopicGap) = "topic-gap",
        /// The replay of a topic is complete.
        ReplayComplete(ReplayComplete) = "replay-complete",
        /// A subscriber does not keep up.
        Warning(Warning) = "warning",
        SubscriptionEnded(SubscriptionEnded) = "subscription-ended",
        /// The broker closes the connection, and why.
        Bye(Box<Refusal>) = "bye",
    }
}

message! {
    /// Tasks for a worker. `terms` holds each distinct set once.
    #[derive(Default)]
    pub struct Assign {
        terms: Vec<Terms>,
        tasks: Vec<Assignment>,
    }
}

message! {
    /// A client wants a held task to be cancelled or paused.
    pub struct IntentNotice {
        task: TaskId,
        attempt: u32,
        wanted: Wanted,
        reason: Option<Box<str>>,
        /// A pause: a worker that can stop the attempt in place does so, and says `suspend` with `resume`.
        in_place: bool,
    }
}

message! {
    /// A suspended attempt continues.
    pub struct Continue {
        task: TaskId,
        attempt: u32,
        /// How each of the tasks ended.
        ends: Vec<WaitEnd>,
    }
}

message! {
    /// The attempt is no longer current: the worker ends its work on the task.
    pub struct Stop {
        task: TaskId,
        attempt: u32,
        why: StopWhy,
    }
}

message! {
    /// Another connection has registered as the same worker.
    pub struct Replaced {
        worker: Name,
    }
}

message! {
    /// Events of a watch, in order.
    #[derive(Default)]
    pub struct EventBatch {
        /// The number of the request that opened the watch.
        watch: u64,
        events: Vec<Event>,
    }
}

message! {
    /// Events that a watch can no longer deliver.
    pub struct Gap {
        watch: u64,
        /// The first event that is missing.
        from: u64,
        /// The last one.
        to: u64,
    }
}

message! {
    /// A watch has delivered all earlier events; new ones follow.
    pub struct Live {
        watch: u64,
        /// The number of the next event.
        next: u64,
    }
}
