//! Messages and heartbeats after the handshake.

mod support;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use support::{Conversation, command, frame, greeting, message, metadata, null_opening};
use tenure_door_zmq::codec::{CodecError, PeerAdmission, ZmtpEvent, ZmtpLimits};

const SMALL: ZmtpLimits = ZmtpLimits { frame_bytes: 300, frames: 4, message_bytes: 500 };

fn texts(parts: &[&str]) -> ZmtpEvent {
    ZmtpEvent::Message(parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes())).collect())
}

#[test]
fn frames_with_more_become_one_message() {
    let mut talk = Conversation::joined(SMALL);
    assert_eq!(talk.hears(&frame(1, b"")), Ok(vec![]));
    assert_eq!(talk.hears(&frame(1, b"MDPC01")), Ok(vec![]));
    assert_eq!(talk.hears(&frame(0, b"echo")), Ok(vec![texts(&["", "MDPC01", "echo"])]));
    assert_eq!(talk.hears(&message(&["alone"])), Ok(vec![texts(&["alone"])]));
}

#[test]
fn a_short_body_may_come_in_a_long_frame() {
    let mut talk = Conversation::joined(SMALL);
    assert_eq!(talk.hears(b"\x02\0\0\0\0\0\0\0\x02hi"), Ok(vec![texts(&["hi"])]));
}

#[test]
fn what_is_sent_has_the_bytes_of_the_specification() {
    let talk = Conversation::joined(SMALL);
    let mut out = BytesMut::new();
    let long = [b'x'; 256];
    talk.peer.send(&[&b""[..], b"ab", &long], &mut out);
    let expected = [&b"\x01\0\x01\x02ab\x02\0\0\0\0\0\0\x01\0"[..], &long].concat();
    assert_eq!(&out[..], expected);
}

#[test]
fn a_ping_between_frames_is_answered_at_once_and_does_not_disturb_the_message() {
    let mut talk = Conversation::joined(SMALL);
    let bytes = [frame(1, b"first"), command("PING", b"\x00\x64ctx"), frame(0, b"second")].concat();
    let ping = ZmtpEvent::Ping { ttl: Some(Duration::from_secs(10)) };
    assert_eq!(talk.hears(&bytes), Ok(vec![ping, texts(&["first", "second"])]));
    assert_eq!(talk.says(), command("PONG", b"ctx"));
}

#[test]
fn a_ping_without_a_time_to_live_sets_no_limit() {
    let mut talk = Conversation::joined(SMALL);
    assert_eq!(talk.hears(&command("PING", b"\0\0")), Ok(vec![ZmtpEvent::Ping { ttl: None }]));
    assert_eq!(talk.says(), command("PONG", b""));
}

#[test]
fn a_peer_that_knows_pings_can_be_asked_and_an_older_one_is_not() {
    let mut talk = Conversation::joined(SMALL);
    assert!(talk.peer.ping(Duration::from_secs(3), &mut talk.out));
    assert_eq!(talk.says(), command("PING", b"\0\x1e"));
    assert_eq!(talk.hears(&command("PONG", b"")), Ok(vec![ZmtpEvent::Pong]));

    let mut old = Conversation::new(PeerAdmission::Anyone);
    old.hears(&[greeting(3, 0, "NULL"), command("READY", &metadata("DEALER", b""))].concat())
        .expect("joined");
    old.says();
    assert!(!old.peer.ping(Duration::from_secs(3), &mut old.out));
    assert_eq!(old.says(), b"");
}

#[test]
fn an_unknown_command_is_skipped_and_told() {
    let mut talk = Conversation::joined(SMALL);
    let bytes = [command("SUBSCRIBE", b"all"), message(&["hi"])].concat();
    let skipped = ZmtpEvent::Skipped { command: "SUBSCRIBE".into() };
    assert_eq!(talk.hears(&bytes), Ok(vec![skipped, texts(&["hi"])]));
}

#[test]
fn whatever_exceeds_a_limit_is_refused_as_soon_as_it_is_announced() {
    let long = |length: u64| [&[2][..], &length.to_be_bytes()].concat();
    for (bytes, error) in [
        (long(301), CodecError::FrameTooLong { length: 301, limit: 300 }),
        (long(u64::MAX), CodecError::FrameTooLong { length: u64::MAX, limit: 300 }),
        (b"\x06\0\0\0\0\0\0\xff\xff".to_vec(), CodecError::CommandTooLong { length: 65_535, limit: 8192 }),
        (message(&[[b'x'; 300], [b'y'; 300]]), CodecError::MessageTooLong { limit: 500 }),
        (message(&["", "", "", "", ""]), CodecError::TooManyFrames { limit: 4 }),
        (b"\x08".to_vec(), CodecError::ReservedFlags { flags: 8 }),
        (b"\xff".to_vec(), CodecError::ReservedFlags { flags: 255 }),
        (b"\x05".to_vec(), CodecError::CommandWithMore),
        (command("PING", b"\0"), CodecError::Malformed { command: "PING" }),
        (command("PING", &[0; 19]), CodecError::Malformed { command: "PING" }),
        (command("READY", b""), CodecError::UnexpectedCommand { name: "READY".into() }),
        (command("ERROR", b"\x04full"), CodecError::PeerError { reason: "full".into() }),
    ] {
        let mut talk = Conversation::joined(SMALL);
        assert_eq!(talk.hears(&bytes), Err(error));
        assert_eq!(talk.peer.held_bytes(), 0, "nothing is kept for a connection that is over");
    }
}

#[test]
fn a_message_of_exactly_the_limits_is_welcome() {
    let mut talk = Conversation::joined(SMALL);
    let bytes = message(&[&[b'x'; 300][..], &[b'y'; 200], b"", b""]);
    assert_eq!(talk.hears(&bytes).map(|events| events.len()), Ok(1));
}

#[test]
fn a_peer_that_announces_much_and_sends_little_costs_little() {
    let mut talk = Conversation::joined(ZmtpLimits::default());
    talk.hears(b"\x02\0\0\0\0\x01\xff\xff\xff").expect("32 MiB may be announced");
    talk.hears(&[0; 100]).expect("and begun");
    assert!(talk.peer.input().capacity() < 4096);
}

#[test]
fn a_large_frame_leaves_no_large_buffer_behind() {
    let mut talk = Conversation::joined(ZmtpLimits::default());
    let bytes = [message(&[vec![7; 1 << 20]]), message(&["next"])].concat();
    let events = talk.hears(&bytes).expect("good bytes");
    assert_eq!(events.len(), 2);
    drop(events);
    talk.peer.input().reserve(1);
    assert!(talk.peer.input().capacity() < 64 << 10);
}

fn any_messages() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let body = prop_oneof![Just(vec![]), vec(any::<u8>(), 0..40), vec(any::<u8>(), 250..260)];
    vec(vec(body, 1..5), 0..6)
}

proptest! {
    #[test]
    fn any_cut_of_the_stream_gives_the_same_messages(
        messages in any_messages(),
        cuts in vec(1..200_usize, 1..40),
    ) {
        let mut stream = null_opening("DEALER", b"me");
        for parts in &messages {
            stream.extend(message(parts));
        }
        let mut talk = Conversation::new(PeerAdmission::Anyone);
        let mut events = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, later) = rest.split_at((*cut).min(rest.len()));
            talk.peer.receive(piece, &mut talk.out, &mut events).expect("good bytes");
            rest = later;
        }
        let joined = matches!(events[0], ZmtpEvent::Joined { .. });
        prop_assert!(joined);
        let heard: Vec<Vec<Vec<u8>>> = events[1..]
            .iter()
            .map(|event| match event {
                ZmtpEvent::Message(frames) => frames.iter().map(|frame| frame.to_vec()).collect(),
                other => panic!("{other:?}"),
            })
            .collect();
        prop_assert_eq!(heard, messages);
    }

    #[test]
    fn what_one_side_sends_the_other_hears(messages in any_messages()) {
        let sender = Conversation::joined(ZmtpLimits::default());
        let mut wire = BytesMut::new();
        for parts in &messages {
            sender.peer.send(parts, &mut wire);
        }
        let mut talk = Conversation::joined(ZmtpLimits::default());
        let heard = talk.hears(&wire).expect("good bytes");
        let sent: Vec<ZmtpEvent> =
            messages.iter().map(|parts| ZmtpEvent::Message(parts.iter().cloned().map(Bytes::from).collect())).collect();
        prop_assert_eq!(heard, sent);
    }

    #[test]
    fn no_bytes_can_break_the_codec(bytes in vec(any::<u8>(), 0..400)) {
        tenure_door_zmq::codec::fuzz(&bytes);
    }

    #[test]
    fn no_bytes_after_a_good_opening_can_break_the_codec(
        choice in any::<u8>(),
        tail in vec(prop_oneof![4 => 0..9_u8, 1 => any::<u8>()], 0..400),
    ) {
        let bytes = [vec![choice & 0xfe], null_opening("DEALER", b"x"), tail].concat();
        tenure_door_zmq::codec::fuzz(&bytes);
    }
}
