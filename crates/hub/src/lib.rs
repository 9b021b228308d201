//! The hub: the single writer that joins engine, store and time.
//!
//! ```text
//! door → Session::send → inbox → Core::take (engine decides, records join the open batch, replies join the outbox)
//!      → Core::seal → Writing: append, fdatasync → Core::synced → Core::flush_outbox → Mailbox → door
//! ```
//!
//! Decide, apply in memory, journal, then send: memory may be ahead of the disk, but peers never see what is not on
//! disk. [`core`] is that order without threads, so that the simulator can drive it; `runtime.rs` adds the clock and
//! the inbox, `writing.rs` the path to the disk. Doors use a [`HubHandle`], a [`Session`] and its [`Mailbox`], and the
//! engine's types, which are re-exported here because no door depends on the engine.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

mod audit;
mod backup;
mod calls;
mod clock;
pub mod core;
mod counters;
mod delivery_size;
mod entered_namespaces;
mod follow;
mod handle;
mod histogram;
mod hooks;
mod keys;
pub mod keyspace;
mod leader_status;
pub mod limits;
mod listen;
mod mailbox;
mod metrics;
mod namespace_logs;
mod outbox;
mod placement;
mod principal;
mod queries;
mod queue_flow;
mod reconcile;
mod refusal;
mod request;
mod rights;
mod runtime;
mod settings;
mod single_client;
mod spans;
mod stats;
mod task_logs;
mod thread;
pub mod topics;
mod watches;
mod writing;

pub use audit::{Audit, AuditFile, AuditLevel, AuditSettings, LogFile, NotAdmitted};
pub use backup::{BackupFailure, BackupWritten, StandbyBackup, write_backup};
pub use clock::{ClockReading, monotonic_clock, wall_clock};
pub use counters::{Counters, DoorConnections, DoorCount};
pub use handle::{HubHandle, Session, Stopped};
pub use histogram::Histogram;
pub use hooks::{HookAbout, HookCounts, HookCursor, HookInfo, HookKind, HookProgress, Hooks, Undelivered};
pub use keys::{Grant, KeyId, Keys};
pub use leader_status::{LeaderStatus, StandbyLag};
pub use listen::{ListenError, listen};
pub use mailbox::{Mailbox, UnreadBytes};
pub use namespace_logs::{IdleLogs, LogContents, LogMoveError, Renew, in_logs};
pub use placement::{MemberDoors, PlacedNamespace, Placement};
pub use principal::Principal;
pub use queue_flow::QueueFlow;
pub use reconcile::{
    DECLARED_MAX, Declared, DeclaredState, Difference, NameCursor, NameListing, Reconciled, ReconciledTask,
    Reconciliation,
};
pub use refusal::HubRefusal;
pub use request::{
    ArraySubmission, Ask, Broadcast, CallAnswer, Delivery, Done, Request, Response, Submission, Watch,
    fresh_id,
};
pub use rights::{KeyspaceAct, Needs, Right, Rights, TopicAct};
pub use runtime::{Hub, HubEnd};
pub use settings::{HubSettings, UnreadLimits};
pub use spans::{SpanRecord, SpanSink, TaskSpan};
pub use stats::{AttemptOutcome, QueueFigures, Stats};
pub use task_logs::{KeptPiece, LogPiece, OutputStream, PrintedPage, TaskLogSaver, TaskLogs};
pub use topics::event_json::event_as_json;

/// The engine's types, for doors.
pub mod words {
    pub use tenure_engine::command::{
        Accepted, Answer, ArrayCursor, AttemptFailure, Command, Completion, Counts, Cursor, Gauges, Held,
        LimitInfo, ListQuery, Move, NewTask, OnClose, Peer, PresenceName, Query, QueueInfo, Reply,
        ResourceInfo, ShareInfo, TaskInfo, Unnamed, WorkerAbout, WorkerInfo, WorkerSpec, WorkerStats,
    };
    pub use tenure_engine::demand::{Amount, CPUS, Demand, Devices, GPUS, MEM, Quantity, Resource};
    pub use tenure_engine::dependency::{
        After, AfterTask, Condition, DependencyInfo, DependencyProgress, OnBroken,
    };
    pub use tenure_engine::event::{Event, EventData, EventFilter, EventSubject, LostReason, Next};
    pub use tenure_engine::name::check as check_name;
    pub use tenure_engine::notice::{Assignment, Notice, StopWhy};
    pub use tenure_engine::state::{
        EXIT_CANCELLED, EXIT_CRASHED, EXIT_EXPIRED, End, Holding, Intent, PauseCause, PauseInfo, Progress,
        StateName, TaskState, Wanted,
    };
    pub use tenure_engine::terms::{Backoff, OnLost, Terms};
    pub use tenure_engine::{
        ArrayAccepted, ArrayInfo, ArrayTerms, Blob, CatchUp, Checkpoint, DEFAULT_NAMESPACE, Element, Name,
        NewArray, NewSchedule, NotAnId, Overlap, PassedThresholds, Rate, Refusal, ScheduleInfo,
        ScheduleProgress, ScheduleSetting, ScheduleState, SessionId, Settings, SkipReason, TaskId, Threshold,
        Thresholds, Timestamp, TraceContext, UNDECLARED, WaitEnd, WaitOn, WaitedFor, Why, is_invisible,
    };
}

/// The part of the store that code needs to start a hub. Code that opens the files itself depends on `tenure-store`.
pub mod store {
    pub use tenure_store::{
        Disk, DiskFile, DiskLock, MemoryDisk, OpenReport, Opened, RealDisk, StoreError, StoreSettings, Sync,
        TaskLogSettings,
    };
}
