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
    /// The replicated journal does not answer, so nothing new can be stored.
    JournalAway,
    /// Another broker of the group leads.
    Deposed {
        /// Its name.
        holder: Name,
    },
    /// The namespace belongs to another group of the cluster.
    Elsewhere {
        /// The namespace.
        namespace: Name,
        /// The group that serves it.
        group: Name,
        /// Where members of that group have the door through which the peer came, the leader's first.
        addresses: Vec<Name>,
    },
    /// Events before this one have been trimmed.
    Trimmed {
        /// The oldest event that the broker keeps.
        oldest: u64,
    },
    /// The body, result or log is missing or damaged.
    Unreadable {
        /// The kind of bytes that cannot be read.
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
            HubRefusal::JournalAway => "journal-away",
            HubRefusal::Deposed { .. } => "deposed",
            HubRefusal::Elsewhere { .. } => "elsewhere",
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
            HubRefusal::JournalAway => {
                f.write_str("the replicated journal does not answer: the task was not taken, try again later")
            }
            HubRefusal::Deposed { holder } => write!(f, "{holder} leads the group now: connect again"),
            HubRefusal::Elsewhere { namespace, group, addresses } => {
                write!(f, "the namespace {namespace} belongs to the group {group}: ")?;
                match &addresses[..] {
                    [] => f.write_str("no member of it offers this protocol now, try again later"),
                    addresses => write!(f, "connect to {}", addresses.join(" or ")),
                }
            }
            HubRefusal::Trimmed { oldest } => write!(f, "events before {oldest} are no longer kept"),
            HubRefusal::Unreadable { what } => {
                write!(
                    f,
                    "the {what} cannot be read from disk: stop the broker and run `tenure journal verify`"
                )
            }
            HubRefusal::UnknownHook { hook } => write!(f, "there is no hook {hook}"),
            HubRefusal::NoListener { address } => write!(f, "no client listens at {address}"),
        }
    }
}

impl std::error::Error for HubRefusal {}
