//! Forwarding: a standby of a group passes the connections of its doors to the leader's same doors, so that no client
//! needs to know which broker leads.
//!
//! ```text
//! client ──→ standby's door ──(forward header, then the client's bytes)──→ leader's door
//! ```
//!
//! The forward header is a PROXY protocol v2 header with a message authentication code of the group, so the leader
//! knows the client's address and a stranger cannot pretend to have another one. The standby reads no byte of the
//! protocol: TLS passes through. A door may look at the first bytes and answer what is asked about the standby itself. `spec/replication.md` describes the header.

mod addresses;
mod arrival;
mod forwarder;
mod group;
mod header;
mod relay;
mod secret;
mod standby_door;

pub use addresses::{BadDoorAddresses, DoorAddresses};
pub use forwarder::Forwarder;
pub use group::{DoorGroup, GroupMember, GroupView};
pub use header::{ForwardError, ForwardHeader, fuzz};
pub use secret::{GroupSecret, ShortSecret};
pub use standby_door::StandbyDoor;

pub(crate) use arrival::{Arrival, arrive};
