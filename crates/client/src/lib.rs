//! The Rust SDK of Tenure, the task broker for work that takes minutes to days.
//!
//! - [`Client`] submits tasks, controls them, waits for them, watches events, and calls other peers.
//! - [`Client::publish`] and [`Subscriber`] are for topics: live messages, and replay after an absence.
//! - [`Worker`] runs tasks in async or blocking handlers. No handler can delay its heartbeats, and it survives restarts
//!   of the broker.
//! - [`Connection`] is the protocol frame by frame, for latency-critical programs.
//!
//! The SDK speaks the native protocol of `spec/native.md`. Everything that can grow has a named limit.
//!
//! Reading order: [`client`](Client) and `verbs/` are the API, `in_flight.rs` holds the requests in flight, and
//! `driver.rs` moves them; `worker/` is the same for workers.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

mod address;
mod array;
mod builder;
mod client;
mod connection;
mod dialer;
mod driver;
mod error;
mod in_flight;
mod inherited;
mod keepalive;
mod listeners;
mod liveness_timeouts;
mod log;
mod members;
mod peer;
mod quantity;
mod reconnect_backoff;
mod reconnection;
mod resume;
mod seen;
mod socket;
mod submission;
mod subscribe;
mod subscriber;
mod table;
mod tls;
mod verbs;
mod watch;
mod worker;

pub use address::{ADDRESSES_MAX, Address, TlsAddress};
pub use array::{ARRAY_BODIES_BYTES_MAX, ARRAY_BODY_OVERHEAD, ArraySubmission};
pub use builder::{CONNECT_TIMEOUT, ClientBuilder};
pub use client::{Client, REQUESTS_MAX, UNSENT_BYTES_MAX};
pub use connection::{Connection, DIAL_TIMEOUT};
pub use error::Error;
pub use inherited::take_inherited_sockets;
pub use listeners::{BROADCASTS_WAITING_MAX, CALLS_WAITING_MAX};
pub use log::{LogChunk, LogChunks, LogStream};
pub use quantity::{BadQuantity, CPUS, GPUS, MEM, Quantity};
pub use reconnection::ReconnectionPolicy;
pub use submission::{After, Submission, When};
pub use subscribe::{ConnectionState, Subscribe};
pub use subscriber::{Received, Subscriber, SubscriberStats};
pub use verbs::{
    BroadcastReceiver, Declared, IncomingCall, Listener, Listing, Move, NewSchedule, Query,
    ReceivedBroadcast, Reconciler, Waited,
};
pub use watch::{Watch, Watched, Watcher};
pub use worker::{
    AttemptWait, Context, Failure, Finish, Interrupt, IntoOutcome, MESSAGE_BYTES_MAX, NOTE_BYTES_MAX,
    Outcome, Receipt, Unreported, Worker, WorkerBuilder, WorkerHandle, WorkerStats,
};

pub use tenure_wire as wire;
pub use tenure_wire::address::{Answered, Broadcast, Hear};
pub use tenure_wire::array::{ArrayAccepted, ArrayInfo};
pub use tenure_wire::event::{Event, EventKind};
pub use tenure_wire::hello::Welcome;
pub use tenure_wire::hook::{HookInfo, HookKind, UndeliveredEvent};
pub use tenure_wire::queue::{Counts, LimitInfo, QueueInfo, ShareInfo, StateCounts, Thresholds};
pub use tenure_wire::rate::Rate;
pub use tenure_wire::reconcile::{Difference, ReconciledTask};
pub use tenure_wire::reply::{BackedUp, Figure};
pub use tenure_wire::schedule::{CatchUp, Overlap, ScheduleInfo, ScheduleState, SkipReason};
pub use tenure_wire::task::{Accepted, DependencyInfo, Ended, TaskInfo, Terms, WaitEnd};
pub use tenure_wire::topic::{
    EndedWhy, GapReason, Message, MessageKind, NewMessage, Policy, Published, Recovery, SubscriptionInfo,
    TopicAnswer, TopicGap, TopicInfo,
};
pub use tenure_wire::why::{Why, WhyCode};
pub use tenure_wire::words::{
    CallOutcome, Condition, DependencyProgress, OnBroken, OnClose, OnLost, StateName, StopWhy, Threshold,
};
pub use tenure_wire::worker::{ResourceInfo, WorkerInfo};
pub use tenure_wire::{Code, Name, Refusal, TaskId, Timestamp};
