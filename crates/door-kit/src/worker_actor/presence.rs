//! Whether a worker is present: its connections, and what the hub assumes about it.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_hub::ClockReading;
use tenure_hub::words::{Name, Timestamp};

/// Minimum timeout of a worker at the hub.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);
/// How many heartbeats a worker may miss.
const BEATS_MISSED_MAX: u32 = 3;

/// How a worker came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    /// A connection without a name; the worker ends with the connection.
    Nameless,
    /// It uses a name and has never registered.
    Implied,
    /// It registered.
    Registered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActorState {
    /// Unknown to the hub: not yet, not any more, or dead.
    Out,
    /// No connection acts as this worker. It has no session with the hub, which keeps its claims for a while.
    Away,
    /// Asking the hub what it held before, then registering.
    Joining,
    Active,
}

/// The heartbeat interval of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeats(pub Duration);

impl Heartbeats {
    /// After this much silence a worker is dead.
    pub fn dead_after(self) -> Duration {
        self.0 * BEATS_MISSED_MAX
    }

    /// Whether a sign of life is so recent that another one need not be forwarded.
    pub fn is_fresh(self, now: Timestamp, sign: Timestamp) -> bool {
        now < sign + self.0 / 4
    }
}

#[derive(Debug)]
pub(super) struct WorkerPresence {
    pub(super) name: Name,
    /// The key that owns the worker while it is present or may return.
    pub(super) owner: Name,
    pub(super) kind: WorkerKind,
    pub(super) state: ActorState,
    /// Connections that acted as this worker.
    pub(super) connections: BTreeSet<u64>,
    /// The one of them that registered it.
    pub(super) registrar: Option<u64>,
    /// It is known because it holds tasks, and has neither registered nor pulled since it was away.
    pub(super) came_back: bool,
}

impl WorkerPresence {
    pub(super) fn new(name: Name, owner: Name, kind: WorkerKind) -> WorkerPresence {
        WorkerPresence {
            name,
            owner,
            kind,
            state: ActorState::Out,
            connections: BTreeSet::new(),
            registrar: None,
            came_back: false,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.state == ActorState::Active
    }

    pub(super) fn is_nameless(&self) -> bool {
        self.kind == WorkerKind::Nameless
    }

    pub(super) fn detach(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.registrar.take_if(|registrar| *registrar == connection);
    }
}

/// When the worker was last heard, and until when the hub counts it as alive.
#[derive(Debug)]
pub(super) struct Liveness {
    pub(super) heartbeats: Heartbeats,
    /// The time of the current turn.
    pub(super) clock: ClockReading,
    /// When the worker itself last sent something.
    pub(super) heard: Timestamp,
    /// When the actor last forwarded something of the worker to the hub.
    told: Timestamp,
    /// Until when the hub certainly counts it as alive.
    pub(super) believed_until: Timestamp,
    /// The actor has asked the hub whether it is alive, and has no answer yet.
    pub(super) asked: bool,
    /// The actor has sent something on its behalf, with the little time it had left.
    pub(super) on_short_terms: bool,
}

impl Liveness {
    pub(super) fn new(heartbeats: Heartbeats, now: ClockReading) -> Liveness {
        Liveness {
            heartbeats,
            clock: now,
            heard: now.steady,
            told: now.steady,
            believed_until: now.steady,
            asked: false,
            on_short_terms: false,
        }
    }

    /// The hub receives a sign of life now.
    pub(super) fn is_believed(&mut self, now: Timestamp) {
        self.told = now;
        self.believed_until = now + self.heartbeats.dead_after();
    }

    /// Whether the hub does not need another sign of life yet.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.heartbeats.is_fresh(now, self.told)
    }

    /// When the worker counts as dead if it sends nothing more.
    pub(super) fn dies_at(&self) -> Timestamp {
        self.heard + self.heartbeats.dead_after()
    }

    /// How much longer the worker may be silent. A request on its behalf is no sign of life, so it gets only the time
    /// that is left.
    pub(super) fn lost_after(&self) -> Duration {
        if self.heartbeats.is_fresh(self.clock.steady, self.heard) {
            return self.heartbeats.dead_after();
        }
        self.dies_at().since(self.clock.steady).max(TIMEOUT_MIN)
    }
}
