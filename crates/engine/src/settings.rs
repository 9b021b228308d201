//! The engine's settings. Every number has a name and a unit.

use std::time::Duration;

use crate::backlog::Thresholds;

/// The settings of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Ended tasks kept, by count and by age.
    pub ended_kept: usize,
    /// How long ended tasks are kept.
    pub ended_kept_for: Duration,
    /// How long an assigned task may stay unconfirmed, unless the task says otherwise.
    pub accept_timeout: Duration,
    /// How long an assigned task stays unconfirmed before a worker with more free slots may take it.
    pub take_back_after: Duration,
    /// How long a worker may take to stop a cancelled task, unless the task says otherwise. `None`: no limit.
    pub cancel_timeout: Option<Duration>,
    /// How long the workers of running tasks have to return after a restart.
    pub restart_grace: Duration,
    /// The number of crashes within the window that quarantines a worker.
    pub quarantine_crashes: u32,
    /// The time in which crashes are counted.
    pub quarantine_window: Duration,
    /// How long a quarantine lasts.
    pub quarantine_for: Duration,
    /// How much waiting makes up for one step of priority. `None`: strict priorities.
    pub aging: Option<Duration>,
    /// How long a task that needs more than one free slot may wait, as the first of its kind, before one worker
    /// takes nothing less urgent until there is room for it.
    pub reserve_after: Duration,
    /// The thresholds of queues that have none of their own.
    pub backlog: Thresholds,
    /// The most tasks that have not ended.
    pub tasks_max: usize,
    /// The most workers.
    pub workers_max: usize,
    /// The most queues.
    pub queues_max: usize,
    /// The most queues of one namespace.
    pub queues_per_namespace_max: usize,
    /// Seeds the hash of the id table, so that clients cannot provoke collisions. Passed in, because the
    /// engine has no randomness.
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
            reserve_after: Duration::from_secs(300),
            backlog: Thresholds::default(),
            tasks_max: 50_000_000,
            workers_max: 100_000,
            queues_max: 100_000,
            queues_per_namespace_max: 10_000,
            hash_seed: 0,
        }
    }
}
