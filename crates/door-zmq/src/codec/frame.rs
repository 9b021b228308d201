//! One frame: a flags byte, a length in one byte or eight, a body.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::limits::COMMAND_BYTES_MAX;
use super::{CodecError, ZmtpLimits};

/// A frame as it came in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Command(Bytes),
    Part { body: Bytes, more: bool },
}

const MORE: u8 = 0x01;
const LONG: u8 = 0x02;
const COMMAND: u8 = 0x04;

/// Bodies up to this size are copied out of the read buffer.
const COPIED_BYTES_MAX: usize = 4 << 10;
/// Bodies above this size take the read buffer's memory with them.
const SHARED_BYTES_MAX: usize = 256 << 10;

/// Which frames are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedFrame {
    /// In the handshake.
    Commands,
    Anything,
}

/// Takes one frame from the front of `buffer`, or waits for more. Checks kind and length as soon as they are known, so
/// that an unwanted frame is never buffered.
pub(super) fn read(
    buffer: &mut BytesMut,
    limits: &ZmtpLimits,
    expected: ExpectedFrame,
) -> Result<Option<Frame>, CodecError> {
    let Some(&flags) = buffer.first() else { return Ok(None) };
    if flags & !(MORE | LONG | COMMAND) != 0 {
        return Err(CodecError::ReservedFlags { flags });
    }
    if flags & COMMAND != 0 && flags & MORE != 0 {
        return Err(CodecError::CommandWithMore);
    }
    if flags & COMMAND == 0 && expected == ExpectedFrame::Commands {
        return Err(CodecError::MessageInHandshake);
    }
    let Some((header, length)) = read_length(buffer, flags & LONG != 0) else { return Ok(None) };
    let limit = if flags & COMMAND != 0 { COMMAND_BYTES_MAX } else { limits.frame_bytes };
    let body = match usize::try_from(length) {
        Ok(body) if body <= limit => body,
        _ if flags & COMMAND != 0 => return Err(CodecError::CommandTooLong { length, limit }),
        _ => return Err(CodecError::FrameTooLong { length, limit }),
    };
    if buffer.len() < header + body {
        return Ok(None);
    }
    buffer.advance(header);
    let body = take_body(buffer, body);
    if flags & COMMAND != 0 {
        return Ok(Some(Frame::Command(body)));
    }
    Ok(Some(Frame::Part { body, more: flags & MORE != 0 }))
}

/// Writes one frame of a message.
pub(super) fn write_part(body: &[u8], more: bool, out: &mut BytesMut) {
    write(if more { MORE } else { 0 }, body, out);
}

/// Writes one command, its name already in the body.
pub(super) fn write_command(body: &[u8], out: &mut BytesMut) {
    write(COMMAND, body, out);
}

fn write(flags: u8, body: &[u8], out: &mut BytesMut) {
    match u8::try_from(body.len()) {
        Ok(length) => {
            out.put_u8(flags);
            out.put_u8(length);
        }
        Err(_) => {
            out.put_u8(flags | LONG);
            out.put_u64(body.len() as u64);
        }
    }
    out.put_slice(body);
}

/// Copies a small body, so that keeping it does not keep the whole read buffer. Splits a larger one off without
/// copying. A very large one takes the buffer along, so that the connection does not keep that much memory afterwards.
fn take_body(buffer: &mut BytesMut, length: usize) -> Bytes {
    if length <= COPIED_BYTES_MAX {
        let body = Bytes::copy_from_slice(&buffer[..length]);
        buffer.advance(length);
        return body;
    }
    let body = buffer.split_to(length).freeze();
    if length > SHARED_BYTES_MAX {
        *buffer = BytesMut::from(&buffer[..]);
    }
    body
}

/// The size of the header and the length it names, once the header is there.
fn read_length(buffer: &[u8], long: bool) -> Option<(usize, u64)> {
    if long {
        let bytes = buffer.get(1..9)?;
        let length = bytes.iter().fold(0, |length, &byte| length << 8 | u64::from(byte));
        Some((9, length))
    } else {
        Some((2, u64::from(*buffer.get(1)?)))
    }
}
