//! Converts single words and values.

use std::time::Duration;

use tenure_hub::words::{Condition, Name, OnBroken, OnClose, OnLost, Refusal, StateName, TaskId, Wanted};

/// A task's id, from the wire.
pub(crate) fn id(text: &str) -> Result<TaskId, Refusal> {
    id_in("task", text)
}

/// The same from a field that is called otherwise.
fn id_in(what: &'static str, text: &str) -> Result<TaskId, Refusal> {
    let why = "is not an id: an id is a UUID, written as text";
    text.parse().map_err(|_| Refusal::BadValue { what, why })
}

pub(crate) fn ids(texts: &[String]) -> Result<Vec<TaskId>, Refusal> {
    texts.iter().map(|text| id(text)).collect()
}

/// The same for an optional id: an absent one is empty on the wire.
pub(super) fn some_id(what: &'static str, text: &str) -> Result<Option<TaskId>, Refusal> {
    if text.is_empty() { Ok(None) } else { id_in(what, text).map(Some) }
}

pub(crate) fn name(text: String) -> Name {
    text.into()
}

pub(super) fn names(texts: Vec<String>) -> Vec<Name> {
    texts.into_iter().map(Name::from).collect()
}

pub(super) fn some_name(text: String) -> Option<Name> {
    if text.is_empty() { None } else { Some(text.into()) }
}

pub(crate) fn some_text(text: String) -> Option<Box<str>> {
    if text.is_empty() { None } else { Some(text.into()) }
}

/// For the wire, where absent is empty.
pub(super) fn text(text: Option<&str>) -> String {
    text.map(str::to_owned).unwrap_or_default()
}

pub(super) fn texts(names: &[Name]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn from_state(text: &str) -> Result<StateName, Refusal> {
    StateName::parse(text).ok_or(unknown_word("states"))
}

pub(super) fn from_on_lost(text: &str) -> Result<OnLost, Refusal> {
    if text.is_empty() {
        return Ok(OnLost::default());
    }
    OnLost::parse(text).ok_or(unknown_word("on_lost"))
}

pub(super) fn from_on_broken(text: &str) -> Result<OnBroken, Refusal> {
    if text.is_empty() {
        Ok(OnBroken::default())
    } else {
        OnBroken::parse(text).ok_or(unknown_word("on_broken"))
    }
}

pub(super) fn from_condition(text: &str) -> Result<Condition, Refusal> {
    if text.is_empty() {
        Ok(Condition::default())
    } else {
        Condition::parse(text).ok_or(unknown_word("condition"))
    }
}

pub(super) fn from_on_close(text: &str) -> Result<OnClose, Refusal> {
    match text {
        "" | "may-still-run" => Ok(OnClose::MayStillRun),
        "tasks-die" => Ok(OnClose::TasksDie),
        _ => Err(unknown_word("on_close")),
    }
}

pub(super) fn wanted_word(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Cancel => "cancel",
        Wanted::Pause => "pause",
    }
}

pub(super) fn from_wanted(text: &str) -> Result<Wanted, Refusal> {
    match text {
        "cancel" => Ok(Wanted::Cancel),
        "pause" => Ok(Wanted::Pause),
        _ => Err(unknown_word("wanted")),
    }
}

fn unknown_word(what: &'static str) -> Refusal {
    Refusal::BadValue { what, why: "is a value that this version of the broker does not know" }
}
