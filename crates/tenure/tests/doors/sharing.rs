//! Keys that share a broker: none uses up what the others need, and none sees the figures of another namespace.

use std::path::Path;

use serde_json::json;
use tenure_door_resp::testing::Reply;

use crate::peers::{ALL_DOORS, Grpc, MessagePack, Resp, address, http};
use crate::support::{Broker, Said, run};

const FEW: &str = "00112233445566778899aabbccddeeff";
const LAB: &str = "102132435465768798a9bacbdcedfe0f";
const OFFICE: &str = "f0e1d2c3b4a5968778695a4b3c2d1e0f";
const ALL: &str = "ffeeddccbbaa99887766554433221100";

/// A submission of gRPC with one task, whose queue is `six`.
const ONE_TASK: &[u8] = b"\x0a\x05\x0a\x03six\x12\x00";

fn start(directory: &Path) -> Broker {
    let key =
        |name: &str, key: &str, more: &str| format!("[[keys]]\nname = \"{name}\"\nkey = \"{key}\"\n{more}\n");
    let text = key("few", FEW, "namespaces_max = 1\nqueues_max = 2")
        + &key("lab", LAB, "namespace = \"lab\"")
        + &key("office", OFFICE, "namespace = \"office\"")
        + &key("all", ALL, "");
    std::fs::write(directory.join("tenure.toml"), text).unwrap();
    Broker::start_in(directory, &ALL_DOORS)
}

fn native(broker: &Broker, key: &str, args: &[&str]) -> Said {
    let mut command = broker.command(args);
    command.env("TENURE_KEY", key);
    run(command)
}

/// Calls a method of gRPC and waits for its end.
fn grpc(broker: &Broker, key: &str, path: &str, message: &[u8]) {
    let mut call = Grpc::call(broker, Some(key), path, message);
    while !call.frame().1 {}
}

#[test]
fn one_key_uses_up_neither_the_queues_nor_the_namespaces_of_the_others_through_any_door() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path());
    for queue in ["one", "two"] {
        native(&broker, FEW, &["submit", "-q", queue, "x"]).ok();
    }
    let full = "at most 2 queues of this key";
    native(&broker, FEW, &["submit", "-q", "three", "x"]).fails(75, full);
    let said = Resp::with_key(address(&broker, "resp"), FEW).refusal("LPUSH queue:four x");
    assert!(said.contains(full), "{said}");
    let answer = http(&broker, Some(FEW), "POST", "/v1/queues/five/tasks", b"x");
    assert_eq!(answer.status, 503);
    let said = answer.json();
    assert!(said["code"] == "full" && said["detail"].as_str().unwrap().contains(full), "{said}");
    grpc(&broker, FEW, "/tenure.v1.Tasks/Submit", ONE_TASK);
    let mut older = MessagePack::older(address(&broker, "xmessage"), "actioner", Some(FEW));
    older.say(r#"{"ActionerOp": {"AddTask": "x"}}"#);
    older.say(r#""Over""#);
    assert!(older.is_closed());
    let seen = native(&broker, ALL, &["queues", "-o", "json"]).json();
    let queues: Vec<&str> =
        seen.as_array().unwrap().iter().map(|queue| queue["queue"].as_str().unwrap()).collect();
    assert_eq!(queues, ["one", "two"]);
    grpc(&broker, ALL, "/tenure.v1.Tasks/Submit", ONE_TASK);
    let seen = native(&broker, ALL, &["queues", "-o", "json"]).json();
    assert_eq!(seen.as_array().unwrap().len(), 3, "another key is not limited: {seen}");

    // The command says so at once: another try would be refused, too.
    let full = "too many namespaces of this key: at most 1";
    native(&broker, FEW, &["--namespace", "n1", "--connect-timeout", "10m", "queues"]).fails(76, full);
    let answer = http(&broker, Some(FEW), "GET", "/v1/queues?namespace=n2", b"");
    assert_eq!(answer.status, 400);
    assert!(answer.json()["detail"].as_str().unwrap().contains(full));
    native(&broker, ALL, &["--namespace", "n3", "queues"]).ok();
    native(&broker, FEW, &["queues"]).ok();
}

#[test]
fn a_key_with_a_namespace_sees_the_figures_of_no_other_through_any_door() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path());
    for _ in 0..3 {
        native(&broker, OFFICE, &["submit", "-q", "payroll", "x"]).ok();
    }
    native(&broker, OFFICE, &["limits", "set", "secret-tag", "1"]).ok();
    native(&broker, LAB, &["submit", "-q", "ours", "x"]).ok();
    let text = |reply: Option<Reply>| match reply {
        Some(Reply::Bulk(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    let figures = |key: &str| {
        let mut resp = Resp::with_key(address(&broker, "resp"), key);
        let mut seen = vec![
            native(&broker, key, &["stats", "-o", "json"]).ok(),
            native(&broker, key, &["queues", "-o", "json"]).ok(),
            http(&broker, Some(key), "GET", "/metrics", b"").text(),
            http(&broker, Some(key), "GET", "/v1/queues", b"").text(),
        ];
        seen.extend(["INFO", "METRICS", "METRICS json"].map(|command| text(resp.ask(command))));
        seen
    };
    for seen in figures(LAB) {
        assert!(!seen.contains("payroll") && !seen.contains("secret-tag"), "{seen}");
        assert!(!seen.contains("office"), "{seen}");
    }
    let ready =
        |key: &str| native(&broker, key, &["stats", "-o", "json"]).json()["by_state"]["ready"].clone();
    assert_eq!((ready(LAB), ready(OFFICE)), (json!(1), json!(3)));
    let all = figures(ALL).concat();
    assert!(all.contains("payroll") && all.contains("ours"), "{all}");
}
