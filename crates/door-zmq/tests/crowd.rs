//! Two hundred workers at one door, half of which die with a request in their hands.

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::broker::{Broker, calm};
use support::native::Native;
use support::wire::{TIMEOUT, Wire};
use tenure_door_zmq::{PingPongSettings, Settings};
use tenure_hub::{Request, Response};

const WORKERS: usize = 200;
const REQUESTS: usize = 2_000;

#[test]
fn two_hundred_workers_answer_every_request_once_although_half_of_them_die() {
    // A request may meet many workers that die, and is to be answered all the same.
    let settings = Settings { retry_attempts: u16::MAX, ..calm() };
    let broker = Broker::with(settings, PingPongSettings::default());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..WORKERS {
            let (address, is_over) = (broker.mdp, &is_over);
            scope.spawn(move || work(address, number, is_over));
        }
        let mut client = Wire::dealer(broker.mdp);
        while workers_seen(&mut client) < WORKERS {
            std::thread::sleep(Duration::from_millis(20));
        }
        for number in 0..REQUESTS {
            client.send(&["", "MDPC01", "echo", &number.to_string()]);
        }
        let mut answered = BTreeSet::new();
        for _ in 0..REQUESTS {
            let reply = client.receive(4 * TIMEOUT).expect("a reply");
            assert!(answered.insert(reply[3].clone()), "answered twice: {reply:?}");
        }
        assert_eq!(client.receive(Duration::from_millis(50)), None);
        assert_eq!(workers_seen(&mut client), WORKERS / 2);
        is_over.store(true, Ordering::Relaxed);
    });
    let Response::Stats(stats) = Native::open(broker.hub(), "observer").ask(Request::Stats) else {
        panic!("no figures");
    };
    assert_eq!(stats.completed_total, REQUESTS as u64);
    assert_eq!(stats.crashes_total.iter().sum::<u64>(), WORKERS as u64 / 2);
}

/// Workers with an even number die over their first request, which all of them get at once.
fn work(address: SocketAddr, number: usize, is_over: &AtomicBool) {
    let mut worker = Wire::named(address, format!("worker-{number}").as_bytes());
    worker.send(&["", "MDPW01", "\x01", "echo"]);
    while !is_over.load(Ordering::Relaxed) {
        let Some(frames) = worker.receive(Duration::from_millis(200)) else { continue };
        if number.is_multiple_of(2) {
            return;
        }
        worker.send(&[&b""[..], b"MDPW01", &[3], &frames[3], b"", &frames[5]]);
    }
}

fn workers_seen(client: &mut Wire) -> usize {
    client.send(&["", "MDPC01", "mmi.list_services"]);
    client.receive(TIMEOUT).expect("an answer").len() - 3
}
