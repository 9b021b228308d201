//! Stories that take seconds or a week, told without a clock: the settings are those of a real broker.

mod support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use support::cbor::Item;
use support::majordomo::{PATH, SECOND, ask, frames, introduces_itself, map, submits};
use support::plugin::says;
use support::world::World;
use tenure_door_zmq::Settings;
use tenure_door_zmq::session::{Majordomo, PeerIdentity, PeerOutput, PeerSession, PingPongWorker};
use tenure_hub::words::{Answer, Command, Timestamp};
use tenure_hub::{ClockReading, Delivery, Grant, Request, Response, Right};

/// What is said to a worker until nothing more is, by command byte.
fn words(world: &mut World, worker: &str) -> Vec<u8> {
    std::iter::from_fn(|| world.hears(worker)).map(|frames| frames[2][0]).collect()
}

/// A `_PL` worker of one thread.
fn plugin_worker(world: &mut World, name: &str) {
    world.named(name);
    introduces_itself(world, name, 1, "node");
    world.says(name, frames(&["", "MDPW01_PL", "\x04", "1"]));
}

fn notice(world: &mut World, client: &str) -> Option<Item> {
    world.hears(client).map(|frames| Item::decode(&frames[3]).expect("a notice"))
}

#[test]
fn the_broker_beats_every_two_and_a_half_seconds_and_gives_up_an_idle_worker_after_three() {
    let mut world = World::new(Settings::default());
    world.named("w");
    world.says("w", frames(&["", "MDPW01", "\x01", "echo"]));
    world.named("c");
    world.pass(7 * SECOND);
    assert_eq!(words(&mut world, "w"), [4, 4]);
    assert_eq!(ask(&mut world, "c", "mmi.list", &[]), ["echo"]);
    world.pass(SECOND);
    assert_eq!(ask(&mut world, "c", "mmi.list", &[]), Vec::<String>::new());
    words(&mut world, "w");
    world.says("w", frames(&["", "MDPW01", "\x04"]));
    assert_eq!(words(&mut world, "w"), [5], "DISCONNECT: it starts again");
}

#[test]
fn heartbeats_stay_as_they_are_when_the_clock_is_set() {
    for hours in [1, -1] {
        let mut world = World::new(Settings::default());
        world.named("w");
        world.says("w", frames(&["", "MDPW01", "\x01", "echo"]));
        world.named("c");
        world.pass(3 * SECOND);
        words(&mut world, "w");
        world.set_clock(hours * 3_600_000);
        assert_eq!(words(&mut world, "w"), Vec::<u8>::new(), "{hours} h: no heartbeat is due");
        world.pass(3 * SECOND);
        assert_eq!(words(&mut world, "w"), [4], "{hours} h");
        assert_eq!(ask(&mut world, "c", "mmi.list", &[]), ["echo"], "{hours} h: the worker is not lost");
    }
}

#[test]
fn a_silent_computation_of_a_week_is_believed() {
    let mut world = World::new(Settings::default());
    world.majordomo("w");
    world.says("w", frames(&["", "MDPW01", "\x01", "echo"]));
    world.majordomo("c");
    world.says("c", frames(&["", "MDPC01", "echo", "x"]));
    let request = world.hears("w").expect("a request");
    world.pass(7 * 24 * 3600 * SECOND);
    let address = &request[3];
    world.says("w", frames(&[&b""[..], b"MDPW01", &[3], address, b"", b"y"]));
    assert_eq!(world.hears("c").expect("a reply"), frames(&["", "MDPC01", "echo", "y"]));
}

#[test]
fn a_worker_that_computes_in_silence_does_not_get_more_heartbeats_than_its_queue_holds() {
    let mut world = World::new(Settings::default());
    world.majordomo("w");
    world.says("w", frames(&["", "MDPW01", "\x01", "echo"]));
    world.majordomo("c");
    world.says("c", frames(&["", "MDPC01", "echo", "x"]));
    let request = world.hears("w").expect("a request");
    world.pass(24 * 3600 * SECOND);
    assert!(words(&mut world, "w").len() < 2);
    // One that speaks while it computes also reads, and wants to know that the broker lives.
    for _ in 0..100 {
        world.says("w", frames(&["", "MDPW01", "\x04"]));
        world.pass(3 * SECOND);
        assert_ne!(words(&mut world, "w"), Vec::<u8>::new());
    }
    world.pass(24 * 3600 * SECOND);
    words(&mut world, "w");
    world.says("w", frames(&[&b""[..], b"MDPW01", &[3], &request[3], b"", b"y"]));
    world.pass(3 * SECOND);
    assert_ne!(words(&mut world, "w"), Vec::<u8>::new(), "when it is idle again, the broker beats again");
}

#[test]
fn a_plugin_worker_that_falls_silent_has_crashed_after_seven_and_a_half_seconds() {
    let mut world = World::new(Settings::default());
    plugin_worker(&mut world, "node-1");
    world.named("lab");
    submits(&mut world, "lab", &["job-1"]);
    world.pass(7 * SECOND);
    assert_eq!(notice(&mut world, "lab"), None);
    world.pass(SECOND);
    let told = notice(&mut world, "lab").expect("a notice");
    let expected = r#"{"error": "WORKER_CRASHED", "job_id": "job-1", "worker": "node-1", "attempt": 1,
        "next": "requeued", …}"#;
    assert!(says(&told, expected), "{told:?}");
    assert_eq!(notice(&mut world, "lab"), None, "once per crash");
}

#[test]
fn a_worker_that_crashes_repeatedly_is_quarantined_until_a_client_clears_it() {
    let mut world = World::new(Settings { retry_attempts: 100, ..Settings::default() });
    world.named("lab");
    world.named("monitor");
    submits(&mut world, "lab", &["job-1"]);
    for crash in 1..=5 {
        plugin_worker(&mut world, "node-1");
        assert_eq!(words(&mut world, "node-1"), [2], "it gets the job, and crashes with it: {crash}");
        world.closes("node-1");
    }
    plugin_worker(&mut world, "node-1");
    assert_eq!(words(&mut world, "node-1"), Vec::<u8>::new(), "it gets nothing");
    let health = ask(&mut world, "monitor", "mmi.health", &[]);
    assert!(health[0].ends_with("#Crashes:5#HealthScore:0"), "{health:?}");

    world.elsewhere(Request::Command(Command::ClearWorker { worker: "node-1".into() }));
    assert_eq!(words(&mut world, "node-1"), [2]);
    let health = ask(&mut world, "monitor", "mmi.health", &[]);
    assert!(health[0].ends_with("#Crashes:5#HealthScore:16"), "what it did is not forgotten: {health:?}");
}

#[test]
fn a_quick_answer_costs_one_write_and_a_slow_one_two() {
    let mut world = World::new(Settings::default());
    world.majordomo("w");
    world.says("w", frames(&["", "MDPW01", "\x01", "echo"]));
    world.majordomo("c");
    let mut batches = |taking: Duration| {
        world.says("c", frames(&["", "MDPC01", "echo", "x"]));
        let before = world.figures().batches_total;
        let request = world.hears("w").expect("a request");
        world.pass(taking);
        world.says("w", frames(&[&b""[..], b"MDPW01", &[3], &request[3], b"", b"y"]));
        world.hears("c").expect("a reply");
        world.figures().batches_total - before
    };
    assert_eq!(batches(Duration::from_millis(5)), 1, "beginning and end together");
    assert_eq!(batches(Duration::from_millis(50)), 2, "that it runs is known while it runs");
    assert_eq!(world.figures().started_total, 2);
}

#[test]
fn a_worker_that_sends_parts_faster_than_they_are_read_is_held_back() {
    let mut world = World::new(Settings::default());
    world.majordomo("w");
    world.says("w", frames(&["MDPW02", "\x01", "count"]));
    world.majordomo("c");
    world.says("c", frames(&["MDPC02", "\x01", "count", "to many"]));
    let request = world.hears("w").expect("a request");
    world.takes("c", false);
    let part = vec![b'x'; 1 << 20];
    let mut sent = 0;
    while !world.is_held_back("w") {
        world.says("w", frames(&[&b"MDPW02"[..], &[3], &request[2], b"", &part]));
        sent += 1;
        assert!(sent < 100, "nothing stops it");
    }
    world.takes("c", true);
    assert!(!world.is_held_back("w"));
    assert_eq!(std::iter::from_fn(|| world.hears("c")).count(), sent, "nothing was lost");
}

#[test]
fn a_result_without_a_frame_is_an_empty_one() {
    let mut world = World::new(Settings::default());
    world.majordomo("c");
    for (service, dialect) in [("one", 1), ("two", 2)] {
        world.majordomo(service);
        let ready: &[&str] =
            if dialect == 1 { &["", "MDPW01", "\x01", service] } else { &["MDPW02", "\x01", service] };
        world.says(service, frames(ready));
        world.says("c", frames(&["", "MDPC01", service, "x"]));
        let request = world.hears(service).expect("a request");
        let address = &request[request.len() - 3];
        let reply: &[&[u8]] = if dialect == 1 {
            &[b"", b"MDPW01", &[3], address, b""]
        } else {
            &[b"MDPW02", &[4], address, b""]
        };
        world.says(service, frames(reply));
        assert_eq!(world.hears("c").expect("a reply"), frames(&["", "MDPC01", service, ""]));
    }
}

#[test]
fn a_worker_whose_result_cannot_be_read_starts_again() {
    let mut world = World::new(Settings::default());
    world.majordomo("w");
    world.says("w", frames(&["", "MDPW01", "\x01", "echo"]));
    world.majordomo("c");
    world.says("c", frames(&["", "MDPC01", "echo", "x"]));
    let request = world.hears("w").expect("a request");
    world.says("w", frames(&[&b""[..], b"MDPW01", &[3], &request[3]]));
    assert_eq!(words(&mut world, "w"), [5], "DISCONNECT");
    world.says("w", frames(&["", "MDPW01", "\x01", "echo"]));
    assert_eq!(words(&mut world, "w"), [2], "and the job with it");
}

#[test]
fn a_ping_pong_worker_that_says_ready_twice_brings_no_result_for_another_job() {
    let mut world = World::new(Settings::default());
    for (client, work) in [("a", "A"), ("b", "B")] {
        world.ping_pong_client(client);
        world.says(client, frames(&["", work]));
    }
    world.ping_pong_worker("w");
    world.says("w", frames(&["", "READY"]));
    assert_eq!(world.hears("w"), Some(frames(&["", "A"])));
    world.says("w", frames(&["", "READY"]));
    assert!(!world.knows("w"), "it is sent away");
    // Its socket connects again, and it answers what it found there.
    world.ping_pong_worker("w again");
    for result in ["result of A", "result of A", "result of B"] {
        world.says("w again", frames(&["", result]));
    }
    assert_eq!(world.hears("a"), Some(frames(&["", "result of A"])));
    assert_eq!(world.hears("b"), Some(frames(&["", "result of B"])));
}

#[test]
fn a_ping_pong_worker_that_comes_back_computing_gets_nothing_for_its_ping() {
    let mut world = World::new(Settings::default());
    world.ping_pong_worker("w");
    world.says("w", frames(&["", "READY"]));
    for (client, work) in [("a", "A"), ("b", "B")] {
        world.ping_pong_client(client);
        world.says(client, frames(&["", work]));
    }
    assert_eq!(world.hears("w"), Some(frames(&["", "A"])));
    world.closes("w");
    world.ping_pong_worker("w again");
    world.says("w again", frames(&["", "PING"]));
    assert_eq!(world.hears("w again"), None);
    world.says("w again", frames(&["", "result of A"]));
    assert_eq!(world.hears("b"), None, "it is not B's");
    assert_eq!(world.hears("w again"), Some(frames(&["", "A"])), "now it is known to be free");
    world.says("w again", frames(&["", "PING"]));
    assert_eq!(world.hears("w again"), Some(frames(&["", "PONG"])));
}

#[test]
fn a_ping_pong_worker_joins_by_its_ping_if_no_worker_was_lost_while_computing() {
    let mut world = World::new(Settings::default());
    world.ping_pong_worker("w");
    world.says("w", frames(&["", "PING"]));
    assert_eq!(world.hears("w"), Some(frames(&["", "PONG"])));
    world.ping_pong_client("c");
    world.says("c", frames(&["", "x"]));
    assert_eq!(world.hears("w"), Some(frames(&["", "x"])));
}

#[test]
fn the_older_form_of_a_result_may_be_empty() {
    let mut world = World::new(Settings::default());
    world.ping_pong_worker("w");
    world.says("w", frames(&["", "READY"]));
    world.ping_pong_client("c");
    world.says("c", frames(&["", "x"]));
    world.says("w", frames(&["", "JOB COMPLETE", "any", ""]));
    assert_eq!(world.hears("c"), Some(frames(&["", ""])));
}

#[test]
fn questions_beyond_the_limit_are_answered_too() {
    let mut world = World::new(Settings::default());
    world.majordomo("c");
    world.takes("c", false);
    for _ in 0..65 {
        world.says("c", frames(&["", "MDPC01", "mmi.service", "echo"]));
    }
    assert_eq!(world.hears("c"), Some(frames(&["", "MDPC01", "mmi.service", "503"])));
    world.takes("c", true);
    assert_eq!(std::iter::from_fn(|| world.hears("c")).count(), 64);
}

#[test]
fn the_refusal_of_a_batch_says_which_call_is_bad() {
    let mut world = World::new(Settings::default());
    world.named("lab");
    let mut batch = frames(&["", "MDPC01_PL", PATH]);
    batch.extend([map("{1: \"JobID\"}"), map("{1: \"job-1\"}"), Bytes::from_static(b"no map")]);
    world.says("lab", batch);
    world.pass(SECOND);
    let told = notice(&mut world, "lab").expect("a notice");
    let expected = r#"{"error": "JOB_REFUSED", "reason": "bad-value", "next": "refused", …}"#;
    assert!(says(&told, expected), "{told:?}");
    let Some(Item::Text(message)) = told.get("message") else { panic!("{told:?}") };
    assert!(message.contains("call 2"), "{message}");
}

#[test]
fn a_plugin_client_that_comes_back_gets_the_replies_to_what_it_submitted_before() {
    let mut world = World::new(Settings::default());
    plugin_worker(&mut world, "node-1");
    world.named("lab");
    submits(&mut world, "lab", &["job-1"]);
    world.closes("lab");
    world.named("lab");
    world.named("other");
    for client in ["lab", "other"] {
        world.says(client, frames(&["", "MDPC01_PL", "mmi.status"]));
        world.hears(client).expect("an answer");
    }
    world.says("node-1", frames(&["", "MDPW01_PL", "\x01", "lab", "0", "result of job-1"]));
    assert_eq!(world.hears("lab"), Some(frames(&["", "MDPC01_PL", "", "result of job-1"])));
    assert_eq!(world.hears("lab"), None, "once");
    assert_eq!(world.hears("other"), None);
}

#[test]
fn nothing_more_is_read_from_a_worker_until_it_is_known_what_it_holds() {
    let me = PeerIdentity {
        name: "w".into(),
        is_chosen: true,
        is_known: true,
        grant: Arc::new(Grant::everything()),
    };
    let conversations: [Box<dyn PeerSession>; 2] = [
        Box::new(Majordomo::new(me.clone(), Arc::default(), Arc::default())),
        Box::new(PingPongWorker::new(me, Arc::default(), Arc::default())),
    ];
    for mut conversation in conversations {
        let (now, mut out) = (ClockReading::both(Timestamp(0)), PeerOutput::default());
        conversation.begin(now, &mut out);
        assert!(conversation.is_held_back());
        for token in out.asks.iter().map(|ask| ask.token).collect::<Vec<_>>() {
            assert!(conversation.is_held_back());
            let reply = Ok(Response::Answer(Answer::Tasks { tasks: Vec::new(), next: None }));
            conversation.deliver(now, Delivery::Reply { token, reply }, Ok(Bytes::new()), &mut out);
        }
        assert!(!conversation.is_held_back());
    }
}

#[test]
fn a_key_that_may_not_read_gets_earlier_replies_only_if_it_is_known_to_have_asked() {
    for (rights, is_known, expected) in [
        (&[Right::Submit][..], false, false),
        (&[Right::Submit], true, true),
        (&[Right::Submit, Right::Read], false, true),
        (&[Right::Work], true, false),
    ] {
        let mut world = World::new(Settings::default());
        plugin_worker(&mut world, "node-1");
        world.named("lab");
        submits(&mut world, "lab", &["job-1"]);
        world.closes("lab");
        world.named_with("lab", rights, is_known);
        world.says("lab", frames(&["", "MDPC01_PL", "mmi.status"]));
        world.hears("lab").expect("an answer");
        world.says("node-1", frames(&["", "MDPW01_PL", "\x01", "lab", "0", "result of job-1"]));
        assert_eq!(world.hears("lab").is_some(), expected, "{rights:?} {is_known}");
    }
}

#[test]
fn one_connection_has_two_lists_of_calls_made_at_once() {
    let mut world = World::new(Settings::default());
    world.majordomo("c");
    world.takes("c", false);
    for _ in 0..3 {
        world.says("c", frames(&["", "MDPC01", "mmi.workers"]));
    }
    assert_eq!(world.hears("c"), Some(frames(&["", "MDPC01", "mmi.workers", "503"])));
    assert_eq!(world.hears("c"), None);
    world.takes("c", true);
    assert_eq!(std::iter::from_fn(|| world.hears("c")).count(), 2);
}
