//! Every refusal of the hub: those of the engine, and those that only the joint of engine, disk and sessions can give.

use std::fmt;

use tenure_engine::{Name, Refusal};

/// Why the hub does not do what a session asked. A refused request changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubRefusal {
    /// The engine refuses, or a door or the hub refuses for a reason that the engine knows as well.
    Engine(Refusal),
    /// The disk is full. Reads and finishing work continue.
    DiskFull,
    /// The broker is stopping and accepts nothing new.
    Draining,
    /// Events before this one have been trimmed.
    Trimmed {
        /// The oldest event that the broker keeps.
        oldest: u64,
    },
    /// The body, result or log is missing or damaged.
    Unreadable {
        /// What cannot be read.
        what: &'static str,
    },
    /// No hook with that name in this namespace.
    UnknownHook {
        /// The name that no hook has.
        hook: Name,
    },
    /// The receiver of a call is not connected.
    NoListener {
        /// Where no client listens.
        address: Name,
    },
}

impl HubRefusal {
    /// The stable code, the same in every door.
    pub fn code(&self) -> &'static str {
        match self {
            HubRefusal::Engine(refusal) => refusal.code(),
            HubRefusal::DiskFull => "disk-full",
            HubRefusal::Draining => "draining",
            HubRefusal::Trimmed { .. } => "trimmed",
            HubRefusal::Unreadable { .. } => "unreadable",
            HubRefusal::UnknownHook { .. } => "unknown-hook",
            HubRefusal::NoListener { .. } => "nobody-there",
        }
    }
}

impl From<Refusal> for HubRefusal {
    fn from(refusal: Refusal) -> HubRefusal {
        HubRefusal::Engine(refusal)
    }
}

impl fmt::Display for HubRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HubRefusal::Engine(refusal) => refusal.fmt(f),
            HubRefusal::DiskFull => f.write_str("the broker's disk is full: make room, then try again"),
            HubRefusal::Draining => f.write_str("the broker is stopping: try again when it is back"),
            HubRefusal::Trimmed { oldest } => write!(f, "events before {oldest} are no longer kept"),
            HubRefusal::Unreadable { what } => write!(f, "the {what} cannot be read from disk"),
            HubRefusal::UnknownHook { hook } => write!(f, "there is no hook {hook}"),
            HubRefusal::NoListener { address } => write!(f, "no client listens at {address}"),
        }
    }
}

impl std::error::Error for HubRefusal {}
