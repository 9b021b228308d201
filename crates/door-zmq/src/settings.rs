//! The settings of the two doors. They contain no addresses, because the caller binds the listeners.

use std::sync::Arc;
use std::time::Duration;

use tenure_door_kit::{ByteBudget, DoorSettings};
use tenure_hub::Counters;
use tenure_hub::words::{Backoff, Name};

use crate::codec::ZmtpLimits;
use crate::mdp::SlotStyle;

/// Long enough for a client that only lost its connection and sends again.
const EXPIRE_GONE: Duration = Duration::from_secs(60);

/// The settings of the Majordomo door.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The heartbeat interval of the broker, and the expected one of workers.
    pub heartbeat: Duration,
    /// How many heartbeats a worker may miss.
    pub liveness: u32,
    /// How long a silent computing worker counts as alive. `None`: as long as its connection lives.
    pub busy_lease: Option<Duration>,
    /// How long a request waits for a worker. `None`: no limit.
    pub expire: Option<Duration>,
    /// How long a request waits for a worker after its client is gone, if the client has no identity of its own: its
    /// reply cannot be delivered. `None`: no limit.
    pub expire_gone: Option<Duration>,
    /// The job ends with the crash of this number.
    pub retry_attempts: u16,
    /// How long a job waits after a crash before it is retried. `None`: not at all.
    pub crash_backoff: Option<Backoff>,
    /// Whether clients hear of the crash of a worker that has their job.
    pub notify_worker_crash: bool,
    /// Whether clients hear that no worker serves their queue.
    pub notify_no_workers: bool,
    /// Delay before notices are sent, to collect what happens meanwhile.
    pub crash_notification_delay: Duration,
    /// What the service frame of a notice contains.
    pub notice_slot: SlotStyle,
    /// Limits and timeouts of connections.
    pub transport: Transport,
    /// The door's own counters.
    pub counters: Arc<Counters>,
}

/// The settings of the READY / PING / PONG door.
#[derive(Clone, Debug)]
pub struct PingPongSettings {
    /// The queue that work of this door goes to and its workers serve.
    pub queue: Name,
    /// An idle worker that is silent longer gets nothing until it is heard again.
    pub worker_expire: Duration,
    /// How long a silent computing worker counts as alive. `None`: as long as its connection lives.
    pub busy_lease: Option<Duration>,
    /// How long work waits for a worker. `None`: no limit.
    pub expire: Option<Duration>,
    /// The same after its client is gone, if the client has no identity of its own.
    pub expire_gone: Option<Duration>,
    /// The job ends with the crash of this number.
    pub retry_attempts: u16,
    /// Whether a drained worker gets EXIT.
    pub exit_on_drain: bool,
    /// Whether jobs use the older form, with an address that comes back with the result.
    pub addressed_jobs: bool,
    /// Limits and timeouts of connections.
    pub transport: Transport,
    /// The door's own counters.
    pub counters: Arc<Counters>,
}

/// The connection settings of both doors.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Limits on what a peer sends.
    pub limits: ZmtpLimits,
    /// The broker pings a peer's ZeroMQ library after this much silence.
    pub ping: Duration,
    /// The broker closes a pinged connection after this much silence.
    pub ping_timeout: Duration,
    /// How long a peer may take to finish a message, plus a second for every 16 KiB of it.
    pub message_timeout: Duration,
    /// Settings that all doors share: limits, the deadline of the handshake, the byte budget for unfinished messages.
    pub door: DoorSettings,
    /// How many bytes the peers of all connections may leave unread together. A separate budget, so that peers that do
    /// not read do not prevent others from sending.
    pub unread_budget: Arc<ByteBudget>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heartbeat: Duration::from_millis(2_500),
            liveness: 3,
            busy_lease: None,
            expire: None,
            expire_gone: Some(EXPIRE_GONE),
            retry_attempts: 3,
            crash_backoff: None,
            notify_worker_crash: true,
            notify_no_workers: true,
            crash_notification_delay: Duration::ZERO,
            notice_slot: SlotStyle::default(),
            transport: Transport::default(),
            counters: Arc::new(Counters::new("mdp")),
        }
    }
}

impl Default for PingPongSettings {
    fn default() -> PingPongSettings {
        PingPongSettings {
            queue: "pingpong".into(),
            worker_expire: Duration::from_secs(3),
            busy_lease: None,
            expire: None,
            expire_gone: Some(EXPIRE_GONE),
            retry_attempts: 3,
            exit_on_drain: false,
            addressed_jobs: false,
            transport: Transport::default(),
            counters: Arc::new(Counters::new("pingpong")),
        }
    }
}

impl Default for Transport {
    fn default() -> Transport {
        Transport {
            limits: ZmtpLimits::default(),
            ping: Duration::from_secs(5),
            ping_timeout: Duration::from_secs(15),
            message_timeout: Duration::from_secs(60),
            door: DoorSettings { connections_max: 10_000, ..DoorSettings::default() },
            unread_budget: ByteBudget::new(256 << 20),
        }
    }
}
