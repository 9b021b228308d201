//! Schedules: tasks that are submitted again and again. What a client sets, how far a schedule has come, and how others
//! see it. `schedules.rs` is the table, `commands/schedule.rs` the verbs, `commands/schedule_fire.rs` what happens when
//! one is due.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::command::NewTask;
use crate::id::TaskId;
use crate::name::Name;
use crate::terms::Terms;
use crate::time::Timestamp;

/// How to treat due times that passed while the broker was down, the clock jumped, or the schedule was paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CatchUp {
    /// They are skipped.
    #[default]
    None,
    /// The last of them fires.
    Last,
    /// All of them fire, oldest first, up to `limits::CATCH_UP_MAX`.
    All,
}

/// How to proceed if a schedule is due while its last task has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// The due time is skipped.
    Skip,
    /// The new task waits until the last one has ended.
    #[default]
    Queue,
    /// The last task is cancelled, and the new one submitted.
    CancelOld,
}

/// Whether a schedule submits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScheduleState {
    /// It submits at its due times.
    #[default]
    Active,
    /// It skips its due times.
    Paused,
    /// It was removed.
    Removed,
}

/// Why a schedule submits nothing for a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SkipReason {
    /// It passed while the broker was down, the clock jumped, or the schedule was paused.
    Missed,
    /// The task of an earlier due time has not ended.
    Overlap,
    /// There is a task of that name: the clock was set back, or a client has submitted it.
    Exists,
    /// The broker could not accept the task.
    Refused,
}

macro_rules! words {
    ($kind:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        impl $kind {
            /// All words.
            pub const ALL: &'static [$kind] = &[$($kind::$variant),*];

            /// Its word in every protocol.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($kind::$variant => $text,)*
                }
            }

            /// The value with this word.
            pub fn parse(text: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(CatchUp { None = "none", Last = "last", All = "all" });
words!(Overlap { Skip = "skip", Queue = "queue", CancelOld = "cancel-old" });
words!(ScheduleState { Active = "active", Paused = "paused", Removed = "removed" });
words!(SkipReason { Missed = "missed", Overlap = "overlap", Exists = "exists", Refused = "refused" });

/// A schedule as a client declares it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq)]
pub struct NewSchedule {
    pub name: Name,
    /// A cron expression, or `every` and a span: `0 2 * * *`, `every 15m`.
    pub when: Box<str>,
    /// The IANA name of the time zone of a cron expression. `None`: UTC.
    pub zone: Option<Name>,
    pub catch_up: CatchUp,
    pub overlap: Overlap,
    /// Each firing is delayed by a part of this that depends on the schedule and its due time.
    pub jitter: Duration,
    /// Create it paused. A schedule that is changed stays as it is.
    pub paused: bool,
    /// The task to submit. Its id, name, parent, dependencies and times are not part of a schedule.
    pub task: NewTask,
    /// A task fails if it has not started this long after it was submitted.
    pub expires_after: Option<Duration>,
    pub body: Arc<[u8]>,
}

impl NewSchedule {
    /// A schedule with default options.
    pub fn new(name: impl Into<Name>, when: impl Into<Box<str>>, task: NewTask) -> NewSchedule {
        NewSchedule {
            name: name.into(),
            when: when.into(),
            zone: None,
            catch_up: CatchUp::default(),
            overlap: Overlap::default(),
            jitter: Duration::ZERO,
            paused: false,
            task,
            expires_after: None,
            body: Arc::new([]),
        }
    }
}

/// A schedule as it is stored, without its progress.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSetting {
    pub namespace: Name,
    pub name: Name,
    pub when: Box<str>,
    pub zone: Option<Name>,
    pub catch_up: CatchUp,
    pub overlap: Overlap,
    pub jitter: Duration,
    pub created_at: Timestamp,
    /// The moment from which intervals count: when the times were last set.
    pub anchor: Timestamp,
    pub terms: Arc<Terms>,
    pub priority: Option<i32>,
    pub expires_after: Option<Duration>,
    pub body: Arc<[u8]>,
}

/// How far a schedule has come. A small record of its own, because it changes with every firing.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleProgress {
    pub namespace: Name,
    pub name: Name,
    pub state: ScheduleState,
    /// Every due time up to this one has fired or was skipped. It never goes back while the times stay the same, so a
    /// due time fires at most once.
    pub settled: Timestamp,
    pub last_due: Option<Timestamp>,
    pub last_task: Option<TaskId>,
    pub fired: u64,
    pub skipped: u64,
}

/// A schedule as people and doors see it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleInfo {
    pub schedule: Arc<ScheduleSetting>,
    pub progress: ScheduleProgress,
    /// The next due times, without jitter. None while it is paused.
    pub next: Vec<Timestamp>,
}
