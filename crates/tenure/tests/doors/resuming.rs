//! A subscriber that keeps no numbers, and a broker that is killed while the subscriber listens.

use tenure_wire::VERSION;

use crate::peers::MessagePack;
use crate::support::{Broker, eventually};

fn peer(broker: &Broker, identity: &str) -> MessagePack {
    let mut peer = MessagePack::connect(&broker.address);
    peer.ask(1, &format!(r#"[1, "hello", {{"version": {VERSION}, "identity": "{identity}"}}]"#));
    peer
}

fn publish(broker: &Broker, payload: &str) {
    let request = format!(r#"[2, "publish", {{"messages": [["news", b"{payload}"]]}}]"#);
    assert!(peer(broker, "ada").ask(2, &request).to_string().contains("published"));
}

#[test]
fn a_native_subscriber_without_numbers_learns_that_the_broker_was_killed_and_what_may_be_lost() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::start_in(directory.path(), &[]);
    let mut ear = peer(&broker, "ear");
    ear.ask(2, r#"[2, "subscribe", {"topics": ["news"], "id": "ear-1"}]"#);
    publish(&broker, "before");
    assert!(ear.hear().expect("a message").to_string().contains("before"));
    // The subscription and the numbers of its topic are written within a moment.
    let log = || std::fs::read_dir(directory.path()).unwrap().flatten();
    eventually("both are on disk", || {
        log().filter(|file| file.file_name().to_string_lossy().starts_with("topics-")).any(|file| {
            let bytes = std::fs::read(file.path()).unwrap_or_default();
            ["ear-1", "news"].iter().all(|name| bytes.windows(name.len()).any(|part| part == name.as_bytes()))
        })
    });
    publish(&broker, "unsaved");
    broker.signal("-KILL");
    broker.ended();

    let broker = Broker::start_in(directory.path(), &[]);
    let mut ear = peer(&broker, "ear");
    let told = ear.ask(3, r#"[3, "subscribe", {"id": "ear-1", "recovery": "replay"}]"#).to_string();
    for part in [r#""restarted": true"#, r#""unsure": true"#] {
        assert!(told.contains(part), "{told}");
    }
    assert!(!told.contains("missed"), "the number is not known: {told}");
    let gap = ear.hear().expect("what may be lost").to_string();
    assert!(gap.contains("topic-gap") && gap.contains(r#""reason": "crashed""#), "{gap}");
    publish(&broker, "after");
    while !ear.hear().expect("a message").to_string().contains("after") {}
}
