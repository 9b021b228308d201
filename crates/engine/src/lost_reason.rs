//! Why an attempt is over without a report, and what happens to its task.

use crate::time::Timestamp;

/// Why the broker considers a worker or an attempt dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostReason {
    /// Its connection was closed.
    ConnectionClosed,
    /// Its heartbeats stopped.
    HeartbeatMissed,
    /// The attempt exceeded its run limit.
    RunLimit,
    /// The worker itself reported the crash.
    WorkerSaidSo,
    /// The worker is alive but reports that it no longer holds the task.
    Forgotten,
    /// The broker restarted and the worker did not return in time.
    NotBackAfterRestart,
}

impl LostReason {
    /// All reasons.
    pub const ALL: [LostReason; 6] = [
        LostReason::ConnectionClosed,
        LostReason::HeartbeatMissed,
        LostReason::RunLimit,
        LostReason::WorkerSaidSo,
        LostReason::Forgotten,
        LostReason::NotBackAfterRestart,
    ];

    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            LostReason::ConnectionClosed => "connection-closed",
            LostReason::HeartbeatMissed => "heartbeat-missed",
            LostReason::RunLimit => "run-limit",
            LostReason::WorkerSaidSo => "worker-said-so",
            LostReason::Forgotten => "forgotten",
            LostReason::NotBackAfterRestart => "not-back-after-restart",
        }
    }
}

/// The next step for a task whose attempt is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// It is ready again.
    Requeued,
    /// It is delayed until this moment.
    RetriedAt(Timestamp),
    /// It is paused.
    Paused,
    /// It has failed.
    Failed,
    /// It is cancelled.
    Cancelled,
}

impl Next {
    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Next::Requeued => "requeued",
            Next::RetriedAt(_) => "retried",
            Next::Paused => "paused",
            Next::Failed => "failed",
            Next::Cancelled => "cancelled",
        }
    }
}
