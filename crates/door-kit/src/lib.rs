//! The door kit: what all doors share. A door contains only what belongs to its protocol.
//!
//! ```text
//! accept (caps, keepalive, TLS) → Stream → connection loop (Protocol, byte budget, deadlines) → hub
//!                                              ↓ login
//!                                        Authenticator (keys, throttle, log, counters)
//! ```

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

mod accept;
mod authenticator;
mod budget;
mod connection;
mod connections;
mod descriptors;
/// Forwarding to the leader of a group.
pub mod forward;
mod login_deadline;
mod read_sizer;
mod settings;
mod stream;
mod throttle;
mod tls;
mod wait;
/// The actor for workers that fetch their tasks themselves.
pub mod worker_actor;

pub use accept::{Door, DoorListener, duplicate_tcp};
pub use authenticator::{Authenticator, LoginError};
pub use budget::{ByteBudget, Charge, Exhausted, FREE_BYTES};
pub use connection::{Connection, ConnectionAccess, Protocol, Turn, flush_before_close};
pub use connections::{ConnectionSlot, Connections};
pub use descriptors::{Descriptors, raise_descriptor_limit};
pub use login_deadline::{LoginDeadline, LoginStream};
pub use read_sizer::ReadSizer;
pub use settings::DoorSettings;
pub use stream::{
    DoorReader, DoorStream, DoorWriter, StreamEnds, is_flushed, read_into, read_secret_into, send, wipe_taken,
};
pub use tls::{Tls, TlsFault};
pub use wait::{EndedItem, WaitForEnds};
