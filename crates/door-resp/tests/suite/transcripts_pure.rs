//! The page's transcripts on the pure parts of the door, where time can be turned by hand.

use std::collections::{BTreeMap, VecDeque};

use crate::support::pattern::Bindings;
use crate::support::transcript::{Act, Transcript, as_array, lines, read};
use crate::support::world::World;

#[test]
fn every_transcript_of_the_page_holds_without_a_socket() {
    let mut failures = Vec::new();
    for transcript in read() {
        if let Err(failure) = play(&transcript) {
            failures.push(format!("{}: {failure}", transcript.title));
        }
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}

type Lines = BTreeMap<usize, VecDeque<(String, bool)>>;

fn play(transcript: &Transcript) -> Result<(), String> {
    let mut world = World::new(transcript.with_keys);
    let mut bindings = Bindings::default();
    let mut seen = Lines::new();
    for step in &transcript.steps {
        let say = |failure: String| format!("line {}: {failure}", step.line);
        match &step.act {
            Act::Say { client, words } => world.send(*client, &as_array(&bindings.fill(words))),
            Act::Send { client, bytes } => world.send(*client, bytes),
            Act::Answer { client, pattern } => {
                let (line, mut last) = next_line(&mut world, &mut seen, *client)
                    .ok_or_else(|| say(format!("no answer, but {pattern:?} was due")))?;
                if pattern == "…" {
                    while !last {
                        last =
                            seen.get_mut(client).and_then(VecDeque::pop_front).is_none_or(|(_, last)| last);
                    }
                } else if !bindings.fits(pattern, &line) {
                    return Err(say(format!("{line:?}, not {pattern:?}")));
                }
            }
            Act::Closed { client } => {
                if !world.is_closed(*client) {
                    return Err(say("the connection is open".into()));
                }
            }
            Act::Close { client } => world.close(*client),
            Act::Pass(time) => world.pass(*time),
        }
    }
    for client in world.clients() {
        if let Some((line, _)) = next_line(&mut world, &mut seen, client) {
            return Err(format!("at the end, to client {client}: {line:?} is left over"));
        }
    }
    Ok(())
}

fn next_line(world: &mut World, seen: &mut Lines, client: usize) -> Option<(String, bool)> {
    let queue = seen.entry(client).or_default();
    if queue.is_empty() {
        let wire = world.wire(client);
        let (lines, length) = lines(wire)?;
        wire.drain(..length);
        let last = lines.len() - 1;
        queue.extend(lines.into_iter().enumerate().map(|(at, line)| (line, at == last)));
    }
    queue.pop_front()
}
