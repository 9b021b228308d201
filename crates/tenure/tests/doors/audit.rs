//! The audit log of a real broker, through every door.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use tenure_door_resp::testing::Reply;

use crate::peers::zmtp::{Wire, greeting};
use crate::peers::{ALL_DOORS, Grpc, MessagePack, Resp, address, http};
use crate::support::{Broker, eventually, run, serve};

const ADMIN: &str = "00112233445566778899aabbccddeeff";
const LOOKER: &str = "ffeeddccbbaa99887766554433221100";
const WRONG: &str = "deadbeefdeadbeefdeadbeefdeadbeef";
const BODY: &str = "a-body-that-is-nobodys-business";

fn with_keys(dir: &Path) {
    let key =
        |name: &str, key: &str, more: &str| format!("[[keys]]\nname = \"{name}\"\nkey = \"{key}\"\n{more}\n");
    let text = key("admin", ADMIN, "") + &key("looker", LOOKER, "may = [\"read\"]");
    std::fs::write(dir.join("tenure.toml"), text).unwrap();
}

fn start(dir: &Path, more: &[&str]) -> Broker {
    let log = dir.join("audit.log");
    let mut args = vec!["--audit-log", log.to_str().unwrap()];
    args.extend(ALL_DOORS);
    args.extend(more);
    Broker::start_in(dir, &args)
}

fn lines(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("audit.log")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect()
}

/// Waits for a line with these fields.
#[track_caller]
fn told(dir: &Path, fields: &[(&str, &str)]) -> Value {
    let mut found = None;
    let is_it = |line: &Value| fields.iter().all(|(field, value)| line[*field] == *value);
    eventually(&format!("{fields:?} in {:#?}", lines(dir)), || {
        found = lines(dir).into_iter().find(is_it);
        found.is_some()
    });
    found.unwrap()
}

/// An act, a missing right and a wrong key, each with who and from where.
#[track_caller]
fn told_at(dir: &Path, door: &str, act: &str) {
    let here = [("door", door), ("from", "127.0.0.1")];
    let done = [&here[..], &[("act", act), ("outcome", "done"), ("key", "admin"), ("namespace", "default")]];
    let line = told(dir, &done.concat());
    assert!(
        !line["identity"].as_str().unwrap().is_empty() && line["at"].as_str().unwrap().ends_with('Z'),
        "{line}"
    );
    let refused = [&here[..], &[("outcome", "refused"), ("code", "not-allowed"), ("key", "looker")]];
    told(dir, &refused.concat());
    let wrong = told(
        dir,
        &[&here[..], &[("act", "connect"), ("outcome", "refused"), ("code", "wrong-key")]].concat(),
    );
    assert_eq!(wrong.get("key"), None);
}

#[test]
fn one_act_and_each_refusal_of_a_key_are_audited_at_every_door() {
    let dir = tempfile::tempdir().unwrap();
    with_keys(dir.path());
    let broker = start(dir.path(), &[]);
    let native = |key: &str, args: &[&str]| {
        let mut command = broker.command(args);
        command.env("TENURE_KEY", key);
        run(command)
    };

    let said = native(ADMIN, &["submit", "--queue", "q", "-o", "json", BODY]).json();
    native(LOOKER, &["queues", "pause", "q"]).fails(77, "manage");
    native(WRONG, &["list"]).fails(77, "key");
    told_at(dir.path(), "native", "submit");
    told(dir.path(), &[("task", said["task"].as_str().unwrap()), ("queue", "q")]);
    told(dir.path(), &[("act", "pause-queue"), ("why", "this key may not manage the broker")]);

    let mut resp = Resp::connect(address(&broker, "resp"));
    let ok = Some(Reply::Simple("OK".into()));
    assert!(resp.refusal("LPUSH queue:r early").starts_with("NOAUTH"));
    assert!(resp.refusal(&format!("AUTH {WRONG}")).starts_with("ERR"));
    assert_eq!(resp.ask(&format!("AUTH {LOOKER}")), ok);
    assert!(resp.refusal("PUBLISH news x").starts_with("NOPERM"));
    assert_eq!(resp.ask(&format!("AUTH {ADMIN}")), ok);
    assert_eq!(resp.ask(&format!("LPUSH queue:r {BODY}")), Some(Reply::Integer(1)));
    told_at(dir.path(), "resp", "submit");
    told(dir.path(), &[("door", "resp"), ("code", "no-key")]);

    let mdp = address(&broker, "mdp").parse().unwrap();
    assert!(Wire::plain_refused(mdp, "x", WRONG));
    let mut zmq = [LOOKER, ADMIN].map(|key| Wire::plain(mdp, "x", key));
    for peer in &mut zmq {
        peer.send(&["", "MDPC01", "echo", BODY]);
    }
    Wire::silent(mdp).raw(&greeting(3, 1, "NULL"));
    told_at(dir.path(), "mdp", "submit");
    told(dir.path(), &[("door", "mdp"), ("code", "no-key")]);

    let pause = "/tenure.v1.Broker/PauseQueue";
    let _calls =
        [Some(ADMIN), Some(LOOKER), Some(WRONG), None].map(|key| Grpc::call(&broker, key, pause, b"\n\x01q"));
    told_at(dir.path(), "grpc", "pause-queue");
    told(dir.path(), &[("door", "grpc"), ("code", "no-key")]);

    for key in [Some(ADMIN), Some(LOOKER), Some(WRONG), None] {
        http(&broker, key, "POST", "/v1/queues/q/pause", b"");
    }
    told_at(dir.path(), "http", "pause-queue");
    told(dir.path(), &[("door", "http"), ("code", "no-key")]);

    let older = address(&broker, "xmessage");
    for key in [ADMIN, LOOKER, WRONG] {
        let mut peer = MessagePack::older(older, "actioner", Some(key));
        peer.say(r#"{"ActionerOp": {"AddTask": "fetch"}}"#);
        peer.say(r#""Over""#);
        assert!(peer.is_closed());
    }
    told_at(dir.path(), "xmessage", "submit");
    assert!(MessagePack::older(older, "actioner", None).is_closed());
    told(dir.path(), &[("door", "xmessage"), ("from", "127.0.0.1"), ("code", "no-key")]);

    with_keys(dir.path());
    let file = dir.path().join("tenure.toml");
    let kept = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        format!("ended_kept = 77\n{}", kept.split("[[keys]]\nname = \"looker\"").next().unwrap()),
    )
    .unwrap();
    broker.signal("-HUP");
    let reload = told(dir.path(), &[("act", "reload"), ("door", "broker"), ("outcome", "done")]);
    assert_eq!(
        (&reload["settings"], &reload["keys_removed"]),
        (&serde_json::json!(["ended_kept"]), &serde_json::json!(["looker"]))
    );

    broker.signal("-TERM");
    let (code, log) = broker.ended();
    assert_eq!(code, Some(0), "{log}");
    let all = lines(dir.path());
    assert_eq!((all[0]["act"].as_str(), all.last().unwrap()["act"].as_str()), (Some("start"), Some("stop")));
    let text = std::fs::read_to_string(dir.path().join("audit.log")).unwrap();
    for secret in [ADMIN, LOOKER, WRONG, BODY] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
    let mode = std::fs::metadata(dir.path().join("audit.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_broker_without_keys_tells_who_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &["--audit-level", "all"]);
    let mut older = MessagePack::older(address(&broker, "xmessage"), "actioner", None);
    older.say(r#"{"ActionerOp": {"AddTask": "fetch"}}"#);
    let line = told(dir.path(), &[("door", "xmessage"), ("act", "submit"), ("outcome", "done")]);
    assert_eq!(line.get("key"), None);
    assert!(line["identity"].as_str().unwrap().starts_with("actioner-"), "{line}");
    let worker = broker.worker("w1", "q");
    broker.tenure(&["submit", "--queue", "q", "--wait", "x"]).ok();
    told(dir.path(), &[("act", "register"), ("target", "w1"), ("door", "native")]);
    told(dir.path(), &[("act", "complete"), ("worker", "w1"), ("outcome", "done")]);
    drop(worker);
}

#[test]
fn files_rotate_and_a_log_that_cannot_be_written_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &["--audit-log-size", "64KB", "--audit-log-files", "3"]);
    let mut older = MessagePack::older(address(&broker, "xmessage"), "actioner", None);
    for _ in 0..1_500 {
        older.say(r#"{"ActionerOp": {"AddTask": "fetch"}}"#);
    }
    eventually("files are rotated", || dir.path().join("audit.log.2").exists());
    broker.tenure(&["limits", "set", "gpu", "1"]).ok();
    told(dir.path(), &[("act", "set-limit"), ("tag", "gpu")]);
    let sizes: Vec<u64> = ["audit.log", "audit.log.1", "audit.log.2"]
        .iter()
        .map(|name| std::fs::metadata(dir.path().join(name)).unwrap().len())
        .collect();
    assert!(sizes.iter().all(|size| *size <= 64 * 1_024), "{sizes:?}");
    assert!(!dir.path().join("audit.log.3").exists());
    drop(broker);

    let check = |path: &Path, hint: &str| {
        let path = path.to_str().unwrap();
        run(serve(&dir.path().join("other"), &["--audit-log", path])).fails(71, hint);
        let mut command = crate::support::program(&["config", "check"]);
        command.env("TENURE_AUDIT_LOG", path).env("TENURE_DATA_DIR", dir.path().join("other"));
        run(command).fails(71, hint);
    };
    check(&dir.path().join("nowhere/audit.log"), "nowhere is not a directory");
    check(dir.path(), "it is not a regular file");
}
