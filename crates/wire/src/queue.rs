//! Queues, tag limits and the numbers at a glance.

use crate::Name;
use crate::schema::message;
use crate::time::Timestamp;
use crate::words::Threshold;

message! {
    /// How many tasks are in each state.
    #[derive(Copy, Default, Eq)]
    pub struct StateCounts {
        created: u64,
        delayed: u64,
        ready: u64,
        assigned: u64,
        running: u64,
        paused: u64,
        completed: u64,
        failed: u64,
        cancelled: u64,
    }
}

message! {
    pub struct QueueInfo {
        queue: Name,
        paused: bool,
        counts: StateCounts,
        live_workers: u32,
        ever_served: bool,
        unserved_since: Option<Timestamp>,
        /// When the task that is next in line was submitted.
        oldest_ready: Option<Timestamp>,
        /// Those that hold, its own or those of all queues.
        thresholds: Option<Thresholds>,
        /// The thresholds that it has passed.
        backlog: Vec<Threshold>,
    }
}

message! {
    /// From where on a queue has a backlog. What is not there is no threshold.
    #[derive(Copy, Default, Eq)]
    pub struct Thresholds {
        /// So many tasks are ready.
        depth: Option<u32>,
        /// One task has been ready for so long.
        age_ms: Option<u64>,
    }
}

message! {
    pub struct LimitInfo {
        tag: Name,
        limit: Option<u32>,
        in_use: u32,
    }
}

message! {
    /// Numbers at a glance, for the asker's namespace.
    pub struct Counts {
        by_state: StateCounts,
        live_workers: u64,
        lost_workers: u64,
        last_event: u64,
    }
}
