//! Greeting and handshake: who gets in and how, who does not and why.

mod support;

use bytes::Bytes;
use support::{Conversation, command, frame, greeting, message, metadata, null_opening, property};
use tenure_door_zmq::codec::{CodecError, PeerAdmission, Secret, SocketType, ZmtpEvent};

#[test]
fn the_signature_goes_out_before_anything_is_heard() {
    let mut talk = Conversation::new(PeerAdmission::Anyone);
    assert_eq!(talk.says(), [0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3]);
}

#[test]
fn a_null_peer_is_answered_with_null_and_ready_and_has_joined() {
    let mut talk = Conversation::new(PeerAdmission::Anyone);
    let events = talk.hears(&null_opening("DEALER", b"worker-1")).expect("a good opening");

    let [ZmtpEvent::Joined { identity: Some(identity), socket: SocketType::Dealer }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(identity.as_bytes(), b"worker-1");
    let said = talk.says();
    assert_eq!(said[..12], [0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 1]);
    assert_eq!(&said[12..16], b"NULL");
    assert!(said[16..64].iter().all(|&byte| byte == 0));
    assert_eq!(said[64..], command("READY", &property("Socket-Type", b"ROUTER")));
}

#[test]
fn a_peer_without_identity_joins_without_one() {
    for opening in [
        null_opening("REQ", b""),
        [greeting(3, 0, "NULL"), command("READY", &property("socket-type", b"REQ"))].concat(),
    ] {
        let mut talk = Conversation::new(PeerAdmission::Anyone);
        let events = talk.hears(&opening).expect("a good opening");
        assert_eq!(events, [ZmtpEvent::Joined { identity: None, socket: SocketType::Req }]);
    }
}

#[test]
fn messages_may_follow_the_handshake_in_the_same_read() {
    let mut talk = Conversation::new(PeerAdmission::Anyone);
    let bytes = [null_opening("REQ", b""), message(&["", "hello"])].concat();
    let events = talk.hears(&bytes).expect("good bytes");
    assert_eq!(events.len(), 2);
    assert_eq!(events[1], ZmtpEvent::Message(vec![Bytes::new(), Bytes::from("hello")]));
}

#[test]
fn credentials_are_handed_to_the_owner_and_nothing_is_read_until_the_verdict() {
    let mut talk = Conversation::new(PeerAdmission::Credentials);
    let hello = command("HELLO", b"\x05alice\x06secret");
    let initiate = command("INITIATE", &metadata("DEALER", b"alice-1"));
    let events = talk.hears(&[greeting(3, 1, "PLAIN"), hello, initiate].concat()).expect("good bytes");
    let password = Secret(Bytes::from("secret"));
    assert_eq!(events, [ZmtpEvent::Credentials { username: Bytes::from("alice"), password }]);
    assert!(!format!("{events:?}").contains("secret"), "a password does not reach a log");
    let said = talk.says();
    assert_eq!(&said[12..17], b"PLAIN");
    assert_eq!(said[32], 1, "the listener is the server of the handshake");
    assert_eq!(said.len(), 64);

    talk.peer.admit(&mut talk.out);
    let events = talk.hears(b"").expect("good bytes");
    assert!(matches!(&events[..], [ZmtpEvent::Joined { identity: Some(_), socket: SocketType::Dealer }]));
    let ready = command("READY", &property("Socket-Type", b"ROUTER"));
    assert_eq!(talk.says(), [command("WELCOME", b""), ready].concat());
}

#[test]
fn refused_credentials_get_an_error_and_the_connection_is_over() {
    let mut talk = Conversation::new(PeerAdmission::Anyone);
    talk.hears(&greeting(3, 1, "PLAIN")).expect("good bytes");
    talk.hears(&command("HELLO", b"\x05alice\x03bad")).expect("good bytes");
    talk.says();

    talk.peer.refuse(&mut talk.out);
    assert_eq!(talk.says(), command("ERROR", b"\x1cthe credentials were refused"));
    let later = talk.hears(&command("INITIATE", &metadata("DEALER", b"")));
    assert_eq!(later, Err(CodecError::CredentialsRefused));
}

#[test]
fn a_listener_that_wants_credentials_does_not_take_null() {
    let mut talk = Conversation::new(PeerAdmission::Credentials);
    let refusal = talk.hears(&null_opening("DEALER", b""));
    assert_eq!(refusal, Err(CodecError::Mechanism { name: "NULL".into() }));
    assert_eq!(&talk.says()[12..17], b"PLAIN", "the peer sees what would have been accepted");
}

#[test]
fn what_is_not_zmtp_3_is_refused_at_the_first_byte_that_shows_it() {
    let signature_only = &greeting(2, 0, "NULL")[..11];
    for (bytes, error) in [
        (&b"G"[..], CodecError::Signature),
        (b"GET / HTTP/1.1\r\n", CodecError::Signature),
        (&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7e], CodecError::Signature),
        (signature_only, CodecError::Version { major: 2 }),
        (&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 0], CodecError::Version { major: 0 }),
    ] {
        assert_eq!(Conversation::new(PeerAdmission::Anyone).hears(bytes), Err(error));
    }
}

#[test]
fn later_versions_of_the_protocol_are_welcome() {
    let opening = [greeting(4, 0, "NULL"), command("READY", &metadata("DEALER", b""))].concat();
    assert_eq!(Conversation::new(PeerAdmission::Anyone).hears(&opening).expect("a good opening").len(), 1);
}

#[test]
fn a_peer_is_refused_by_name_when_its_introduction_is_bad() {
    let long = [b'x'; 256];
    let huge_value = [&b"\x01X\xff\xff\xff\xff"[..], b"abc"].concat();
    for (metadata, error) in [
        (metadata("PUB", b""), CodecError::SocketType { name: "PUB".into() }),
        (property("Identity", b"x"), CodecError::SocketType { name: String::new() }),
        (metadata("DEALER", &long), CodecError::IdentityTooLong { length: 256 }),
        (metadata("DEALER", b"\0spoof"), CodecError::IdentityReserved),
        (huge_value, CodecError::Malformed { command: "metadata" }),
        (b"\x00".to_vec(), CodecError::Malformed { command: "metadata" }),
        (b"\x05Ab".to_vec(), CodecError::Malformed { command: "metadata" }),
        (b"\x01A\0\0".to_vec(), CodecError::Malformed { command: "metadata" }),
    ] {
        let mut talk = Conversation::new(PeerAdmission::Anyone);
        talk.hears(&greeting(3, 1, "NULL")).expect("a good greeting");
        talk.says();
        assert_eq!(talk.hears(&command("READY", &metadata)), Err(error.clone()));
        assert_eq!(&talk.says()[3..8], b"ERROR", "the peer receives the error: {error}");
        assert_eq!(talk.hears(b"more"), Err(error), "and the connection stays over");
    }
}

#[test]
fn words_out_of_place_end_the_handshake() {
    let unexpected = |name: &str| CodecError::UnexpectedCommand { name: name.into() };
    for (bytes, error) in [
        (message(&["too early"]), CodecError::MessageInHandshake),
        (command("HELLO", b"\x01a\x01b"), unexpected("HELLO")),
        (command("INITIATE", b""), unexpected("INITIATE")),
        (command("PING", b"\0\0"), unexpected("PING")),
        (command("PONG", b""), unexpected("PONG")),
        (command("WELCOME", b""), unexpected("WELCOME")),
        (command("ERROR", b"\x02no"), CodecError::PeerError { reason: "no".into() }),
        (command("ERROR", b"\x09no"), CodecError::Malformed { command: "ERROR" }),
        (frame(4, b""), CodecError::CommandName),
        (frame(4, b"\0"), CodecError::CommandName),
        (frame(4, b"\x05REA"), CodecError::CommandName),
        (frame(5, b"\x05READY"), CodecError::CommandWithMore),
    ] {
        let mut talk = Conversation::new(PeerAdmission::Anyone);
        talk.hears(&greeting(3, 1, "NULL")).expect("a good greeting");
        assert_eq!(talk.hears(&bytes), Err(error));
    }
    for data in [&b""[..], b"\x05ali", b"\x01a", b"\x01a\x05b", b"\x01a\x01b!"] {
        let mut talk = Conversation::new(PeerAdmission::Anyone);
        talk.hears(&greeting(3, 1, "PLAIN")).expect("a good greeting");
        assert_eq!(talk.hears(&command("HELLO", data)), Err(CodecError::Malformed { command: "HELLO" }));
    }
}

#[test]
fn a_message_before_the_end_of_the_handshake_is_refused_before_it_is_gathered() {
    for admission in [PeerAdmission::Anyone, PeerAdmission::Credentials] {
        let mechanism = if admission == PeerAdmission::Anyone { "NULL" } else { "PLAIN" };
        let mut talk = Conversation::new(admission);
        talk.hears(&greeting(3, 1, mechanism)).expect("a good greeting");
        // The first bytes of a frame of sixteen megabytes.
        let begun = talk.hears(&[2, 0, 0, 0, 0, 1]);
        assert_eq!(begun, Err(CodecError::MessageInHandshake), "{mechanism}");
        assert_eq!(talk.peer.held_bytes(), 0);
    }
}
