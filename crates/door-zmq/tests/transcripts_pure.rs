//! The conversations of the specification pages, held with the pure conversations: no socket, no clock.

mod support;

use bytes::Bytes;
use support::broker::calm;
use support::transcript::{Act, Bindings, Transcript, read};
use support::world::World;

#[test]
fn the_majordomo_page_is_true_of_the_pure_conversation() {
    for transcript in read("mdp.md") {
        hold(&transcript, World::majordomo);
    }
}

#[test]
fn the_ping_pong_page_is_true_of_the_pure_conversation() {
    for transcript in read("pingpong.md") {
        hold(&transcript, |world, peer| match peer.starts_with('W') {
            true => world.ping_pong_worker(peer),
            false => world.ping_pong_client(peer),
        });
    }
}

fn hold(transcript: &Transcript, arrive: impl Fn(&mut World, &str)) {
    let mut world = World::new(calm());
    let mut bindings = Bindings::new();
    for step in &transcript.steps {
        let place = format!("line {} of {:?}", step.line, transcript.title);
        match &step.act {
            Act::Says { peer, frames } => {
                if !world.knows(peer) {
                    arrive(&mut world, peer);
                }
                world.says(peer, frames.iter().map(|frame| frame.build(&bindings)).collect());
            }
            Act::Hears { peer, frames } => {
                let heard: Vec<Bytes> =
                    world.hears(peer).unwrap_or_else(|| panic!("{place}: nothing was said"));
                let is_it = heard.len() == frames.len()
                    && frames.iter().zip(&heard).all(|(frame, bytes)| frame.matches(bytes, &mut bindings));
                assert!(is_it, "{place}: {frames:?} was expected, {heard:?} was said");
            }
            Act::Closes { peer } => world.closes(peer),
        }
    }
    for peer in world.peers() {
        let more = world.hears(&peer);
        assert_eq!(more, None, "{:?}: something else was said to {peer}", transcript.title);
    }
}
