//! Whether a worker is there: through which connections it speaks, and what the hub believes of its life.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_hub::words::{Name, Timestamp};

/// The hub waits at least this long for a worker.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);
/// How many heartbeats a worker may miss.
const BEATS_MISSED_MAX: u32 = 3;

/// How a worker came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    /// A connection without a name; it ends with the connection.
    Nameless,
    /// It speaks under a name and has never registered.
    Implied,
    /// It registered.
    Registered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not known to the hub: not yet, not any more, or dead.
    Out,
    /// No connection speaks as this worker. It has no session with the hub, which believes in its claims for a while.
    Away,
    /// Asking the hub what it held before, then registering.
    Joining,
    Active,
}

/// How often a worker says that it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeats(pub Duration);

impl Heartbeats {
    /// After this much silence a worker is dead.
    pub fn dead_after(self) -> Duration {
        self.0 * BEATS_MISSED_MAX
    }

    /// Whether a sign of life is so young that another one need not be passed on. A clock that was set back makes none
    /// of them fresh.
    pub fn is_fresh(self, now: Timestamp, sign: Timestamp) -> bool {
        sign <= now && now < sign + self.0 / 4
    }
}

#[derive(Debug)]
pub(super) struct WorkerPresence {
    pub(super) name: Name,
    /// The key that it belongs to while it is there or may come back.
    pub(super) owner: Name,
    pub(super) kind: WorkerKind,
    pub(super) standing: Standing,
    /// Connections that spoke as this worker.
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
            standing: Standing::Out,
            connections: BTreeSet::new(),
            registrar: None,
            came_back: false,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.standing == Standing::Active
    }

    pub(super) fn is_nameless(&self) -> bool {
        self.kind == WorkerKind::Nameless
    }

    pub(super) fn detach(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.registrar.take_if(|registrar| *registrar == connection);
    }
}

/// When the worker was heard, and until when the hub believes that it is alive.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) heartbeats: Heartbeats,
    /// The time of this turn.
    pub(super) clock: Timestamp,
    /// When the worker itself last said something.
    pub(super) heard: Timestamp,
    /// When the hub last heard something that the worker said.
    told: Timestamp,
    /// Until when the hub surely believes that it is alive.
    pub(super) believed_until: Timestamp,
    /// The hub has been asked whether it is alive, and has not answered.
    pub(super) asked: bool,
    /// The hub was told something on its behalf, and how little time it had left then.
    pub(super) on_short_terms: bool,
}

impl Life {
    pub(super) fn new(heartbeats: Heartbeats, now: Timestamp) -> Life {
        Life {
            heartbeats,
            clock: now,
            heard: now,
            told: now,
            believed_until: now,
            asked: false,
            on_short_terms: false,
        }
    }

    /// The hub hears of the worker at this moment.
    pub(super) fn is_believed(&mut self, now: Timestamp) {
        self.told = now;
        self.believed_until = now + self.heartbeats.dead_after();
    }

    /// Whether the hub need not be told of another sign of life.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.heartbeats.is_fresh(now, self.told)
    }

    /// When the worker is dead if it says nothing more.
    pub(super) fn dies_at(&self) -> Timestamp {
        self.heard + self.heartbeats.dead_after()
    }

    /// How much longer the worker may be silent. What is said on its behalf is not said by it, so it gets no more time
    /// than is left.
    pub(super) fn lost_after(&self) -> Duration {
        if self.heartbeats.is_fresh(self.clock, self.heard) {
            return self.heartbeats.dead_after();
        }
        self.dies_at().since(self.clock).max(TIMEOUT_MIN)
    }
}
