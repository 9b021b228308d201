//! Prints what a message costs in the codec, and how many requests go through the whole door in a second: from a client's
//! socket to a worker's and back, with a hub on a disk in memory.

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use support::broker::Broker;
use support::wire::Wire;
use support::{Conversation, message};
use tenure_door_zmq::codec::Limits;
use tenure_door_zmq::mdp;

const PATIENCE: Duration = Duration::from_secs(10);

fn main() {
    codec();
    for (pairs, under_way) in [(1, 1), (1, 64), (8, 64)] {
        round_trips(pairs, under_way);
    }
}

fn codec() {
    const MESSAGES: usize = 100_000;
    let stream = message(&["", "MDPC01", "echo", "a body of some thirty characters"]).repeat(64);
    let mut talk = Conversation::joined(Limits::default());
    let mut heard = 0;
    let start = Instant::now();
    while heard < MESSAGES {
        for event in talk.hears(&stream).expect("good bytes") {
            if let tenure_door_zmq::codec::Event::Message(frames) = event {
                black_box(mdp::parse(frames).expect("Majordomo"));
                heard += 1;
            }
        }
    }
    println!("decode and parse a request: {:.0} ns", start.elapsed().as_nanos() as f64 / heard as f64);

    let path = mdp::ReturnPath { dialect: mdp::Dialect::V1, route: Vec::new() };
    let body = [Bytes::from_static(b"a body of some thirty characters")];
    let mut out = BytesMut::new();
    let start = Instant::now();
    for _ in 0..MESSAGES {
        out.clear();
        talk.peer.send(&path.reply("echo", black_box(&body)), &mut out);
    }
    println!("build and encode a reply:   {:.0} ns", start.elapsed().as_nanos() as f64 / MESSAGES as f64);
}

/// Every pair is a client that keeps some requests under way and a worker that answers at once.
fn round_trips(pairs: usize, under_way: usize) {
    const SECONDS: u64 = 3;
    let broker = Broker::start();
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let done: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..pairs)
            .map(|pair| {
                let address = broker.mdp;
                let service = format!("service-{pair}");
                let name = service.clone();
                scope.spawn(move || {
                    let mut worker = Wire::dealer(address);
                    worker.send(&["", "MDPW01", "\x01", &name]);
                    while let Some(frames) = worker.receive(Duration::from_secs(1)) {
                        if let [_, _, command, address, _, body] = &frames[..]
                            && command == &[2]
                        {
                            worker.send(&[&b""[..], b"MDPW01", &[3], address, b"", body]);
                        } else if Instant::now() > until {
                            return;
                        }
                    }
                });
                scope.spawn(move || {
                    let mut client = Wire::dealer(address);
                    let ask = |client: &mut Wire| client.send(&["", "MDPC01", &service, "a body"]);
                    (0..under_way).for_each(|_| ask(&mut client));
                    let mut replies = 0;
                    while Instant::now() < until {
                        client.receive(PATIENCE).expect("a reply");
                        ask(&mut client);
                        replies += 1;
                    }
                    replies
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("a client")).sum()
    });
    println!(
        "{pairs} clients and workers, {under_way} requests each under way: {} requests/s",
        done as u64 / SECONDS
    );
}
