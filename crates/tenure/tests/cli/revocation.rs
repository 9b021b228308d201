//! A key that is taken out of the configuration: everything that came in with it ends at SIGHUP, at every door, and the
//! others go on. The older dialect takes no keys.

use std::process::Stdio;

use crate::speakers::{ALL_DOORS, Speaker};
use crate::support::{Broker, eventually, run};

const GONE: &str = "00112233445566778899aabbccddeeff";
const KEPT: &str = "ffeeddccbbaa99887766554433221100";

fn entry(name: &str, key: &str) -> String {
    format!("[[keys]]\nname = \"{name}\"\nkey = \"{key}\"\n")
}

struct Peers {
    resp_idle: Speaker,
    resp_subscribed: Speaker,
    resp_blocked: Speaker,
    zmq: Speaker,
    grpc_topics: Speaker,
    grpc_watch: Speaker,
    native: std::process::Child,
}

fn resp(broker: &Broker, key: &str) -> Speaker {
    let mut peer = Speaker::at(broker, "resp");
    assert_eq!(peer.resp(&format!("AUTH {key}")), "+OK");
    assert_eq!(peer.resp("LLEN queue:q"), ":0");
    peer
}

impl Peers {
    fn come_in(broker: &Broker, key: &str, worker: &str) -> Peers {
        let mut resp_subscribed = resp(broker, key);
        assert_eq!(resp_subscribed.resp("SUBSCRIBE news"), "*3");
        let mut resp_blocked = resp(broker, key);
        assert_eq!(resp_blocked.resp(&format!("PING {worker}")), "$2");
        assert_eq!(resp_blocked.line(), worker);
        resp_blocked.write(format!("BRPOP queue:{worker} 0\r\n").as_bytes());
        let (mut zmq, said) = Speaker::zmq(broker, key);
        assert_eq!(said, "WELCOME");
        zmq.zmq_send(&["", "MDPW01", "\u{1}", worker]);
        let topics = "/nexusd.sidecar.SidecarService/Subscribe";
        let mut grpc_topics = Speaker::grpc(broker, Some(key), topics, b"\n\x04news");
        let mut grpc_watch = Speaker::grpc(broker, Some(key), "/tenure.v1.Tasks/Watch", b"");
        for stream in [&mut grpc_topics, &mut grpc_watch] {
            // The headers of the answer: it has begun.
            while stream.grpc_frame() != (1, false) {}
        }
        let mut command = broker.command(&["watch"]);
        command.env("TENURE_KEY", key).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        let native = command.spawn().expect("the program starts");
        let resp_idle = resp(broker, key);
        Peers { resp_idle, resp_subscribed, resp_blocked, zmq, grpc_topics, grpc_watch, native }
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
    eventually("both workers of each key are there", || {
        tenure(&["workers", "-o", "json"]).json().as_array().is_some_and(|workers| workers.len() >= 4)
    });

    std::fs::write(&file, entry("kept", KEPT)).unwrap();
    broker.signal("-HUP");
    assert!(gone.resp_idle.is_closed() && gone.resp_subscribed.is_closed() && gone.resp_blocked.is_closed());
    assert!(gone.zmq.is_closed());
    for stream in [&mut gone.grpc_topics, &mut gone.grpc_watch] {
        while !stream.grpc_frame().1 {}
    }
    eventually("the watch of the native door ends", || gone.native.try_wait().unwrap().is_some());

    assert_eq!(kept.resp_idle.resp("LLEN queue:q"), ":0");
    assert_eq!(kept.resp_idle.resp("LPUSH queue:w2 hello"), ":1");
    assert!(kept.resp_blocked.line().starts_with('$'), "it gets the job");
    assert!(kept.native.try_wait().unwrap().is_none(), "the other watch goes on");
    let mut again = Speaker::at(&broker, "resp");
    assert!(again.resp(&format!("AUTH {GONE}")).starts_with("-ERR"));
}
