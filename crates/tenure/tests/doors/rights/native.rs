//! The native protocol.

use bytes::Bytes;
use tenure_hub::words::{AttemptFailure, Blob, Command, Move, WaitOn, Wanted};
use tenure_hub::{Request, TopicAct};
use tenure_wire::value::Value;

use super::what::{HELD, TASK, What, broadcast, call_answer, log_piece};
use super::{Findings, Holder, Row, Verdict};
use crate::peers::MessagePack;
use crate::support::Broker;

pub(super) fn examine(broker: &Broker, findings: &mut Findings) {
    let verbs: Vec<String> = tenure_wire::Request::KNOWN.iter().map(|&kind| kind.to_owned()).collect();
    let rows: Vec<Row<String>> =
        rows().into_iter().map(|(verb, fields, what)| row(verb, fields, what)).collect();
    // Another key's subscription to events, for those that go on with it under its id.
    let all = super::holders().pop().expect("a key with all rights");
    let mut other = MessagePack::native(&broker.address, &all.key);
    let subscribed = other.ask(2, r#"[2, "subscribe", {"topics": ["task.>"], "id": "events"}]"#).to_string();
    assert!(subscribed.contains("subscribed"), "{subscribed}");
    findings.examine("native", &verbs, &rows, |holder, frame| ask(&broker.address, holder, frame));
}

fn row(verb: &'static str, fields: &str, what: What) -> Row<String> {
    // The notation has no hexadecimal shorthand for the id of the task that does not exist.
    let fields = fields.replace("TASK", r#"x"07070707070707070707070707070707""#);
    Row { verb, what, example: format!(r#"[2, "{verb}", {fields}]"#) }
}

fn ask(address: &str, holder: &Holder, frame: &str) -> Result<Verdict, String> {
    let mut peer = MessagePack::native(address, &holder.key);
    let answer = peer.ask(2, &frame.replace("HOLDER", holder.name));
    let Value::List(parts) = &answer else { return Err(answer.to_string()) };
    let (kind, fields) = (parts.get(1).map(Value::to_string), parts.get(2).map(Value::to_string));
    let (kind, fields) = (kind.unwrap_or_default(), fields.unwrap_or_default());
    if ["malformed", "unknown-kind", "bad-name"].iter().any(|code| fields.contains(code)) {
        return Err(format!("this is no example: {answer}"));
    }
    // A list of verdicts may hold the refusal.
    Ok(if fields.contains("not-allowed") || kind.contains("not-allowed") {
        Verdict::Refused
    } else {
        Verdict::Allowed
    })
}

fn rows() -> Vec<(&'static str, &'static str, What)> {
    let failure = AttemptFailure {
        held: HELD,
        exit_code: 1,
        message: None,
        result: Blob::EMPTY,
        crashed: false,
        is_final: false,
    };
    let steer = |command: fn() -> Command| What::command(command());
    vec![
        ("hello", r#"{"version": 1}"#, What::Protocol),
        ("ping", "{}", What::Protocol),
        ("submit", r#"{"terms": [{"queue": "native"}], "tasks": [[null, b"x", 0]]}"#, What::submit()),
        ("submit-array", r#"{"size": 1, "terms": {"queue": "native"}}"#, What::submit_array()),
        ("limit-array", r#"{"array": TASK}"#, steer(|| Command::LimitArray { array: TASK, limit: None })),
        ("array", r#"{"array": TASK}"#, What::read()),
        ("find-array", r#"{"name": "n"}"#, What::read()),
        ("arrays", "{}", What::read()),
        ("release", r#"{"task": TASK}"#, steer(|| Command::Release { task: TASK })),
        ("cancel", r#"{"task": TASK}"#, steer(|| Command::Cancel { task: TASK, reason: None })),
        (
            "pause",
            r#"{"task": TASK}"#,
            steer(|| Command::Pause { task: TASK, reason: None, terminate: false }),
        ),
        ("resume", r#"{"task": TASK}"#, steer(|| Command::Resume { task: TASK })),
        ("retry", r#"{"task": TASK}"#, steer(|| Command::Retry { task: TASK })),
        (
            "move",
            r#"{"task": TASK, "priority": 1}"#,
            steer(|| Command::Move { task: TASK, to: Move::default() }),
        ),
        (
            "set-rate",
            r#"{"tag": "t", "rate": {"count": 1, "period_ms": 1000}}"#,
            What::both(
                steer(|| Command::SetTagRate { tag: "t".into(), rate: None }),
                steer(|| Command::SetQueueRate { queue: "q".into(), rate: None }),
            ),
        ),
        (
            "set-share",
            r#"{"share": "s", "weight": 2}"#,
            steer(|| Command::SetShare { share: "s".into(), weight: None }),
        ),
        (
            "set-limit",
            r#"{"tag": "t", "limit": 1}"#,
            steer(|| Command::SetLimit { tag: "t".into(), limit: None }),
        ),
        ("pause-queue", r#"{"queue": "q"}"#, steer(|| Command::PauseQueue { queue: "q".into() })),
        ("resume-queue", r#"{"queue": "q"}"#, steer(|| Command::ResumeQueue { queue: "q".into() })),
        (
            "set-thresholds",
            r#"{"queue": "q", "thresholds": {"depth": 1}}"#,
            steer(|| Command::SetThresholds { queue: "q".into(), thresholds: None }),
        ),
        ("reconcile", r#"{"prefix": "p/", "apply": true}"#, What::reconcile()),
        (
            "set-schedule",
            r#"{"schedule": "s", "when": "@yearly", "terms": {"queue": "q"}}"#,
            steer(What::new_schedule),
        ),
        ("pause-schedule", r#"{"schedule": "s"}"#, steer(|| Command::PauseSchedule { schedule: "s".into() })),
        (
            "resume-schedule",
            r#"{"schedule": "s"}"#,
            steer(|| Command::ResumeSchedule { schedule: "s".into() }),
        ),
        ("run-schedule", r#"{"schedule": "s"}"#, steer(|| Command::RunSchedule { schedule: "s".into() })),
        (
            "remove-schedule",
            r#"{"schedule": "s"}"#,
            steer(|| Command::RemoveSchedule { schedule: "s".into() }),
        ),
        ("schedules", "{}", What::read()),
        ("schedule", r#"{"schedule": "s"}"#, What::read()),
        ("drain-worker", r#"{"worker": "w"}"#, steer(|| Command::DrainWorker { worker: "w".into() })),
        ("clear-worker", r#"{"worker": "w"}"#, steer(|| Command::ClearWorker { worker: "w".into() })),
        ("backup", r#"{"directory": "HOLDER"}"#, What::Hub(Request::Backup { directory: "copy".into() })),
        ("show", r#"{"task": TASK}"#, What::read()),
        ("find", r#"{"name": "n"}"#, What::read()),
        ("explain", r#"{"task": TASK}"#, What::read()),
        ("list", "{}", What::read()),
        ("queues", "{}", What::read()),
        ("workers", "{}", What::read()),
        ("limits", "{}", What::read()),
        ("hooks", "{}", What::Hub(Request::Hooks)),
        ("undelivered", r#"{"hook": "h"}"#, What::Hub(Request::Undelivered { hook: "h".into() })),
        ("redeliver", r#"{"hook": "h"}"#, What::Hub(Request::Redeliver { hook: "h".into(), seq: None })),
        ("shares", "{}", What::read()),
        ("counts", "{}", What::read()),
        ("stats", "{}", What::Hub(Request::Stats)),
        ("body", r#"{"task": TASK}"#, What::read()),
        ("result", r#"{"task": TASK}"#, What::read()),
        ("checkpoint", r#"{"task": TASK}"#, What::read()),
        ("logs", r#"{"task": TASK}"#, What::Hub(Request::Logs { task: TASK, after: 0 })),
        ("watch", "{}", What::watch()),
        ("unwatch", r#"{"number": 9}"#, What::Hub(Request::Unwatch { watch: 9 })),
        ("wait", r#"{"tasks": [TASK], "timeout_ms": 1}"#, What::watch()),
        ("register", r#"{"worker": "native-HOLDER", "queues": ["nothing"]}"#, What::register()),
        ("heartbeat", "{}", What::command(Command::Heartbeat { held: None, stats: None })),
        ("start", r#"{"held": [[TASK, 1]]}"#, What::command(Command::Start(vec![HELD]))),
        (
            "progress",
            r#"{"task": TASK, "attempt": 1}"#,
            What::command(Command::Progress { held: HELD, percent: None, note: None }),
        ),
        (
            "save-checkpoint",
            r#"{"task": TASK, "attempt": 1, "checkpoint": b"x"}"#,
            What::Hub(Request::Checkpoint { held: HELD, checkpoint: Bytes::new() }),
        ),
        (
            "suspend",
            r#"{"task": TASK, "attempt": 1, "children": true}"#,
            What::command(Command::Suspend { held: HELD, on: WaitOn::Children }),
        ),
        (
            "append-log",
            r#"{"task": TASK, "attempt": 1, "stream": 1, "bytes": b"x"}"#,
            What::Hub(Request::AppendLog { held: HELD, piece: log_piece() }),
        ),
        ("complete", r#"{"done": [[TASK, 1, b"x"]]}"#, What::complete()),
        (
            "fail",
            r#"{"task": TASK, "attempt": 1}"#,
            What::Hub(Request::Fail { failure, result: Bytes::new() }),
        ),
        (
            "confirm",
            r#"{"task": TASK, "attempt": 1, "wanted": "cancel"}"#,
            What::Hub(Request::Confirm { held: HELD, wanted: Wanted::Cancel, result: Bytes::new() }),
        ),
        (
            "give-back",
            r#"{"task": TASK, "attempt": 1}"#,
            What::command(Command::GiveBack { held: HELD, reason: None }),
        ),
        ("ask", r#"{"queues": ["nothing"]}"#, What::take()),
        ("unask", "{}", What::command(Command::Unask)),
        ("drain", "{}", What::command(Command::Drain)),
        ("leave", "{}", What::command(Command::Leave)),
        ("listen", r#"{"addresses": ["a"]}"#, What::Hub(Request::Listen { address: "a".into() })),
        ("unlisten", r#"{"addresses": ["a"]}"#, What::Hub(Request::Unlisten { address: "a".into() })),
        (
            "call",
            r#"{"to": "absent", "timeout_ms": 1}"#,
            What::Hub(Request::Call { address: "a".into(), body: Bytes::new() }),
        ),
        // There is no call that this peer could give up: the door itself says so.
        ("drop-call", r#"{"number": 9}"#, What::Protocol),
        ("answer", r#"{"call": 1, "outcome": "cancelled"}"#, What::Hub(call_answer())),
        ("broadcast", r#"{"body": b"x"}"#, What::Hub(broadcast())),
        ("hear", "{}", What::Hub(Request::ReceiveBroadcasts { hear: true })),
        ("unhear", "{}", What::Hub(Request::ReceiveBroadcasts { hear: false })),
        ("publish", r#"{"messages": [["news", b"x"]]}"#, What::Topic(TopicAct::Publish)),
        ("subscribe", r#"{"topics": ["news"]}"#, What::Topic(TopicAct::Subscribe)),
        ("subscribe", r#"{"topics": ["task.>"]}"#, What::Topic(TopicAct::SubscribeToEvents)),
        // Only a pattern that begins with the word hears events.
        ("subscribe", r#"{"topics": [">"]}"#, What::Topic(TopicAct::Subscribe)),
        ("subscribe", r#"{"topics": ["*.created"]}"#, What::Topic(TopicAct::Subscribe)),
        (
            "subscribe",
            r#"{"topics": ["news", "worker.>"], "id": "again", "recovery": "replay"}"#,
            What::Topic(TopicAct::SubscribeToEvents),
        ),
        ("subscribe", r#"{"id": "events", "recovery": "replay"}"#, What::Topic(TopicAct::SubscribeToEvents)),
        ("unsubscribe", r#"{"id": "nothing"}"#, What::Topic(TopicAct::ChangeSubscription)),
        ("acknowledge", r#"{"id": "nothing"}"#, What::Topic(TopicAct::ChangeSubscription)),
        ("pause-subscription", r#"{"id": "nothing"}"#, What::Topic(TopicAct::ChangeSubscription)),
        ("request", r#"{"topic": "news", "payload": b"x", "timeout_ms": 1}"#, What::Topic(TopicAct::Request)),
        ("topics", "{}", What::Topic(TopicAct::List)),
        ("subscriptions", "{}", What::Topic(TopicAct::List)),
    ]
}
