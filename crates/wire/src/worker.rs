//! Workers: their settings, their reports, and how people see them.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::Name;
use crate::id::TaskId;
use crate::schema::{message, row};
use crate::task::{Held, Resource};
use crate::time::Timestamp;
use crate::words::{OnClose, Presence};

message! {
    /// The settings of a worker.
    pub struct WorkerSpec {
        worker: Name,
        /// Distinguishes processes of the same name: only the same instance takes over its own live session.
        instance: u64,
        queues: Vec<Name>,
        capabilities: Vec<Name>,
        slots: u32 = 1,
        /// How many tasks that weigh no slot it takes at once. Absent: the broker's default.
        light_slots: Option<u32>,
        /// Its resources, for tasks that need quantities.
        resources: Vec<Resource>,
        /// Requests tasks one by one instead of receiving them up to its slots.
        pulls: bool,
        heartbeat_ms: u64 = 5_000,
        /// Silence after which it is lost.
        lost_after_ms: u64 = 15_000,
        /// The same while it holds a task, for workers that are silent while they compute.
        busy_lost_after_ms: Option<u64>,
        /// How long after the last sign of life its attempts stay valid.
        lease_ms: u64 = 30_000,
        on_close: OnClose = OnClose::MayStillRun,
        /// The attempts it still holds. The broker answers for each whether it continues or stops.
        held: Vec<Held>,
        host: Option<Box<str>>,
        platform: Option<Box<str>>,
        version: Option<Box<str>>,
    }
}

impl WorkerSpec {
    /// A worker with default options.
    pub fn new(worker: impl Into<Name>, queues: Vec<Name>, slots: u32) -> WorkerSpec {
        WorkerSpec {
            worker: worker.into(),
            instance: 0,
            queues,
            capabilities: Vec::new(),
            slots,
            light_slots: None,
            resources: Vec::new(),
            pulls: false,
            heartbeat_ms: 5_000,
            lost_after_ms: 15_000,
            busy_lost_after_ms: None,
            lease_ms: 30_000,
            on_close: OnClose::MayStillRun,
            held: Vec::new(),
            host: None,
            platform: None,
            version: None,
        }
    }
}

message! {
    /// Figures that come with a heartbeat, for people to read.
    #[derive(Default)]
    pub struct WorkerStats {
        cpu_percent: Option<f32>,
        memory_used: Option<u64>,
        memory_total: Option<u64>,
        /// Further figures that the worker wants to show.
        more: BTreeMap<Box<str>, Box<str>>,
    }
}

message! {
    /// A worker reports that a task failed.
    pub struct FailureReport {
        task: TaskId,
        attempt: u32,
        /// Never 0; -1 is a cancellation and is refused here.
        exit_code: i32 = 1,
        message: Option<Box<str>>,
        result: Bytes,
        /// The process died, rather than the work failing: counts against the crash budget.
        crashed: bool,
        /// A retry would not help.
        is_final: bool,
    }
}

row! {
    /// A resource of a worker, in thousandths.
    #[derive(Eq)]
    pub struct ResourceInfo {
        name: Name,
        used: u64,
        total: u64,
    }
}

message! {
    /// A worker as shown to people.
    pub struct WorkerInfo {
        worker: Name,
        presence: Presence,
        since: Timestamp,
        last_seen: Timestamp,
        queues: Vec<Name>,
        capabilities: Vec<Name>,
        slots: u32,
        /// The sum of what its tasks weigh.
        slots_used: u32,
        light_slots: u32,
        light_used: u32,
        resources: Vec<ResourceInfo>,
        pulls: bool,
        held: Vec<Held>,
        /// How many of them are suspended: these take no slot.
        suspended: u32,
        draining: bool,
        crashes: u32,
        last_crash: Option<Timestamp>,
        quarantined_until: Option<Timestamp>,
        heartbeat_ms: u64,
        lost_after_ms: u64,
        lease_ms: u64,
        host: Option<Box<str>>,
        platform: Option<Box<str>>,
        version: Option<Box<str>>,
        /// The door it uses.
        door: Option<Box<str>>,
        stats: Option<Box<WorkerStats>>,
    }
}
