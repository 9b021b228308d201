//! The small part of CBOR that the `_PL` dialect needs: walking over items without building them, and writing maps.
//!
//! Items are copied as bytes, and only what is needed is decoded, so a hostile document costs no more memory than
//! its own length.

use bytes::Bytes;
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use serde_json::Value;

use super::MdpError;

/// Maximum nesting of maps and arrays.
pub(super) const DEPTH_MAX: usize = 64;

const MEMORY: &str = "writing CBOR into memory does not fail";

pub(super) type CborWriter = Encoder<Vec<u8>>;

impl From<minicbor::decode::Error> for MdpError {
    fn from(_: minicbor::decode::Error) -> MdpError {
        MdpError::Cbor
    }
}

/// Skips one item and returns its bytes.
pub(super) fn skip<'b>(decoder: &mut Decoder<'b>, depth: usize) -> Result<&'b [u8], MdpError> {
    let start = decoder.position();
    step_over(decoder, depth)?;
    Ok(&decoder.input()[start..decoder.position()])
}

/// Whether another entry follows in a map or array that was opened with this count. Takes the break of an open one.
pub(super) fn more(decoder: &mut Decoder<'_>, left: &mut Option<u64>) -> Result<bool, MdpError> {
    match left {
        Some(0) => Ok(false),
        Some(count) => {
            *count -= 1;
            Ok(true)
        }
        None if decoder.datatype()? == Type::Break => {
            decoder.set_position(decoder.position() + 1);
            Ok(false)
        }
        None => Ok(true),
    }
}

pub(super) fn writer() -> CborWriter {
    Encoder::new(Vec::new())
}

/// Writing into memory cannot fail; this is the one place that asserts it.
pub(super) fn wrote(
    result: Result<&mut CborWriter, minicbor::encode::Error<core::convert::Infallible>>,
) -> &mut CborWriter {
    result.expect(MEMORY)
}

/// Appends the head of a map.
pub(super) fn open_map(out: &mut Vec<u8>, entries: u64) {
    Encoder::new(out).map(entries).expect(MEMORY);
}

/// Appends the head of an array.
pub(super) fn open_array(out: &mut Vec<u8>, items: u64) {
    Encoder::new(out).array(items).expect(MEMORY);
}

/// A JSON document as CBOR.
pub(super) fn from_json(value: &Value) -> Bytes {
    let mut out = writer();
    write_json(value, &mut out);
    out.into_writer().into()
}

fn write_json(value: &Value, out: &mut CborWriter) {
    match value {
        Value::Null => wrote(out.null()),
        Value::Bool(truth) => wrote(out.bool(*truth)),
        Value::String(text) => wrote(out.str(text)),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(unsigned), _, _) => wrote(out.u64(unsigned)),
            (_, Some(signed), _) => wrote(out.i64(signed)),
            (_, _, Some(float)) => wrote(out.f64(float)),
            (None, None, None) => wrote(out.null()),
        },
        Value::Array(items) => {
            wrote(out.array(items.len() as u64));
            items.iter().for_each(|item| write_json(item, out));
            out
        }
        Value::Object(entries) => {
            wrote(out.map(entries.len() as u64));
            for (key, item) in entries {
                wrote(out.str(key));
                write_json(item, out);
            }
            out
        }
    };
}

fn step_over(decoder: &mut Decoder<'_>, depth: usize) -> Result<(), MdpError> {
    let inner = depth.checked_sub(1).ok_or(MdpError::Cbor)?;
    match decoder.datatype()? {
        Type::Map | Type::MapIndef => {
            let mut left = decoder.map()?;
            while more(decoder, &mut left)? {
                step_over(decoder, inner)?;
                step_over(decoder, inner)?;
            }
        }
        Type::Array | Type::ArrayIndef => {
            let mut left = decoder.array()?;
            while more(decoder, &mut left)? {
                step_over(decoder, inner)?;
            }
        }
        Type::Tag => {
            decoder.tag()?;
            step_over(decoder, inner)?;
        }
        Type::Break | Type::Unknown(_) => return Err(MdpError::Cbor),
        _ => decoder.skip()?,
    }
    Ok(())
}
