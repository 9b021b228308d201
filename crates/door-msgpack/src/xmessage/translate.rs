//! Translates between the dialect and the hub's types; the only file of this folder that knows both. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::words::{
    AttemptFailure, Blob, Command, Counts, Demand, Held, ListQuery, Name, NewTask, OnClose, OnLost, Query,
    Refusal, StateName, TaskId, TaskInfo, TaskState, Wanted, WorkerAbout, WorkerInfo, WorkerSpec,
};
use tenure_hub::{Done, HubRefusal, Request, Submission, fresh_id};

use super::XmessageSettings;
use super::codec::{Operation, XMessageId, XMessageIntroduction, XMessageState, XMessageTaskOptions};

/// The one queue of this dialect.
pub(super) const QUEUE: &str = "default";
/// The heartbeat interval of both sides.
pub(super) const BEAT: Duration = Duration::from_secs(2);
/// A worker is lost after this many missed heartbeats.
const BEATS_MISSED: u32 = 10;
/// Maximum number of rows in a printed table.
const ROWS_MAX: usize = 1_000;

pub(super) fn id(id: XMessageId) -> TaskId {
    TaskId(id.0)
}

pub(super) fn wire_id(task: TaskId) -> XMessageId {
    XMessageId(task.0)
}

/// A task that is held until an actioner plays it. The listener's settings fill in missing options.
pub(super) fn submission(
    task: TaskId,
    options: XMessageTaskOptions,
    defaults: &XmessageSettings,
) -> Result<Submission, HubRefusal> {
    let XMessageTaskOptions { record_id, task_type, priority, tags, on_lost, slots } = options;
    let new = NewTask {
        hold: true,
        priority: Some(priority.unwrap_or(defaults.priority)),
        needs: task_type.into_iter().map(Name::from).collect(),
        tags: tags.map_or_else(|| defaults.tags.clone(), names),
        on_lost: on_lost.map_or(Ok(defaults.on_lost), |word| policy(&word))?,
        demand: slots.map_or_else(Demand::default, |slots| Demand { slots, ..Demand::default() }),
        ..NewTask::new(task, QUEUE)
    };
    Ok(Submission::new(new, record_id.into()))
}

fn policy(word: &str) -> Result<OnLost, Refusal> {
    let unknown = Refusal::BadValue { what: "on_lost", why: "is not pause, requeue or fail" };
    OnLost::parse(word).ok_or(unknown)
}

fn names(texts: Vec<String>) -> Vec<Name> {
    texts.into_iter().map(Name::from).collect()
}

pub(super) fn fresh_task() -> TaskId {
    fresh_id()
}

/// The settings of a worker of this dialect. It cannot return with what it holds, so a closed connection ends its
/// attempts.
pub(super) fn worker_spec(
    worker: Name,
    introduction: &XMessageIntroduction,
    defaults: &XmessageSettings,
) -> WorkerSpec {
    let slots = introduction.slots.unwrap_or(defaults.slots);
    let task_types = introduction.task_types.clone();
    WorkerSpec {
        capabilities: task_types.map_or_else(|| defaults.task_types.clone(), names),
        heartbeat: BEAT,
        lost_after: BEAT * BEATS_MISSED,
        lease: BEAT * BEATS_MISSED,
        on_close: OnClose::TasksDie,
        // A worker may start before it says Run, so a task that must not run twice counts as started on assignment.
        starts_on_assign: true,
        light_slots: 0,
        about: WorkerAbout { door: Some("xmessage"), ..WorkerAbout::default() },
        ..WorkerSpec::new(worker, vec![QUEUE.into()], slots)
    }
}

/// The hub requests for a worker's report, in order. `wanted` is what a client has asked for.
pub(super) fn report(held: Held, to: XMessageState, wanted: Option<Wanted>) -> Vec<Request> {
    match to {
        XMessageState::Run => vec![Request::Command(Command::Start(vec![held]))],
        XMessageState::Submit => Vec::new(),
        XMessageState::Created | XMessageState::Ready => {
            vec![Request::Command(Command::GiveBack { held, reason: None })]
        }
        XMessageState::Terminated(0) => vec![Request::Complete(vec![Done { held, result: Bytes::new() }])],
        XMessageState::Terminated(-1) => {
            let ask = Command::Cancel { task: held.task, reason: Some("killed by its worker".into()) };
            confirmed(held, Wanted::Cancel, wanted, ask)
        }
        XMessageState::Pause => {
            let ask = Command::Pause {
                task: held.task,
                reason: Some("paused by its worker".into()),
                terminate: true,
            };
            confirmed(held, Wanted::Pause, wanted, ask)
        }
        XMessageState::Terminated(exit_code) => {
            let failure = AttemptFailure {
                held,
                exit_code: i32::from(exit_code),
                message: None,
                result: Blob::EMPTY,
                crashed: false,
                is_final: false,
            };
            vec![Request::Fail { failure, result: Bytes::new() }]
        }
    }
}

/// If no client has asked for it, the door asks before it confirms.
fn confirmed(held: Held, done: Wanted, wanted: Option<Wanted>, ask: Command) -> Vec<Request> {
    let mut asks = Vec::new();
    if wanted != Some(done) {
        asks.push(Request::Command(ask));
    }
    asks.push(Request::Confirm { held, wanted: done, result: Bytes::new() });
    asks
}

/// A task whose body is not text: this dialect cannot carry it.
pub(super) fn fail_unsupported_body(held: Held, why: &str) -> Request {
    let failure = AttemptFailure {
        held,
        exit_code: 1,
        message: Some(why.into()),
        result: Blob::EMPTY,
        crashed: false,
        is_final: true,
    };
    Request::Fail { failure, result: Bytes::new() }
}

pub(super) fn operation(wanted: Wanted, task: TaskId) -> Operation {
    match wanted {
        Wanted::Cancel => Operation::KillTask(wire_id(task)),
        Wanted::Pause => Operation::PauseTask(wire_id(task)),
    }
}

/// A refusal as text: its stable code, and the sentence.
pub(super) fn refusal(no: &HubRefusal) -> String {
    format!("{}: {no}", no.code())
}

/// The tasks that wait for an actioner to play them, page by page.
pub(super) fn playable(cursor: Option<tenure_hub::words::Cursor>) -> Query {
    let states = vec![StateName::Created, StateName::Paused];
    let query =
        ListQuery { states, queue: Some(QUEUE.into()), cursor, limit: ROWS_MAX, ..ListQuery::default() };
    Query::List(Box::new(query))
}

pub(super) fn is_paused(info: &TaskInfo) -> bool {
    matches!(info.state, TaskState::Paused(_))
}

/// Plays one of them.
pub(super) fn play(info: &TaskInfo) -> Command {
    let task = info.id;
    if is_paused(info) { Command::Resume { task } } else { Command::Release { task } }
}

pub(super) fn launching_all(created: usize, paused: usize) -> String {
    match paused {
        0 => format!("Launching all {created} created tasks."),
        _ => format!("Launching all {created} created and {paused} paused tasks."),
    }
}

/// The tasks in these states, or all.
pub(super) fn list(states: &[XMessageState]) -> Query {
    let mut names: Vec<StateName> = states.iter().copied().flat_map(names_of).copied().collect();
    names.sort();
    names.dedup();
    Query::List(Box::new(ListQuery { states: names, limit: ROWS_MAX, ..ListQuery::default() }))
}

pub(super) fn task_table(tasks: &[TaskInfo], counts: &Counts) -> String {
    let mut text =
        format!("{:<36}  {:<14}  {:>8}  {:>7}  {}\n", "task", "state", "priority", "attempt", "worker");
    for info in tasks {
        let worker = match (&info.state.holding(), &info.state.end()) {
            (Some(holding), _) => &*holding.worker,
            (None, Some(end)) => end.worker.as_deref().unwrap_or("-"),
            (None, None) => "-",
        };
        let state = format!("{:?}", state_of(&info.state));
        let (id, priority, attempt) = (info.id.to_string(), info.priority, info.attempt);
        let _ = writeln!(text, "{id:<36}  {state:<14}  {priority:>8}  {attempt:>7}  {worker}");
    }
    if tasks.len() == ROWS_MAX {
        let _ = writeln!(text, "(the first {ROWS_MAX})");
    }
    let [
        created,
        waiting,
        delayed,
        ready,
        assigned,
        running,
        suspended,
        paused,
        completed,
        _failed,
        cancelled,
    ] = counts.by_state;
    let running = running + suspended;
    let ready = ready + waiting + delayed;
    let _ = write!(
        text,
        "created: {created}, ready: {ready}, submit: {assigned}, pause: {paused}, run: {running}, complete: {completed}, killed: {cancelled}."
    );
    text
}

pub(super) fn worker_table(workers: &[WorkerInfo]) -> String {
    let mut text = format!("{:<44}  {:<8}  {:>5}  {:>5}", "worker", "presence", "tasks", "slots");
    for info in workers {
        let presence = info.presence.as_str();
        let _ =
            write!(text, "\n{:<44}  {presence:<8}  {:>5}  {:>5}", info.worker, info.held.len(), info.slots);
    }
    text
}

fn names_of(state: XMessageState) -> &'static [StateName] {
    match state {
        XMessageState::Created => &[StateName::Created],
        XMessageState::Ready => &[StateName::Waiting, StateName::Ready, StateName::Delayed],
        XMessageState::Submit => &[StateName::Assigned],
        XMessageState::Pause => &[StateName::Paused],
        XMessageState::Run => &[StateName::Running, StateName::Suspended],
        XMessageState::Terminated(0) => &[StateName::Completed],
        XMessageState::Terminated(-1) => &[StateName::Cancelled],
        XMessageState::Terminated(_) => &[StateName::Failed],
    }
}

fn state_of(state: &TaskState) -> XMessageState {
    match state {
        TaskState::Created => XMessageState::Created,
        TaskState::Waiting { .. } | TaskState::Ready { .. } | TaskState::Delayed { .. } => {
            XMessageState::Ready
        }
        TaskState::Assigned(_) => XMessageState::Submit,
        TaskState::Running(_) | TaskState::Suspended(_) => XMessageState::Run,
        TaskState::Paused(_) => XMessageState::Pause,
        TaskState::Completed(_) => XMessageState::Terminated(0),
        TaskState::Cancelled(_) => XMessageState::Terminated(-1),
        // An exit code that has another meaning in this dialect, or that does not fit, becomes 1.
        TaskState::Failed(end) => match i8::try_from(end.exit_code) {
            Ok(0 | -1) | Err(_) => XMessageState::Terminated(1),
            Ok(code) => XMessageState::Terminated(code),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unrequested_end_is_requested_before_it_is_confirmed() {
        let held = Held { task: TaskId([7; 16]), attempt: 2 };
        let by_itself = report(held, XMessageState::Terminated(-1), None);
        assert!(matches!(by_itself[0], Request::Command(Command::Cancel { .. })));
        assert!(matches!(by_itself[1], Request::Confirm { wanted: Wanted::Cancel, .. }));
        let as_asked = report(held, XMessageState::Terminated(-1), Some(Wanted::Cancel));
        assert_eq!(as_asked.len(), 1);
        let another = report(held, XMessageState::Pause, Some(Wanted::Cancel));
        assert_eq!(another.len(), 2, "a pause is not the cancellation that was asked for");
    }
}
