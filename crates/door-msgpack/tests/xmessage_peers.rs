//! Workers and actioners of the older dialect when time passes and things go wrong: with the pure session.

mod support;

use bytes::BytesMut;
use support::pure::PureStage;
use support::{Stage as _, WaitFor};
use tenure_door_msgpack::xmessage::codec::{
    Operation, XMessage, XMessageId, XMessageIntroduction, XMessageKey, XMessageState, XMessageTaskOptions,
    decode, encode, fuzz,
};
use tenure_door_msgpack::xmessage::session::Session;
use tenure_hub::{Grant, Right, Rights};
use tenure_wire::value::Value;

struct Play(PureStage<Session>);

impl Play {
    fn new() -> Play {
        Play(PureStage::new(Session::new))
    }

    fn say(&mut self, peer: &str, message: &XMessage) {
        let mut frame = BytesMut::new();
        encode(&mut frame, message);
        self.0.say(peer, &frame);
    }

    fn hear(&mut self, peer: &str) -> Vec<XMessage> {
        let frames = self.0.hear(peer, WaitFor::Short).frames;
        let message = |value: Value| {
            let mut frame = BytesMut::new();
            value.write(&mut frame);
            decode(&frame.freeze()).unwrap()
        };
        frames.into_iter().map(message).collect()
    }

    fn meet(&mut self, peer: &str, role: &str) {
        assert_eq!(self.hear(peer), [XMessage::HandShake("Who you are?".into())]);
        self.say(peer, &XMessage::HandShake(role.into()));
        assert_eq!(self.hear(peer), [XMessage::HandShake("Go".into())]);
    }

    /// Adds and plays a task that the worker starts.
    fn launch(&mut self, actioner: &str, worker: &str) -> XMessageId {
        self.say(actioner, &XMessage::ActionerOp(Operation::AddTask("task:x".into())));
        let added = self.text(actioner);
        let id: tenure_wire::TaskId = added["Add task id=".len()..][..36].parse().unwrap();
        self.say(actioner, &XMessage::ActionerOp(Operation::PlayTask(XMessageId(id.0))));
        self.hear(actioner);
        let launched = self.hear(worker);
        let Some(XMessage::TaskLaunch { task_id, record_id }) = launched.first() else {
            panic!("{launched:?}")
        };
        assert_eq!(record_id, "task:x");
        *task_id
    }

    fn started(&mut self, actioner: &str, worker: &str) -> XMessageId {
        let id = self.launch(actioner, worker);
        self.say(
            worker,
            &XMessage::TaskStateChange { id, from: XMessageState::Submit, to: XMessageState::Run },
        );
        assert_eq!(self.hear(worker), []);
        id
    }

    /// The line of numbers below the table.
    fn counts(&mut self, actioner: &str) -> String {
        self.say(actioner, &XMessage::TaskTablePrint { states: vec![] });
        self.text(actioner).lines().last().unwrap_or_default().to_owned()
    }

    fn text(&mut self, peer: &str) -> String {
        let heard = self.hear(peer);
        let [XMessage::BulkMessage(text)] = &heard[..] else { panic!("{heard:?}") };
        text.clone()
    }
}

#[test]
fn the_broker_beats_every_two_seconds_and_a_worker_that_beats_too_stays() {
    let mut play = Play::new();
    play.meet("w", "worker");
    play.meet("a", "actioner");
    play.started("a", "w");
    for _ in 0..30 {
        play.0.wait(2_000);
        assert_eq!(play.hear("w"), [XMessage::HeartBeat(0)]);
        play.say("w", &XMessage::HeartBeat(5677));
    }
    assert!(play.counts("a").contains("run: 1"));
}

#[test]
fn a_worker_that_misses_ten_beats_is_lost_and_its_task_waits_for_a_decision() {
    let mut play = Play::new();
    play.meet("w", "worker");
    play.meet("a", "actioner");
    let id = play.started("a", "w");
    play.0.wait(19_999);
    assert!(play.counts("a").contains("run: 1"));
    play.0.wait(2);
    assert!(play.counts("a").contains("pause: 1, run: 0"));
    // It wakes up: its report is too late, and the broker says so.
    play.hear("w");
    play.say(
        "w",
        &XMessage::TaskStateChange { id, from: XMessageState::Run, to: XMessageState::Terminated(0) },
    );
    let answer = play.hear("w");
    let is_stale = |message: &XMessage| matches!(message, XMessage::BulkMessage(text) if text.starts_with("stale-attempt"));
    let is_stop =
        |message: &XMessage| matches!(message, XMessage::WorkerOp { op: Operation::KillTask(_), .. });
    assert!(answer.iter().any(|message| is_stale(message) || is_stop(message)), "{answer:?}");
    assert!(play.counts("a").contains("pause: 1, run: 0, complete: 0"));
}

#[test]
fn what_a_lost_worker_may_have_begun_without_saying_so_is_paused() {
    let mut play = Play::new();
    play.meet("w", "worker");
    play.meet("a", "actioner");
    play.launch("a", "w");
    assert!(play.counts("a").contains("submit: 0, pause: 0, run: 1"), "{}", play.counts("a"));
    play.0.close("w");
    assert!(play.counts("a").contains("ready: 0, submit: 0, pause: 1"), "{}", play.counts("a"));
    play.hear("w2");
    play.say("w2", &XMessage::HandShake("worker".into()));
    assert_eq!(play.hear("w2"), [XMessage::HandShake("Go".into())], "it is not run twice");
}

#[test]
fn a_worker_id_with_a_key_of_its_own_is_not_another_keys() {
    let mut play = Play::new();
    let worker = |name: &str| Grant { name: name.into(), ..Grant::everything() };
    play.0.broker().keys.add(b"own", Grant { worker: Some("w1".into()), ..worker("own") });
    play.0.broker().keys.add(b"other", worker("other"));
    let introduction = |key: &str| {
        XMessage::HandShakeWith(XMessageIntroduction {
            role: "worker".into(),
            key: Some(XMessageKey(key.to_owned().into())),
            name: Some("w1".into()),
            ..XMessageIntroduction::default()
        })
    };
    play.hear("thief");
    play.say("thief", &introduction("other"));
    let said = play.hear("thief");
    assert!(
        matches!(&said[..], [XMessage::BulkMessage(text)] if text.contains("use this worker id")),
        "{said:?}"
    );
    play.hear("w");
    play.say("w", &introduction("own"));
    assert_eq!(play.hear("w"), [XMessage::HandShake("Go".into())]);
}

#[test]
fn every_end_that_a_worker_can_report_arrives() {
    for (to, expected) in [
        (XMessageState::Terminated(0), "complete: 1, killed: 0"),
        (XMessageState::Terminated(-1), "complete: 0, killed: 1"),
        (XMessageState::Terminated(3), "run: 0, complete: 0, killed: 0"),
        (XMessageState::Pause, "pause: 1, run: 0"),
    ] {
        let mut play = Play::new();
        play.meet("w", "worker");
        play.meet("a", "actioner");
        let id = play.started("a", "w");
        play.say("w", &XMessage::TaskStateChange { id, from: XMessageState::Run, to });
        assert!(play.counts("a").contains(expected), "{to:?}: {}", play.counts("a"));
        assert_eq!(play.hear("w"), [], "{to:?}");
    }
}

#[test]
fn a_paused_task_is_played_again() {
    let mut play = Play::new();
    play.meet("w", "worker");
    play.meet("a", "actioner");
    let id = play.started("a", "w");
    play.say("a", &XMessage::ActionerOp(Operation::PauseTask(id)));
    assert_eq!(play.text("a"), format!("Pause task uuid={id}."));
    assert_eq!(play.hear("w"), [XMessage::WorkerOp { op: Operation::PauseTask(id), id }]);
    play.say("w", &XMessage::TaskStateChange { id, from: XMessageState::Run, to: XMessageState::Pause });
    assert!(play.counts("a").contains("pause: 1"));
    play.say("a", &XMessage::ActionerOp(Operation::PlayTask(id)));
    assert_eq!(play.text("a"), format!("Launching task uuid={id}."));
    assert_eq!(play.hear("w"), [XMessage::TaskLaunch { task_id: id, record_id: "task:x".into() }]);
}

#[test]
fn silent_malformed_and_keyless_peers_are_disconnected() {
    let mut play = Play::new();
    play.hear("silent");
    play.0.wait(10_000);
    assert!(matches!(&play.hear("silent")[..], [XMessage::BulkMessage(_)]));
    assert!(play.0.hear("silent", WaitFor::Short).closed);

    play.hear("confused");
    play.say("confused", &XMessage::Over);
    assert!(matches!(&play.hear("confused")[..], [XMessage::BulkMessage(_)]));
    assert!(play.0.hear("confused", WaitFor::Short).closed);

    play.0.broker().keys.add(b"secret", Grant::everything());
    play.hear("keyless");
    play.say("keyless", &XMessage::HandShake("worker".into()));
    let heard = play.hear("keyless");
    assert!(
        matches!(&heard[..], [XMessage::BulkMessage(text)] if text.starts_with("not-allowed") && text.contains("HandShakeWith")),
        "{heard:?}"
    );
    assert!(play.0.hear("keyless", WaitFor::Short).closed);
}

#[test]
fn noise_is_answered_with_text_and_is_harmless() {
    let mut play = Play::new();
    play.meet("a", "actioner");
    for noise in [&[0, 0, 0, 1, 0xc1][..], &[0, 0, 0, 0], &[0, 0, 0, 2, 0x81, 0xa0]] {
        play.0.say("a", noise);
        assert!(!play.text("a").is_empty());
    }
    assert!(play.counts("a").starts_with("created: 0"));
    play.0.say("a", &[0xff; 8]);
    assert!(play.0.hear("a", WaitFor::Short).closed, "a frame without measure ends it");
    for byte in 0..=255 {
        fuzz(&[byte]);
        fuzz(&[0, 0, 0, 2, 0x81, byte]);
    }
}

#[test]
fn a_worker_that_was_lost_joins_again_at_its_next_beat_and_gets_work() {
    let mut play = Play::new();
    play.meet("w", "worker");
    play.meet("a", "actioner");
    let lost = play.started("a", "w");
    play.0.wait(20_001);
    assert!(play.counts("a").contains("pause: 1, run: 0"));
    let told = play.hear("w");
    assert!(
        told.contains(&XMessage::WorkerOp { op: Operation::KillTask(lost), id: lost }),
        "the broker tells it to stop: {told:?}"
    );

    // Two beats at once, as a process sends that was stopped for a while: it joins once.
    let mut beats = BytesMut::new();
    encode(&mut beats, &XMessage::HeartBeat(5677));
    encode(&mut beats, &XMessage::HeartBeat(5677));
    play.0.say("w", &beats);
    assert_eq!(play.hear("w"), [], "no complaint");
    let next = play.started("a", "w");
    assert_ne!(next, lost);

    // The attempt that was lost stays lost.
    play.say(
        "w",
        &XMessage::TaskStateChange { id: lost, from: XMessageState::Run, to: XMessageState::Terminated(0) },
    );
    assert!(play.text("w").starts_with("stale-attempt"));
    play.say(
        "w",
        &XMessage::TaskStateChange { id: next, from: XMessageState::Run, to: XMessageState::Terminated(0) },
    );
    assert_eq!(play.hear("w"), []);
    assert!(play.counts("a").contains("pause: 1, run: 0, complete: 1"), "{}", play.counts("a"));
}

fn worker() -> XMessageIntroduction {
    XMessageIntroduction { role: "worker".into(), ..XMessageIntroduction::default() }
}

fn task(record_id: &str) -> XMessageTaskOptions {
    XMessageTaskOptions { record_id: record_id.into(), ..XMessageTaskOptions::default() }
}

impl Play {
    fn meet_with(&mut self, peer: &str, introduction: XMessageIntroduction) {
        assert_eq!(self.hear(peer), [XMessage::HandShake("Who you are?".into())]);
        self.say(peer, &XMessage::HandShakeWith(introduction));
        assert_eq!(self.hear(peer), [XMessage::HandShake("Go".into())]);
    }

    fn add_with(&mut self, actioner: &str, options: XMessageTaskOptions) {
        self.say(actioner, &XMessage::ActionerOp(Operation::AddTaskWith(options)));
        assert!(self.text(actioner).starts_with("Add task id="));
    }

    /// The record ids of the tasks that the worker has been sent, in their order.
    fn launched(&mut self, worker: &str) -> Vec<String> {
        let launch = |message| match message {
            XMessage::TaskLaunch { record_id, .. } => Some(record_id),
            _ => None,
        };
        self.hear(worker).into_iter().filter_map(launch).collect()
    }
}

#[test]
fn a_worker_gets_only_the_types_of_tasks_and_as_many_as_it_said() {
    let mut play = Play::new();
    play.meet("a", "actioner");
    let sync = XMessageIntroduction { task_types: Some(vec!["sync".into()]), slots: Some(1), ..worker() };
    play.meet_with("s", sync);
    let both = XMessageIntroduction { task_types: Some(vec!["async".into()]), ..worker() };
    play.meet_with("w", both);
    for (record, kind) in [("s1", "sync"), ("s2", "sync"), ("a1", "async"), ("a2", "async")] {
        play.add_with("a", XMessageTaskOptions { task_type: Some(kind.into()), ..task(record) });
    }
    play.say("a", &XMessage::ActionerOp(Operation::PlayAllTask));
    assert_eq!(play.text("a"), "Launching all 4 created tasks.");
    assert_eq!(play.launched("s"), ["s1"], "one slot");
    assert_eq!(play.launched("w"), ["a1", "a2"]);
}

#[test]
fn a_task_that_occupies_more_slots_waits_for_them_and_one_without_a_slot_for_a_worker_of_another_door() {
    let mut play = Play::new();
    play.meet("a", "actioner");
    play.meet_with("w", XMessageIntroduction { slots: Some(3), ..worker() });
    for (record, slots) in [("large", Some(2)), ("light", Some(0)), ("next", Some(2)), ("plain", None)] {
        play.add_with("a", XMessageTaskOptions { slots, ..task(record) });
    }
    play.say("a", &XMessage::ActionerOp(Operation::PlayAllTask));
    play.hear("a");
    assert_eq!(play.launched("w"), ["large", "plain"]);
    let too_many = XMessageTaskOptions { slots: Some(u32::MAX), ..task("x") };
    play.say("a", &XMessage::ActionerOp(Operation::AddTaskWith(too_many)));
    assert_eq!(play.text("a"), "too-many: too many slots: at most 65536");
}

#[test]
fn a_worker_that_says_nothing_of_types_runs_both() {
    let mut play = Play::new();
    play.meet("a", "actioner");
    play.meet("w", "worker");
    for kind in ["sync", "async"] {
        play.add_with("a", XMessageTaskOptions { task_type: Some(kind.into()), ..task(kind) });
    }
    play.say("a", &XMessage::ActionerOp(Operation::PlayAllTask));
    play.hear("a");
    assert_eq!(play.launched("w"), ["sync", "async"]);
}

#[test]
fn the_task_with_the_higher_priority_goes_first_and_the_table_shows_it() {
    let mut play = Play::new();
    play.meet("a", "actioner");
    play.add_with("a", XMessageTaskOptions { priority: Some(-2), ..task("late") });
    play.add_with("a", XMessageTaskOptions { priority: Some(17), ..task("soon") });
    play.say("a", &XMessage::TaskTablePrint { states: vec![XMessageState::Created] });
    let table = play.text("a");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["task", "state", "priority", "attempt", "worker"]);
    let mut priorities = [rows[1][2], rows[2][2]];
    priorities.sort_unstable();
    assert_eq!(priorities, ["-2", "17"]);
    play.say("a", &XMessage::ActionerOp(Operation::PlayAllTask));
    play.hear("a");
    play.hear("w");
    play.say("w", &XMessage::HandShakeWith(XMessageIntroduction { slots: Some(1), ..worker() }));
    assert_eq!(play.launched("w"), ["soon"]);
}

#[test]
fn a_policy_of_the_task_decides_about_a_lost_worker_and_a_wrong_word_is_named() {
    for (word, expected) in
        [(None, "ready: 0, submit: 0, pause: 1"), (Some("requeue"), "ready: 1, submit: 0, pause: 0")]
    {
        let mut play = Play::new();
        play.meet("a", "actioner");
        play.meet("w", "worker");
        play.add_with("a", XMessageTaskOptions { on_lost: word.map(Into::into), ..task("x") });
        play.say("a", &XMessage::ActionerOp(Operation::PlayAllTask));
        play.hear("a");
        let launched = play.hear("w");
        let [XMessage::TaskLaunch { task_id: id, .. }] = launched[..] else { panic!("{launched:?}") };
        play.say("w", &XMessage::TaskStateChange { id, from: XMessageState::Submit, to: XMessageState::Run });
        play.0.close("w");
        assert!(play.counts("a").contains(expected), "{word:?}: {}", play.counts("a"));
    }
    let mut play = Play::new();
    play.meet("a", "actioner");
    let wrong = XMessageTaskOptions { on_lost: Some("ignore".into()), ..task("x") };
    play.say("a", &XMessage::ActionerOp(Operation::AddTaskWith(wrong)));
    assert_eq!(play.text("a"), "bad-value: on_lost is not pause, requeue or fail");
    assert!(play.counts("a").starts_with("created: 0"));
}

#[test]
fn play_all_resumes_what_is_paused() {
    let mut play = Play::new();
    play.meet("w", "worker");
    play.meet("a", "actioner");
    let id = play.started("a", "w");
    play.say("w", &XMessage::TaskStateChange { id, from: XMessageState::Run, to: XMessageState::Pause });
    assert!(play.counts("a").contains("pause: 1"));
    play.add_with("a", task("y"));
    play.say("a", &XMessage::ActionerOp(Operation::PlayAllTask));
    assert_eq!(play.text("a"), "Launching all 1 created and 1 paused tasks.");
    let mut launched = play.launched("w");
    launched.sort();
    assert_eq!(launched, ["task:x", "y"]);
}

#[test]
fn a_key_in_the_handshake_decides_namespace_rights_and_worker_id() {
    let mut play = Play::new();
    let bound = Grant {
        namespace: Some("lab".into()),
        worker: Some("node-1".into()),
        rights: Rights::of(&[Right::Work]),
        ..Grant::everything()
    };
    play.0.broker().keys.add(b"worker key", bound);
    play.0.broker().keys.add(b"client key", Grant { namespace: Some("lab".into()), ..Grant::everything() });
    let shows = |role: &str, key: &str| XMessageIntroduction {
        role: role.into(),
        key: Some(XMessageKey(key.to_owned().into())),
        ..XMessageIntroduction::default()
    };
    play.meet_with("w", shows("worker", "worker key"));
    play.meet_with("a", shows("actioner", "client key"));
    play.say("a", &XMessage::WorkerTablePrint);
    assert!(play.text("a").contains("node-1"), "the key's own worker id");
    play.launch("a", "w");

    play.hear("wrong");
    play.say("wrong", &XMessage::HandShakeWith(shows("worker", "guessed")));
    assert_eq!(play.hear("wrong"), [XMessage::BulkMessage("not-allowed: invalid key".into())]);
    assert!(play.0.hear("wrong", WaitFor::Short).closed);
}

#[test]
fn a_worker_that_cannot_be_registered_learns_why_and_is_sent_away() {
    for (introduction, why) in [
        (XMessageIntroduction { slots: Some(0), ..worker() }, "slots"),
        (XMessageIntroduction { task_types: Some(vec![String::new()]), ..worker() }, "is empty"),
    ] {
        let mut play = Play::new();
        play.hear("w");
        play.say("w", &XMessage::HandShakeWith(introduction));
        let heard = play.hear("w");
        let [_, XMessage::BulkMessage(text)] = &heard[..] else { panic!("{heard:?}") };
        assert!(text.contains(why), "{text}");
        assert!(play.0.hear("w", WaitFor::Short).closed);
    }
}

#[test]
fn a_task_that_was_killed_ends_even_if_its_worker_ignores_it() {
    let mut play = Play::new();
    play.meet("w", "worker");
    play.meet("a", "actioner");
    let id = play.started("a", "w");
    play.say("a", &XMessage::ActionerOp(Operation::KillTask(id)));
    play.text("a");
    assert_eq!(play.hear("w"), [XMessage::WorkerOp { op: Operation::KillTask(id), id }]);
    for _ in 0..29 {
        play.0.wait(2_000);
        play.say("w", &XMessage::HeartBeat(5677));
    }
    assert!(play.counts("a").contains("run: 1"), "58 seconds: the worker may still confirm");
    play.0.wait(2_001);
    assert!(play.counts("a").contains("run: 0, complete: 0, killed: 1"), "{}", play.counts("a"));
    play.hear("w");
    play.say(
        "w",
        &XMessage::TaskStateChange { id, from: XMessageState::Run, to: XMessageState::Terminated(0) },
    );
    assert!(play.text("w").starts_with("stale-attempt"));
}
