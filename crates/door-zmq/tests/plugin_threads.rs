//! `_PL` workers whose connection or lease ended while they computed: no report is taken for that of another job.

mod support;

use support::cbor::Item;
use support::majordomo::{PATH, SECOND, frames};
use support::world::World;
use tenure_door_zmq::Settings;

fn tells_processes(world: &mut World, worker: &str, threads: &str) {
    let plugin = format!("{{\"Path\": {PATH:?}, \"PluginVersion\": \"v1\"}}");
    world.says(worker, frames(&["", "MDPW01_PL", "\x06", threads, "node", &plugin]));
}

fn begins(world: &mut World, worker: &str, threads: &str) {
    world.majordomo(worker);
    introduces_itself(world, worker, threads);
    beats(world, worker, threads);
}

fn introduces_itself(world: &mut World, worker: &str, threads: &str) {
    world.says(worker, frames(&["", "MDPW01_PL", "\x01", "processes"]));
    tells_processes(world, worker, threads);
}

fn beats(world: &mut World, worker: &str, free: &str) {
    world.says(worker, frames(&["", "MDPW01_PL", "\x04", free]));
}

/// A report of what the worker computed for `lab`, with the name of the job it really was.
fn finishes(world: &mut World, worker: &str, thread: &str, job: &str) {
    world.says(worker, frames(&["", "MDPW01_PL", "\x01", "lab", thread, &format!("result of {job}")]));
}

fn submits(world: &mut World, jobs: &[&str]) {
    world.named("lab");
    let mut message = frames(&["", "MDPC01_PL", PATH]);
    message.push(Item::read("{1: \"JobID\"}").0.encode());
    message.extend(jobs.iter().map(|job| Item::read(&format!("{{1: {job:?}}}")).0.encode()));
    world.says("lab", message);
}

/// What was said to the worker, heartbeats apart: calls as `job thread`, other words by their number.
fn heard(world: &mut World, worker: &str) -> Vec<String> {
    let said: Vec<_> = std::iter::from_fn(|| world.hears(worker)).collect();
    let words = said.iter().filter(|frames| frames[2][..] != [4]).map(|frames| match frames[2][0] {
        2 => {
            let call = Item::decode(&frames[4]).expect("parameters");
            match (call.get("JobID"), call.get("ThreadID")) {
                (Some(Item::Text(job)), Some(Item::Integer(thread))) => format!("{job} {thread}"),
                _ => panic!("{call:?}"),
            }
        }
        word => word.to_string(),
    });
    words.collect()
}

/// The results that reached the client; notices are left out.
fn results(world: &mut World) -> Vec<String> {
    let said: Vec<_> = std::iter::from_fn(|| world.hears("lab")).collect();
    let texts = said.iter().map(|frames| String::from_utf8_lossy(&frames[3]).into_owned());
    texts.filter(|text| text.starts_with("result")).collect()
}

#[test]
fn a_worker_that_reconnects_while_it_computes_gets_nothing_until_its_threads_are_free() {
    let mut world = World::new(Settings::default());
    begins(&mut world, "w", "1");
    submits(&mut world, &["X", "Y"]);
    assert_eq!(heard(&mut world, "w"), ["X 0"]);
    world.closes("w");
    world.majordomo("w again");
    beats(&mut world, "w again", "0");
    assert_eq!(heard(&mut world, "w again"), ["6"], "PROCESSES");
    tells_processes(&mut world, "w again", "1");
    beats(&mut world, "w again", "0");
    assert_eq!(heard(&mut world, "w again"), Vec::<String>::new(), "its only thread still computes X");
    finishes(&mut world, "w again", "0", "X");
    assert_eq!(results(&mut world), Vec::<String>::new(), "that attempt was lost with its connection");
    assert_eq!(heard(&mut world, "w again"), ["X 0"]);
    finishes(&mut world, "w again", "0", "X");
    assert_eq!(heard(&mut world, "w again"), ["Y 0"]);
    finishes(&mut world, "w again", "0", "Y");
    assert_eq!(results(&mut world), ["result of X", "result of Y"]);
}

#[test]
fn a_worker_that_opens_a_new_socket_while_it_computes_gets_nothing_until_its_threads_are_free() {
    for is_named in [true, false] {
        let mut world = World::new(Settings::default());
        begins(&mut world, "w", "1");
        submits(&mut world, &["X", "Y"]);
        assert_eq!(heard(&mut world, "w"), ["X 0"]);
        world.closes("w");
        match is_named {
            true => world.named("w"),
            false => world.majordomo("w"),
        }
        introduces_itself(&mut world, "w", "1");
        assert_eq!(heard(&mut world, "w"), Vec::<String>::new(), "it has not told what is free");
        beats(&mut world, "w", "0");
        assert_eq!(heard(&mut world, "w"), Vec::<String>::new(), "nothing is");
        finishes(&mut world, "w", "0", "X");
        assert_eq!(results(&mut world), Vec::<String>::new());
        assert_eq!(heard(&mut world, "w"), ["X 0"]);
        finishes(&mut world, "w", "0", "X");
        finishes(&mut world, "w", "0", "Y");
        assert_eq!(results(&mut world), ["result of X", "result of Y"]);
    }
}

#[test]
fn a_new_worker_whose_heartbeats_say_nothing_is_believed() {
    let mut world = World::new(Settings::default());
    world.majordomo("w");
    introduces_itself(&mut world, "w", "1");
    submits(&mut world, &["X"]);
    world.says("w", frames(&["", "MDPW01_PL", "\x04"]));
    assert_eq!(heard(&mut world, "w"), ["X 0"]);
}

#[test]
fn a_worker_that_reports_before_it_was_asked_is_given_work_when_it_has_told_what_is_free() {
    let mut world = World::new(Settings::default());
    begins(&mut world, "w", "2");
    submits(&mut world, &["X", "Y"]);
    assert_eq!(heard(&mut world, "w"), ["X 0", "Y 1"]);
    world.closes("w");
    world.majordomo("w again");
    finishes(&mut world, "w again", "0", "X");
    assert_eq!(heard(&mut world, "w again"), ["6"], "PROCESSES");
    tells_processes(&mut world, "w again", "2");
    assert_eq!(heard(&mut world, "w again"), Vec::<String>::new(), "the other thread may compute");
    beats(&mut world, "w again", "1");
    assert_eq!(heard(&mut world, "w again"), Vec::<String>::new(), "it does");
    beats(&mut world, "w again", "2");
    assert_eq!(heard(&mut world, "w again"), ["X 0", "Y 1"]);
    assert_eq!(results(&mut world), Vec::<String>::new());
}

#[test]
fn a_worker_that_was_silent_too_long_keeps_its_threads_taken_until_they_report() {
    let mut world = World::new(Settings::default());
    begins(&mut world, "w", "2");
    submits(&mut world, &["X"]);
    assert_eq!(heard(&mut world, "w"), ["X 0"]);
    world.pass(8 * SECOND);
    beats(&mut world, "w", "1");
    assert_eq!(heard(&mut world, "w"), ["6"], "PROCESSES");
    tells_processes(&mut world, "w", "2");
    beats(&mut world, "w", "1");
    assert_eq!(heard(&mut world, "w"), ["X 1"], "again, in the thread that is free");
    submits(&mut world, &["Y"]);
    assert_eq!(heard(&mut world, "w"), Vec::<String>::new(), "there is no thread for it");
    finishes(&mut world, "w", "0", "X the first time");
    assert_eq!(heard(&mut world, "w"), ["Y 0"]);
    assert_eq!(results(&mut world), Vec::<String>::new());
    finishes(&mut world, "w", "0", "Y");
    finishes(&mut world, "w", "1", "X");
    assert_eq!(results(&mut world), ["result of Y", "result of X"]);
}

#[test]
fn a_reply_that_may_belong_to_an_ended_job_is_dropped() {
    let mut world = World::new(Settings::default());
    begins(&mut world, "w", "2");
    submits(&mut world, &["X"]);
    world.pass(8 * SECOND);
    beats(&mut world, "w", "1");
    tells_processes(&mut world, "w", "2");
    beats(&mut world, "w", "1");
    assert_eq!(heard(&mut world, "w"), ["X 0", "6", "X 1"]);
    world.says("w", frames(&["", "MDPW01_PL", "\x03", "lab", "", "result of the first time"]));
    world.says("w", frames(&["", "MDPW01_PL", "\x01", "lab", "1"]));
    assert_eq!(results(&mut world), Vec::<String>::new());
}

#[test]
fn a_worker_that_does_not_tell_what_is_free_starts_again() {
    let mut world = World::new(Settings::default());
    world.majordomo("w");
    world.says("w", frames(&["", "MDPW01_PL", "\x04"]));
    tells_processes(&mut world, "w", "1");
    submits(&mut world, &["X"]);
    world.says("w", frames(&["", "MDPW01_PL", "\x04"]));
    assert_eq!(heard(&mut world, "w"), ["6", "5"], "PROCESSES, DISCONNECT");
}
