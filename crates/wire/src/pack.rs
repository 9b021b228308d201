//! Writes MessagePack values, each in its shortest form.

use bytes::BytesMut;

pub(crate) fn nil(out: &mut BytesMut) {
    byte(out, 0xc0);
}

pub(crate) fn boolean(out: &mut BytesMut, value: bool) {
    byte(out, if value { 0xc3 } else { 0xc2 });
}

pub(crate) fn unsigned(out: &mut BytesMut, value: u64) {
    match value {
        0..=0x7f => byte(out, value as u8),
        0x80..=0xff => out.extend_from_slice(&[0xcc, value as u8]),
        0x100..=0xffff => head(out, 0xcd, (value as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => head(out, 0xce, (value as u32).to_be_bytes()),
        _ => head(out, 0xcf, value.to_be_bytes()),
    }
}

pub(crate) fn signed(out: &mut BytesMut, value: i64) {
    match value {
        0.. => unsigned(out, value as u64),
        -0x20..=-1 => byte(out, value as u8),
        -0x80..=-0x21 => out.extend_from_slice(&[0xd0, value as u8]),
        -0x8000..=-0x81 => head(out, 0xd1, (value as i16).to_be_bytes()),
        -0x8000_0000..=-0x8001 => head(out, 0xd2, (value as i32).to_be_bytes()),
        _ => head(out, 0xd3, value.to_be_bytes()),
    }
}

pub(crate) fn float32(out: &mut BytesMut, value: f32) {
    head(out, 0xca, value.to_be_bytes());
}

pub(crate) fn float64(out: &mut BytesMut, value: f64) {
    head(out, 0xcb, value.to_be_bytes());
}

pub(crate) fn text(out: &mut BytesMut, value: &str) {
    match value.len() {
        length @ 0..=31 => byte(out, 0xa0 | length as u8),
        length @ 32..=0xff => out.extend_from_slice(&[0xd9, length as u8]),
        length @ 0x100..=0xffff => head(out, 0xda, (length as u16).to_be_bytes()),
        length => head(out, 0xdb, length_word(length)),
    }
    out.extend_from_slice(value.as_bytes());
}

pub(crate) fn bytes(out: &mut BytesMut, value: &[u8]) {
    match value.len() {
        length @ 0..=0xff => out.extend_from_slice(&[0xc4, length as u8]),
        length @ 0x100..=0xffff => head(out, 0xc5, (length as u16).to_be_bytes()),
        length => head(out, 0xc6, length_word(length)),
    }
    out.extend_from_slice(value);
}

/// A task id, written in one call, because every frequent message carries some.
pub(crate) fn bytes16(out: &mut BytesMut, value: &[u8; 16]) {
    let mut whole = [0; 18];
    whole[0] = 0xc4;
    whole[1] = 16;
    whole[2..].copy_from_slice(value);
    out.extend_from_slice(&whole);
}

pub(crate) fn array(out: &mut BytesMut, length: usize) {
    match length {
        0..=15 => byte(out, 0x90 | length as u8),
        16..=0xffff => head(out, 0xdc, (length as u16).to_be_bytes()),
        _ => head(out, 0xdd, length_word(length)),
    }
}

pub(crate) fn map(out: &mut BytesMut, length: usize) {
    match length {
        0..=15 => byte(out, 0x80 | length as u8),
        16..=0xffff => head(out, 0xde, (length as u16).to_be_bytes()),
        _ => head(out, 0xdf, length_word(length)),
    }
}

/// `put_u8` of the trait would be a call into another crate; this is inlined.
fn byte(out: &mut BytesMut, value: u8) {
    out.extend_from_slice(&[value]);
}

/// A marker and its number in one call: a buffer checks its capacity at every call.
fn head<const N: usize>(out: &mut BytesMut, marker: u8, number: [u8; N]) {
    let mut whole = [0; 9];
    whole[0] = marker;
    whole[1..=N].copy_from_slice(&number);
    out.extend_from_slice(&whole[..=N]);
}

fn length_word(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("a message is far smaller than 4 GiB").to_be_bytes()
}
