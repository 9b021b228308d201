//! The dialect's words ↔ the hub's. Pure, and the only file of this folder that knows both.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::words::{
    Blob, Command, Counts, Failure, Held, ListQuery, Name, NewTask, OnClose, OnLost, Query, Refusal,
    StateName, TaskId, TaskInfo, TaskState, Wanted, WorkerAbout, WorkerInfo, WorkerSpec,
};
use tenure_hub::{Done, Request, Submission, fresh_id};

use super::codec::{Id, Operation, State};

/// The one queue of this dialect.
pub(super) const QUEUE: &str = "default";
/// How often both sides say that they are alive.
pub(super) const BEAT: Duration = Duration::from_secs(2);
/// So many missed beats, and a worker is lost.
const BEATS_MISSED: u32 = 10;
/// The largest table that is printed.
const ROWS_MAX: usize = 1_000;

pub(super) fn id(id: Id) -> TaskId {
    TaskId(id.0)
}

pub(super) fn wire_id(task: TaskId) -> Id {
    Id(task.0)
}

/// A task that waits to be played. What was running on a lost worker is put aside: it may have had effects.
pub(super) fn submission(task: TaskId, record_id: String) -> Submission {
    let new = NewTask { hold: true, on_lost: OnLost::Pause, ..NewTask::new(task, QUEUE) };
    Submission::new(new, record_id.into())
}

pub(super) fn fresh_task() -> TaskId {
    fresh_id()
}

/// How a worker of this dialect is treated. It has no way to come back with what it holds, so a closed connection ends
/// its attempts.
pub(super) fn worker_spec(worker: Name, slots: u32) -> WorkerSpec {
    WorkerSpec {
        heartbeat: BEAT,
        lost_after: BEAT * BEATS_MISSED,
        lease: BEAT * BEATS_MISSED,
        on_close: OnClose::TasksDie,
        about: WorkerAbout { door: Some("xmessage"), ..WorkerAbout::default() },
        ..WorkerSpec::new(worker, vec![QUEUE.into()], slots)
    }
}

/// What a worker's news of a task asks of the hub, in order. `wanted` is what somebody has asked of it.
pub(super) fn report(held: Held, to: State, wanted: Option<Wanted>) -> Vec<Request> {
    match to {
        State::Run => vec![Request::Command(Command::Start(vec![held]))],
        State::Submit => Vec::new(),
        State::Created | State::Ready => vec![Request::Command(Command::GiveBack { held, reason: None })],
        State::Terminated(0) => vec![Request::Complete(vec![Done { held, result: Bytes::new() }])],
        State::Terminated(-1) => {
            let ask = Command::Cancel { task: held.task, reason: Some("killed by its worker".into()) };
            confirmed(held, Wanted::Cancel, wanted, ask)
        }
        State::Pause => {
            let ask = Command::Pause { task: held.task, reason: Some("paused by its worker".into()) };
            confirmed(held, Wanted::Pause, wanted, ask)
        }
        State::Terminated(exit_code) => {
            let failure = Failure {
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

/// What nobody has asked for yet has to be asked for before it can be confirmed.
fn confirmed(held: Held, done: Wanted, wanted: Option<Wanted>, ask: Command) -> Vec<Request> {
    let mut asks = Vec::new();
    if wanted != Some(done) {
        asks.push(Request::Command(ask));
    }
    asks.push(Request::Confirm { held, wanted: done, result: Bytes::new() });
    asks
}

/// A task whose body is no text: this dialect cannot say it.
pub(super) fn cannot_be_said(held: Held, why: &str) -> Request {
    let failure = Failure {
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
pub(super) fn refusal(no: &Refusal) -> String {
    format!("{}: {no}", no.code())
}

/// The tasks that are held back, a page at a time.
pub(super) fn created(cursor: Option<tenure_hub::words::Cursor>) -> Query {
    let states = vec![StateName::Created];
    let query =
        ListQuery { states, queue: Some(QUEUE.into()), cursor, limit: ROWS_MAX, ..ListQuery::default() };
    Query::List(Box::new(query))
}

/// The tasks in these states, or all.
pub(super) fn list(states: &[State]) -> Query {
    let mut names: Vec<StateName> = states.iter().copied().flat_map(names_of).copied().collect();
    names.sort();
    names.dedup();
    Query::List(Box::new(ListQuery { states: names, limit: ROWS_MAX, ..ListQuery::default() }))
}

pub(super) fn task_table(tasks: &[TaskInfo], counts: &Counts) -> String {
    let mut text = format!("{:<36}  {:<14}  {:>7}  {}\n", "task", "state", "attempt", "worker");
    for info in tasks {
        let worker = match (&info.state.holding(), &info.state.end()) {
            (Some(holding), _) => &*holding.worker,
            (None, Some(end)) => end.worker.as_deref().unwrap_or("-"),
            (None, None) => "-",
        };
        let state = format!("{:?}", state_of(&info.state));
        let _ = writeln!(text, "{:<36}  {state:<14}  {:>7}  {worker}", info.id.to_string(), info.attempt);
    }
    if tasks.len() == ROWS_MAX {
        let _ = writeln!(text, "(the first {ROWS_MAX})");
    }
    let [created, delayed, ready, assigned, running, paused, completed, _failed, cancelled] = counts.by_state;
    let ready = ready + delayed;
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

fn names_of(state: State) -> &'static [StateName] {
    match state {
        State::Created => &[StateName::Created],
        State::Ready => &[StateName::Ready, StateName::Delayed],
        State::Submit => &[StateName::Assigned],
        State::Pause => &[StateName::Paused],
        State::Run => &[StateName::Running],
        State::Terminated(0) => &[StateName::Completed],
        State::Terminated(-1) => &[StateName::Cancelled],
        State::Terminated(_) => &[StateName::Failed],
    }
}

fn state_of(state: &TaskState) -> State {
    match state {
        TaskState::Created => State::Created,
        TaskState::Ready | TaskState::Delayed { .. } => State::Ready,
        TaskState::Assigned(_) => State::Submit,
        TaskState::Running(_) => State::Run,
        TaskState::Paused(_) => State::Pause,
        TaskState::Completed(_) => State::Terminated(0),
        TaskState::Cancelled(_) => State::Terminated(-1),
        // An exit code that this dialect would take for something else, or that it has no room for, becomes 1.
        TaskState::Failed(end) => match i8::try_from(end.exit_code) {
            Ok(0 | -1) | Err(_) => State::Terminated(1),
            Ok(code) => State::Terminated(code),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asked_for_is_asked_for_before_it_is_confirmed() {
        let held = Held { task: TaskId([7; 16]), attempt: 2 };
        let by_itself = report(held, State::Terminated(-1), None);
        assert!(matches!(by_itself[0], Request::Command(Command::Cancel { .. })));
        assert!(matches!(by_itself[1], Request::Confirm { wanted: Wanted::Cancel, .. }));
        let as_asked = report(held, State::Terminated(-1), Some(Wanted::Cancel));
        assert_eq!(as_asked.len(), 1);
        let another = report(held, State::Pause, Some(Wanted::Cancel));
        assert_eq!(another.len(), 2, "a pause is not the cancellation that was asked for");
    }
}
