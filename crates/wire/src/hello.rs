//! The handshake: the peer's identity, and the limits and features of the session.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;

use bytes::BytesMut;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};
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
        /// The peer wants this member of a group, also while it stands by: the member answers by itself and does not
        /// forward the connection to the leader.
        member: bool,
    }
}

/// The broker supports `acknowledge`.
pub const FEATURE_ACKNOWLEDGE: &str = "acknowledge";
/// The protocol that a peer offers inside TLS (ALPN) if its hello will have `member`.
pub const MEMBER_PROTOCOL: &[u8] = b"tenure-member";
/// How many bytes of the hash are in the name of a machine.
const MACHINE_BYTES: usize = 16;

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
        /// The broker's machine since its last boot, as [`machine_name`] names it.
        machine: Option<Name>,
        /// The broker's end of the TCP connection.
        local_address: Option<Name>,
        /// The other end of the TCP connection, as the broker sees it: the peer's, unless something lies between.
        remote_address: Option<Name>,
    }
}

/// Names a machine by its boot id. Two programs that find the same name run on the same machine, and the name does not
/// reveal the id.
pub fn machine_name(boot_id: &str) -> Name {
    let digest = Sha256::digest(format!("tenure machine {}", boot_id.trim()));
    let mut name = String::with_capacity(MACHINE_BYTES * 2);
    for byte in &digest[..MACHINE_BYTES] {
        let _ = write!(name, "{byte:02x}");
    }
    name.into()
}

/// The name of an end of a connection. An IPv4 address is the same with and without its IPv6 form.
pub fn end_name(address: SocketAddr) -> Name {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string().into()
}

message! {
    /// The limits of the broker for this peer.
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
    fn a_machine_is_named_without_its_boot_id() {
        let id = "0e2a1cbb-33a6-4a4c-9a6e-0d9e5c0c7a11";
        let name = machine_name(&format!("{id}\n"));
        assert_eq!(name, machine_name(id));
        assert_ne!(name, machine_name("1e2a1cbb-33a6-4a4c-9a6e-0d9e5c0c7a11"));
        assert_eq!(name.len(), 32);
        assert!(!name.contains("0e2a1cbb"));
    }

    #[test]
    fn both_forms_of_an_address_have_one_name() {
        let name = |text: &str| end_name(text.parse().unwrap());
        assert_eq!(&*name("[::ffff:127.0.0.1]:7171"), "127.0.0.1:7171");
        assert_eq!(name("[fe80::1%2]:7171"), name("[fe80::1]:7171"));
    }

    #[test]
    fn a_key_is_never_printed() {
        let hello = Hello { key: Some(Key::new("s3cret")), ..Hello::default() };
        assert!(!format!("{hello:?}").contains("s3cret"));
        assert!(!serde_json::to_string(&hello).unwrap().contains("s3cret"));
    }
}
