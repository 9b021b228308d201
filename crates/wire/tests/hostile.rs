//! Bytes that mean harm: nothing panics, nothing takes memory on a mere promise, nothing recurses without end.

use bytes::{BufMut, Bytes, BytesMut};
use tenure_wire::error::ValueFault;
use tenure_wire::limits::{DEPTH_MAX, ENTRIES_MAX, KIND_BYTES_MAX};
use tenure_wire::value::Value;
use tenure_wire::{DecodeError, Request, decode_to_broker, fuzz};

fn refused(bytes: &[u8]) -> DecodeError {
    decode_to_broker(&Bytes::copy_from_slice(bytes)).unwrap_err()
}

/// `[1, kind, ` and then these bytes.
fn message(kind: &str, fields: &[u8]) -> Vec<u8> {
    let mut out = vec![0x93, 1, 0xa0 | kind.len() as u8];
    out.put_slice(kind.as_bytes());
    out.put_slice(fields);
    out
}

#[test]
fn a_length_beyond_the_frame_is_not_believed() {
    // {"tasks": a list of 4 billion entries
    let list = message("submit", b"\x81\xa5tasks\xdd\xff\xff\xff\xff");
    assert_eq!(refused(&list).problem.what(), &ValueFault::Truncated);
    let map = message("submit", b"\xdf\xff\xff\xff\xff");
    assert_eq!(refused(&map).problem.what(), &ValueFault::Truncated);
    let body = message("answer", b"\x82\xa4call\x01\xa4body\xc6\xff\xff\xff\xff");
    assert_eq!(refused(&body).problem.what(), &ValueFault::Truncated);
    let text = message("cancel", b"\x81\xa6reason\xdb\xff\xff\xff\xff");
    assert_eq!(refused(&text).problem.what(), &ValueFault::Truncated);
}

#[test]
fn a_list_of_many_tiny_entries_is_refused_before_it_is_built() {
    let count = ENTRIES_MAX + 1;
    let mut fields = b"\x81\xa5tasks\xdd".to_vec();
    fields.put_u32(count as u32);
    fields.resize(fields.len() + count, 0x90);
    let refusal = refused(&message("submit", &fields));
    assert_eq!(refusal.problem.what(), &ValueFault::TooMany { count, limit: ENTRIES_MAX });
    assert_eq!(refusal.problem.at(), "tasks");
    assert_eq!((refusal.number, refusal.kind.as_deref()), (1, Some("submit")));
}

#[test]
fn nesting_without_end_takes_no_stack() {
    let deep = [0x91; 1_000_000];
    let mut fields = b"\x81\xa3new".to_vec();
    fields.put_slice(&deep);
    assert_eq!(refused(&message("queues", &fields)).problem.what(), &ValueFault::Truncated);
    fields.push(0xc0);
    assert_eq!(
        decode_to_broker(&message("queues", &fields).into()).unwrap().request,
        Request::Queues,
        "passed over"
    );

    let value = Value::read(&Bytes::copy_from_slice(&deep)).unwrap_err();
    assert_eq!(value.what(), &ValueFault::TooDeep { limit: DEPTH_MAX });
    let notation = "[".repeat(100_000);
    assert!(tenure_wire::notation::Pattern::parse(&notation).is_err());
}

#[test]
fn every_cut_of_a_message_is_refused_as_cut() {
    let whole = message("cancel", b"\x81\xa4task\xc4\x10................");
    assert!(decode_to_broker(&Bytes::copy_from_slice(&whole)).is_ok());
    for end in 0..whole.len() {
        assert_eq!(refused(&whole[..end]).problem.what(), &ValueFault::Truncated, "cut at {end}");
    }
}

#[test]
fn bytes_behind_a_message_are_refused() {
    let mut whole = message("queues", b"\x80");
    whole.push(0xc0);
    assert_eq!(refused(&whole).problem.what(), &ValueFault::Trailing { bytes: 1 });
}

#[test]
fn a_kind_is_a_short_name() {
    let mut out = vec![0x93, 1, 0xd9, 200];
    out.put_slice(&[b'k'; 200]);
    out.push(0x80);
    assert_eq!(refused(&out).problem.what(), &ValueFault::TooLong { limit: KIND_BYTES_MAX });
}

#[test]
fn text_must_be_text_and_the_unused_byte_is_no_value() {
    assert_eq!(refused(&message("find", b"\x81\xa4name\xa2\xff\xfe")).problem.what(), &ValueFault::NotText);
    assert!(refused(&message("queues", b"\xc1")).to_string().contains("c1"));
}

#[test]
fn the_fixed_corpus_is_harmless() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/native");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        fuzz(&std::fs::read(entry.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen >= 10, "the corpus is there");
}

#[test]
fn every_single_byte_and_every_pair_is_harmless() {
    for first in 0..=255 {
        fuzz(&[first]);
        for second in 0..=255 {
            fuzz(&[first, second]);
            let mut frame = BytesMut::new();
            frame.put_slice(&[0, 0, 0, 4, 0x93, 1, first, second]);
            fuzz(&frame);
        }
    }
}
