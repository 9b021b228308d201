//! Topics at the door: what it refuses itself, and what it holds apart. The page's transcripts tell the rest.

mod support;

use support::play::Play;
use tenure_hub::{Grant, Right, Rights};

#[test]
fn a_subscription_needs_a_number_of_its_own() {
    let mut play = Play::new();
    play.greet("ada");
    play.say("ada", r#"[0, "subscribe", {"topics": ["a"]}]"#);
    play.hear("ada", &[r#"[0, "refused", {"code": "bad-value", "what": "number", …}]"#]);
    play.say("ada", r#"[2, "subscribe", {"topics": ["a"]}]"#);
    play.hear("ada", &[r#"[2, "subscribed", {…}]"#]);
    play.say("ada", r#"[2, "subscribe", {"topics": ["b"]}]"#);
    play.hear("ada", &[r#"[2, "refused", {"code": "bad-value", "what": "number", …}]"#]);
    play.say("ada", r#"[3, "unsubscribe", {"number": 9}]"#);
    play.hear("ada", &[r#"[3, "refused", {"code": "unknown-subscription", …}]"#]);
    play.say("ada", r#"[4, "unsubscribe"]"#);
    play.hear("ada", &[r#"[4, "refused", {"code": "unknown-subscription", …}]"#]);
    // The number is free again when the subscription has ended.
    play.say("ada", r#"[5, "unsubscribe", {"number": 2}]"#);
    play.say("ada", r#"[2, "subscribe", {"topics": ["b"]}]"#);
    play.say("ada", r#"[6, "publish", {"messages": [["a", b"x"], ["b", b"y"]]}]"#);
    play.hear(
        "ada",
        &[
            r#"[5, "done", {}]"#,
            r#"[2, "subscribed", {…}]"#,
            r#"[6, "published", {"messages": [[1, 0, …], [1, 1, …]]}]"#,
            r#"[0, "messages", {"subscription": 2, "messages": [["b", 1, b"y", …]]}]"#,
        ],
    );
}

#[test]
fn the_subscriptions_of_a_connection_are_limited() {
    const LIMIT: u64 = 10_000;
    let mut play = Play::new();
    play.greet("ada");
    for number in 0..LIMIT {
        play.send(&format!(r#"[{}, "subscribe", {{"topics": ["a"]}}]"#, number + 2));
    }
    play.flush("ada");
    play.skip("ada");
    play.say("ada", r#"[20000, "subscribe", {"topics": ["a"]}]"#);
    play.hear(
        "ada",
        &[r#"[20000, "refused", {"code": "too-many", "what": "subscriptions", "limit": 10000, …}]"#],
    );
    play.say("ada", r#"[20001, "unsubscribe", {"number": 2}]"#);
    play.say("ada", r#"[20000, "subscribe", {"topics": ["a"]}]"#);
    play.hear("ada", &[r#"[20001, "done", {}]"#, r#"[20000, "subscribed", {…}]"#]);
}

#[test]
fn the_pending_answers_of_a_connection_are_limited() {
    const LIMIT: u64 = 4_096;
    let mut play = Play::new();
    play.greet("desk");
    play.say("desk", r#"[2, "subscribe", {"topics": ["ask"]}]"#);
    play.greet("ada");
    for number in 0..LIMIT {
        let request = r#""request", {"topic": "ask", "timeout_ms": 60000}"#;
        play.send(&format!("[{}, {request}]", number + 2));
    }
    play.flush("ada");
    play.say("ada", r#"[9000, "request", {"topic": "ask"}]"#);
    play.hear("ada", &[r#"[9000, "refused", {"code": "too-many", "limit": 4096, …}]"#]);
}

#[test]
fn a_key_that_may_neither_submit_nor_work_may_only_list_topics() {
    let mut play = Play::new();
    let reader = Grant { rights: Rights::of(&[Right::Read]), ..Grant::everything() };
    play.0.broker().keys.add(b"look", reader);
    play.hello("ada", r#""key": "look""#);
    play.hear("ada", &[r#"[1, "welcome", {…}]"#]);
    for request in [
        r#"[2, "publish", {"messages": [["a", b"x"]]}]"#,
        r#"[2, "subscribe", {"topics": ["a"]}]"#,
        r#"[2, "unsubscribe", {"id": "x"}]"#,
        r#"[2, "pause-subscription", {"id": "x"}]"#,
        r#"[2, "request", {"topic": "a"}]"#,
    ] {
        play.say("ada", request);
        play.hear("ada", &[r#"[2, "refused", {"code": "not-allowed", "what": "talk to other peers", …}]"#]);
    }
    play.say("ada", r#"[3, "topics"]"#);
    play.say("ada", r#"[4, "subscriptions", {"limit": 5}]"#);
    play.hear("ada", &[r#"[3, "topics", {}]"#, r#"[4, "subscriptions", {}]"#]);
}

#[test]
fn namespaces_hold_topics_apart() {
    let mut play = Play::new();
    play.hello("one", r#""namespace": "one""#);
    play.hello("two", r#""namespace": "two""#);
    for peer in ["one", "two"] {
        play.say(peer, r#"[2, "subscribe", {"topics": [">"], "id": "same"}]"#);
        play.hear(peer, &[r#"[1, "welcome", {…}]"#, r#"[2, "subscribed", {"created": true, …}]"#]);
    }
    play.say("one", r#"[3, "publish", {"messages": [["a", b"x"]]}]"#);
    play.hear("one", &[r#"[3, "published", {…}]"#, r#"[0, "messages", {…}]"#]);
    play.hear("two", &[]);
}
