//! A key that is taken out of the configuration: everything that came in with it ends at SIGHUP, at every door, and the
//! others go on.

use std::io::Write as _;
use std::process::Stdio;

use tenure_door_resp::testing::Reply;

use crate::peers::zmtp::Wire;
use crate::peers::{ALL_DOORS, Grpc, HEADERS, HttpAnswer, MessagePack, Resp, address, http};
use crate::support::{Broker, TIMEOUT, eventually, run};

const GONE: &str = "00112233445566778899aabbccddeeff";
const KEPT: &str = "ffeeddccbbaa99887766554433221100";

fn entry(name: &str, key: &str) -> String {
    format!("[[keys]]\nname = \"{name}\"\nkey = \"{key}\"\n")
}

struct Peers {
    resp_idle: Resp,
    resp_subscribed: Resp,
    resp_blocked: Resp,
    zmq: Wire,
    grpc_topics: Grpc,
    grpc_watch: Grpc,
    http_events: HttpAnswer,
    http_messages: HttpAnswer,
    older_worker: MessagePack,
    older_idle: MessagePack,
    native: std::process::Child,
}

fn resp(broker: &Broker, key: &str) -> Resp {
    let mut peer = Resp::with_key(address(broker, "resp"), key);
    assert_eq!(peer.ask("LLEN queue:q"), Some(Reply::Integer(0)));
    peer
}

/// A peer of the older dialect that was let in.
fn older(broker: &Broker, role: &str, key: &str) -> MessagePack {
    let mut peer = MessagePack::older(address(broker, "xmessage"), role, Some(key));
    while !peer.hear().expect("the broker greets").to_string().contains("Go") {}
    peer
}

impl Peers {
    fn come_in(broker: &Broker, key: &str, worker: &str) -> Peers {
        let mut resp_subscribed = resp(broker, key);
        assert!(
            matches!(resp_subscribed.ask("SUBSCRIBE news"), Some(Reply::Array(parts)) if parts.len() == 3)
        );
        let mut resp_blocked = resp(broker, key);
        assert_eq!(resp_blocked.ask(&format!("PING {worker}")), Some(Reply::Bulk(worker.to_owned().into())));
        let blocked = format!("BRPOP queue:{worker} 0\r\n");
        resp_blocked.stream.write_all(blocked.as_bytes()).expect("the broker reads");
        let mut zmq = Wire::plain(address(broker, "mdp").parse().unwrap(), "x", key);
        zmq.send(&["", "MDPW01", "\u{1}", worker]);
        let topics = "/nexusd.sidecar.SidecarService/Subscribe";
        let mut grpc_topics = Grpc::call(broker, Some(key), topics, b"\n\x04news");
        let mut grpc_watch = Grpc::call(broker, Some(key), "/tenure.v1.Tasks/Watch", b"");
        for stream in [&mut grpc_topics, &mut grpc_watch] {
            // The headers of the answer: it has begun.
            while stream.frame() != (HEADERS, false) {}
        }
        let mut command = broker.command(&["watch"]);
        command.env("TENURE_KEY", key).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        let native = command.spawn().expect("the program starts");
        let (older_worker, older_idle) = (older(broker, "worker", key), older(broker, "actioner", key));
        let resp_idle = resp(broker, key);
        let stream = |path| http(broker, Some(key), "GET", path, b"");
        let (http_events, http_messages) = (stream("/v1/events"), stream("/v1/messages?topic=news"));
        Peers {
            resp_idle,
            resp_subscribed,
            resp_blocked,
            zmq,
            grpc_topics,
            grpc_watch,
            http_events,
            http_messages,
            older_worker,
            older_idle,
            native,
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.native.kill();
        let _ = self.native.wait();
    }
}

#[test]
fn whatever_came_in_with_a_removed_key_ends_at_every_door() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tenure.toml");
    std::fs::write(&file, entry("gone", GONE) + &entry("kept", KEPT)).unwrap();
    let broker = Broker::start_in(dir.path(), &ALL_DOORS);
    let mut gone = Peers::come_in(&broker, GONE, "w1");
    let mut kept = Peers::come_in(&broker, KEPT, "w2");
    let tenure = |args: &[&str]| {
        let mut command = broker.command(args);
        command.env("TENURE_KEY", KEPT);
        run(command)
    };
    eventually("the three workers of each key are there", || {
        tenure(&["workers", "-o", "json"]).json().as_array().is_some_and(|workers| workers.len() >= 6)
    });

    std::fs::write(&file, entry("kept", KEPT)).unwrap();
    broker.signal("-HUP");
    assert!(gone.resp_idle.is_closed() && gone.resp_subscribed.is_closed() && gone.resp_blocked.is_closed());
    assert!(gone.zmq.is_closed(TIMEOUT));
    assert!(gone.older_worker.is_closed() && gone.older_idle.is_closed());
    for stream in [&mut gone.grpc_topics, &mut gone.grpc_watch] {
        while !stream.frame().1 {}
    }
    assert!(gone.http_events.ends() && gone.http_messages.ends());
    eventually("the watch of the native door ends", || gone.native.try_wait().unwrap().is_some());

    assert_eq!(kept.resp_idle.ask("LLEN queue:q"), Some(Reply::Integer(0)));
    assert_eq!(kept.resp_idle.ask("LPUSH queue:w2 hello"), Some(Reply::Integer(1)));
    assert!(matches!(kept.resp_blocked.reply(), Some(Reply::Bulk(_))), "it gets the job");
    kept.older_idle.say(r#""WorkerTablePrint""#);
    assert!(kept.older_idle.hear().is_some(), "it is answered");
    assert!(kept.native.try_wait().unwrap().is_none(), "the other watch goes on");
    let mut again = Resp::connect(address(&broker, "resp"));
    assert!(again.refusal(&format!("AUTH {GONE}")).starts_with("ERR"));
}
