//! Entry point for fuzzers and for the fixed corpus: no input panics or grows memory without bound, and what decodes
//! also survives a round trip.

use bytes::{Bytes, BytesMut};

use crate::envelope::{
    FromBroker, decode_from_broker, decode_to_broker, encode_notice, encode_reply, encode_request,
};
use crate::frame::split_frames;
use crate::notation::Pattern;
use crate::value::Value;

/// The frame limit while fuzzing: small, so that a fuzzer reaches it.
const FRAME_BYTES_MAX: usize = 4096;

/// Takes any bytes as a stream, as one frame in either direction, as a bare value and as notation.
pub fn fuzz(bytes: &[u8]) {
    let mut arrived = BytesMut::from(bytes);
    while let Ok(frames) = split_frames(&mut arrived, FRAME_BYTES_MAX) {
        if frames.is_empty() {
            break;
        }
        frames.for_each(|frame| one_frame(&frame));
    }
    one_frame(&Bytes::copy_from_slice(bytes));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Pattern::parse(text);
    }
}

fn one_frame(frame: &Bytes) {
    if let Ok(message) = decode_to_broker(frame) {
        let mut once = BytesMut::new();
        encode_request(&mut once, message.number, &message.request);
        let again = decode_to_broker(&unframed(&once)).expect("what was written can be read");
        let mut twice = BytesMut::new();
        encode_request(&mut twice, again.number, &again.request);
        assert_eq!(once, twice, "a request changed on its way");
    }
    if let Ok(message) = decode_from_broker(frame) {
        let once = encoded(&message);
        let again = decode_from_broker(&unframed(&once)).expect("what was written can be read");
        assert_eq!(once, encoded(&again), "an answer changed on its way");
    }
    if let Ok(value) = Value::read(frame) {
        let mut once = BytesMut::new();
        value.write(&mut once);
        let again = Value::read(&once.clone().freeze()).expect("what was written can be read");
        let mut twice = BytesMut::new();
        again.write(&mut twice);
        assert_eq!(once, twice, "a value changed on its way");
    }
}

fn encoded(message: &FromBroker) -> BytesMut {
    let mut out = BytesMut::new();
    match message {
        FromBroker::Reply { number, reply } => encode_reply(&mut out, *number, reply),
        FromBroker::Notice(notice) => encode_notice(&mut out, notice),
    }
    out
}

fn unframed(out: &BytesMut) -> Bytes {
    Bytes::copy_from_slice(&out[crate::frame::LENGTH_BYTES..])
}
