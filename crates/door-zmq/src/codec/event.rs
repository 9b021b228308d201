//! Events of a connection, and which peers are admitted.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::identity::Identity;

/// Something happened on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants describe their fields")]
pub enum ZmtpEvent {
    /// The peer sends credentials (PLAIN). Nothing more is read until the owner calls [`super::ZmtpPeer::admit`] or
    /// [`super::ZmtpPeer::refuse`].
    Credentials { username: Bytes, password: Secret },
    /// The handshake is over, messages may flow. The owner assigns an identity to a peer without one.
    Joined { identity: Option<Identity>, socket: SocketType },
    /// One whole multipart message, without any envelope added.
    Message(Vec<Bytes>),
    /// The peer pinged and got a pong. With a time to live, it asks to be disconnected after that much silence.
    Ping { ttl: Option<Duration> },
    /// The peer answered a ping: its process and the connection are alive.
    Pong,
    /// A command that this door does not know was skipped.
    Skipped { command: String },
}

/// The sockets that may talk to a ROUTER of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketType {
    /// A REQ socket: one request at a time.
    Req,
    /// A DEALER socket.
    Dealer,
}

/// Which peers a listener admits. The peer names a security mechanism in its greeting and is answered with the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAdmission {
    /// All peers; the credentials of a peer that sends some are checked.
    Anyone,
    /// Only peers with credentials.
    Credentials,
}

/// Bytes that never reach a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Bytes);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
