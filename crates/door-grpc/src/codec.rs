//! Decodes and encodes protobuf, with two additions. Fields are counted before a message is decoded, because a few
//! megabytes of empty entries would become gigabytes of memory. And an event for many subscribers is encoded once:
//! [`EncodedEvent`] carries its bytes.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{
    DecodeContext, WireType, check_wire_type, encode_key, encode_varint, encoded_len_varint, key_len,
};
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf};
use tonic_prost::ProstEncoder;

/// The longest message that is read: a body with its other fields.
pub const MESSAGE_BYTES_MAX: usize = tenure_hub::limits::BODY_BYTES_MAX + (1 << 20);
/// Maximum number of fields in one message, including those of nested messages.
pub const FIELDS_MAX: usize = 250_000;
/// How much of a stream is encoded before it is passed on, and the step by which its buffer grows.
const STREAM_BYTES: usize = 32 << 10;

/// Which fields of a message are messages themselves.
#[derive(Debug)]
pub struct MessageSchema(&'static [(u32, &'static MessageSchema)]);

const LEAF: &MessageSchema = &MessageSchema(&[]);

/// A message whose nesting the decoder knows.
pub trait HasSchema {
    /// The fields that hold other messages.
    const SCHEMA: &'static MessageSchema;
}

include!(concat!(env!("OUT_DIR"), "/schema.rs"));

/// The codec of all methods: limits how deep messages nest.
#[derive(Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Codec<T, U> {
        Codec(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + HasSchema + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Decoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::new(BufferSettings::new(STREAM_BYTES, STREAM_BYTES))
    }

    fn decoder(&mut self) -> Decoder<U> {
        Decoder(PhantomData)
    }
}

/// Decodes one message after its schema was checked.
#[derive(Debug)]
pub struct Decoder<U>(PhantomData<U>);

impl<U: Message + HasSchema + Default> tonic::codec::Decoder for Decoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // The bytes are taken over and not copied, and so are bodies within them.
        let bytes = buf.copy_to_bytes(buf.remaining());
        decode(bytes).map(Some)
    }
}

/// Decodes a message, unless it is invalid or has too many fields.
pub fn decode<U: Message + HasSchema + Default>(bytes: Bytes) -> Result<U, Status> {
    if !fits(&bytes, U::SCHEMA) {
        return Err(Status::invalid_argument(format!(
            "the message has more than {FIELDS_MAX} parts: send several smaller ones"
        )));
    }
    U::decode(bytes).map_err(|error| Status::invalid_argument(format!("cannot decode the message: {error}")))
}

fn fits(bytes: &[u8], shape: &MessageSchema) -> bool {
    let mut left = FIELDS_MAX;
    count(bytes, shape, &mut left).is_some()
}

/// Subtracts the fields from `left`; `None` if there are more. Invalid input is left to the decoder.
fn count(mut bytes: &[u8], shape: &MessageSchema, left: &mut usize) -> Option<()> {
    while !bytes.is_empty() {
        *left = left.checked_sub(1)?;
        let Some(key) = varint(&mut bytes) else { return Some(()) };
        let skip = match key & 7 {
            0 => {
                if varint(&mut bytes).is_none() {
                    return Some(());
                }
                0
            }
            1 => 8,
            2 => {
                let Some(length) = varint(&mut bytes).and_then(|length| usize::try_from(length).ok()) else {
                    return Some(());
                };
                if length > bytes.len() {
                    return Some(());
                }
                let field = key >> 3;
                if let Some((_, shape)) = shape.0.iter().find(|(number, _)| u64::from(*number) == field) {
                    count(&bytes[..length], shape, left)?;
                }
                length
            }
            5 => 4,
            // Our messages have no groups; the decoder skips them.
            _ => return Some(()),
        };
        bytes = bytes.get(skip..).unwrap_or_default();
    }
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A partly encoded event of a message stream: which event it is, and its bytes, which subscribers share. The events
/// are a `oneof` of messages, so all have this form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedEvent {
    /// The number of the field in the `oneof`.
    pub field: u32,
    /// The encoded message.
    pub message: Bytes,
}

impl HasSchema for EncodedEvent {
    const SCHEMA: &'static MessageSchema = LEAF;
}

impl Message for EncodedEvent {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        encode_key(self.field, WireType::LengthDelimited, buf);
        encode_varint(self.message.len() as u64, buf);
        buf.put_slice(&self.message);
    }

    fn merge_field(
        &mut self,
        field: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        _: DecodeContext,
    ) -> Result<(), DecodeError> {
        check_wire_type(WireType::LengthDelimited, wire_type)?;
        self.field = field;
        prost::encoding::bytes::merge(wire_type, &mut self.message, buf, DecodeContext::default())
    }

    fn encoded_len(&self) -> usize {
        key_len(self.field) + encoded_len_varint(self.message.len() as u64) + self.message.len()
    }

    fn clear(&mut self) {
        *self = EncodedEvent::default();
    }
}
