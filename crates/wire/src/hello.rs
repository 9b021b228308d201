//! The handshake: the peer's identity, and the limits and features of the session.

use std::fmt;

use bytes::BytesMut;
use serde::{Serialize, Serializer};
use zeroize::Zeroizing;

use crate::Name;
use crate::error::Problem;
use crate::field::Field;
use crate::pack;
use crate::reader::Reader;
use crate::schema::message;
use crate::time::Timestamp;
use crate::words::Role;

message! {
    /// The first frame of a peer.
    #[derive(Default)]
    pub struct Hello {
        /// The newest version of the protocol that the peer speaks.
        version: u32,
        /// The peer's roles. None means everything that its key allows.
        roles: Vec<Role>,
        /// The name under which the peer's submissions can be watched, now and after a reconnect. The broker chooses
        /// one for a peer without a name.
        identity: Option<Name>,
        /// Default: the namespace of the key, otherwise `default`.
        namespace: Option<Name>,
        key: Option<Key>,
        /// Optional parts of the protocol that the peer understands.
        features: Vec<Name>,
        /// The peer's software and version, for people to read.
        software: Option<Box<str>>,
    }
}

/// The broker supports `acknowledge`.
pub const FEATURE_ACKNOWLEDGE: &str = "acknowledge";

message! {
    /// The broker's answer to a hello.
    pub struct Welcome {
        /// The version that both sides use from here on.
        version: u32,
        identity: Name,
        namespace: Name,
        /// The session's number, as it appears in the broker's logs.
        session: u64,
        /// Optional parts of the protocol that both sides understand.
        features: Vec<Name>,
        limits: PeerLimits,
        /// The broker's clock.
        now: Timestamp,
        software: Option<Box<str>>,
        /// The native door of the leader, if the broker belongs to a group.
        leader: Option<Name>,
        /// The native doors of all members of the group.
        members: Vec<Name>,
        /// The group. Numbers of events belong to it.
        group: Option<Name>,
    }
}

message! {
    /// What the broker accepts from this peer.
    #[derive(Copy, Eq)]
    pub struct PeerLimits {
        frame_bytes: u64,
        /// Entries in any one list.
        entries: u64,
        body_bytes: u64,
        /// Requests in flight at the same time.
        open_requests: u64,
    }
}

/// A secret. It can be sent, but neither printed nor logged, and is wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Zeroizing<Box<str>>);

impl Key {
    /// A key with this text.
    pub fn new(secret: impl Into<Box<str>>) -> Key {
        Key(Zeroizing::new(secret.into()))
    }

    /// Returns the secret, for code that must compare it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a key)")
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("(a key)")
    }
}

impl Field for Key {
    fn absent() -> Option<Key> {
        None
    }

    fn is_absent(&self) -> bool {
        false
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::text(out, &self.0);
    }

    fn unpack(from: &mut Reader<'_>) -> Result<Key, Problem> {
        from.text().map(Key::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let hello = Hello { key: Some(Key::new("s3cret")), ..Hello::default() };
        assert!(!format!("{hello:?}").contains("s3cret"));
        assert!(!serde_json::to_string(&hello).unwrap().contains("s3cret"));
    }
}
