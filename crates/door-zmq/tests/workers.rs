//! Workers: when they are believed, when they are lost, and how they come back.

mod support;

use std::time::Duration;

use support::broker::{Broker, calm};
use support::native::Native;
use support::plugin::{PluginClient, PluginWorker, says};
use support::wire::{TIMEOUT, Wire};
use tenure_door_zmq::{PingPongSettings, Settings, Transport};
use tenure_hub::words::StateName;

const READY: [&str; 4] = ["", "MDPW01", "\x01", "echo"];

/// Beats every 300 ms, idle workers are lost after 900 ms.
fn quick() -> Settings {
    Settings { heartbeat: Duration::from_millis(300), ..calm() }
}

/// The next request: its address and body.
fn request(worker: &mut Wire) -> (String, Vec<u8>) {
    loop {
        let frames = worker.receive(TIMEOUT).expect("a request");
        if frames[2] == [2] {
            return (String::from_utf8(frames[3].clone()).expect("text"), frames[5].clone());
        }
    }
}

/// The next message that is not a heartbeat, by its command byte.
fn word(worker: &mut Wire) -> u8 {
    loop {
        let frames = worker.receive(TIMEOUT).expect("a word");
        if frames[2] != [4] {
            return frames[2][0];
        }
    }
}

#[test]
fn a_worker_that_computes_is_not_lost_for_being_silent() {
    let broker = Broker::with(quick(), PingPongSettings::default());
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&READY);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    let (address, _) = request(&mut worker);
    std::thread::sleep(Duration::from_millis(2000));
    worker.send(&["", "MDPW01", "\x03", &address, "", "y"]);
    assert_eq!(client.texts(), ["", "MDPC01", "echo", "y"]);
}

#[test]
fn an_idle_worker_that_is_silent_is_lost_and_told_to_start_again() {
    let broker = Broker::with(quick(), PingPongSettings::default());
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&READY);
    let mut client = Wire::dealer(broker.mdp);
    let ask = |client: &mut Wire| {
        client.send(&["", "MDPC01", "mmi.service", "echo"]);
        client.texts()[3].clone()
    };
    while ask(&mut client) != "200" {}
    while ask(&mut client) != "404" {
        std::thread::sleep(Duration::from_millis(20));
    }
    worker.send(&["", "MDPW01", "\x04"]);
    assert_eq!(word(&mut worker), 5, "DISCONNECT");
}

#[test]
fn an_idle_worker_that_beats_stays() {
    let broker = Broker::with(quick(), PingPongSettings::default());
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&READY);
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(50));
        worker.send(&["", "MDPW01", "\x04"]);
    }
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    assert_eq!(request(&mut worker).1, b"x");
}

#[test]
fn a_busy_lease_ends_the_timeout_where_it_is_set() {
    let settings = Settings { busy_lease: Some(Duration::from_millis(500)), ..quick() };
    let broker = Broker::with(settings, PingPongSettings::default());
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&READY);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    let (address, _) = request(&mut worker);
    let mut next = Wire::dealer(broker.mdp);
    std::thread::sleep(Duration::from_millis(300));
    next.send(&READY);
    assert!(request(&mut next).0.contains("#2#"), "the second attempt");
    // The first worker is not believed any more.
    worker.send(&["", "MDPW01", "\x03", &address, "", "too late"]);
    assert_eq!(word(&mut worker), 5, "DISCONNECT");
    assert_eq!(client.receive(Duration::from_millis(100)), None);
}

#[test]
fn a_connection_that_does_not_answer_pings_is_given_up() {
    let transport = Transport {
        ping: Duration::from_millis(100),
        ping_timeout: Duration::from_millis(300),
        ..Transport::default()
    };
    let broker = Broker::with(Settings { transport, ..calm() }, PingPongSettings::default());
    let mut gone = Wire::dealer(broker.mdp);
    gone.send(&READY);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    request(&mut gone);
    // From now on it neither reads nor closes, like a machine without power.
    let mut next = Wire::dealer(broker.mdp);
    next.send(&READY);
    assert!(request(&mut next).0.contains("#2#"));
    assert!(broker.counts("silent"));
}

#[test]
fn a_worker_that_leaves_hands_its_job_back_without_blame() {
    let broker = Broker::start();
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&READY);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    request(&mut worker);
    worker.send(&["", "MDPW01", "\x05"]);
    let mut next = Wire::dealer(broker.mdp);
    next.send(&READY);
    request(&mut next);
    let mut native = Native::open(broker.hub(), "observer");
    assert_eq!(native.tasks()[0].crashes, 0);
    assert_eq!(worker.receive(Duration::from_millis(50)), None, "after DISCONNECT it hears nothing");
}

#[test]
fn the_newer_of_two_connections_with_one_identity_has_it() {
    let broker = Broker::start();
    let mut older = Wire::named(broker.mdp, b"node-1");
    older.send(&READY);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    request(&mut older);
    let mut newer = Wire::named(broker.mdp, b"node-1");
    assert!(older.is_closed(TIMEOUT));
    newer.send(&READY);
    assert!(request(&mut newer).0.contains("#2#node-1"), "the job of the older one was lost with it");
}

#[test]
fn a_result_whose_attempt_is_over_changes_nothing() {
    let broker = Broker::start();
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&READY);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    let (address, _) = request(&mut worker);
    worker.send(&["", "MDPW01", "\x03", &address, "", "y"]);
    assert_eq!(client.texts()[3], "y");
    worker.send(&["", "MDPW01", "\x03", &address, "", "again"]);
    assert!(broker.counts("stale"));
    // An address that was never given out ends the conversation.
    worker.send(&["", "MDPW01", "\x03", "someone", "", "z"]);
    assert_eq!(word(&mut worker), 5);
}

#[test]
fn after_a_restart_a_worker_that_still_computes_brings_its_result() {
    let broker = Broker::start();
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&READY);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    let (address, _) = request(&mut worker);
    broker.until_running(1);
    let broker = broker.restart();
    // What libzmq does under a program that computes: it connects again and says nothing.
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&["", "MDPW01", "\x03", &address, "", "y"]);
    assert_eq!(word(&mut worker), 5, "and then it starts again");
    let mut native = Native::open(broker.hub(), "observer");
    let task = &native.tasks()[0];
    assert_eq!((task.state.name(), task.attempt), (StateName::Completed, 1));
}

#[test]
fn after_a_restart_a_worker_with_a_name_keeps_its_job_as_long_as_it_computes() {
    let broker = Broker::start();
    let mut worker = Wire::named(broker.mdp, b"node-1");
    worker.send(&READY);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    let (address, _) = request(&mut worker);
    broker.until_running(1);
    let broker = broker.restart();
    let mut worker = Wire::named(broker.mdp, b"node-1");
    let mut native = Native::open(broker.hub(), "observer");
    // It said nothing yet, and the broker knows already that it is back.
    wait_until(|| native.tasks()[0].state.holding().is_some_and(|holding| &*holding.worker == "node-1"));
    let mut other = Wire::dealer(broker.mdp);
    other.send(&READY);
    assert_eq!(other.receive(Duration::from_millis(100)), None, "no other worker gets it");
    worker.send(&["", "MDPW01", "\x03", &address, "", "y"]);
    assert_eq!(word(&mut worker), 5);
    wait_until(|| native.tasks()[0].state.name() == StateName::Completed);
    assert_eq!(native.tasks()[0].attempt, 1, "nothing was run twice");
}

#[test]
fn after_a_restart_a_plugin_worker_goes_on_in_every_thread() {
    let broker = Broker::start();
    let mut worker = PluginWorker::start(broker.mdp, "node-1", 3, "Tools/Count");
    broker.until_workers(1);
    let mut client = PluginClient::start(broker.mdp, "lab");
    client.submit("Tools/Count", &["a", "b", "c"]);
    let calls = [worker.call(), worker.call(), worker.call()];
    broker.until_running(3);
    let broker = broker.restart();
    let mut worker = PluginWorker { wire: Wire::named(broker.mdp, b"node-1") };
    worker.wire.send(&["", "MDPW01_PL", "\x04", "0"]);
    assert_eq!(word(&mut worker.wire), 6, "PROCESSES");
    worker.register(3, "Tools/Count");
    for call in calls.iter().rev() {
        worker.finish(call, &[]);
    }
    let mut native = Native::open(broker.hub(), "observer");
    wait_until(|| {
        let tasks = native.tasks();
        tasks.iter().all(|task| task.state.name() == StateName::Completed && task.attempt == 1)
            && tasks.len() == 3
    });
}

#[test]
fn after_a_restart_a_ping_pong_worker_with_a_name_brings_its_result() {
    let broker = Broker::start();
    let mut worker = Wire::named(broker.workers, b"node-1");
    worker.send(&["", "READY"]);
    let mut client = Wire::dealer(broker.clients);
    client.send(&["", "x"]);
    assert_eq!(worker.texts(), ["", "x"]);
    broker.until_running(1);
    let broker = broker.restart();
    let mut worker = Wire::named(broker.workers, b"node-1");
    worker.send(&["", "y"]);
    let mut native = Native::open(broker.hub(), "observer");
    wait_until(|| native.tasks()[0].state.name() == StateName::Completed);
    assert_eq!(native.tasks()[0].attempt, 1);
    // And it is ready again.
    native.submit("pingpong", b"next");
    assert_eq!(worker.texts(), ["", "next"]);
}

#[test]
fn a_plugin_worker_takes_as_many_jobs_as_it_has_threads_and_hears_when_a_batch_is_done() {
    let broker = Broker::start();
    let mut worker = PluginWorker::start(broker.mdp, "node-1", 2, "Tools/Count");
    broker.until_workers(1);
    let mut client = PluginClient::start(broker.mdp, "lab");
    client.submit("Tools/Count", &["a", "b", "c"]);
    let (one, two) = (worker.call(), worker.call());
    assert!(says(&one, r#"{"ThreadID": 0, "Client": "lab", "JobID": "a", "Attempt": 1, …}"#), "{one:?}");
    assert!(says(&two, r#"{"ThreadID": 1, "JobID": "b", …}"#), "{two:?}");
    assert_eq!(worker.wire.receive(Duration::from_millis(50)), None);
    worker.finish(&two, &["result of b"]);
    let three = worker.call();
    assert!(says(&three, r#"{"ThreadID": 1, "JobID": "c", …}"#), "{three:?}");
    worker.wire.send(&["", "MDPW01_PL", "\x03", "lab", "", "result of a"]);
    worker.finish(&one, &[]);
    worker.finish(&three, &[]);
    assert_eq!(word(&mut worker.wire), 7, "FINISHED");
    assert_eq!(client.wire.texts()[3], "result of b");
    assert_eq!(client.wire.texts()[3], "result of a");
}

#[test]
fn the_broker_beats_in_every_dialect() {
    let broker = Broker::with(quick(), PingPongSettings::default());
    let mut old = Wire::dealer(broker.mdp);
    old.send(&READY);
    assert_eq!(old.texts(), ["", "MDPW01", "\x04"]);
    let mut new = Wire::dealer(broker.mdp);
    new.send(&["MDPW02", "\x01", "echo"]);
    assert_eq!(new.texts(), ["MDPW02", "\x05"]);
    let mut plugin = PluginWorker::start(broker.mdp, "node-1", 1, "Tools/Count");
    assert_eq!(plugin.wire.texts(), ["", "MDPW01_PL", "\x04"]);
}

#[test]
fn a_ping_pong_worker_that_expired_joins_again_by_its_ping() {
    let settings =
        PingPongSettings { worker_expire: Duration::from_millis(150), ..PingPongSettings::default() };
    let broker = Broker::with(Settings::default(), settings);
    let mut worker = Wire::dealer(broker.workers);
    worker.send(&["", "READY"]);
    std::thread::sleep(Duration::from_millis(400));
    let mut client = Wire::dealer(broker.clients);
    client.send(&["", "x"]);
    assert_eq!(worker.receive(Duration::from_millis(50)), None, "it is not sent work any more");
    worker.send(&["", "PING"]);
    assert_eq!(worker.texts(), ["", "PONG"]);
    assert_eq!(worker.texts(), ["", "x"]);
    // While it works it is silent for longer than its expiry.
    std::thread::sleep(Duration::from_millis(400));
    worker.send(&["", "y"]);
    assert_eq!(client.texts(), ["", "y"]);
}

fn wait_until(mut done: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it did not come to that");
}
