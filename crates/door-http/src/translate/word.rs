//! Converts single words and values.

use std::time::Duration;

use serde_json::Value;
use tenure_hub::words::{
    Condition, Name, OnBroken, OnLost, PauseCause, Refusal, StateName, TaskId, Timestamp, Wanted,
};

/// A task's id. `what` is the field that holds it.
pub(crate) fn task_id(what: &'static str, text: &str) -> Result<TaskId, Refusal> {
    let why = "is not an id: an id is a UUID, or name:NAME where a task is looked up";
    text.parse().map_err(|_| Refusal::BadValue { what, why })
}

const STATES: &str = "is none of created, waiting, delayed, ready, assigned, running, suspended, paused, completed, failed and \
    cancelled";

pub(crate) fn state(text: &str) -> Result<StateName, Refusal> {
    StateName::parse(text).ok_or(Refusal::BadValue { what: "state", why: STATES })
}

pub(crate) fn time(at: Timestamp) -> Value {
    at.rfc3339().into()
}

pub(super) fn some_time(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, time)
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn some_millis(span: Option<Duration>) -> Option<u64> {
    span.map(millis)
}

pub(super) fn texts(names: &[Name]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

pub(super) fn names(texts: Vec<String>) -> Vec<Name> {
    texts.into_iter().map(Name::from).collect()
}

pub(super) fn from_on_lost(text: &str) -> Result<OnLost, Refusal> {
    OnLost::parse(text).ok_or(unknown_word("on_lost"))
}

pub(super) fn from_on_broken(text: &str) -> Result<OnBroken, Refusal> {
    OnBroken::parse(text).ok_or(unknown_word("on_broken"))
}

pub(super) fn from_condition(text: &str) -> Result<Condition, Refusal> {
    Condition::parse(text).ok_or(unknown_word("after"))
}

pub(crate) fn from_wanted(text: &str) -> Result<Wanted, Refusal> {
    match text {
        "cancel" => Ok(Wanted::Cancel),
        "pause" => Ok(Wanted::Pause),
        _ => Err(unknown_word("wanted")),
    }
}

pub(crate) fn wanted(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Cancel => "cancel",
        Wanted::Pause => "pause",
    }
}

pub(super) fn pause_cause(cause: PauseCause) -> &'static str {
    match cause {
        PauseCause::Asked => "asked",
        PauseCause::WorkerLost => "worker-lost",
        PauseCause::CrashBudget => "crash-budget",
        PauseCause::DependencyBroken => "dependency-broken",
    }
}

pub(super) fn unknown_word(what: &'static str) -> Refusal {
    Refusal::BadValue { what, why: "is a value that this version of the broker does not know" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_state_is_answered_with_all_states() {
        assert!(state("all").is_err());
        let listed: Vec<&str> = STATES.trim_start_matches("is none of ").split([',', ' ']).collect();
        for known in StateName::ALL {
            assert!(listed.contains(&known.as_str()), "{known}");
        }
    }
}
