//! What can be set about the two doors. Addresses are not here: whoever opens a door binds it.

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
    /// How often the broker beats, and workers should.
    pub heartbeat: Duration,
    /// How many beats a worker may miss.
    pub liveness: u32,
    /// How long a computing worker is believed without a word. `None`: as long as its connection lives.
    pub busy_lease: Option<Duration>,
    /// How long a request waits for a worker. `None`: for ever.
    pub expire: Option<Duration>,
    /// How long a request waits for a worker after its client is gone, if the client chose no identity: its reply
    /// reaches nobody. `None`: for ever.
    pub expire_gone: Option<Duration>,
    /// The crash with this number ends a job.
    pub retry_attempts: u16,
    /// How long a job waits after a crash before it is tried again. `None`: not at all.
    pub crash_backoff: Option<Backoff>,
    pub notify_worker_crash: bool,
    pub notify_no_workers: bool,
    /// Waits so long before telling, and gathers what happens meanwhile.
    pub crash_notification_delay: Duration,
    pub notice_slot: SlotStyle,
    pub transport: Transport,
    pub counters: Arc<Counters>,
}

/// The settings of the READY / PING / PONG door.
#[derive(Clone, Debug)]
pub struct PingPongSettings {
    /// The queue that work of this door goes to and its workers serve.
    pub queue: Name,
    /// An idle worker that is silent longer gets nothing until it is heard again.
    pub worker_expire: Duration,
    /// How long a computing worker is believed without a word. `None`: as long as its connection lives.
    pub busy_lease: Option<Duration>,
    /// How long work waits for a worker. `None`: for ever.
    pub expire: Option<Duration>,
    /// The same after its client is gone, if the client chose no identity.
    pub expire_gone: Option<Duration>,
    /// The crash with this number ends a job.
    pub retry_attempts: u16,
    /// Whether a worker that is drained is sent EXIT.
    pub exit_on_drain: bool,
    /// Whether jobs go out in the older form, with an address that comes back with the result.
    pub addressed_jobs: bool,
    pub transport: Transport,
    pub counters: Arc<Counters>,
}

/// What both doors have in common: the connections.
#[derive(Clone, Debug)]
pub struct Transport {
    pub limits: ZmtpLimits,
    /// After so much silence a peer's ZeroMQ library is asked for a sign of life.
    pub ping: Duration,
    /// After so much silence a connection that was asked is given up.
    pub ping_timeout: Duration,
    /// How long a peer may take to finish a message, besides a second for every 16 KiB of it.
    pub message_timeout: Duration,
    /// What every door is told: caps, the deadline of the handshake, the byte budget for unfinished messages.
    pub door: DoorSettings,
    /// How many bytes the peers of all connections may leave unread together. Apart from the other budget, so that
    /// peers that do not read keep nobody from sending.
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
