//! A worker's description of itself, sent when it registers and with its heartbeats.

use std::time::Duration;

use crate::command::Held;
use crate::demand::Resource;
use crate::limits::LIGHT_SLOTS_DEFAULT;
use crate::name::Name;

/// A worker's registration. The defaults are those of the native door; other doors set their own.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSpec {
    pub worker: Name,
    /// Distinguishes successive processes with the same worker name: only the same instance may take over its
    /// own live session. Zero means that the door cannot tell; then every registration counts as a new
    /// process.
    pub instance: u64,
    /// The name of the key behind the session, filled in by the hub. While the worker is connected or may
    /// come back, only sessions of the same key can register its id.
    pub owner: Option<Name>,
    pub queues: Vec<Name>,
    pub capabilities: Vec<Name>,
    pub slots: u32,
    /// How many tasks that weigh no slot it takes at once.
    pub light_slots: u32,
    /// Its resources, for tasks that need quantities.
    pub resources: Vec<Resource>,
    /// The worker asks for tasks instead of being sent tasks up to its slots.
    pub pulls: bool,
    pub heartbeat: Duration,
    /// The broker declares the worker lost after this much silence.
    pub lost_after: Duration,
    /// The same while the worker holds a task, for workers that are silent while they compute.
    pub busy_lost_after: Option<Duration>,
    /// How long after the last sign of life the broker still accepts the worker's attempts as alive.
    pub lease: Duration,
    pub on_close: OnClose,
    /// The worker's description of itself in its door's format. Stored until the worker leaves or is cleared.
    /// `None` keeps the stored one.
    pub profile: Option<Box<str>>,
    /// A lost worker stays in the list, for people to see, until it comes back or is cleared.
    pub remembered: bool,
    /// The worker's name may change with each connection. If the name is unknown and the worker gives its
    /// host, it takes over the crash record of a gone worker of the same door and host.
    pub inherits_crashes: bool,
    /// The worker cannot confirm a start: its protocol has no message for it, and the worker begins as soon
    /// as it gets the body. For such a worker a task that must not run twice by itself (`on_lost` is pause or
    /// fail) is `running` from its assignment on: `assigned` and `started` go to disk in one batch, and the
    /// notice with the body leaves after it. If the worker or the broker dies from then on, the task follows
    /// its policy instead of going to another worker. A task that may be requeued still waits for the door's
    /// `Start`, and costs no crash if that never comes. For the other tasks `Start` changes nothing, so the
    /// door need not tell them apart.
    pub starts_on_assign: bool,
    /// The attempts the worker still holds from an earlier session, whether it pulls or not. The broker
    /// answers each with continue or stop. Unless `unnamed` says otherwise the list is complete: a running
    /// attempt that is missing from it has crashed, and if this is a new process (see `instance`), so has the
    /// worker; an attempt that is only assigned goes to another worker. If a door's protocol reports that a
    /// process has restarted, the door registers the worker with an empty list, on the existing session or on
    /// a new one.
    pub held: Vec<Held>,
    /// How the broker treats attempts that are missing from `held`.
    pub unnamed: Unnamed,
    pub about: WorkerAbout,
}

/// How the broker treats attempts that a registration does not list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unnamed {
    /// The worker does not hold them.
    #[default]
    Gone,
    /// The door cannot tell, or they are on their way to the worker. They stay as they are, neither confirmed
    /// nor crashed, and the worker's signs of life extend them, until a report or [`Command::Forgotten`](crate::Command::Forgotten)
    /// settles them.
    Open,
}

/// Whether a worker's tasks die when its connection closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnClose {
    /// The tasks may still be running, so the lease has to run out first.
    #[default]
    MayStillRun,
    /// The tasks are dead, so the lease ends at once.
    TasksDie,
}

/// A worker's description of itself, for people to read.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerAbout {
    pub host: Option<Box<str>>,
    pub platform: Option<Box<str>>,
    pub version: Option<Box<str>>,
    pub door: Option<&'static str>,
}

/// Figures that come with a heartbeat, for people to read.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerStats {
    pub cpu_percent: Option<f32>,
    pub memory_used: Option<u64>,
    pub memory_total: Option<u64>,
    /// Further fields of the worker's protocol, as text.
    pub more: Vec<(Box<str>, Box<str>)>,
}

impl WorkerSpec {
    /// A worker with default options.
    pub fn new(worker: impl Into<Name>, queues: Vec<Name>, slots: u32) -> WorkerSpec {
        WorkerSpec {
            worker: worker.into(),
            instance: 0,
            owner: None,
            queues,
            capabilities: Vec::new(),
            slots,
            light_slots: LIGHT_SLOTS_DEFAULT,
            resources: Vec::new(),
            pulls: false,
            heartbeat: Duration::from_secs(5),
            lost_after: Duration::from_secs(15),
            busy_lost_after: None,
            lease: Duration::from_secs(30),
            on_close: OnClose::default(),
            profile: None,
            remembered: false,
            inherits_crashes: false,
            starts_on_assign: false,
            held: Vec::new(),
            unnamed: Unnamed::default(),
            about: WorkerAbout::default(),
        }
    }
}
