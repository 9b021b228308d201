//! Schedules: as a client sets them, and as shown to people.

use bytes::Bytes;

use crate::Name;
use crate::id::TaskId;
use crate::schema::{message, words};
use crate::task::Terms;
use crate::time::Timestamp;

words! {
    /// How the broker treats due times that were missed.
    pub enum CatchUp {
        None = "none",
        /// The last of them fires.
        Last = "last",
        /// All of them fire, oldest first.
        All = "all",
    }
}

words! {
    /// How the broker proceeds if a schedule is due while its last task has not ended.
    pub enum Overlap {
        Skip = "skip",
        /// The new task waits until the last one has ended.
        Queue = "queue",
        CancelOld = "cancel-old",
    }
}

words! {
    /// Whether a schedule fires.
    pub enum ScheduleState {
        Active = "active",
        Paused = "paused",
    }
}

words! {
    /// Why a schedule submits nothing for a due time.
    pub enum SkipReason {
        Missed = "missed",
        Overlap = "overlap",
        /// There is a task of that name.
        Exists = "exists",
        /// The broker could not accept the task.
        Refused = "refused",
    }
}

message! {
    /// Creates a schedule, or changes the one of this name.
    pub struct SetSchedule {
        schedule: Name,
        /// A cron expression, or `every` and a span.
        when: Box<str>,
        /// The time zone of a cron expression. Absent: UTC.
        zone: Option<Name>,
        catch_up: CatchUp = CatchUp::None,
        overlap: Overlap = Overlap::Queue,
        jitter_ms: u64,
        /// Create it paused.
        paused: bool,
        terms: Terms,
        priority: Option<i32>,
        /// A task fails if it has not started this long after its submission.
        expires_after_ms: Option<u64>,
        body: Bytes,
    }
}

message! {
    /// A request that names one schedule.
    pub struct OneSchedule {
        schedule: Name,
    }
}

message! {
    /// The list of schedules.
    #[derive(Default)]
    pub struct ScheduleList {
        schedules: Vec<ScheduleInfo>,
    }
}

message! {
    /// A schedule as shown to people.
    pub struct ScheduleInfo {
        schedule: Name,
        state: ScheduleState,
        when: Box<str>,
        zone: Option<Name>,
        catch_up: CatchUp = CatchUp::None,
        overlap: Overlap = Overlap::Queue,
        jitter_ms: u64,
        created_at: Timestamp,
        /// The next due times, without jitter.
        next: Vec<Timestamp>,
        last_due: Option<Timestamp>,
        last_task: Option<TaskId>,
        fired: u64,
        skipped: u64,
        terms: Terms,
        priority: Option<i32>,
        expires_after_ms: Option<u64>,
        body_bytes: u64,
    }
}
