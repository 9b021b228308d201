//! Encoding of primitive values: numbers, texts, times, blobs.

use std::time::Duration;

use tenure_engine::{Blob, Timestamp};

use super::Base;

/// Seven bits per byte, lowest first; the high bit says that more follow.
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Zigzag encoding: small numbers of either sign become small unsigned ones: 0, -1, 1, -2, 2 …
pub(super) fn signed(out: &mut Vec<u8>, value: i64) {
    varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// The difference from `base` to `value`. It wraps, so it can express every value, even [`Timestamp::NEVER`].
pub(super) fn distance(out: &mut Vec<u8>, base: u64, value: u64) {
    signed(out, value.wrapping_sub(base) as i64);
}

pub(super) fn time(out: &mut Vec<u8>, base: &Base, value: Timestamp) {
    distance(out, base.time.0, value.0);
}

pub(super) fn blob(out: &mut Vec<u8>, base: &Base, value: Blob) {
    varint(out, u64::from(value.bytes()));
    if !value.is_empty() {
        distance(out, base.place, value.at());
    }
}

pub(super) fn text(out: &mut Vec<u8>, value: &str) {
    varint(out, value.len() as u64);
    out.extend_from_slice(value.as_bytes());
}

/// Zero for none; else the length plus one, then the text.
pub(super) fn maybe_text(out: &mut Vec<u8>, value: Option<&str>) {
    let Some(value) = value else { return out.push(0) };
    varint(out, value.len() as u64 + 1);
    out.extend_from_slice(value.as_bytes());
}

pub(super) fn maybe_time(out: &mut Vec<u8>, base: &Base, value: Option<Timestamp>) {
    let Some(value) = value else { return out.push(0) };
    out.push(1);
    time(out, base, value);
}

pub(super) fn span(out: &mut Vec<u8>, value: Duration) {
    varint(out, value.as_secs());
    varint(out, u64::from(value.subsec_nanos()));
}

pub(super) fn maybe_span(out: &mut Vec<u8>, value: Option<Duration>) {
    let Some(value) = value else { return out.push(0) };
    out.push(1);
    span(out, value);
}

/// Writes the length of what `write` appends in front of it, as a varint.
///
/// Nearly all parts are shorter than 128 bytes, so one byte is reserved for the length; a longer part is
/// moved.
pub(super) fn measured(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
        return;
    }
    let mut prefix = Vec::with_capacity(5);
    varint(&mut prefix, length as u64);
    out.splice(start..=start, prefix);
}
