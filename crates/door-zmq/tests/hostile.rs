//! Hostile and broken peers: the door drops and counts them, and no other peer notices.

mod support;

use std::time::{Duration, Instant};

use support::broker::{Broker, calm};
use support::native::Native;
use support::wire::Wire;
use support::{frame, null_opening};
use tenure_door_kit::{ByteBudget, DoorSettings};
use tenure_door_zmq::codec::ZmtpLimits;
use tenure_door_zmq::{PingPongSettings, Settings, Transport};
use tenure_hub::{Request, Response};

fn door(door: DoorSettings) -> Transport {
    Transport { door, ..Transport::default() }
}

/// A client and a worker get their work done.
fn works(broker: &Broker) {
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&["", "MDPW01", "\x01", "well"]);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "well", "x"]);
    let request = worker.receive(Duration::from_secs(5)).expect("a request");
    worker.send(&[&b""[..], b"MDPW01", &[3], &request[3], b"", b"y"]);
    assert_eq!(client.texts()[3], "y");
    worker.send(&["", "MDPW01", "\x05"]);
}

#[test]
fn every_stream_of_the_corpus_leaves_the_broker_well() {
    let broker = Broker::start();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut open = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the corpus is there") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("readable");
        let digits: String = text.lines().filter(|line| !line.starts_with('#')).collect();
        let stream: Vec<u8> = (0..digits.len() / 2)
            .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("digits"))
            .collect();
        for address in [broker.mdp, broker.clients, broker.workers] {
            let mut wire = Wire::silent(address);
            wire.raw(&stream);
            open.push(wire);
        }
    }
    works(&broker);
    for reason in
        ["signature", "version", "unknown_header", "identity_reserved", "frame_too_long", "socket_type"]
    {
        assert!(broker.counts(reason), "{reason}");
    }
}

#[test]
fn messages_that_are_no_majordomo_are_counted_and_the_connection_goes_on() {
    let broker = Broker::start();
    let mut peer = Wire::dealer(broker.mdp);
    peer.send(&["hello"]);
    peer.send(&["", "MDPC01"]);
    peer.send(&["", "MDPC01", "echo"]);
    peer.send(&["", "MDPC01", "a\nb", "x"]);
    peer.send(&["", "MDPW01", "\x09"]);
    peer.send(&["", "MDPW01", "\x02", "a", "", "x"]);
    peer.send(&["", "MDPW01_PL", "\x06", "many"]);
    peer.send(&["", "MDPC01", "mmi.service", "echo"]);
    assert_eq!(peer.texts()[3], "404");
    for (reason, count) in [
        ("unknown_header", 1),
        ("frame_count", 2),
        ("service_name", 1),
        ("unknown_command", 1),
        ("not_for_broker", 1),
        ("number", 1),
    ] {
        assert_eq!(broker.counters.get(reason), count, "{reason}");
    }
    let Response::Stats(stats) = Native::open(broker.hub(), "observer").ask(Request::Stats) else {
        panic!("no figures");
    };
    let text = stats.render();
    assert!(text.contains("tenure_door_total{door=\"mdp\",what=\"frame_count\"} 2\n"), "{text}");
}

#[test]
fn half_a_message_costs_its_limit_and_no_more() {
    let limits = ZmtpLimits { frame_bytes: 1 << 20, frames: 100, message_bytes: 1 << 20 };
    let transport = Transport { limits, ..Transport::default() };
    let broker = Broker::with(Settings { transport, ..calm() }, PingPongSettings::default());
    let mut endless = Wire::dealer(broker.mdp);
    for _ in 0..101 {
        endless.raw(&frame(1, b""));
    }
    assert!(endless.is_closed(Duration::from_secs(5)));
    assert!(broker.counts("too_many_frames"));
    let mut long = Wire::dealer(broker.mdp);
    long.raw(&frame(1, &vec![0; 1 << 20]));
    long.raw(&frame(1, b"x"));
    assert!(long.is_closed(Duration::from_secs(5)));
    assert!(broker.counts("message_too_long"));
    works(&broker);
}

#[test]
fn a_peer_that_never_introduces_itself_is_sent_away() {
    let transport =
        door(DoorSettings { login_within: Duration::from_millis(100), ..DoorSettings::default() });
    let broker = Broker::with(Settings { transport, ..calm() }, PingPongSettings::default());
    let mut mute = Wire::silent(broker.mdp);
    let mut half = Wire::silent(broker.mdp);
    half.raw(&null_opening("DEALER", b"")[..40]);
    assert!(mute.is_closed(Duration::from_secs(5)));
    assert!(half.is_closed(Duration::from_secs(5)));
    assert!(broker.counts("handshake_timeout"));
}

#[test]
fn the_connections_are_limited() {
    let transport = door(DoorSettings { connections_max: 3, ..DoorSettings::default() });
    let broker = Broker::with(Settings { transport, ..calm() }, PingPongSettings::default());
    let kept: Vec<Wire> = (0..3).map(|_| Wire::dealer(broker.mdp)).collect();
    assert!(Wire::silent(broker.mdp).is_closed(Duration::from_secs(5)));
    assert!(broker.counts("turned_away"));
    drop(kept);
    // When the broker has noticed, there is room for as many again.
    let mut again = Vec::new();
    while again.len() < 3 {
        let mut next = Wire::silent(broker.mdp);
        if !next.is_closed(Duration::from_millis(100)) {
            again.push(next);
        }
    }
}

#[test]
fn a_client_that_does_not_read_does_not_hold_up_others() {
    let broker = Broker::start();
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&["", "MDPW01", "\x01", "big"]);
    let mut deaf = Wire::dealer(broker.mdp);
    let mut asked = 0;
    let big = vec![b'x'; 1 << 20];
    let deadline = Instant::now() + Duration::from_secs(20);
    // Far more than the socket and the door together may hold for it.
    for _ in 0..40 {
        deaf.send(&["", "MDPC01", "big", "x"]);
    }
    while asked < 40 && Instant::now() < deadline {
        let Some(request) = worker.receive(Duration::from_secs(5)) else { break };
        if request.len() == 3 {
            // The broker's heartbeat.
            continue;
        }
        worker.send(&[&b""[..], b"MDPW01", &[3], &request[3], b"", &big]);
        asked += 1;
    }
    assert_eq!(asked, 40);
    works(&broker);
    // And when it reads again, everything is there.
    for _ in 0..40 {
        let reply = deaf.receive(Duration::from_secs(5)).expect("a reply");
        assert_eq!(reply[3].len(), big.len());
    }
}

#[test]
fn a_reply_to_a_client_that_is_gone_is_counted_and_the_result_is_kept() {
    let broker = Broker::start();
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&["", "MDPW01", "\x01", "echo"]);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    let request = worker.receive(Duration::from_secs(5)).expect("a request");
    drop(client);
    assert!(broker.counts("client_gone"));
    worker.send(&[&b""[..], b"MDPW01", &[3], &request[3], b"", b"y"]);
    let mut native = Native::open(broker.hub(), "observer");
    let deadline = Instant::now() + Duration::from_secs(5);
    while native.tasks()[0].state.end().is_none_or(|end| end.result.bytes() != 1) {
        assert!(Instant::now() < deadline, "the result is not kept");
    }
}

#[test]
fn a_body_above_the_limit_is_refused_and_nothing_breaks() {
    let broker = Broker::start();
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "mmi.notify", "on"]);
    client.texts();
    let long = vec![0; tenure_hub::limits::BODY_BYTES_MAX + 1];
    client.send(&[&b""[..], b"MDPC01", b"echo", &long]);
    let notice = client.receive(Duration::from_secs(10)).expect("a notice");
    let notice = support::cbor::Item::decode(&notice[3]).expect("a map");
    assert!(support::plugin::says(&notice, r#"{"error": "JOB_REFUSED", …}"#), "{notice:?}");
    works(&broker);
}

/// The first bytes of a request whose body has this many bytes, and this many of these.
fn half_a_request(peer: &mut Wire, announced: usize, sent: usize) {
    for part in ["", "MDPC01", "echo"] {
        peer.raw(&frame(1, part.as_bytes()));
    }
    peer.raw(&[&[2][..], &(announced as u64).to_be_bytes(), &vec![b'x'; sent]].concat());
}

#[test]
fn unfinished_messages_of_all_peers_share_a_budget() {
    const MIB: usize = 1 << 20;
    let transport = door(DoorSettings { budget: ByteBudget::new(3 * MIB), ..DoorSettings::default() });
    let broker = Broker::with(Settings { transport, ..calm() }, PingPongSettings::default());
    let mut greedy = Wire::dealer(broker.mdp);
    half_a_request(&mut greedy, 2 * MIB, 2 * MIB - 1);
    works(&broker);
    let mut second = Wire::dealer(broker.mdp);
    second.send(&["", "MDPC01", "mmi.notify", "on"]);
    second.texts();
    half_a_request(&mut second, 2 * MIB, MIB);
    let mut rest = second.again();
    let writing = std::thread::spawn(move || rest.raw(&vec![b'x'; MIB]));
    assert!(broker.counts("memory"), "it is not read from");
    works(&broker);
    drop(greedy);
    let told = second.receive(Duration::from_secs(20)).expect("a notice: the message has come");
    let notice = support::cbor::Item::decode(&told[3]).expect("a map");
    assert!(support::plugin::says(&notice, r#"{"error": "NO_WORKERS", …}"#), "{notice:?}");
    writing.join().expect("all is written");
}

#[test]
fn a_peer_that_trickles_a_message_is_sent_away() {
    let transport = Transport {
        ping: Duration::from_millis(100),
        message_timeout: Duration::from_millis(500),
        ..Transport::default()
    };
    let broker = Broker::with(Settings { transport, ..calm() }, PingPongSettings::default());
    let mut slow = Wire::dealer(broker.mdp);
    half_a_request(&mut slow, 1 << 20, 1);
    let deadline = Instant::now() + Duration::from_secs(20);
    while broker.counters.get("slow") == 0 {
        slow.raw(b"x");
        std::thread::sleep(Duration::from_millis(20));
        assert!(Instant::now() < deadline, "it may go on for hours");
    }
    assert!(slow.is_closed(Duration::from_secs(5)));
}

#[test]
fn what_all_peers_have_not_read_shares_a_budget() {
    const MIB: usize = 1 << 20;
    // A socket takes some megabytes by itself.
    let (results, each) = (4, 8 * MIB);
    let transport = Transport { unread_budget: ByteBudget::new(9 * MIB), ..Transport::default() };
    let broker = Broker::with(Settings { transport, ..calm() }, PingPongSettings::default());
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&["", "MDPW01", "\x01", "big"]);
    let result = vec![b'x'; each];
    let mut deaf: Vec<Wire> = (0..results).map(|_| Wire::dealer(broker.mdp)).collect();
    for client in &mut deaf {
        client.send(&["", "MDPC01", "big", "x"]);
        let request = worker.receive(Duration::from_secs(20)).expect("a request");
        worker.send(&[&b""[..], b"MDPW01", &[3], &request[3], b"", &result]);
    }
    assert!(broker.counts("memory"), "the second result waits on disk");
    works(&broker);
    let readers = deaf.into_iter().map(|mut client| {
        std::thread::spawn(move || client.receive(Duration::from_secs(60)).expect("a reply")[3].len())
    });
    for reader in readers.collect::<Vec<_>>() {
        assert_eq!(reader.join().expect("it reads"), each);
    }
}
