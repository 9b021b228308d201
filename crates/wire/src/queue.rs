//! Queues, tag limits, share keys and summary counts.

use crate::Name;
use crate::rate::Rate;
use crate::schema::message;
use crate::time::Timestamp;
use crate::words::Threshold;

message! {
    /// How many tasks are in each state.
    #[derive(Copy, Default, Eq)]
    pub struct StateCounts {
        created: u64,
        waiting: u64,
        delayed: u64,
        ready: u64,
        assigned: u64,
        running: u64,
        suspended: u64,
        paused: u64,
        completed: u64,
        failed: u64,
        cancelled: u64,
    }
}

message! {
    /// One row of the list of queues.
    pub struct QueueInfo {
        queue: Name,
        paused: bool,
        counts: StateCounts,
        live_workers: u32,
        ever_served: bool,
        unserved_since: Option<Timestamp>,
        /// Since when the longest-waiting task has been ready. Without a threshold, only the tasks that are next in
        /// line are considered.
        oldest_ready: Option<Timestamp>,
        /// The thresholds that apply, the queue's own or the broker-wide ones.
        thresholds: Option<Thresholds>,
        /// The thresholds that the queue has crossed.
        backlog: Vec<Threshold>,
        /// How often the broker hands out a task of this queue.
        rate: Option<Rate>,
    }
}

message! {
    /// The thresholds of a queue's backlog. An absent one does not apply.
    #[derive(Copy, Default, Eq)]
    pub struct Thresholds {
        /// The queue has a backlog if this many tasks are ready.
        depth: Option<u32>,
        /// The queue has a backlog if a task has been ready for this long.
        age_ms: Option<u64>,
    }
}

message! {
    /// One row of the list of limits.
    pub struct LimitInfo {
        tag: Name,
        limit: Option<u32>,
        in_use: u32,
        /// How often the broker hands out a task with this tag.
        rate: Option<Rate>,
    }
}

message! {
    /// A share key that has tasks or a weight.
    #[derive(Eq)]
    pub struct ShareInfo {
        share: Name,
        weight: u32 = 1,
        /// How many of its tasks are ready.
        ready: u64,
    }
}

message! {
    /// Summary counts for the peer's namespace.
    pub struct Counts {
        by_state: StateCounts,
        live_workers: u64,
        lost_workers: u64,
        last_event: u64,
    }
}
