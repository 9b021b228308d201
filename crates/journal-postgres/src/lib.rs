//! The replicated journal on PostgreSQL, by its wire protocol. PostgreSQL orders, fences and replicates; this crate
//! states what a broker may do with it. `spec/replication.md` describes the rules and the fault that each prevents.
//!
//! A session is one connection with a thread of its own, because the store's calls block and a runtime must not
//! start inside another one. [`address`] says where the servers are, [`connect`] finds the primary, [`link`] carries
//! calls to the thread, [`session`] has the statements, [`schema`] the tables.

#![warn(missing_docs)]

mod address;
mod check;
mod connect;
mod error;
mod files;
mod group;
mod latency;
mod link;
mod members;
mod namespaces;
mod password;
mod rows;
mod schema;
mod segments;
mod session;
mod status;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tenure_store::{ReplicatedJournal, ReplicatedSession, ReplicationError};

pub use address::{JournalAddress, JournalAddressError};
pub use check::{Checked, GroupIdentity, GroupSecretText};
pub use latency::AppendLatency;
pub use members::{HeartbeatReply, LiveMember, MemberHeartbeat, MemberInfo, MemberSession, StepDownReply};
pub use namespaces::{ClusterPlacement, DEFAULT_ROW, GroupEntry, NamespaceRow, PlacedMember};
pub use schema::{FORMAT, SCHEMA};
pub use status::{DatabaseStatus, GroupStatus, MemberStatus};

use connect::ServerHistory;
use latency::Latencies;
use link::PostgresLink;
use session::PostgresSession;

/// How a broker uses the database.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// Where the servers are.
    pub address: JournalAddress,
    /// The name of the group.
    pub group: String,
    /// The member whose sessions these are. Empty for tools.
    pub member: String,
    /// How long a change may take before it is in doubt.
    pub lease: Duration,
}

/// A handle: clones share what is known about the servers.
#[derive(Clone, Debug)]
pub struct PostgresJournal {
    shared: Arc<JournalContext>,
}

#[derive(Debug)]
pub(crate) struct JournalContext {
    pub(crate) settings: PostgresSettings,
    pub(crate) servers: ServerHistory,
    pub(crate) latencies: Latencies,
}

impl PostgresJournal {
    /// A journal that has not connected yet.
    pub fn new(settings: PostgresSettings) -> PostgresJournal {
        let shared =
            JournalContext { settings, servers: ServerHistory::default(), latencies: Latencies::default() };
        PostgresJournal { shared: Arc::new(shared) }
    }

    /// How long the last appends took.
    pub fn append_latency(&self) -> AppendLatency {
        self.shared.latencies.summary()
    }

    /// The name of the group.
    pub fn group(&self) -> &str {
        &self.shared.settings.group
    }

    /// The servers, without a password.
    pub fn address(&self) -> &JournalAddress {
        &self.shared.settings.address
    }

    pub(crate) fn link(&self) -> Result<PostgresLink, ReplicationError> {
        PostgresLink::open(&self.shared)
    }
}

impl ReplicatedJournal for PostgresJournal {
    fn connect(&self) -> Result<Box<dyn ReplicatedSession>, ReplicationError> {
        Ok(Box::new(PostgresSession::new(self.link()?, Arc::clone(&self.shared))))
    }
}
