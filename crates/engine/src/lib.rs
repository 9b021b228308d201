//! The engine: the state machine of tasks and workers.
//!
//! It is pure. Commands, ids and the time come in; records, notices and replies go out. It does no other
//! input or output, and the same input gives the same output. A door calls it through the hub; the hub
//! journals the records and sends notices and replies only when the records are on disk.
//!
//! Where to look: [`command`] for what can be asked; `commands/` and `queries/` for what each verb does, one
//! file each; `commands/assign.rs` for which worker gets which task; [`state`] for the table of legal
//! transitions; [`event`] for what watchers receive; [`recover`] for how an engine is rebuilt from its
//! records.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

pub mod array;
mod arrays;
mod audit;
mod backlog;
mod blob;
mod buckets;
mod class_links;
mod classes;
pub mod command;
mod commands;
mod cursor;
pub mod demand;
mod demands;
pub mod dependency;
mod dispatch_groups;
mod dispatch_order;
mod edges;
mod engine;
pub mod event;
mod fair_queueing;
mod fitting;
mod gauges;
mod id;
mod index;
pub mod limits;
mod lost_reason;
pub mod name;
mod namespaces;
mod new_task;
pub mod notice;
mod ordered_set;
mod queries;
mod queues;
mod ranked_list;
mod rate;
mod ready_queues;
pub mod record;
pub mod recover;
mod refusal;
mod registration;
pub mod schedule;
mod schedules;
mod settings;
mod shares;
mod size;
mod slab;
pub mod state;
mod state_index;
mod stock;
mod stored;
mod tags;
mod task;
mod tasks;
pub mod terms;
mod terms_table;
mod time;
mod timers;
mod trace;
mod why;
mod workers;

pub use array::{
    ArrayAccepted, ArrayEnd, ArrayInfo, ArrayRecord, ArrayTerms, Element, ForgottenElements, NewArray,
};
pub use backlog::{PassedThresholds, Threshold, Thresholds};
pub use blob::{Blob, Which};
pub use classes::UNDECLARED;
pub use command::{Answer, Command, Held, NewTask, Peer, Query, Reply, WorkerSpec};
pub use demand::{Demand, Devices, Quantity, Resource};
pub use dependency::{
    After, AfterTask, Condition, Dependency, DependencyInfo, DependencyProgress, OnBroken, WaitEnd, WaitOn,
};
pub use edges::EdgeList;
pub use engine::Engine;
pub use event::{Event, EventFilter};
pub use id::{NotAnId, SessionId, Slot, TaskId};
pub use name::{DEFAULT_NAMESPACE, Name, is_invisible};
pub use notice::Notice;
pub use rate::Rate;
pub use record::{Change, Output};
pub use recover::Restore;
pub use refusal::Refusal;
pub use schedule::{
    CatchUp, NewSchedule, Overlap, ScheduleInfo, ScheduleProgress, ScheduleSetting, ScheduleState, SkipReason,
};
pub use settings::Settings;
pub use shares::WEIGHT_DEFAULT;
pub use state::{StateName, TaskState};
pub use task::{Checkpoint, Extras, Task, TermsKey};
pub use terms::Terms;
pub use time::Timestamp;
pub use trace::TraceContext;
pub use why::{WaitedFor, Why};
