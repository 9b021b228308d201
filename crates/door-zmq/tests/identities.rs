//! Whose an identity is, and what a key allows, where keys are needed.

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use support::broker::Broker;
use support::plugin::{PluginClient, PluginWorker};
use support::wire::{TIMEOUT, Wire};
use tenure_hub::{Grant, Keys, Right, Rights};

const PATH: &str = "Tools/Count";

fn grant(rights: &[Right]) -> Grant {
    Grant { rights: Rights::of(rights), ..Grant::everything() }
}

/// Two keys that only submit, one that only works, one that does everything, and one of the worker `node-7` alone.
fn keys() -> Keys {
    let mut keys = Keys::default();
    keys.add(b"lab", grant(&[Right::Submit]));
    keys.add(b"office", grant(&[Right::Submit]));
    keys.add(b"work", grant(&[Right::Work]));
    keys.add(b"everything", Grant::everything());
    keys.add(b"of node-7", Grant { worker: Some("node-7".into()), ..grant(&[Right::Work]) });
    keys
}

fn client(door: SocketAddr, key: &str, identity: &str) -> PluginClient {
    PluginClient { wire: Wire::plain_named(door, "", key, identity.as_bytes()) }
}

fn worker(door: SocketAddr) -> PluginWorker {
    let mut worker = PluginWorker { wire: Wire::plain_named(door, "", "work", b"node-1") };
    worker.register(1, PATH);
    worker.wire.send(&["", "MDPW01_PL", "\x04", "1"]);
    worker
}

#[test]
fn replies_and_notices_of_a_job_go_to_the_key_that_submitted_it() {
    let broker = Broker::with_keys(&keys());
    let mut worker = worker(broker.mdp);
    let mut lab = client(broker.mdp, "lab", "shared");
    lab.submit(PATH, &["job-1"]);
    let call = worker.call();

    let introduced = |key| Wire::plain_introduced(broker.mdp, "", key, b"shared");
    assert!(introduced("office").is_closed(TIMEOUT), "the identity is in use under another key");
    assert!(broker.counts("identity_of_another_key"));
    assert_eq!(lab.lines("mmi.status", &[]), ["0", "1", "1"], "and the first holder keeps it");

    drop(lab);
    assert!(broker.counts("client_gone"));
    assert!(introduced("office").is_closed(TIMEOUT), "there are jobs under it");
    let mut lab = client(broker.mdp, "lab", "shared");
    assert_eq!(lab.lines("mmi.status", &[]), ["0", "1", "1"]);
    worker.finish(&call, &["result of job-1"]);
    assert_eq!(lab.wire.texts(), ["", "MDPC01_PL", "", "result of job-1"]);

    // When nothing is under it any more, another key may have the identity, for example a new one of the same client.
    drop(lab);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let mut other = introduced("office");
        other.send(&["", "MDPC01_PL", "mmi.status"]);
        if let Some(answer) = other.receive(TIMEOUT) {
            assert_eq!(answer[3], b"0");
            break;
        }
        assert!(std::time::Instant::now() < deadline, "it stays taken");
    }
}

#[test]
fn an_identity_with_a_key_of_its_own_is_used_with_that_key_only() {
    let broker = Broker::with_keys(&keys());
    for door in [broker.mdp, broker.workers] {
        for key in ["work", "everything", "lab"] {
            let mut other = Wire::plain_introduced(door, "", key, b"node-7");
            assert!(other.is_closed(TIMEOUT), "{key}");
        }
    }
    assert!(broker.counts("identity_of_another_key"));
    let mut node = Wire::plain_named(broker.mdp, "", "of node-7", b"node-7");
    node.send(&["", "MDPW01", "\x01", "echo"]);
    broker.until_workers(1);
    let mut other = Wire::plain_named(broker.mdp, "", "of node-7", b"node-8");
    other.send(&["", "MDPW01", "\x01", "echo"]);
    assert_eq!(other.texts(), ["", "MDPW01", "\x05"], "this key is for node-7");
    // Nor can a result be brought in its name by a connection that has none.
    let mut nameless = Wire::plain(broker.mdp, "", "work");
    let address = format!("{}#1#node-7", tenure_hub::fresh_id());
    nameless.send(&["", "MDPW01", "\x03", &address, "", "y"]);
    assert_eq!(nameless.texts(), ["", "MDPW01", "\x05"]);
    assert!(broker.counts("stale"));
    broker.until_workers(1);
}

#[test]
fn every_question_needs_its_right() {
    let broker = Broker::with_keys(&keys());
    let _worker = worker(broker.mdp);
    let ask = |key: &str, service: &str, body: &[&str]| {
        let mut client = Wire::plain(broker.mdp, "", key);
        client.send(&[&["", "MDPC01", service], body].concat());
        client.texts().get(3).cloned().unwrap_or_default()
    };
    broker.until_workers(1);
    let about_others = ["mmi.list", "mmi.list_services", "mmi.workers", "mmi.health"];
    for service in about_others {
        assert_eq!(ask("lab", service, &[]), "403", "{service}");
        assert_eq!(ask("work", service, &[]), "403", "{service}");
        assert_ne!(ask("everything", service, &[]), "403", "{service}");
    }
    assert_eq!(ask("lab", "mmi.list", &[PATH]), "403", "the record of a plugin");
    assert_eq!(ask("lab", "mmi.service", &[PATH]), "200", "a submission would tell it the same");
    assert_eq!(ask("work", "mmi.service", &[PATH]), "403");
    assert_eq!(ask("lab", "mmi.status", &[]), "0");
    assert_eq!(ask("work", "mmi.status", &[]), "403");
    assert_eq!(ask("lab", "mmi.cancel", &[]), "0");
    assert_eq!(ask("lab", "mmi.cancel", &["other"]), "403");
    assert_eq!(ask("everything", "mmi.cancel", &["other"]), "0");
    assert_eq!(ask("lab", "mmi.notify", &["on"]), "200");
    assert_eq!(ask("lab", "mmi.notify", &["0"]), "403", "what happened before is for those who may read");
    assert_eq!(ask("everything", "mmi.notify", &["0"]), "200");
    assert_eq!(ask("work", "mmi.notify", &["on"]), "403");
    assert_eq!(ask("lab", "mmi.weather", &[]), "501");
}

#[test]
fn a_key_that_only_submits_gets_the_replies_to_its_requests() {
    let broker = Broker::with_keys(&keys());
    let mut worker = Wire::plain(broker.mdp, "", "work");
    worker.send(&["", "MDPW01", "\x01", "echo"]);
    let mut client = Wire::plain(broker.mdp, "", "lab");
    client.send(&["", "MDPC01", "echo", "x"]);
    let request = worker.receive(TIMEOUT).expect("a request");
    worker.send(&[&b""[..], b"MDPW01", &[3], &request[3], b"", b"y"]);
    assert_eq!(client.texts()[3], "y");
    worker.send(&["", "MDPC01", "echo", "x"]);
    assert!(broker.counts("not-allowed"), "a worker does not submit");
}

#[test]
fn wrong_keys_are_counted_and_slowed_and_right_ones_are_not() {
    let broker = Broker::with_keys(&keys());
    let refuse_one = || {
        let begun = std::time::Instant::now();
        let mut wrong = Wire::silent(broker.mdp);
        wrong.raw(&support::greeting(3, 1, "PLAIN"));
        wrong.raw(&support::command("HELLO", b"\x01x\x05wrong"));
        assert!(wrong.is_closed(Duration::from_secs(20)));
        begun.elapsed()
    };
    let slowest = (0..6).map(|_| refuse_one()).max().expect("some");
    assert!(slowest >= Duration::from_millis(900), "{slowest:?}");
    assert_eq!(broker.counters.get("wrong_key"), 6);
    assert!(broker.counts_to("credentials_refused", 6));
    // The next wrong key waits for two seconds. A right one that comes after it is let in before.
    let mut wrong = Wire::silent(broker.mdp);
    wrong.raw(&support::greeting(3, 1, "PLAIN"));
    wrong.raw(&support::command("HELLO", b"\x01x\x05wrong"));
    assert!(broker.counts_to("wrong_key", 7));
    let mut right = Wire::plain(broker.mdp, "", "lab");
    right.send(&["", "MDPC01", "mmi.weather"]);
    assert_eq!(right.texts()[3], "501");
    assert!(wrong.is_closed(Duration::from_secs(20)));
}
