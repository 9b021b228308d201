//! The peer's metadata at the end of the handshake: socket type and identity.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::command::take_short;
use super::{CodecError, IDENTITY_BYTES_MAX, Identity, SocketType};

/// A peer, introduced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PeerIntroduction {
    pub(super) identity: Option<Identity>,
    pub(super) socket: SocketType,
}

/// Reads the properties of a READY or INITIATE. Names are case-insensitive; properties without a meaning for a ROUTER
/// are skipped.
pub(super) fn parse(mut metadata: Bytes) -> Result<PeerIntroduction, CodecError> {
    let mut identity = None;
    let mut socket = None;
    while !metadata.is_empty() {
        let (name, value) =
            take_property(&mut metadata).ok_or(CodecError::Malformed { command: "metadata" })?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            socket = Some(socket_type(&value)?);
        } else if name.eq_ignore_ascii_case(b"Identity") {
            identity = check_identity(&value)?;
        }
    }
    let socket = socket.ok_or_else(|| CodecError::SocketType { name: String::new() })?;
    Ok(PeerIntroduction { identity, socket })
}

pub(super) fn write_property(name: &str, value: &[u8], out: &mut BytesMut) {
    out.put_u8(name.len() as u8);
    out.put_slice(name.as_bytes());
    out.put_u32(value.len() as u32);
    out.put_slice(value);
}

fn take_property(metadata: &mut Bytes) -> Option<(Bytes, Bytes)> {
    let name = take_short(metadata).filter(|name| !name.is_empty())?;
    if metadata.len() < 4 {
        return None;
    }
    let length = usize::try_from(metadata.get_u32()).ok()?;
    (metadata.len() >= length).then(|| (name, metadata.split_to(length)))
}

fn socket_type(name: &[u8]) -> Result<SocketType, CodecError> {
    match name {
        b"REQ" => Ok(SocketType::Req),
        b"DEALER" => Ok(SocketType::Dealer),
        other => Err(CodecError::SocketType { name: String::from_utf8_lossy(other).into_owned() }),
    }
}

fn check_identity(identity: &[u8]) -> Result<Option<Identity>, CodecError> {
    match identity {
        [] => Ok(None),
        [0, ..] => Err(CodecError::IdentityReserved),
        _ if identity.len() > IDENTITY_BYTES_MAX => {
            Err(CodecError::IdentityTooLong { length: identity.len() })
        }
        _ => Ok(Some(Identity::chosen(identity))),
    }
}
