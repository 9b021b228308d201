//! What the engine is told at its start. Every number has a name and a unit.

use std::time::Duration;

use crate::backlog::Thresholds;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Ended tasks kept, by count and by age.
    pub ended_kept: usize,
    pub ended_kept_for: Duration,
    /// How long an assigned task may stay unconfirmed, unless the task says otherwise.
    pub accept_timeout: Duration,
    /// How long an assigned task stays unconfirmed before a freer worker may have it.
    pub take_back_after: Duration,
    /// How long a worker may take to stop a task that is cancelled, unless the task says otherwise. `None`: as long as it
    /// takes.
    pub cancel_timeout: Option<Duration>,
    /// How long after a restart the workers of running tasks may take to come back.
    pub restart_grace: Duration,
    /// So many crashes within the window put a worker into quarantine.
    pub quarantine_crashes: u32,
    pub quarantine_window: Duration,
    pub quarantine_for: Duration,
    /// One step of priority is worth this much waiting. `None`: strict priorities.
    pub aging: Option<Duration>,
    /// The thresholds of queues that have none of their own.
    pub backlog: Thresholds,
    pub tasks_max: usize,
    pub workers_max: usize,
    pub queues_max: usize,
    pub queues_per_namespace_max: usize,
    /// Makes the id table's hashing unguessable to strangers; comes from outside, the engine has no randomness.
    pub hash_seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            ended_kept: 100_000,
            ended_kept_for: Duration::from_secs(7 * 24 * 3600),
            accept_timeout: Duration::from_secs(30),
            take_back_after: Duration::from_secs(2),
            cancel_timeout: Some(Duration::from_secs(60)),
            restart_grace: Duration::from_secs(60),
            quarantine_crashes: 5,
            quarantine_window: Duration::from_secs(600),
            quarantine_for: Duration::from_secs(600),
            aging: None,
            backlog: Thresholds::default(),
            tasks_max: 50_000_000,
            workers_max: 100_000,
            queues_max: 100_000,
            queues_per_namespace_max: 10_000,
            hash_seed: 0,
        }
    }
}
