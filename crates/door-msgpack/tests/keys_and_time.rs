//! What a key allows, and what happens when time passes: with the pure session, where time is an argument.

mod support;

use support::play::Play;
use tenure_hub::{Grant, Right, Rights};

#[test]
fn without_a_known_key_no_peer_is_admitted() {
    let mut play = Play::new();
    play.0.broker().keys.add(b"right", Grant { name: "lab".into(), ..Grant::everything() });
    play.hello("none", r#""identity": "x""#);
    play.hear(
        "none",
        &[r#"[1, "refused", {"code": "not-allowed", "message": "a key is required", "what": "come in", …}]"#],
    );
    assert!(play.is_closed("none"));
    play.hello("wrong", r#""key": "wrong""#);
    play.hear("wrong", &[r#"[1, "refused", {"code": "not-allowed", …}]"#]);
    assert!(play.is_closed("wrong"));
    play.hello("right", r#""key": "right""#);
    play.hear("right", &[r#"[1, "welcome", {"namespace": "default", …}]"#]);
}

#[test]
fn an_unknown_role_is_refused() {
    let mut play = Play::new();
    play.hello("king", r#""roles": ["king"]"#);
    play.hear("king", &[r#"[1, "refused", {"code": "bad-value", "what": "role", …}]"#]);
    assert!(play.is_closed("king"));
}

#[test]
fn the_number_of_an_open_watch_is_not_used_again() {
    let mut play = Play::new();
    play.hello("ada", r#""identity": "ada""#);
    play.hear("ada", &[r#"[1, "welcome", {…}]"#]);
    let watches = [r#"[2, "watching", {}]"#, r#"[0, "live", {"watch": 2, "next": *}]"#];
    play.say("ada", r#"[2, "watch", {}]"#);
    play.hear("ada", &watches);
    play.say("ada", r#"[2, "watch", {"queue": "q"}]"#);
    play.hear("ada", &[r#"[2, "refused", {"code": "bad-value", "what": "number", …}]"#]);
    play.say("ada", r#"[3, "unwatch", {"number": 2}]"#);
    play.hear("ada", &[r#"[3, "done", {}]"#]);
    play.say("ada", r#"[2, "watch", {}]"#);
    play.hear("ada", &watches);
}

#[test]
fn a_key_allows_what_it_allows() {
    let mut play = Play::new();
    let bound = Grant {
        name: "reader".into(),
        namespace: Some("lab".into()),
        rights: Rights::of(&[Right::Submit, Right::Read]),
        ..Grant::default()
    };
    let worker = Grant {
        worker: Some("w1".into()),
        rights: Rights::of(&[Right::Work]),
        name: "worker".into(),
        ..bound.clone()
    };
    play.0.broker().keys.add(b"client", bound);
    play.0.broker().keys.add(b"worker", worker);

    play.hello("elsewhere", r#""key": "client", "namespace": "other""#);
    play.hear(
        "elsewhere",
        &[r#"[1, "refused", {"code": "not-allowed", "what": "enter this namespace", …}]"#],
    );
    play.hello("would-work", r#""key": "client", "roles": ["worker"]"#);
    play.hear("would-work", &[r#"[1, "refused", {"code": "not-allowed", "what": "work", …}]"#]);

    play.hello("client", r#""key": "client""#);
    play.hear("client", &[r#"[1, "welcome", {"namespace": "lab", …}]"#]);
    play.say("client", r#"[2, "set-limit", {"tag": "gpu", "limit": 1}]"#);
    play.hear("client", &[r#"[2, "refused", {"code": "not-allowed", "what": "manage the broker", …}]"#]);
    play.say("client", r#"[3, "register", {"worker": "w3", "queues": ["q"]}]"#);
    play.hear("client", &[r#"[3, "refused", {"code": "not-allowed", "what": "work", …}]"#]);
    play.say("client", r#"[4, "submit", {"terms": [{"queue": "q"}], "tasks": [[]]}]"#);
    play.hear("client", &[r#"[4, "submitted", {…}]"#]);

    play.hello("worker", r#""key": "worker", "roles": ["worker"]"#);
    play.hear("worker", &[r#"[1, "welcome", {…}]"#]);
    play.say("worker", r#"[2, "submit", {"terms": [{"queue": "q"}], "tasks": [[]]}]"#);
    play.hear("worker", &[r#"[2, "refused", {"code": "not-allowed", …}]"#]);
    play.say("worker", r#"[3, "register", {"worker": "w2", "queues": ["q"]}]"#);
    play.hear("worker", &[r#"[3, "refused", {"code": "not-allowed", "what": "use this worker id", …}]"#]);
    play.say("worker", r#"[4, "counts"]"#);
    play.hear(
        "worker",
        &[r#"[4, "refused", {"code": "not-allowed", "what": "read tasks, results and events", …}]"#],
    );
    play.say("client", r#"[5, "counts"]"#);
    play.hear("client", &[r#"[5, "counts", {"by_state": {"ready": 1}, …}]"#]);
}

#[test]
fn a_worker_id_belongs_to_its_own_key_or_to_the_one_that_registered_it() {
    let mut play = Play::new();
    let crew = Grant { name: "crew".into(), rights: Rights::of(&[Right::Work]), ..Grant::default() };
    let own = Grant { name: "w1".into(), worker: Some("w1".into()), ..crew.clone() };
    play.0.broker().keys.add(b"own", own);
    play.0.broker().keys.add(b"crew", crew.clone());
    play.0.broker().keys.add(b"other", Grant { name: "other crew".into(), ..crew });
    for peer in ["crew", "other"] {
        play.hello(peer, &format!(r#""key": "{peer}", "roles": ["worker"]"#));
        play.hear(peer, &[r#"[1, "welcome", {…}]"#]);
    }
    let refused = |number: u8| {
        format!(r#"[{number}, "refused", {{"code": "not-allowed", "what": "use this worker id", …}}]"#)
    };
    play.say("crew", r#"[2, "register", {"worker": "w1", "queues": ["q"]}]"#);
    play.hear("crew", &[&refused(2)]);
    play.say("crew", r#"[3, "register", {"worker": "w2", "queues": ["q"]}]"#);
    play.hear("crew", &[r#"[3, "registered", {…}]"#]);
    play.say("other", r#"[2, "register", {"worker": "w2", "queues": ["q"]}]"#);
    play.hear("other", &[&refused(2)]);
}

#[test]
fn a_wait_ends_with_its_time_and_says_what_has_not_ended() {
    let mut play = Play::new();
    play.greet("ada");
    play.say("ada", r#"[2, "submit", {"terms": [{"queue": "q"}], "tasks": [[], []]}]"#);
    play.hear("ada", &[r#"[2, "submitted", {"tasks": [[$one, …], [$two, …]]}]"#]);
    play.say("ada", r#"[3, "wait", {"tasks": [$one, $two], "timeout_ms": 1000}]"#);
    play.say("ada", r#"[6, "result", {"task": $one}]"#);
    play.hear("ada", &[r#"[6, "refused", {"code": "wrong-state", "state": "ready", …}]"#]);
    play.say("ada", r#"[4, "cancel", {"task": $one}]"#);
    play.hear("ada", &[r#"[4, "done", {}]"#]);
    play.0.wait(999);
    play.hear("ada", &[]);
    play.0.wait(1);
    play.hear("ada", &[r#"[3, "ended", {"tasks": [[$one, "cancelled", -1, …]], "pending": [$two]}]"#]);
    play.say("ada", r#"[5, "cancel", {"task": $two}]"#);
    play.hear("ada", &[r#"[5, "done", {}]"#]);
    play.0.wait(10_000);
    play.hear("ada", &[]);
}

#[test]
fn a_wait_for_a_task_that_does_not_exist_is_refused() {
    let mut play = Play::new();
    play.greet("ada");
    play.say("ada", r#"[2, "wait", {"tasks": [x"ffffffffffffffffffffffffffffffff"]}]"#);
    play.hear("ada", &[r#"[2, "refused", {"code": "unknown-task", …}]"#]);
    play.say("ada", r#"[3, "wait", {"tasks": []}]"#);
    play.hear("ada", &[r#"[3, "ended", {}]"#]);
    play.say("ada", r#"[0, "wait", {"tasks": []}]"#);
    play.hear("ada", &[r#"[0, "refused", {"code": "bad-value", "what": "number", …}]"#]);
}

#[test]
fn a_call_ends_at_its_timeout_or_when_its_caller_disconnects() {
    let mut play = Play::new();
    play.greet("desk");
    play.say("desk", r#"[2, "listen", {"addresses": ["a", "b"]}]"#);
    play.hear("desk", &[r#"[2, "done", {}]"#]);
    play.greet("ada");
    play.say("ada", r#"[2, "call", {"to": "a", "timeout_ms": 500}]"#);
    play.hear("desk", &[r#"[0, "call", {"call": $call, …}]"#]);
    play.0.wait(500);
    play.hear("ada", &[r#"[2, "refused", {"code": "too-late", "deadline": *, …}]"#]);
    play.hear("desk", &[r#"[0, "call-given-up", {"call": $call}]"#]);
    play.say("desk", r#"[3, "answer", {"call": $call, "outcome": "result"}]"#);
    play.hear("desk", &[r#"[3, "refused", {"code": "bad-value", "what": "call", …}]"#]);
    play.hear("ada", &[]);
    play.say("ada", r#"[3, "call", {"to": "b"}]"#);
    play.say("ada", r#"[4, "drop-call", {"number": 3}]"#);
    play.hear("ada", &[r#"[4, "done", {}]"#]);
    play.hear(
        "desk",
        &[r#"[0, "call", {"call": $second, …}]"#, r#"[0, "call-given-up", {"call": $second}]"#],
    );
    play.say("ada", r#"[5, "drop-call", {"number": 3}]"#);
    play.hear("ada", &[r#"[5, "done", {}]"#]);
    play.hear("desk", &[]);
}

#[test]
fn an_address_has_one_listener() {
    let mut play = Play::new();
    play.greet("desk");
    play.greet("rival");
    play.say("desk", r#"[2, "listen", {"addresses": ["a"]}]"#);
    play.hear("desk", &[r#"[2, "done", {}]"#]);
    play.say("rival", r#"[2, "listen", {"addresses": ["free", "a", "also-free"]}]"#);
    play.hear("rival", &[r#"[2, "refused", {"code": "bad-value", "what": "address", …}]"#]);
    play.say("desk", r#"[3, "unlisten", {"addresses": ["a"]}]"#);
    play.say("rival", r#"[3, "listen", {"addresses": ["a"]}]"#);
    play.hear("rival", &[r#"[3, "done", {}]"#]);
}

#[test]
fn a_peer_has_ten_seconds_to_log_in() {
    let mut play = Play::new();
    play.say("slow", r#"[1, "ping"]"#);
    play.hear("slow", &[r#"[1, "refused", {"code": "hello-first", …}]"#]);
    play.0.wait(9_999);
    assert!(!play.is_closed("slow"));
    play.0.wait(1);
    play.hear("slow", &[r#"[0, "bye", {"code": "too-slow", …}]"#]);
    assert!(play.is_closed("slow"));
}

#[test]
fn a_ping_keeps_a_worker_alive() {
    let mut play = Play::new();
    play.greet("w1");
    play.say("w1", r#"[2, "register", {"worker": "w1", "queues": ["q"]}]"#);
    play.hear("w1", &[r#"[2, "registered", {}]"#]);
    for number in 3..8 {
        play.0.wait(10_000);
        play.say("w1", &format!(r#"[{number}, "ping"]"#));
        play.hear("w1", &[&format!(r#"[{number}, "pong", {{…}}]"#)]);
    }
    play.say("w1", r#"[9, "workers"]"#);
    play.hear("w1", &[r#"[9, "workers", {"workers": [{"worker": "w1", "presence": "live", …}]}]"#]);
    play.0.wait(20_000);
    play.greet("ada");
    play.say("ada", r#"[2, "workers"]"#);
    play.hear("ada", &[r#"[2, "workers", {"workers": [{"worker": "w1", "presence": "lost", …}]}]"#]);
}

#[test]
fn a_client_that_wants_no_answer_gets_only_refusals() {
    let mut play = Play::new();
    play.greet("w1");
    play.say("w1", r#"[0, "register", {"worker": "w1", "queues": ["q"], "slots": 2}]"#);
    play.hear("w1", &[]);
    play.say("w1", r#"[0, "submit", {"terms": [{"queue": "q"}], "tasks": [[], [null, b"", 7]]}]"#);
    play.hear(
        "w1",
        &[
            r#"[0, "refused", {"code": "bad-value", "what": "terms", …}]"#,
            r#"[0, "assign", {"tasks": [[$task, 1, …]], …}]"#,
        ],
    );
    play.say("w1", r#"[0, "start", {"held": [[$task, 1], [$task, 9]]}]"#);
    play.hear("w1", &[r#"[0, "refused", {"code": "stale-attempt", "attempt": 9, …}]"#]);
    play.say("w1", r#"[0, "complete", {"done": [[$task, 1]]}]"#);
    play.hear("w1", &[]);
}
