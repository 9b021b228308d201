//! Every refusal of the engine, with a stable code. A refused command changes nothing. The hub adds its own.

use std::fmt;

use crate::id::TaskId;
use crate::name::Name;
use crate::state::StateName;
use crate::time::Timestamp;

/// Why the engine refuses a command or a query.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No task with that id in this namespace.
    UnknownTask { task: TaskId },
    /// No task with that name in this namespace.
    UnknownName { name: Name },
    /// The session has not registered as a worker, or the worker is gone.
    NotAWorker,
    /// No worker with that name in this namespace.
    UnknownWorker { worker: Name },
    /// No queue with that name in this namespace.
    UnknownQueue { queue: Name },
    /// No schedule with that name in this namespace.
    UnknownSchedule { schedule: Name },
    /// The text does not say when the schedule is due.
    BadSchedule { why: Box<str> },
    /// The parent named at submission does not exist or is already cancelled.
    BadParent { parent: TaskId },
    /// Another task has this id.
    IdTaken { task: TaskId },
    /// A task with this name exists, but its request was different.
    NameTaken { name: Name, task: TaskId },
    /// The report's attempt is over: another worker holds the task, or none does.
    StaleAttempt { task: TaskId, attempt: u32, current: u32, state: StateName },
    /// The verb does not fit the task's state.
    WrongState { task: TaskId, state: StateName, verb: &'static str },
    /// Another live worker has this name.
    WorkerTaken { worker: Name },
    /// A name is empty, too long, or has a character that names do not have.
    BadName { what: &'static str, why: &'static str },
    /// A number or combination that makes no sense.
    BadValue { what: &'static str, why: &'static str },
    /// There are more entries than allowed.
    TooMany { what: &'static str, limit: usize },
    /// The broker has reached the limit for these.
    Full { what: &'static str, limit: u64 },
    /// The key does not allow this.
    NotAllowed { what: &'static str },
    /// The deadline passed before the work could be done.
    TooLate { deadline: Timestamp },
}

impl Refusal {
    /// The codes of all refusals of the engine, in the order of the variants.
    pub const CODES: [&str; 19] = [
        "unknown-task",
        "unknown-name",
        "not-a-worker",
        "unknown-worker",
        "unknown-queue",
        "unknown-schedule",
        "bad-schedule",
        "bad-parent",
        "id-taken",
        "name-taken",
        "stale-attempt",
        "wrong-state",
        "worker-taken",
        "bad-name",
        "bad-value",
        "too-many",
        "full",
        "not-allowed",
        "too-late",
    ];

    /// The stable code, the same in every door.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::UnknownTask { .. } => "unknown-task",
            Refusal::UnknownName { .. } => "unknown-name",
            Refusal::NotAWorker => "not-a-worker",
            Refusal::UnknownWorker { .. } => "unknown-worker",
            Refusal::UnknownQueue { .. } => "unknown-queue",
            Refusal::UnknownSchedule { .. } => "unknown-schedule",
            Refusal::BadSchedule { .. } => "bad-schedule",
            Refusal::BadParent { .. } => "bad-parent",
            Refusal::IdTaken { .. } => "id-taken",
            Refusal::NameTaken { .. } => "name-taken",
            Refusal::StaleAttempt { .. } => "stale-attempt",
            Refusal::WrongState { .. } => "wrong-state",
            Refusal::WorkerTaken { .. } => "worker-taken",
            Refusal::BadName { .. } => "bad-name",
            Refusal::BadValue { .. } => "bad-value",
            Refusal::TooMany { .. } => "too-many",
            Refusal::Full { .. } => "full",
            Refusal::NotAllowed { .. } => "not-allowed",
            Refusal::TooLate { .. } => "too-late",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::UnknownTask { task } => write!(f, "there is no task {task}"),
            Refusal::UnknownName { name } => write!(f, "there is no task named {name}"),
            Refusal::NotAWorker => f.write_str("this session is not a registered worker: register first"),
            Refusal::UnknownWorker { worker } => write!(f, "there is no worker {worker}"),
            Refusal::UnknownQueue { queue } => write!(f, "there is no queue {queue}"),
            Refusal::UnknownSchedule { schedule } => write!(f, "there is no schedule {schedule}"),
            Refusal::BadSchedule { why } => f.write_str(why),
            Refusal::BadParent { parent } => write!(f, "the parent {parent} does not exist or was cancelled"),
            Refusal::IdTaken { task } => write!(f, "the id {task} belongs to another task: choose another"),
            Refusal::NameTaken { name, task } => {
                write!(
                    f,
                    "the name {name} belongs to task {task}, which was submitted with other parameters: choose another name"
                )
            }
            Refusal::StaleAttempt { task, attempt, current, state } => {
                write!(
                    f,
                    "attempt {attempt} of task {task} is over (now {state}, attempt {current}): stop working on it"
                )
            }
            Refusal::WrongState { task, state, verb } => {
                write!(f, "task {task} is {state}: cannot {verb} it")
            }
            Refusal::WorkerTaken { worker } => {
                write!(f, "worker {worker} is connected already: stop it or choose another name")
            }
            Refusal::BadName { what, why } => write!(f, "the {what} name {why}"),
            Refusal::BadValue { what, why } => write!(f, "{what} {why}"),
            Refusal::TooMany { what, limit } => write!(f, "too many {what}: at most {limit}"),
            Refusal::Full { what, limit } => write!(f, "the broker is full: at most {limit} {what}"),
            Refusal::NotAllowed { what } => write!(f, "this key may not {what}"),
            // The deadline is a field of the refusal; a number of milliseconds in the text would not help
            // people.
            Refusal::TooLate { .. } => f.write_str("the deadline has passed"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_for_machines_is_not_in_the_sentence_for_people() {
        let sentence = Refusal::TooLate { deadline: Timestamp(1_794_851_982_898) }.to_string();
        assert!(!sentence.contains("1794851982898"), "{sentence}");
    }
}
