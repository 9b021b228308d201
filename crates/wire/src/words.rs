//! The closed sets of names: states, policies, reasons. The same words as everywhere in Tenure.

use crate::schema::words;

words! {
    /// Where a task stands.
    pub enum StateName {
        /// Held back by its submitter until released.
        Created = "created",
        /// Not before a point in time.
        Delayed = "delayed",
        /// Waits for a worker.
        Ready = "ready",
        /// Sent to a worker that has not confirmed it yet.
        Assigned = "assigned",
        Running = "running",
        /// Paused until somebody resumes it.
        Paused = "paused",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl StateName {
    pub fn has_ended(&self) -> bool {
        matches!(self, StateName::Completed | StateName::Failed | StateName::Cancelled)
    }
}

words! {
    /// What happens to a task when the worker that runs it is lost.
    pub enum OnLost {
        /// Another worker tries, as long as the crash budget lasts.
        Requeue = "requeue",
        /// A human decides: it runs zero times or once, never twice by itself.
        Pause = "pause",
        /// The crash ends it.
        Fail = "fail",
    }
}

words! {
    /// Whether tasks die with their worker's connection.
    pub enum OnClose {
        /// They may still be running; the lease runs out first.
        MayStillRun = "may-still-run",
        /// They are dead, and the lease ends at once.
        TasksDie = "tasks-die",
    }
}

words! {
    /// What a queue has too much of.
    pub enum Threshold {
        Depth = "depth",
        Age = "age",
    }
}

words! {
    /// What somebody wants of a task that a worker holds.
    pub enum Wanted {
        Cancel = "cancel",
        Pause = "pause",
    }
}

words! {
    /// Why an attempt is over, whatever its worker does.
    pub enum StopWhy {
        /// The attempt's number is not the current one any more.
        Stale = "stale",
        /// Not confirmed in time, or a freer worker takes it.
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
        /// Somebody paused it.
        Asked = "asked",
        /// Its worker was lost and its policy is to pause.
        WorkerLost = "worker-lost",
        /// Its crash budget is used up and its policy is to pause.
        CrashBudget = "crash-budget",
    }
}

words! {
    /// Why a worker or an attempt is believed dead.
    pub enum LostReason {
        ConnectionClosed = "connection-closed",
        HeartbeatMissed = "heartbeat-missed",
        RunLimit = "run-limit",
        /// The worker itself reported the crash.
        WorkerSaidSo = "worker-said-so",
        /// The worker is alive but says it no longer holds the task.
        Forgotten = "forgotten",
        /// The broker restarted and the worker did not come back in time.
        NotBackAfterRestart = "not-back-after-restart",
    }
}

words! {
    /// What happens next to a task whose attempt is over.
    pub enum Next {
        Requeued = "requeued",
        /// Tried again later; the time stands beside it.
        Retried = "retried",
        Paused = "paused",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

words! {
    /// Whether a worker is there.
    pub enum Presence {
        Live = "live",
        /// Silent or disconnected; its lease may still run.
        Lost = "lost",
        /// Gone, kept for its health record.
        Gone = "gone",
    }
}

words! {
    /// What became of a call.
    pub enum Outcome {
        /// The receiver's answer, in the body.
        Result = "result",
        /// The receiver could not do it; the body says why.
        Error = "error",
        /// The receiver gave it up.
        Cancelled = "cancelled",
        /// The receiver has taken it on and will answer later.
        Pending = "pending",
    }
}

words! {
    /// What a peer is here for.
    pub enum Role {
        Client = "client",
        Worker = "worker",
    }
}
