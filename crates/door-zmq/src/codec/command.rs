//! ZMTP commands, which the libraries exchange outside of messages.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::{CodecError, Secret, frame, metadata};

/// A command, split into what it means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ZmtpCommand {
    Ready { metadata: Bytes },
    Hello { username: Bytes, password: Secret },
    Initiate { metadata: Bytes },
    Error { reason: String },
    Ping { ttl: Option<Duration>, context: Bytes },
    Pong,
    Other { name: String },
}

/// The longest context a ping may carry.
const PING_CONTEXT_BYTES_MAX: usize = 16;

/// Reads a command from the body of its frame.
pub(super) fn parse(mut body: Bytes) -> Result<ZmtpCommand, CodecError> {
    let name = take_short(&mut body).filter(|name| !name.is_empty()).ok_or(CodecError::CommandName)?;
    match &name[..] {
        b"READY" => Ok(ZmtpCommand::Ready { metadata: body }),
        b"INITIATE" => Ok(ZmtpCommand::Initiate { metadata: body }),
        b"HELLO" => hello(body).ok_or(CodecError::Malformed { command: "HELLO" }),
        b"ERROR" => error(body).ok_or(CodecError::Malformed { command: "ERROR" }),
        b"PING" => ping(body).ok_or(CodecError::Malformed { command: "PING" }),
        b"PONG" => Ok(ZmtpCommand::Pong),
        other => Ok(ZmtpCommand::Other { name: String::from_utf8_lossy(other).into_owned() }),
    }
}

/// Our READY: who we are. It also ends the PLAIN handshake.
pub(super) fn write_ready(out: &mut BytesMut) {
    let mut body = BytesMut::from(&b"\x05READY"[..]);
    metadata::write_property("Socket-Type", b"ROUTER", &mut body);
    frame::write_command(&body, out);
}

pub(super) fn write_welcome(out: &mut BytesMut) {
    frame::write_command(b"\x07WELCOME", out);
}

/// ERROR with a reason for the peer's log. The reason is a short text of this crate.
pub(super) fn write_error(reason: &str, out: &mut BytesMut) {
    let reason = &reason.as_bytes()[..reason.len().min(usize::from(u8::MAX))];
    let mut body = BytesMut::from(&b"\x05ERROR"[..]);
    body.put_u8(reason.len() as u8);
    body.put_slice(reason);
    frame::write_command(&body, out);
}

/// PING. The time to live is sent in tenths of a second, up to the maximum of the field.
pub(super) fn write_ping(ttl: Duration, out: &mut BytesMut) {
    let tenths = u16::try_from(ttl.as_millis() / 100).unwrap_or(u16::MAX);
    let mut body = BytesMut::from(&b"\x04PING"[..]);
    body.put_u16(tenths);
    frame::write_command(&body, out);
}

pub(super) fn write_pong(context: &[u8], out: &mut BytesMut) {
    let mut body = BytesMut::from(&b"\x04PONG"[..]);
    body.put_slice(context);
    frame::write_command(&body, out);
}

fn hello(mut body: Bytes) -> Option<ZmtpCommand> {
    let username = take_short(&mut body)?;
    let password = Secret(take_short(&mut body)?);
    body.is_empty().then_some(ZmtpCommand::Hello { username, password })
}

fn ping(mut body: Bytes) -> Option<ZmtpCommand> {
    if body.len() < 2 || body.len() > 2 + PING_CONTEXT_BYTES_MAX {
        return None;
    }
    let context = body.split_off(2);
    let tenths = u64::from(body[0]) << 8 | u64::from(body[1]);
    let ttl = (tenths > 0).then(|| Duration::from_millis(tenths * 100));
    Some(ZmtpCommand::Ping { ttl, context })
}

fn error(mut body: Bytes) -> Option<ZmtpCommand> {
    let reason = take_short(&mut body)?;
    Some(ZmtpCommand::Error { reason: String::from_utf8_lossy(&reason).into_owned() })
}

/// Takes a string whose length is its first byte.
pub(super) fn take_short(body: &mut Bytes) -> Option<Bytes> {
    let length = usize::from(*body.first()?);
    if body.len() < 1 + length {
        return None;
    }
    let mut string = body.split_to(1 + length);
    Some(string.split_off(1))
}
