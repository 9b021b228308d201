//! A peer that asks for much and reads nothing costs the broker little, and loses nothing if it reads at last. Alone in
//! its program, because it looks at the memory of the whole process.

#![cfg(target_os = "linux")]

mod support;

use std::io::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use support::over_socket::SocketStage;
use support::peer::{Peer, ids, submit};
use tenure_door_msgpack::{Settings, serve};
use tenure_wire::request::OneTask;
use tenure_wire::{Reply, Request, encode_request};

const MEGABYTES: u64 = 400;

#[test]
fn what_is_not_read_is_not_piled_up_and_not_lost() {
    let stage = SocketStage::new(|listener, hub| serve(listener, hub, Settings::default()));
    let mut peer = Peer::known(&stage, "greedy");
    let body = Bytes::from(vec![7; 1 << 20]);
    let task = ids(&peer.ask(2, &submit(1, "q", &body)))[0];
    let before = resident_megabytes();
    let mut out = BytesMut::new();
    for number in 0..MEGABYTES {
        encode_request(&mut out, 10 + number, &Request::Body(OneTask { task }));
    }
    peer.stream.write_all(&out).unwrap();
    // Long enough for a broker without measure to pile everything up.
    std::thread::sleep(Duration::from_secs(1));
    let grown = resident_megabytes().saturating_sub(before);
    assert!(grown < 60, "{grown} megabytes are piled up for a peer that does not read");
    for number in 0..MEGABYTES {
        let Reply::Bytes(reply) = peer.reply(10 + number) else { panic!("not the body") };
        assert!(reply.bytes == body);
    }
}

fn resident_megabytes() -> u64 {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("this test looks at Linux's own figures");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a resident size");
    let kilobytes: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kilobytes / 1024
}
