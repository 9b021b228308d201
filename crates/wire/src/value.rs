//! A MessagePack value of any shape, for tools, tests and display. The messages themselves do not use it.

use bytes::{Bytes, BytesMut};

use crate::error::{Problem, ValueFault};
use crate::limits::DEPTH_MAX;
use crate::pack;
use crate::reader::Reader;

/// A value of any type that MessagePack has, except extensions.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Nil,
    /// True or false.
    Bool(bool),
    /// Whole numbers, whatever width they came in.
    Int(i128),
    /// A floating-point number.
    Float(f64),
    /// UTF-8 text.
    Text(String),
    /// Bytes.
    Bytes(Bytes),
    /// A list of values.
    List(Vec<Value>),
    /// Keys with their values, in the order in which they were sent.
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// Reads one value that is all of `frame`.
    pub fn read(frame: &Bytes) -> Result<Value, Problem> {
        let mut reader = Reader::new(frame);
        let value = read(&mut reader, 0)?;
        if reader.left() > 0 {
            return Err(ValueFault::Trailing { bytes: reader.left() }.into());
        }
        Ok(value)
    }

    /// Adds the value to the end of `out`.
    pub fn write(&self, out: &mut BytesMut) {
        match self {
            Value::Nil => pack::nil(out),
            Value::Bool(value) => pack::boolean(out, *value),
            Value::Int(value) => match u64::try_from(*value) {
                Ok(value) => pack::unsigned(out, value),
                Err(_) => pack::signed(out, i64::try_from(*value).unwrap_or(i64::MIN)),
            },
            Value::Float(value) => pack::float64(out, *value),
            Value::Text(text) => pack::text(out, text),
            Value::Bytes(bytes) => pack::bytes(out, bytes),
            Value::List(entries) => {
                pack::array(out, entries.len());
                entries.iter().for_each(|entry| entry.write(out));
            }
            Value::Map(entries) => {
                pack::map(out, entries.len());
                for (key, value) in entries {
                    key.write(out);
                    value.write(out);
                }
            }
        }
    }
}

fn read(from: &mut Reader<'_>, depth: usize) -> Result<Value, Problem> {
    if depth > DEPTH_MAX {
        return Err(ValueFault::TooDeep { limit: DEPTH_MAX }.into());
    }
    Ok(match from.peek()? {
        0xc0 => {
            from.take_nil();
            Value::Nil
        }
        0xc2 | 0xc3 => Value::Bool(from.boolean()?),
        0x00..=0x7f | 0xcc..=0xcf => Value::Int(i128::from(from.unsigned()?)),
        0xd0..=0xd3 | 0xe0..=0xff => Value::Int(i128::from(from.signed()?)),
        0xca | 0xcb => Value::Float(from.float()?),
        0xa0..=0xbf | 0xd9..=0xdb => Value::Text(from.text()?.to_owned()),
        0x90..=0x9f | 0xdc | 0xdd => {
            let length = from.array()?;
            let mut entries = Vec::with_capacity(length);
            for _ in 0..length {
                entries.push(read(from, depth + 1)?);
            }
            Value::List(entries)
        }
        0x80..=0x8f | 0xde | 0xdf => {
            let length = from.map()?;
            let mut entries = Vec::with_capacity(length);
            for _ in 0..length {
                entries.push((read(from, depth + 1)?, read(from, depth + 1)?));
            }
            Value::Map(entries)
        }
        // Bytes, or an error: the protocol has no extension types.
        _ => Value::Bytes(from.bytes()?),
    })
}
