//! The first 64 bytes of either side: signature, version, mechanism.

use bytes::{BufMut, BytesMut};

use super::{CodecError, PeerAdmission};

/// How a peer authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mechanism {
    Null,
    Plain,
}

/// What a complete greeting says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) mechanism: Mechanism,
    /// Whether the peer speaks 3.1 and so knows PING.
    pub(super) pings: bool,
}

const GREETING_BYTES: usize = 64;
const SIGNATURE_BYTES: usize = 10;
const MECHANISM_BYTES: usize = 20;
const MAJOR: u8 = 3;
const MINOR: u8 = 1;

/// Writes signature and version, which is enough for the peer to send its mechanism. The rest follows when the peer
/// has named its mechanism: a listener that accepts both answers with the same one.
pub(super) fn write_opening(out: &mut BytesMut) {
    out.put_u8(0xff);
    out.put_bytes(0, SIGNATURE_BYTES - 2);
    out.put_u8(0x7f);
    out.put_u8(MAJOR);
}

/// Reads a greeting from the front of `buffer` and answers it, or waits for more. Refuses at the first byte that shows
/// a problem, because older peers send fewer than 64 bytes and then wait.
pub(super) fn read(
    buffer: &mut BytesMut,
    admission: PeerAdmission,
    out: &mut BytesMut,
) -> Result<Option<Greeting>, CodecError> {
    if buffer.first().is_some_and(|&first| first != 0xff) {
        return Err(CodecError::Signature);
    }
    if buffer.get(SIGNATURE_BYTES - 1).is_some_and(|&last| last != 0x7f) {
        return Err(CodecError::Signature);
    }
    if let Some(&major) = buffer.get(SIGNATURE_BYTES)
        && major < MAJOR
    {
        return Err(CodecError::Version { major });
    }
    if buffer.len() < GREETING_BYTES {
        return Ok(None);
    }
    let greeting = buffer.split_to(GREETING_BYTES);
    let (major, minor) = (greeting[SIGNATURE_BYTES], greeting[SIGNATURE_BYTES + 1]);
    let name = &greeting[SIGNATURE_BYTES + 2..SIGNATURE_BYTES + 2 + MECHANISM_BYTES];
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(MECHANISM_BYTES);
    let mechanism = match (&name[..end], admission) {
        (b"NULL", PeerAdmission::Anyone) => Mechanism::Null,
        (b"PLAIN", _) => Mechanism::Plain,
        (other, _) => {
            // The peer sees from our mechanism why it is not served.
            write_rest(Mechanism::Plain, out);
            return Err(CodecError::Mechanism { name: String::from_utf8_lossy(other).into_owned() });
        }
    };
    write_rest(mechanism, out);
    Ok(Some(Greeting { mechanism, pings: (major, minor) >= (MAJOR, MINOR) }))
}

fn write_rest(mechanism: Mechanism, out: &mut BytesMut) {
    let (name, as_server): (&[u8], u8) = match mechanism {
        Mechanism::Null => (b"NULL", 0),
        Mechanism::Plain => (b"PLAIN", 1),
    };
    out.put_u8(MINOR);
    out.put_slice(name);
    out.put_bytes(0, MECHANISM_BYTES - name.len());
    out.put_u8(as_server);
    out.put_bytes(0, GREETING_BYTES - SIGNATURE_BYTES - 2 - MECHANISM_BYTES - 1);
}
