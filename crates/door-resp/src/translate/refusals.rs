//! The text of every refusal in this door.

pub(crate) use tenure_door_kit::worker_actor::refused;
use tenure_hub::HubRefusal;
use tenure_hub::words::{Refusal, Wanted};

use super::names::state_status;
use crate::codec::Reply;
use crate::worker::{ChallengeVerdict, RespCallReply};

/// Maximum length of a failure's text.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// A refusal as an error reply.
pub(crate) fn refusal(refusal: &HubRefusal) -> Reply {
    Reply::error(refusal_text(refusal))
}

pub(super) fn refusal_text(refusal: &HubRefusal) -> String {
    match refusal {
        HubRefusal::Engine(refusal) => engine_refusal_text(refusal),
        HubRefusal::Elsewhere { .. } => format!("ELSEWHERE {refusal}"),
        HubRefusal::DiskFull
        | HubRefusal::Draining
        | HubRefusal::JournalAway
        | HubRefusal::Deposed { .. }
        | HubRefusal::Trimmed { .. }
        | HubRefusal::Unreadable { .. }
        | HubRefusal::UnknownHook { .. }
        | HubRefusal::NoListener { .. } => format!("ERR {refusal}"),
    }
}

pub(super) fn engine_refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::UnknownTask { task } => format!("ERR Job not found: {task}"),
        Refusal::UnknownName { name } => format!("ERR Job not found: {name}"),
        Refusal::NotAWorker => "ERR Worker not registered".to_owned(),
        Refusal::UnknownWorker { worker } => format!("ERR Worker not registered: {worker}"),
        Refusal::UnknownQueue { queue } => format!("ERR Queue not found: {queue}"),
        Refusal::BadParent { parent } => format!("ERR Parent job not found: {parent}"),
        Refusal::IdTaken { task } => format!("ERR Job ID already exists: {task}"),
        Refusal::NameTaken { name, .. } => {
            format!("ERR Job ID already exists: {name}, and it was submitted with other parameters")
        }
        Refusal::StaleAttempt { task, attempt, current, .. } => {
            format!("ERR Stale attempt {attempt} of job {task}, the current one is {current}")
        }
        Refusal::WrongState { state, verb, .. } => {
            format!("ERR Invalid status transition: cannot {verb} a job that is {}", state_status(*state))
        }
        Refusal::WorkerTaken { .. } => "ERR Worker ID already registered".to_owned(),
        Refusal::NotAllowed { .. } => format!("NOPERM {refusal}"),
        Refusal::BadName { .. }
        | Refusal::BadValue { .. }
        | Refusal::UnknownSchedule { .. }
        | Refusal::BadSchedule { .. }
        | Refusal::TooMany { .. }
        | Refusal::Full { .. }
        | Refusal::TooLate { .. } => format!("ERR {refusal}"),
    }
}

/// A worker actor's reply that is neither success nor the expected answer.
pub(crate) fn call_refused(answer: &RespCallReply, worker: &str) -> Reply {
    match answer {
        RespCallReply::Taken => Reply::error("ERR Worker ID already registered"),
        RespCallReply::NotRegistered => Reply::error(format!("ERR Worker not registered: {worker}")),
        RespCallReply::NotHeld => Reply::error("ERR this worker does not hold that job"),
        RespCallReply::Stale { attempt, current } => {
            Reply::error(format!("ERR Stale attempt {attempt}, the current one is {current}"))
        }
        RespCallReply::Own(ChallengeVerdict::Failed) => {
            Reply::error(format!("ERR Capability not verified: {worker}"))
        }
        RespCallReply::Own(ChallengeVerdict::NoChallenge) => {
            Reply::error("ERR No challenge is open for that capability")
        }
        RespCallReply::TooLong => Reply::error("ERR the job's outputs are too long"),
        RespCallReply::Refused(reason) => refusal(reason),
        RespCallReply::Done
        | RespCallReply::Wanted(_)
        | RespCallReply::Pulled(_)
        | RespCallReply::Nothing
        | RespCallReply::Held(_)
        | RespCallReply::Own(ChallengeVerdict::Passed { .. }) => Reply::error("ERR unexpected answer"),
    }
}

/// Shortens a message to what a failure may carry.
pub(crate) fn shortened(text: String) -> String {
    if text.len() <= MESSAGE_BYTES_MAX {
        return text;
    }
    let end = (0..=MESSAGE_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..end].to_owned()
}

/// What a client wants of a job, in this door's words.
pub(crate) fn wanted(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Cancel => "cancel",
        Wanted::Pause => "pause",
    }
}
