//! Metrics of the whole broker, as monitoring systems ask for them.

use crate::command::LimitInfo;
use crate::name::Name;
use crate::state::StateName;
use crate::time::Timestamp;

/// Metrics of the whole broker, across all namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Indexed by `StateName`.
    pub by_state: [u64; StateName::COUNT],
    /// Since when the longest-waiting task has been ready, as in [`QueueInfo`].
    ///
    /// [`QueueInfo`]: crate::command::QueueInfo
    pub oldest_ready: Option<Timestamp>,
    /// Queues that have passed a threshold.
    pub backlogged_queues: u64,
    /// Tags that have a limit, with their namespaces.
    pub limits: Vec<(Name, LimitInfo)>,
    /// The queues with the most tasks that have not ended, at most [`QUEUES_SHOWN_MAX`].
    ///
    /// [`QUEUES_SHOWN_MAX`]: crate::limits::QUEUES_SHOWN_MAX
    pub queues: Vec<QueueGauge>,
    /// How many queues there are in all.
    pub queue_count: usize,
}

/// Metrics of one queue.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueGauge {
    pub namespace: Name,
    pub queue: Name,
    /// Indexed by `StateName`.
    pub by_state: [u64; StateName::COUNT],
    pub oldest_ready: Option<Timestamp>,
    pub live_workers: u32,
    pub paused: bool,
}
