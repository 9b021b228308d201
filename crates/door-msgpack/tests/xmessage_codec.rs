//! The dialect, byte by byte, as the workers and actioners of today speak it.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tenure_door_msgpack::xmessage::codec::{
    Operation, XMessage, XMessageError, XMessageId, XMessageIntroduction, XMessageState, XMessageTaskOptions,
    decode, encode, fuzz, split,
};

const ID: XMessageId = XMessageId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

/// Text between quotes stands for its bytes, everything else is hexadecimal.
fn bytes(written: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in written.split('"').enumerate() {
        if index % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u8> =
            part.chars().filter_map(|letter| letter.to_digit(16)).map(|digit| digit as u8).collect();
        bytes.extend(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
    }
    bytes
}

fn check(message: &XMessage, written: &str) {
    let expected = bytes(written);
    let mut out = BytesMut::new();
    encode(&mut out, message);
    assert_eq!(out[..], expected[..], "{message:?}");
    let frames: Vec<Bytes> = split(&mut out).unwrap().collect();
    assert_eq!(frames.len(), 1);
    assert_eq!(&decode(&frames[0]).unwrap(), message);
}

#[test]
fn every_message_has_the_bytes_that_peers_expect() {
    let id = "c410 000102030405060708090a0b0c0d0e0f";
    check(&XMessage::HandShake("worker".into()), r#"00000012 81 a9"HandShake" a6"worker""#);
    check(&XMessage::HeartBeat(5677), r#"0000000e 81 a9"HeartBeat" cd162d"#);
    check(
        &XMessage::TaskLaunch { task_id: ID, record_id: "task:x".into() },
        &format!(r#"00000026 81 aa"TaskLaunch" 92 {id} a6"task:x""#),
    );
    check(
        &XMessage::ActionerOp(Operation::AddTask("task:x".into())),
        r#"0000001c 81 aa"ActionerOp" 81 a7"AddTask" a6"task:x""#,
    );
    check(&XMessage::ActionerOp(Operation::PlayAllTask), r#"00000018 81 aa"ActionerOp" ab"PlayAllTask""#);
    check(
        &XMessage::TaskTablePrint { states: vec![XMessageState::Created, XMessageState::Terminated(-1)] },
        r#"00000027 81 ae"TaskTablePrint" 91 92 a7"Created" 81 aa"Terminated" ff"#,
    );
    check(
        &XMessage::TaskStateChange { id: ID, from: XMessageState::Run, to: XMessageState::Terminated(0) },
        &format!(r#"00000035 81 af"TaskStateChange" 93 {id} a3"Run" 81 aa"Terminated" 00"#),
    );
    check(&XMessage::WorkerTablePrint, r#"00000011 b0"WorkerTablePrint""#);
    check(&XMessage::Over, r#"00000005 a4"Over""#);
}

#[test]
fn fields_may_come_as_a_map_and_ids_as_text() {
    let written = r#"81 af"TaskStateChange" 83 a2"to" a3"Run" a4"from" a6"Submit"
        a2"id" d924"00010203-0405-0607-0809-0a0b0c0d0e0f""#;
    let message = decode(&bytes(written).into()).unwrap();
    assert_eq!(
        message,
        XMessage::TaskStateChange { id: ID, from: XMessageState::Submit, to: XMessageState::Run }
    );
}

#[test]
fn what_the_dialect_adds_is_read_as_a_map_or_a_list_and_may_leave_out_fields() {
    let by_name = r#"81 ad"HandShakeWith" 82 a4"role" a6"worker" a5"slots" 04"#;
    let expected =
        XMessageIntroduction { role: "worker".into(), slots: Some(4), ..XMessageIntroduction::default() };
    assert_eq!(decode(&bytes(by_name).into()).unwrap(), XMessage::HandShakeWith(expected));
    let light = r#"81 aa"ActionerOp" 81 ab"AddTaskWith" 82 a9"record_id" a1"x" a5"slots" 00"#;
    let expected =
        XMessageTaskOptions { record_id: "x".into(), slots: Some(0), ..XMessageTaskOptions::default() };
    let message = XMessage::ActionerOp(Operation::AddTaskWith(expected));
    assert_eq!(decode(&bytes(light).into()).unwrap(), message);
    let in_order = r#"81 aa"ActionerOp" 81 ab"AddTaskWith" 93 a6"task:x" a4"sync" 07"#;
    let expected = XMessageTaskOptions {
        record_id: "task:x".into(),
        task_type: Some("sync".into()),
        priority: Some(7),
        ..XMessageTaskOptions::default()
    };
    let message = XMessage::ActionerOp(Operation::AddTaskWith(expected));
    assert_eq!(decode(&bytes(in_order).into()).unwrap(), message);
    let unknown = r#"81 ad"HandShakeWith" 82 a4"role" a6"worker" a5"color" 04"#;
    let error = decode(&bytes(unknown).into()).unwrap_err().to_string();
    assert!(error.contains("color"), "{error}");
}

#[test]
fn a_key_is_never_printed() {
    let shown = r#"81 ad"HandShakeWith" 82 a4"role" a6"worker" a3"key" a6"s3cret""#;
    let message = decode(&bytes(shown).into()).unwrap();
    assert!(!format!("{message:?}").contains("s3cret"));
}

#[test]
fn what_is_no_message_is_refused_and_says_why() {
    let unknown = decode(&bytes(r#"a7"Dance!!""#).into()).unwrap_err();
    assert!(unknown.to_string().contains("Dance!!"), "{unknown}");
    for bad in [
        r#"80"#,
        "c0",
        "01",
        "",
        r#"81 a9"HeartBeat" ff"#,
        r#"81 a9"HeartBeat""#,
        r#"81 aa"TaskLaunch" 91 c40101"#,
    ] {
        assert!(matches!(decode(&bytes(bad).into()), Err(XMessageError::Message(_))), "{bad}");
    }
    let trailing = decode(&bytes(r#"a4"Over" c0"#).into());
    assert!(matches!(trailing, Err(XMessageError::Trailing { bytes: 1 })));
}

#[test]
fn hostile_bytes_take_neither_memory_nor_stack() {
    let mut long = BytesMut::from(&[0xff; 8][..]);
    assert!(matches!(split(&mut long), Err(XMessageError::Frame(_))));
    let deep = Bytes::from(vec![0x91; 100_000]);
    assert!(matches!(decode(&deep), Err(XMessageError::Message(_))));
    for bad in [
        r#"81 ae"TaskTablePrint" dd ffffffff"#,
        r#"81 ae"TaskTablePrint" 91 dd ffffffff"#,
        r#"81 ab"BulkMessage" db ffffffff"#,
        r#"df ffffffff"#,
    ] {
        assert!(matches!(decode(&bytes(bad).into()), Err(XMessageError::Message(_))), "{bad}");
    }
    let deep_states = format!(r#"81 ae"TaskTablePrint" 91 {}"#, "91".repeat(50_000));
    assert!(matches!(decode(&bytes(&deep_states).into()), Err(XMessageError::Message(_))));
}

fn any_id() -> impl Strategy<Value = XMessageId> {
    any::<[u8; 16]>().prop_map(XMessageId)
}

fn any_state() -> impl Strategy<Value = XMessageState> {
    prop_oneof![
        Just(XMessageState::Created),
        Just(XMessageState::Ready),
        Just(XMessageState::Submit),
        Just(XMessageState::Pause),
        Just(XMessageState::Run),
        any::<i8>().prop_map(XMessageState::Terminated),
    ]
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::Inspect),
        "\\PC{0,40}".prop_map(Operation::AddTask),
        any_id().prop_map(Operation::PlayTask),
        Just(Operation::PlayAllTask),
        any_id().prop_map(Operation::KillTask),
        any_id().prop_map(Operation::PauseTask),
        Just(Operation::Delete),
    ]
}

fn any_message() -> impl Strategy<Value = XMessage> {
    prop_oneof![
        "\\PC{0,300}".prop_map(XMessage::BulkMessage),
        (any_id(), "\\PC{0,40}").prop_map(|(task_id, record_id)| XMessage::TaskLaunch { task_id, record_id }),
        any::<u16>().prop_map(XMessage::HeartBeat),
        any_operation().prop_map(XMessage::ActionerOp),
        (any_operation(), any_id()).prop_map(|(op, id)| XMessage::WorkerOp { op, id }),
        (any_operation(), any_id(), any_state(), any_state())
            .prop_map(|(op, id, from, to)| XMessage::TaskTableOp { op, id, from, to }),
        proptest::collection::vec(any_state(), 0..9).prop_map(|states| XMessage::TaskTablePrint { states }),
        (any_id(), any_state(), any_state()).prop_map(|(id, from, to)| XMessage::TaskStateChange {
            id,
            from,
            to
        }),
        Just(XMessage::WorkerTablePrint),
        Just(XMessage::Over),
    ]
}

proptest! {
    #[test]
    fn messages_come_back_as_they_were_however_the_stream_is_cut(
        messages in proptest::collection::vec(any_message(), 1..6), step in 1_usize..100,
    ) {
        let mut stream = BytesMut::new();
        messages.iter().for_each(|message| encode(&mut stream, message));
        let mut arrived = BytesMut::new();
        let mut read = Vec::new();
        for piece in stream.chunks(step) {
            arrived.extend_from_slice(piece);
            read.extend(split(&mut arrived).unwrap().map(|frame| decode(&frame).unwrap()));
        }
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn cut_and_flipped_messages_never_panic(
        message in any_message(), at in any::<prop::sample::Index>(), flip: u8,
    ) {
        let mut stream = BytesMut::new();
        encode(&mut stream, &message);
        let mut bytes = stream[4..].to_vec();
        let index = at.index(bytes.len());
        fuzz(&bytes[..index]);
        bytes[index] ^= flip;
        fuzz(&bytes);
    }
}
