//! HTTP. The list of verbs is every endpoint that needs a key.

use bytes::Bytes;
use tenure_door_http::endpoint_list;
use tenure_hub::words::{AttemptFailure, Blob, Command, Move, WaitOn, Wanted};
use tenure_hub::{Request, TopicAct};

use super::what::{HELD, TASK, What, log_piece};
use super::{Findings, Holder, Row, Verdict};
use crate::peers::http;
use crate::support::Broker;

/// A path and a body; `TASK` and `HOLDER` stand for a task and for the name of the key.
struct Example {
    method: String,
    path: String,
    body: &'static str,
}

pub(super) fn examine(broker: &Broker, findings: &mut Findings) {
    let keyed = endpoint_list().into_iter().filter(|(_, _, needs_key)| *needs_key);
    let verbs: Vec<String> = keyed.map(|(method, path, _)| format!("{method} {path}")).collect();
    findings.examine("HTTP", &verbs, &rows(), |holder, example| ask(broker, holder, example));
}

fn ask(broker: &Broker, holder: &Holder, example: &Example) -> Result<Verdict, String> {
    let path = example.path.replace("HOLDER", holder.name);
    let answer = http(broker, Some(&holder.key), &example.method, &path, example.body.as_bytes());
    match answer.status {
        200..=303 | 404 => Ok(Verdict::Allowed),
        403 => Ok(Verdict::Refused),
        409 | 504 => Ok(Verdict::Allowed),
        status => Err(format!("this is no example: {status} {}", answer.json())),
    }
}

fn rows() -> Vec<Row<Example>> {
    let command = What::command;
    let failure = AttemptFailure {
        held: HELD,
        exit_code: 1,
        message: None,
        result: Blob::EMPTY,
        crashed: false,
        is_final: false,
    };
    let cancel = || command(Command::Cancel { task: TASK, reason: None });
    let bulk = || What::both(What::read(), cancel());
    let thresholds = || command(Command::SetThresholds { queue: "q".into(), thresholds: None });
    let tag_rate = || command(Command::SetTagRate { tag: "t".into(), rate: None });
    let queue_rate = || command(Command::SetQueueRate { queue: "q".into(), rate: None });
    let share = || command(Command::SetShare { share: "s".into(), weight: None });
    let limit = || command(Command::SetLimit { tag: "t".into(), limit: None });
    let limit_array = || command(Command::LimitArray { array: TASK, limit: None });
    let work = "/v1/work/{worker}/tasks/{task}/{attempt}";
    let mut rows = vec![
        row("GET /v1/tasks", "", What::read()),
        row("POST /v1/tasks", r#"{"queue": "http"}"#, What::submit()),
        row("POST /v1/tasks/batch", r#"{"tasks": [{"queue": "http"}]}"#, What::submit()),
        row("GET /v1/tasks/{task}", "", What::read()),
        row("GET /v1/tasks/{task}/explain", "", What::read()),
        row("GET /v1/tasks/{task}/body", "", What::read()),
        row("GET /v1/tasks/{task}/result", "", What::read()),
        row("GET /v1/tasks/{task}/checkpoint", "", What::read()),
        row("GET /v1/tasks/{task}/logs", "", What::Hub(Request::Logs { task: TASK, after: 0 })),
        row("GET /v1/tasks/{task}/wait?wait=0", "", What::watch()),
        row("POST /v1/tasks/{task}/release", "", command(Command::Release { task: TASK })),
        row("POST /v1/tasks/{task}/cancel", "", cancel()),
        row(
            "POST /v1/tasks/{task}/pause",
            "",
            command(Command::Pause { task: TASK, reason: None, terminate: false }),
        ),
        row("POST /v1/tasks/{task}/resume", "", command(Command::Resume { task: TASK })),
        row("POST /v1/tasks/{task}/retry", "", command(Command::Retry { task: TASK })),
        row(
            "POST /v1/tasks/{task}/move",
            r#"{"priority": 1}"#,
            command(Command::Move { task: TASK, to: Move::default() }),
        ),
        row(
            "POST /v1/wait",
            r#"{"tasks": ["07070707-0707-0707-0707-070707070707"], "wait": 0}"#,
            What::watch(),
        ),
        // It looks for the tasks first; ids need no look.
        row("POST /v1/bulk/{verb}", r#"{"where": {"queue": "http"}}"#, bulk()),
        row("POST /v1/bulk/{verb}", r#"{"where": {"queue": "http"}, "dry_run": true}"#, What::read()),
        row("POST /v1/bulk/{verb}", r#"{"tasks": ["07070707-0707-0707-0707-070707070707"]}"#, cancel()),
        row("GET /metrics", "", What::Hub(Request::Stats)),
        row("GET /v1/queues", "", What::read()),
        row("GET /v1/queues/{queue}/scaling", "", What::both(What::read(), What::Hub(Request::Stats))),
        row("GET /v1/queues/{queue}", "", What::read()),
        row("POST /v1/queues/{queue}/tasks", "x", What::submit()),
        row("POST /v1/queues/{queue}/pause", "", command(Command::PauseQueue { queue: "q".into() })),
        row("POST /v1/queues/{queue}/resume", "", command(Command::ResumeQueue { queue: "q".into() })),
        row("PUT /v1/queues/{queue}/thresholds", r#"{"depth": 1}"#, thresholds()),
        row("DELETE /v1/queues/{queue}/thresholds", "", thresholds()),
        row("GET /v1/arrays", "", What::read()),
        row("POST /v1/arrays", r#"{"task": {"queue": "http"}, "size": 1}"#, What::submit_array()),
        row("GET /v1/arrays/{array}", "", What::read()),
        row("PUT /v1/arrays/{array}/limit", r#"{"limit": 1}"#, limit_array()),
        row("DELETE /v1/arrays/{array}/limit", "", limit_array()),
        row("GET /v1/limits", "", What::read()),
        row("PUT /v1/limits/{tag}", r#"{"limit": 1}"#, limit()),
        row("DELETE /v1/limits/{tag}", "", limit()),
        row("POST /v1/reconcile", r#"{"prefix": "p/", "apply": true}"#, What::reconcile()),
        row("GET /v1/schedules", "", What::read()),
        row(
            "PUT /v1/schedules/{schedule}",
            r#"{"when": "@yearly", "task": {"queue": "http"}}"#,
            command(What::new_schedule()),
        ),
        row("GET /v1/schedules/{schedule}", "", What::read()),
        row(
            "POST /v1/schedules/{schedule}/pause",
            "",
            command(Command::PauseSchedule { schedule: "s".into() }),
        ),
        row(
            "POST /v1/schedules/{schedule}/resume",
            "",
            command(Command::ResumeSchedule { schedule: "s".into() }),
        ),
        row("POST /v1/schedules/{schedule}/run", "", command(Command::RunSchedule { schedule: "s".into() })),
        row("DELETE /v1/schedules/{schedule}", "", command(Command::RemoveSchedule { schedule: "s".into() })),
        row("GET /v1/hooks", "", What::Hub(Request::Hooks)),
        row("GET /v1/hooks/{hook}/undelivered", "", What::Hub(Request::Undelivered { hook: "h".into() })),
        row(
            "POST /v1/hooks/{hook}/redeliver",
            "",
            What::Hub(Request::Redeliver { hook: "h".into(), seq: None }),
        ),
        row("PUT /v1/limits/{tag}/rate", r#"{"count": 1, "period_ms": 1000}"#, tag_rate()),
        row("DELETE /v1/limits/{tag}/rate", "", tag_rate()),
        row("PUT /v1/queues/{queue}/rate", r#"{"count": 1, "period_ms": 1000}"#, queue_rate()),
        row("DELETE /v1/queues/{queue}/rate", "", queue_rate()),
        row("GET /v1/shares", "", What::read()),
        row("PUT /v1/shares/{share}", r#"{"weight": 2}"#, share()),
        row("DELETE /v1/shares/{share}", "", share()),
        row("GET /v1/workers", "", What::read()),
        row("GET /v1/workers/{worker}", "", What::read()),
        row("POST /v1/workers/{worker}/drain", "", command(Command::DrainWorker { worker: "w".into() })),
        row("POST /v1/workers/{worker}/clear", "", command(Command::ClearWorker { worker: "w".into() })),
        row("PUT /v1/work/{worker}", r#"{"queues": ["nothing"]}"#, What::register()),
        row("POST /v1/work/{worker}/heartbeat", "", command(Command::Heartbeat { held: None, stats: None })),
        row("POST /v1/work/{worker}/fetch?wait=0", "", What::both(What::take(), command(Command::Unask))),
        row("POST /v1/work/{worker}/drain", "", command(Command::Drain)),
        row("GET /v1/topics", "", What::Topic(TopicAct::List)),
        row("GET /v1/topics/{topic}", "", What::Topic(TopicAct::List)),
        row("POST /v1/topics/{topic}", "x", What::Topic(TopicAct::Publish)),
        row("POST /v1/topics/{topic}/request?wait=0.01", "x", What::Topic(TopicAct::Request)),
        row("GET /v1/messages?topic=news", "", What::Topic(TopicAct::Subscribe)),
        row("GET /v1/messages?topic=task.%3E", "", What::Topic(TopicAct::SubscribeToEvents)),
        row("GET /v1/subscriptions", "", What::Topic(TopicAct::List)),
        row("DELETE /v1/subscriptions/{subscription}", "", What::Topic(TopicAct::ChangeSubscription)),
        row("GET /v1/events", "", What::watch()),
        row("GET /v1/counts", "", What::read()),
        row("GET /v1/stats", "", What::Hub(Request::Stats)),
    ];
    // The pages of the dashboard ask as the API does.
    let page = || What::both(What::read(), What::watch());
    let live = || What::both(page(), What::Hub(Request::Stats));
    rows.extend([
        row("GET /", "", live()),
        row("GET /tasks", "", What::read()),
        row("GET /tasks/{task}", "", page()),
        row("GET /arrays/{array}", "", What::read()),
        row("GET /workers", "", What::read()),
        row("GET /workers/{worker}", "", page()),
        row("GET /queues", "", What::read()),
        row("GET /queues/{queue}", "", page()),
        row("GET /schedules", "", What::read()),
        row("GET /hooks", "", What::Hub(Request::Hooks)),
        row("GET /topics", "", What::both(What::read(), What::Topic(TopicAct::List))),
        row("GET /events", "", page()),
        row("GET /live/events", "", What::watch()),
        row("GET /live", "", page()),
        row("POST /namespace", "namespace=default", What::Protocol),
    ]);
    for (verb, body, what) in [
        ("start", "", command(Command::Start(vec![HELD]))),
        ("progress", "", command(Command::Progress { held: HELD, percent: None, note: None })),
        ("checkpoint", "x", What::Hub(Request::Checkpoint { held: HELD, checkpoint: Bytes::new() })),
        ("logs?offset=0", "x", What::Hub(Request::AppendLog { held: HELD, piece: log_piece() })),
        ("suspend", r#"{"children": true}"#, command(Command::Suspend { held: HELD, on: WaitOn::Children })),
        ("complete", "x", What::complete()),
        ("fail", "", What::Hub(Request::Fail { failure, result: Bytes::new() })),
        (
            "confirm",
            r#"{"wanted": "cancel"}"#,
            What::Hub(Request::Confirm { held: HELD, wanted: Wanted::Cancel, result: Bytes::new() }),
        ),
        ("give-back", "", command(Command::GiveBack { held: HELD, reason: None })),
    ] {
        rows.push(row(Box::leak(format!("POST {work}/{verb}").into_boxed_str()), body, what));
    }
    // After all that a worker says.
    rows.push(row("DELETE /v1/work/{worker}", "", command(Command::Leave)));
    rows
}

fn row(line: &'static str, body: &'static str, what: What) -> Row<Example> {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let verb = line.split_once('?').map_or(line, |(verb, _)| verb);
    let mut filled = path.to_owned();
    for (name, value) in [
        ("{task}", &*TASK.to_string()),
        ("{array}", &*TASK.to_string()),
        ("{attempt}", "1"),
        ("{verb}", "cancel"),
        ("{schedule}", "s"),
        ("{worker}", "http-HOLDER"),
        ("{queue}", "http"),
        ("{tag}", "t"),
        ("{topic}", "news"),
        ("{subscription}", "nothing"),
    ] {
        filled = filled.replace(name, value);
    }
    Row { verb, what, example: Example { method: method.to_owned(), path: filled, body } }
}
