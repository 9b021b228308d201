//! One file per type of value. A command reads the key space and returns a reply and effects.

pub(crate) mod hashes;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod scanning;
pub(crate) mod scripts;
pub(crate) mod sets;
pub(crate) mod sorted;
pub(crate) mod streams;
pub(crate) mod strings;

use bytes::Bytes;

use crate::effect::Effect;
use crate::limits::{KEY_BYTES_MAX, REPLY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;

pub(crate) struct Decision {
    pub(crate) reply: Reply,
    pub(crate) effects: Vec<Effect>,
}

pub(crate) type Decided = Result<Decision, KeyspaceRefusal>;

impl Decision {
    /// A reply without effects.
    pub(crate) fn of(reply: Reply) -> Decision {
        Decision { reply, effects: Vec::new() }
    }

    pub(crate) fn with(reply: Reply, effect: Effect) -> Decision {
        Decision { reply, effects: vec![effect] }
    }
}

pub(crate) fn check_key(key: &Bytes) -> Result<(), KeyspaceRefusal> {
    if key.len() > KEY_BYTES_MAX { Err(KeyspaceRefusal::KeyTooLong(key.len())) } else { Ok(()) }
}

pub(crate) fn check_value(value: &Bytes) -> Result<(), KeyspaceRefusal> {
    check_length(value.len())
}

pub(crate) fn check_length(length: usize) -> Result<(), KeyspaceRefusal> {
    if length > VALUE_BYTES_MAX { Err(KeyspaceRefusal::ValueTooLong(length)) } else { Ok(()) }
}

/// Adds up the size of a reply, so that none is larger than a connection can take.
#[derive(Default)]
pub(crate) struct ReplySize(usize);

impl ReplySize {
    pub(crate) fn add(&mut self, bytes: &Bytes) -> Result<(), KeyspaceRefusal> {
        self.0 += bytes.len() + 16;
        if self.0 > REPLY_BYTES_MAX { Err(KeyspaceRefusal::ReplyTooLong) } else { Ok(()) }
    }

    /// Collects all items, unless they exceed the reply limit.
    pub(crate) fn collect<'a>(items: impl Iterator<Item = &'a Bytes>) -> Result<Vec<Bytes>, KeyspaceRefusal> {
        let (mut size, mut collected) = (ReplySize::default(), Vec::new());
        for item in items {
            size.add(item)?;
            collected.push(item.clone());
        }
        Ok(collected)
    }
}

/// Converts Redis indexes, negative from the end, to a range.
pub(crate) fn index_range(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let length = length as i64;
    let start = if start < 0 { (length.saturating_add(start)).max(0) } else { start };
    let stop = if stop < 0 { length.saturating_add(stop) } else { stop.min(length - 1) };
    if start > stop || start >= length { 0..0 } else { start as usize..stop as usize + 1 }
}

pub(crate) fn parse_integer(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?;
    // Redis accepts neither a plus sign nor leading zeros.
    let value: i64 = text.parse().ok()?;
    (text.len() <= 20 && !text.starts_with('+')).then_some(value)
}

pub(crate) fn parse_float(bytes: &[u8]) -> Option<f64> {
    std::str::from_utf8(bytes).ok()?.parse().ok().filter(|value: &f64| !value.is_nan())
}

/// The text that Redis stores for a floating point number.
pub(crate) fn float_text(value: f64) -> Bytes {
    Bytes::from(format!("{value}"))
}
