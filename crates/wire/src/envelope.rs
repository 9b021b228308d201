//! One frame as a message: `[number, kind, {fields}]`. Readers ignore further entries, which later versions may add.

use bytes::{Bytes, BytesMut};

use crate::error::{DecodeError, Problem, ValueFault};
use crate::frame;
use crate::limits::KIND_BYTES_MAX;
use crate::notice::Notice;
use crate::pack;
use crate::reader::Reader;
use crate::reply::Reply;
use crate::request::Request;

/// The number of a message that is not a reply, or that needs none.
pub const NO_NUMBER: u64 = 0;

/// A message from a peer to the broker.
#[derive(Clone, Debug, PartialEq)]
pub struct ToBroker {
    /// The peer chooses it, and the reply carries it. With [`NO_NUMBER`] the broker sends no reply, only a refusal.
    pub number: u64,
    /// The request itself.
    pub request: Request,
}

/// A message from the broker to a peer.
#[derive(Clone, Debug, PartialEq)]
pub enum FromBroker {
    /// The answer to the request with the same number.
    Reply {
        /// The number of the request.
        number: u64,
        /// The answer.
        reply: Reply,
    },
    /// The refusal of a request that wanted no answer is a reply with [`NO_NUMBER`].
    Notice(Notice),
}

/// Adds a request to the end of `out`, as a whole frame.
pub fn encode_request(out: &mut BytesMut, number: u64, request: &Request) {
    encode(out, number, request.kind(), |out| request.pack_fields(out));
}

/// Adds a reply to the end of `out`, as a whole frame.
pub fn encode_reply(out: &mut BytesMut, number: u64, reply: &Reply) {
    encode(out, number, reply.kind(), |out| reply.pack_fields(out));
}

/// Adds a notice to the end of `out`, as a whole frame.
pub fn encode_notice(out: &mut BytesMut, notice: &Notice) {
    encode(out, NO_NUMBER, notice.kind(), |out| notice.pack_fields(out));
}

/// Decodes a message to the broker. Bodies are slices of the frame.
pub fn decode_to_broker(frame: &Bytes) -> Result<ToBroker, DecodeError> {
    decode(frame, |number, kind, fields| {
        Request::unpack_fields(kind, fields).map(|request| ToBroker { number, request })
    })
}

/// Decodes a message from the broker. Bodies are slices of the frame.
pub fn decode_from_broker(frame: &Bytes) -> Result<FromBroker, DecodeError> {
    decode(frame, |number, kind, fields| {
        // A refusal is the one reply that may come without a number.
        if number != NO_NUMBER || kind == "refused" {
            return Reply::unpack_fields(kind, fields).map(|reply| FromBroker::Reply { number, reply });
        }
        Notice::unpack_fields(kind, fields).map(FromBroker::Notice)
    })
}

pub(crate) fn encode(out: &mut BytesMut, number: u64, kind: &str, fields: impl FnOnce(&mut BytesMut)) {
    let start = frame::begin(out);
    pack::array(out, 3);
    pack::unsigned(out, number);
    pack::text(out, kind);
    fields(out);
    frame::finish(out, start);
}

fn decode<T>(
    frame: &Bytes,
    fields: impl FnOnce(u64, &str, &mut Reader<'_>) -> Result<T, Problem>,
) -> Result<T, DecodeError> {
    let mut reader = Reader::new(frame);
    let mut number = NO_NUMBER;
    let mut kind = None;
    decode_in(&mut reader, &mut number, &mut kind, fields).map_err(|problem| DecodeError {
        number,
        kind: kind.map(Box::from),
        problem,
    })
}

/// Number and kind are set as soon as they are known, so that a refusal of the rest can name them.
fn decode_in<'a, T>(
    reader: &mut Reader<'a>,
    number: &mut u64,
    kind: &mut Option<&'a str>,
    fields: impl FnOnce(u64, &str, &mut Reader<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let entries = reader.array()?;
    if entries < 2 {
        return Err(ValueFault::Missing.into());
    }
    *number = reader.unsigned().map_err(|problem| problem.in_field("number"))?;
    let name = reader.text().map_err(|problem| problem.in_field("kind"))?;
    if name.len() > KIND_BYTES_MAX {
        return Err(Problem::from(ValueFault::TooLong { limit: KIND_BYTES_MAX }).in_field("kind"));
    }
    *kind = Some(name);
    let message = if entries == 2 {
        fields(*number, name, &mut Reader::new(&Bytes::from_static(EMPTY_MAP)))?
    } else {
        fields(*number, name, reader)?
    };
    for _ in 3..entries {
        reader.skip()?;
    }
    if reader.left() > 0 {
        return Err(ValueFault::Trailing { bytes: reader.left() }.into());
    }
    Ok(message)
}

/// The fields of a message without fields.
const EMPTY_MAP: &[u8] = &[0x80];
