//! Connections: who has an identity, how long a slow peer is waited for, and what ends a job with its connection.

mod support;

use std::time::{Duration, Instant};

use support::broker::{Broker, calm};
use support::native::Native;
use support::wire::{TIMEOUT, Wire};
use support::{command, greeting, metadata, null_opening};
use tenure_door_zmq::{PingPongSettings, Settings, Transport};
use tenure_hub::words::{Command, StateName};
use tenure_hub::{Grant, Keys, Request, Right, Rights};

const READY: [&str; 4] = ["", "MDPW01", "\x01", "echo"];

/// A worker that is silent for a second is gone.
fn impatient() -> Broker {
    let transport = Transport {
        ping: Duration::from_millis(300),
        ping_timeout: Duration::from_secs(1),
        ..Transport::default()
    };
    Broker::with(Settings { transport, ..calm() }, PingPongSettings::default())
}

/// The address of the next request.
fn request(worker: &mut Wire) -> String {
    loop {
        let frames = worker.receive(TIMEOUT).expect("a request");
        if frames[2] == [2] {
            return String::from_utf8(frames[3].clone()).expect("text");
        }
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_peer_with_much_to_read_is_not_given_up_while_it_reads_nothing() {
    let broker = impatient();
    let body = vec![b'x'; 15 << 20];
    Native::open(broker.hub(), "elsewhere").submit("echo", &body);
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&READY);
    // Until it has read all that came before, its ZeroMQ library answers nothing.
    broker.until_running(1);
    std::thread::sleep(Duration::from_secs(3));
    let frames = worker.receive(Duration::from_secs(20)).expect("a request");
    assert_eq!(frames[5].len(), body.len());
}

#[test]
fn an_old_peer_that_stops_in_the_middle_of_a_message_is_given_up() {
    let broker = impatient();
    let mut peer = Wire::silent(broker.mdp);
    peer.raw(&greeting(3, 0, "NULL"));
    peer.raw(&command("READY", &metadata("DEALER", b"")));
    peer.raw(&[2, 0, 0, 0, 0, 0, 10, 0, 0]);
    peer.raw(&[0; 1000]);
    assert!(broker.counts("silent"));
    assert!(peer.is_closed(TIMEOUT));
}

#[test]
fn a_result_that_is_too_long_ends_its_job_once_and_for_all() {
    let broker = Broker::start();
    for (door, clients) in [(broker.mdp, broker.mdp), (broker.workers, broker.clients)] {
        let is_mdp = door == broker.mdp;
        let mut worker = Wire::dealer(door);
        worker.send(if is_mdp { &READY[..] } else { &["", "READY"] });
        let mut client = Wire::dealer(clients);
        client.send(if is_mdp { &["", "MDPC01", "echo", "x"][..] } else { &["", "x"] });
        worker.receive(TIMEOUT).expect("a job");
        broker.until_running(1);
        // A frame that is announced with a terabyte.
        worker.raw(&[2, 0, 0, 1, 0, 0, 0, 0, 0]);
        let mut native = Native::open(broker.hub(), "observer");
        until("it has failed", || native.tasks().iter().all(|task| task.state.name() == StateName::Failed));
        assert!(native.tasks().iter().all(|task| task.crashes == 0 && task.attempt == 1));
    }
}

#[test]
fn a_replaced_peer_that_reconnects_at_once_is_refused() {
    let broker = Broker::start();
    let mut older = Wire::named(broker.mdp, b"same");
    older.send(&READY);
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "x"]);
    request(&mut older);
    broker.until_running(1);
    let mut newer = Wire::named(broker.mdp, b"same");
    assert!(older.is_closed(TIMEOUT));
    newer.send(&READY);
    let address = request(&mut newer);
    for _ in 0..2 {
        let mut again = Wire::silent(broker.mdp);
        again.raw(&null_opening("DEALER", b"same"));
        assert!(again.is_closed(TIMEOUT), "it keeps coming, as ZeroMQ does");
    }
    assert!(broker.counts("identity_taken"));
    newer.send(&["", "MDPW01", "\x03", &address, "", "y"]);
    assert_eq!(client.texts()[3], "y");
    let mut native = Native::open(broker.hub(), "observer");
    assert_eq!(native.tasks()[0].crashes, 0, "no worker has crashed");
}

#[test]
fn a_peer_refused_because_of_a_dead_connection_gets_its_identity_soon() {
    let broker = impatient();
    Native::open(broker.hub(), "elsewhere").submit("echo", &vec![b'x'; 15 << 20]);
    let _first = Wire::named(broker.mdp, b"node-1");
    let mut second = Wire::named(broker.mdp, b"node-1");
    second.send(&READY);
    broker.until_running(1);
    // The second line is broken: its peer has much to read and takes nothing, and is back on another.
    let mut third = None;
    until("it is let in", || {
        let mut again = Wire::silent(broker.mdp);
        again.raw(&null_opening("DEALER", b"node-1"));
        again.send(&["", "MDPC01", "mmi.weather"]);
        third = again.is_answered(Duration::from_secs(2)).then_some(again);
        third.is_some()
    });
    assert!(broker.counts("silent"));
}

#[test]
fn no_peer_takes_the_identity_of_a_worker_of_another_namespace_or_key() {
    let mut keys = Keys::default();
    let everything = Grant::everything();
    let lab = Grant { namespace: Some("default".into()), ..everything.clone() };
    let only = Grant { worker: Some("node-8".into()), ..lab.clone() };
    keys.add(b"work", lab.clone());
    keys.add(b"submit", Grant { rights: Rights::ALL.without(Right::Work), ..lab });
    keys.add(b"other name", only);
    keys.add(b"outsider", Grant { namespace: Some("elsewhere".into()), ..everything });
    let broker = Broker::with_keys(&keys);
    let mut worker = Wire::plain_named(broker.mdp, "", "work", b"node-7");
    worker.send(&READY);
    let mut client = Wire::plain(broker.mdp, "", "submit");
    client.send(&["", "MDPC01", "echo", "x"]);
    let address = request(&mut worker);
    for key in ["submit", "other name"] {
        let mut other = Wire::plain_introduced(broker.mdp, "", key, b"node-7");
        assert!(other.is_closed(TIMEOUT), "{key}: the identity is in use under another key");
    }
    let mut outsider = Wire::plain_named(broker.mdp, "", "outsider", b"node-7");
    outsider.send(&["", "MDPC01", "mmi.weather"]);
    assert_eq!(outsider.texts()[3], "501", "in its own namespace it is another one");
    worker.send(&["", "MDPW01", "\x03", &address, "", "y"]);
    assert_eq!(client.texts()[3], "y");
    let mut native = Native::open(broker.hub(), "observer");
    assert_eq!(native.tasks()[0].attempt, 1);
}

#[test]
fn the_record_of_a_plugin_is_not_shown_to_other_namespaces() {
    let mut keys = Keys::default();
    for space in ["lab", "third_party"] {
        let grant = Grant { namespace: Some(space.into()), ..Grant::everything() };
        keys.add(space.as_bytes(), grant);
    }
    let broker = Broker::with_keys(&keys);
    let mut worker = Wire::plain(broker.mdp, "", "lab");
    worker.send(&["", "MDPW01_PL", "\x01", "processes"]);
    worker.send(&["", "MDPW01_PL", "\x06", "1", "node", r#"{"Path": "Tools/Count", "PluginVersion": "v7"}"#]);
    let ask = |key: &str| {
        let mut client = Wire::plain(broker.mdp, "", key);
        client.send(&["", "MDPC01", "mmi.list", "Tools/Count"]);
        client.texts().len()
    };
    until("the lab sees it", || ask("lab") == 4);
    assert_eq!(ask("third_party"), 3, "nothing follows the service");
}

#[test]
fn a_job_on_a_worker_that_hangs_can_be_cancelled_and_paused() {
    for (pause, state) in [(false, StateName::Cancelled), (true, StateName::Paused)] {
        let broker = Broker::start();
        let mut native = Native::open(broker.hub(), "operator");
        let mut worker = Wire::dealer(broker.mdp);
        worker.send(&READY);
        native.submit("echo", b"x");
        request(&mut worker);
        let mut small = Wire::dealer(broker.workers);
        small.send(&["", "READY"]);
        native.submit("pingpong", b"x");
        small.texts();
        broker.until_running(2);
        for task in native.tasks().iter().map(|task| task.id) {
            let command = match pause {
                true => Command::Pause { task, reason: None, terminate: false },
                false => Command::Cancel { task, reason: None },
            };
            native.ask(Request::Command(command));
        }
        until("both are over", || native.tasks().iter().all(|task| task.state.name() == state));
        assert_eq!(worker.texts(), ["", "MDPW01", "\x05"], "DISCONNECT");
        assert!(small.is_closed(TIMEOUT));
    }
}

#[test]
fn a_job_of_a_plugin_worker_that_hangs_can_be_cancelled_and_its_thread_stays_taken() {
    let broker = Broker::start();
    let mut native = Native::open(broker.hub(), "operator");
    let mut worker = support::plugin::PluginWorker::start(broker.mdp, "node-1", 1, "Tools/Count");
    native.submit("Tools/Count", b"x");
    let call = worker.call();
    broker.until_running(1);
    let task = native.tasks()[0].id;
    native.ask(Request::Command(Command::Cancel { task, reason: None }));
    until("it is over", || native.tasks()[0].state.name() == StateName::Cancelled);
    native.submit("Tools/Count", b"next");
    assert_eq!(worker.wire.receive(Duration::from_millis(50)), None, "its only thread computes");
    worker.finish(&call, &["too late"]);
    let next = worker.call();
    worker.finish(&next, &["in time"]);
    assert_eq!(native.result(), "in time");
}
