//! The sets of names: states, policies, reasons. All doors use the same words.

use crate::schema::words;

words! {
    /// The state of a task.
    pub enum StateName {
        /// Held until a client releases it.
        Created = "created",
        /// Waits for other tasks to end.
        Waiting = "waiting",
        /// Waits for its earliest start time.
        Delayed = "delayed",
        /// Waits for a worker.
        Ready = "ready",
        /// Sent to a worker that has not confirmed it yet.
        Assigned = "assigned",
        Running = "running",
        /// Its attempt waits for other tasks and takes no slot.
        Suspended = "suspended",
        /// Paused until a client resumes it.
        Paused = "paused",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl StateName {
    /// Whether a task in this state has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self, StateName::Completed | StateName::Failed | StateName::Cancelled)
    }
}

words! {
    /// The crash policy: how the broker treats a task when the worker that runs it is lost.
    pub enum OnLost {
        /// The broker assigns it to another worker, within the crash budget.
        Requeue = "requeue",
        /// A person decides: the task runs at most once, never twice on its own.
        Pause = "pause",
        /// The task fails.
        Fail = "fail",
    }
}

words! {
    /// How a task that another one waits for has to end.
    pub enum Condition {
        Completed = "completed",
        /// In any way.
        Ended = "ended",
        Failed = "failed",
    }
}

words! {
    /// How the broker treats a task if one that it waits for ends otherwise than it should.
    pub enum OnBroken {
        Cancel = "cancel",
        /// The task runs as if the other one had ended as it should.
        Run = "run",
        /// The task is paused until a client resumes it.
        Hold = "hold",
    }
}

words! {
    /// The progress of a dependency.
    pub enum DependencyProgress {
        /// The task has not ended.
        Open = "open",
        Met = "met",
        /// The task ended otherwise than it should.
        Broken = "broken",
    }
}

words! {
    /// Whether a worker's tasks end with its connection.
    pub enum OnClose {
        /// They may still be running until the lease ends.
        MayStillRun = "may-still-run",
        /// They are dead, and the lease ends at once.
        TasksDie = "tasks-die",
    }
}

words! {
    /// Which threshold a queue has crossed.
    pub enum Threshold {
        Depth = "depth",
        Age = "age",
    }
}

words! {
    /// The intent of a client for a task that a worker holds.
    pub enum Wanted {
        Cancel = "cancel",
        Pause = "pause",
    }
}

words! {
    /// Why an attempt is over, whatever its worker does.
    pub enum StopWhy {
        /// The attempt is no longer the current one.
        Stale = "stale",
        /// Not confirmed in time, or given to a worker with more free slots.
        TakenBack = "taken-back",
        Cancelled = "cancelled",
        Paused = "paused",
        RunLimit = "run-limit",
        Expired = "expired",
    }
}

words! {
    /// Why a task is paused.
    pub enum PauseCause {
        /// A client paused it.
        Asked = "asked",
        /// Its worker was lost and its policy is to pause.
        WorkerLost = "worker-lost",
        /// Its crash budget is used up and its policy is to pause.
        CrashBudget = "crash-budget",
        /// A dependency ended otherwise than it should, and its policy is to hold.
        DependencyBroken = "dependency-broken",
    }
}

words! {
    /// Why the broker counts a worker or an attempt as lost.
    pub enum LostReason {
        ConnectionClosed = "connection-closed",
        HeartbeatMissed = "heartbeat-missed",
        RunLimit = "run-limit",
        /// The worker itself reported the crash.
        WorkerSaidSo = "worker-said-so",
        /// The worker is alive but says it no longer holds the task.
        Forgotten = "forgotten",
        /// The broker restarted and the worker did not return in time.
        NotBackAfterRestart = "not-back-after-restart",
    }
}

words! {
    /// The next step for a task whose attempt is over.
    pub enum Next {
        Requeued = "requeued",
        /// Retried later, at the time given beside it.
        Retried = "retried",
        Paused = "paused",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

words! {
    /// Whether a worker is connected.
    pub enum Presence {
        Live = "live",
        /// Silent or disconnected; its lease may still run.
        Lost = "lost",
        /// Gone, kept for its health record.
        Gone = "gone",
    }
}

words! {
    /// The outcome of a call.
    pub enum CallOutcome {
        /// The receiver's answer, in the body.
        Result = "result",
        /// The call failed; the body says why.
        Error = "error",
        /// The receiver gave it up.
        Cancelled = "cancelled",
        /// The receiver has accepted the call and answers later.
        Pending = "pending",
    }
}

words! {
    /// The roles of a peer.
    pub enum Role {
        Client = "client",
        Worker = "worker",
    }
}
