//! The conversations of the specification pages, held with a real broker over sockets.

mod support;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use support::broker::Broker;
use support::transcript::{Act, Bindings, Transcript, read};
use support::wire::{TIMEOUT, Wire};

/// Peers talk over connections of their own. What one says is given this long before the next one speaks.
const BREATH: Duration = Duration::from_millis(40);

#[test]
fn the_majordomo_page_is_true() {
    for transcript in read("mdp.md") {
        let broker = Broker::start();
        hold(&transcript, |_| broker.mdp);
    }
}

#[test]
fn the_ping_pong_page_is_true() {
    for transcript in read("pingpong.md") {
        let broker = Broker::start();
        hold(&transcript, |peer| if peer.starts_with('W') { broker.workers } else { broker.clients });
    }
}

fn hold(transcript: &Transcript, address: impl Fn(&str) -> SocketAddr) {
    let mut peers: BTreeMap<&str, Wire> = BTreeMap::new();
    let mut bindings = Bindings::new();
    for step in &transcript.steps {
        let place = format!("line {} of {:?}", step.line, transcript.title);
        match &step.act {
            Act::Says { peer, frames } => {
                let wire = peers.entry(peer).or_insert_with(|| Wire::dealer(address(peer)));
                let frames: Vec<Bytes> = frames.iter().map(|frame| frame.build(&bindings)).collect();
                wire.send(&frames);
                std::thread::sleep(BREATH);
            }
            Act::Hears { peer, frames } => {
                let wire = peers.get_mut(peer.as_str()).unwrap_or_else(|| panic!("{place}: who is {peer}?"));
                let heard = wire.receive(TIMEOUT).unwrap_or_else(|| panic!("{place}: nothing was said"));
                let heard: Vec<Bytes> = heard.into_iter().map(Bytes::from).collect();
                let is_it = heard.len() == frames.len()
                    && frames.iter().zip(&heard).all(|(frame, bytes)| frame.matches(bytes, &mut bindings));
                assert!(is_it, "{place}: {frames:?} was expected, {heard:?} was said");
            }
            Act::Closes { peer } => {
                peers.remove(peer.as_str());
                std::thread::sleep(BREATH);
            }
        }
    }
    for (peer, wire) in &mut peers {
        let more = wire.receive(Duration::from_millis(20));
        assert_eq!(more, None, "{:?}: something else was said to {peer}", transcript.title);
    }
}
