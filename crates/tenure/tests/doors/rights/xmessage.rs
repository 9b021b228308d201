//! The older dialect. Every conversation ends with `Over`, so that everything which the broker has to say is heard.

use tenure_door_msgpack::xmessage::codec::{Operation, XMessage};
use tenure_hub::words::Command;

use super::what::{HELD, TASK, What, names};
use super::{Findings, Holder, Row, Verdict};
use crate::peers::MessagePack;
use crate::support::Broker;

names!(MESSAGES, message_name(XMessage) {
    XMessage::BulkMessage(_) => "BulkMessage",
    XMessage::TaskLaunch { .. } => "TaskLaunch",
    XMessage::HandShake(_) => "HandShake",
    XMessage::HandShakeWith(_) => "HandShakeWith",
    XMessage::HeartBeat(_) => "HeartBeat",
    XMessage::ActionerOp(_) => "ActionerOp",
    XMessage::WorkerOp { .. } => "WorkerOp",
    XMessage::WorkerTableOp { .. } => "WorkerTableOp",
    XMessage::WorkerTablePrint => "WorkerTablePrint",
    XMessage::TaskTablePrint { .. } => "TaskTablePrint",
    XMessage::TaskTableOp { .. } => "TaskTableOp",
    XMessage::TaskStateChange { .. } => "TaskStateChange",
    XMessage::Over => "Over",
});

names!(OPERATIONS, operation_name(Operation) {
    Operation::Inspect => "ActionerOp",
    Operation::AddTask(_) => "AddTask",
    Operation::PlayTask(_) => "PlayTask",
    Operation::PlayAllTask => "PlayAllTask",
    Operation::KillTask(_) => "KillTask",
    // These are not served.
    Operation::Create | Operation::Update | Operation::Read | Operation::Delete => "ActionerOp",
    Operation::PauseTask(_) => "PauseTask",
    Operation::AddTaskWith(_) => "AddTaskWith",
});

/// The role of the peer, and what it says.
type Example = (&'static str, &'static str);

pub(super) fn examine(broker: &Broker, findings: &mut Findings) {
    // The compiler sees to it that the lists are whole.
    let _ = (message_name, operation_name);
    let address = broker.doors["xmessage"].as_str().unwrap();
    let verbs: Vec<String> = [MESSAGES, OPERATIONS].concat().into_iter().map(str::to_owned).collect();
    findings.examine("xmessage", &verbs, &rows(), |holder, example| ask(address, holder, *example));
}

fn ask(address: &str, holder: &Holder, (role, said): Example) -> Result<Verdict, String> {
    let mut peer = MessagePack::older(address, role, Some(&holder.key));
    peer.say(&said.replace("TASK", r#"x"07070707070707070707070707070707""#));
    peer.say(r#""Over""#);
    let heard: Vec<String> = std::iter::from_fn(|| peer.hear()).map(|said| said.to_string()).collect();
    if !heard.iter().any(|said| said.contains("Go")) || heard.iter().any(|said| said.contains("malformed")) {
        return Err(format!("this is no example: {heard:?}"));
    }
    let is_refused = heard.iter().any(|said| said.contains("not-allowed"));
    Ok(if is_refused { Verdict::Refused } else { Verdict::Allowed })
}

fn rows() -> Vec<Row<Example>> {
    const A: &str = "actioner";
    const W: &str = "worker";
    let report = || What::both(What::register(), What::command(Command::Start(vec![HELD])));
    let beat = || What::both(What::register(), What::command(Command::Heartbeat { held: None, stats: None }));
    let rows = [
        ("BulkMessage", What::Protocol, (A, r#"{"BulkMessage": "x"}"#)),
        ("TaskLaunch", What::Protocol, (A, r#"{"TaskLaunch": [TASK, "x"]}"#)),
        ("HandShake", What::Protocol, (A, r#"{"HandShake": "actioner"}"#)),
        ("HandShakeWith", What::Protocol, (A, r#"{"HandShakeWith": {"role": "actioner"}}"#)),
        ("HandShakeWith", What::register(), (W, r#""Over""#)),
        ("HeartBeat", What::Protocol, (A, r#"{"HeartBeat": 1}"#)),
        ("HeartBeat", beat(), (W, r#"{"HeartBeat": 1}"#)),
        ("ActionerOp", What::Protocol, (A, r#"{"ActionerOp": "Inspect"}"#)),
        ("WorkerOp", What::Protocol, (A, r#"{"WorkerOp": [{"KillTask": TASK}, TASK]}"#)),
        (
            "WorkerTableOp",
            What::Protocol,
            (A, r#"{"WorkerTableOp": [{"KillTask": TASK}, TASK, "Run", "Run"]}"#),
        ),
        ("TaskTableOp", What::Protocol, (A, r#"{"TaskTableOp": [{"KillTask": TASK}, TASK, "Run", "Run"]}"#)),
        ("WorkerTablePrint", What::read(), (A, r#""WorkerTablePrint""#)),
        ("TaskTablePrint", What::read(), (A, r#"{"TaskTablePrint": [["Created"]]}"#)),
        ("TaskStateChange", report(), (W, r#"{"TaskStateChange": [TASK, "Submit", "Run"]}"#)),
        ("Over", What::Protocol, (A, r#""Over""#)),
        ("AddTask", What::submit(), (A, r#"{"ActionerOp": {"AddTask": "x"}}"#)),
        ("AddTaskWith", What::submit(), (A, r#"{"ActionerOp": {"AddTaskWith": {"record_id": "x"}}}"#)),
        // It looks for them, and then plays each of those that were added above.
        (
            "PlayAllTask",
            What::both(What::read(), What::command(Command::Release { task: TASK })),
            (A, r#"{"ActionerOp": "PlayAllTask"}"#),
        ),
        (
            "PlayTask",
            What::command(Command::Release { task: TASK }),
            (A, r#"{"ActionerOp": {"PlayTask": TASK}}"#),
        ),
        (
            "KillTask",
            What::command(Command::Cancel { task: TASK, reason: None }),
            (A, r#"{"ActionerOp": {"KillTask": TASK}}"#),
        ),
        (
            "PauseTask",
            What::command(Command::Pause { task: TASK, reason: None, terminate: false }),
            (A, r#"{"ActionerOp": {"PauseTask": TASK}}"#),
        ),
    ];
    rows.into_iter().map(|(verb, what, example)| Row { verb, what, example }).collect()
}
