//! What a connection tells its owner, and who may open one.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::identity::Identity;

/// Something happened on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZmtpEvent {
    /// The peer offers credentials (PLAIN). Nothing more is read until [`super::ZmtpPeer::admit`] or
    /// [`super::ZmtpPeer::refuse`] answers.
    Credentials { username: Bytes, password: Secret },
    /// The handshake is over, messages may flow. Without an identity the owner gives the peer one.
    Joined { identity: Option<Identity>, socket: SocketType },
    /// One whole multipart message, without any envelope added.
    Message(Vec<Bytes>),
    /// The peer pinged and was answered. With a time to live it asks to be given up after that much silence.
    Ping { ttl: Option<Duration> },
    /// The peer answered a ping of ours: its process and the way to it are alive.
    Pong,
    /// A command that this door does not know was skipped.
    Skipped { command: String },
}

/// The sockets that may talk to a ROUTER of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketType {
    Req,
    Dealer,
}

/// Whom a listener lets in. The peer names a security mechanism in its greeting and is answered with the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAdmission {
    /// Anyone may come in; a peer that offers credentials has them checked.
    Anyone,
    /// Only a peer with credentials comes in.
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
