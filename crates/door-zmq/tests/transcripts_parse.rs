//! Every line of the specification pages that a peer says is a message this door understands.

mod support;

use bytes::Bytes;
use support::transcript::{Act, Bindings, Frame, Transcript, read};
use tenure_door_zmq::{mdp, pingpong};

#[test]
fn the_majordomo_page_speaks_majordomo() {
    let transcripts = read("mdp.md");
    each_line(&transcripts, |_, frames| mdp::parse(frames).map(drop).map_err(|error| error.to_string()));
}

#[test]
fn the_ping_pong_page_speaks_ping_pong() {
    let transcripts = read("pingpong.md");
    each_line(&transcripts, |peer, frames| {
        let parsed = if peer.starts_with('W') {
            pingpong::parse_worker(frames).map(drop)
        } else {
            pingpong::parse_client(frames).map(drop)
        };
        parsed.map_err(|error| error.to_string())
    });
}

fn each_line(transcripts: &[Transcript], understands: impl Fn(&str, Vec<Bytes>) -> Result<(), String>) {
    let mut lines = 0;
    for transcript in transcripts {
        let mut bindings = Bindings::new();
        for step in &transcript.steps {
            match &step.act {
                Act::Hears { frames, .. } => {
                    for frame in frames {
                        if let Frame::Named(name) = frame {
                            bindings.insert(name.clone(), Bytes::from("address"));
                        }
                    }
                }
                Act::Says { peer, frames } => {
                    let frames = frames.iter().map(|frame| frame.build(&bindings)).collect();
                    let understood = understands(peer, frames);
                    assert_eq!(understood, Ok(()), "line {} of {}", step.line, transcript.title);
                    lines += 1;
                }
                Act::Closes { .. } => {}
            }
        }
    }
    assert!(lines > 8, "only {lines} lines");
}
