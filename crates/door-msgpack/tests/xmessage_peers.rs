//! Workers and actioners of the older dialect when time passes and things go wrong: with the pure session.

mod support;

use bytes::BytesMut;
use support::pure::PureStage;
use support::{Patience, Stage as _};
use tenure_door_msgpack::xmessage::codec::{Id, Message, Operation, State, decode, encode, fuzz};
use tenure_door_msgpack::xmessage::session::Session;
use tenure_hub::Grant;
use tenure_wire::value::Value;

struct Play(PureStage<Session>);

impl Play {
    fn new() -> Play {
        Play(PureStage::new(Session::new))
    }

    fn say(&mut self, peer: &str, message: &Message) {
        let mut frame = BytesMut::new();
        encode(&mut frame, message);
        self.0.say(peer, &frame);
    }

    fn hear(&mut self, peer: &str) -> Vec<Message> {
        let frames = self.0.hear(peer, Patience::Short).frames;
        let message = |value: Value| {
            let mut frame = BytesMut::new();
            value.write(&mut frame);
            decode(&frame.freeze()).unwrap()
        };
        frames.into_iter().map(message).collect()
    }

    fn meet(&mut self, peer: &str, role: &str) {
        assert_eq!(self.hear(peer), [Message::HandShake("Who you are?".into())]);
        self.say(peer, &Message::HandShake(role.into()));
        assert_eq!(self.hear(peer), [Message::HandShake("Go".into())]);
    }

    /// Adds and plays a task that the worker starts.
    fn launch(&mut self, actioner: &str, worker: &str) -> Id {
        self.say(actioner, &Message::ActionerOp(Operation::AddTask("task:x".into())));
        self.say(actioner, &Message::ActionerOp(Operation::PlayAllTask));
        self.hear(actioner);
        let launched = self.hear(worker);
        let Some(Message::TaskLaunch { task_id, record_id }) = launched.first() else {
            panic!("{launched:?}")
        };
        assert_eq!(record_id, "task:x");
        *task_id
    }

    fn started(&mut self, actioner: &str, worker: &str) -> Id {
        let id = self.launch(actioner, worker);
        self.say(worker, &Message::TaskStateChange { id, from: State::Submit, to: State::Run });
        assert_eq!(self.hear(worker), []);
        id
    }

    /// The line of numbers below the table.
    fn counts(&mut self, actioner: &str) -> String {
        self.say(actioner, &Message::TaskTablePrint { states: vec![] });
        self.text(actioner).lines().last().unwrap_or_default().to_owned()
    }

    fn text(&mut self, peer: &str) -> String {
        let heard = self.hear(peer);
        let [Message::BulkMessage(text)] = &heard[..] else { panic!("{heard:?}") };
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
        assert_eq!(play.hear("w"), [Message::HeartBeat(0)]);
        play.say("w", &Message::HeartBeat(5677));
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
    // It comes back to its senses: its report is too late, and it is told so.
    play.hear("w");
    play.say("w", &Message::TaskStateChange { id, from: State::Run, to: State::Terminated(0) });
    let answer = play.hear("w");
    let is_stale = |message: &Message| matches!(message, Message::BulkMessage(text) if text.starts_with("stale-attempt"));
    let is_stop = |message: &Message| matches!(message, Message::WorkerOp { op: Operation::KillTask(_), .. });
    assert!(answer.iter().any(|message| is_stale(message) || is_stop(message)), "{answer:?}");
    assert!(play.counts("a").contains("pause: 1, run: 0, complete: 0"));
}

#[test]
fn what_a_lost_worker_had_not_begun_goes_to_another() {
    let mut play = Play::new();
    play.meet("w", "worker");
    play.meet("a", "actioner");
    let id = play.launch("a", "w");
    play.0.close("w");
    assert!(play.counts("a").contains("ready: 1"));
    play.hear("w2");
    play.say("w2", &Message::HandShake("worker".into()));
    let launch = Message::TaskLaunch { task_id: id, record_id: "task:x".into() };
    assert_eq!(play.hear("w2"), [Message::HandShake("Go".into()), launch]);
}

#[test]
fn every_end_that_a_worker_can_report_arrives() {
    for (to, expected) in [
        (State::Terminated(0), "complete: 1, killed: 0"),
        (State::Terminated(-1), "complete: 0, killed: 1"),
        (State::Terminated(3), "run: 0, complete: 0, killed: 0"),
        (State::Pause, "pause: 1, run: 0"),
    ] {
        let mut play = Play::new();
        play.meet("w", "worker");
        play.meet("a", "actioner");
        let id = play.started("a", "w");
        play.say("w", &Message::TaskStateChange { id, from: State::Run, to });
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
    play.say("a", &Message::ActionerOp(Operation::PauseTask(id)));
    assert_eq!(play.text("a"), format!("Pause task uuid={id}."));
    assert_eq!(play.hear("w"), [Message::WorkerOp { op: Operation::PauseTask(id), id }]);
    play.say("w", &Message::TaskStateChange { id, from: State::Run, to: State::Pause });
    assert!(play.counts("a").contains("pause: 1"));
    play.say("a", &Message::ActionerOp(Operation::PlayTask(id)));
    assert_eq!(play.text("a"), format!("Launching task uuid={id}."));
    assert_eq!(play.hear("w"), [Message::TaskLaunch { task_id: id, record_id: "task:x".into() }]);
}

#[test]
fn strangers_are_sent_away_when_silent_confused_or_without_a_key() {
    let mut play = Play::new();
    play.hear("silent");
    play.0.wait(10_000);
    assert!(matches!(&play.hear("silent")[..], [Message::BulkMessage(_)]));
    assert!(play.0.hear("silent", Patience::Short).closed);

    play.hear("confused");
    play.say("confused", &Message::Over);
    assert!(matches!(&play.hear("confused")[..], [Message::BulkMessage(_)]));
    assert!(play.0.hear("confused", Patience::Short).closed);

    play.0.broker().keys.add(b"secret", Grant::everything());
    play.hear("keyless");
    play.say("keyless", &Message::HandShake("worker".into()));
    let heard = play.hear("keyless");
    assert!(
        matches!(&heard[..], [Message::BulkMessage(text)] if text.starts_with("not-allowed")),
        "{heard:?}"
    );
    assert!(play.0.hear("keyless", Patience::Short).closed);
}

#[test]
fn noise_is_answered_with_text_and_harms_nobody() {
    let mut play = Play::new();
    play.meet("a", "actioner");
    for noise in [&[0, 0, 0, 1, 0xc1][..], &[0, 0, 0, 0], &[0, 0, 0, 2, 0x81, 0xa0]] {
        play.0.say("a", noise);
        assert!(!play.text("a").is_empty());
    }
    assert!(play.counts("a").starts_with("created: 0"));
    play.0.say("a", &[0xff; 8]);
    assert!(play.0.hear("a", Patience::Short).closed, "a frame without measure ends it");
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
        told.contains(&Message::WorkerOp { op: Operation::KillTask(lost), id: lost }),
        "it is told to stop: {told:?}"
    );

    // Two beats at once, as a process sends that was stopped for a while: it joins once.
    let mut beats = BytesMut::new();
    encode(&mut beats, &Message::HeartBeat(5677));
    encode(&mut beats, &Message::HeartBeat(5677));
    play.0.say("w", &beats);
    assert_eq!(play.hear("w"), [], "no complaint");
    let next = play.started("a", "w");
    assert_ne!(next, lost);

    // The attempt that was lost stays lost.
    play.say("w", &Message::TaskStateChange { id: lost, from: State::Run, to: State::Terminated(0) });
    assert!(play.text("w").starts_with("stale-attempt"));
    play.say("w", &Message::TaskStateChange { id: next, from: State::Run, to: State::Terminated(0) });
    assert_eq!(play.hear("w"), []);
    assert!(play.counts("a").contains("pause: 1, run: 0, complete: 1"), "{}", play.counts("a"));
}
