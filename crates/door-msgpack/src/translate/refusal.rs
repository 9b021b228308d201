//! Converts every refusal of the hub.

use tenure_hub::HubRefusal;
use tenure_hub::words::Refusal;
use tenure_wire::Code;

use super::word::{name, task, time};

/// Converts a refusal of the hub, or of the engine.
pub(crate) fn refusal(no: &(impl Clone + Into<HubRefusal>)) -> tenure_wire::Refusal {
    let no: &HubRefusal = &no.clone().into();
    let blank = |code| tenure_wire::Refusal::new(code, no.to_string());
    match no {
        HubRefusal::Engine(no) => engine_refusal(no),
        HubRefusal::DiskFull => blank(Code::DiskFull),
        HubRefusal::Draining => blank(Code::Draining),
        HubRefusal::JournalAway => blank(Code::JournalAway),
        HubRefusal::Deposed { holder } => {
            tenure_wire::Refusal { name: Some(holder.clone()), ..blank(Code::Deposed) }
        }
        HubRefusal::Elsewhere { namespace: _, group, addresses } => tenure_wire::Refusal {
            name: Some(group.clone()),
            addresses: addresses.clone(),
            ..blank(Code::Elsewhere)
        },
        HubRefusal::Trimmed { oldest } => {
            tenure_wire::Refusal { oldest: Some(*oldest), ..blank(Code::Trimmed) }
        }
        HubRefusal::Unreadable { what } => {
            tenure_wire::Refusal { what: Some((*what).into()), ..blank(Code::Unreadable) }
        }
        HubRefusal::UnknownHook { hook } => {
            tenure_wire::Refusal { hook: Some(hook.clone()), ..blank(Code::UnknownHook) }
        }
        HubRefusal::NoListener { address } => {
            tenure_wire::Refusal { address: Some(address.clone()), ..blank(Code::NoListener) }
        }
    }
}

fn engine_refusal(no: &Refusal) -> tenure_wire::Refusal {
    let blank = |code| tenure_wire::Refusal::new(code, no.to_string());
    match no {
        Refusal::UnknownTask { task: id } => {
            tenure_wire::Refusal { task: Some(task(*id)), ..blank(Code::UnknownTask) }
        }
        Refusal::UnknownName { name } => {
            tenure_wire::Refusal { name: Some(name.clone()), ..blank(Code::UnknownName) }
        }
        Refusal::NotAWorker => blank(Code::NotAWorker),
        Refusal::UnknownWorker { worker } => {
            tenure_wire::Refusal { worker: Some(worker.clone()), ..blank(Code::UnknownWorker) }
        }
        Refusal::UnknownQueue { queue } => {
            tenure_wire::Refusal { queue: Some(queue.clone()), ..blank(Code::UnknownQueue) }
        }
        Refusal::UnknownSchedule { schedule } => {
            tenure_wire::Refusal { schedule: Some(schedule.clone()), ..blank(Code::UnknownSchedule) }
        }
        Refusal::BadSchedule { why } => {
            tenure_wire::Refusal { why: Some(why.clone()), ..blank(Code::BadSchedule) }
        }
        Refusal::BadParent { parent } => {
            tenure_wire::Refusal { task: Some(task(*parent)), ..blank(Code::BadParent) }
        }
        Refusal::IdTaken { task: id } => {
            tenure_wire::Refusal { task: Some(task(*id)), ..blank(Code::IdTaken) }
        }
        Refusal::NameTaken { name, task: id } => {
            tenure_wire::Refusal { name: Some(name.clone()), task: Some(task(*id)), ..blank(Code::NameTaken) }
        }
        Refusal::StaleAttempt { task: id, attempt, current, state } => tenure_wire::Refusal {
            task: Some(task(*id)),
            attempt: Some(*attempt),
            current: Some(*current),
            state: Some(name(*state)),
            ..blank(Code::StaleAttempt)
        },
        Refusal::WrongState { task: id, state, verb } => tenure_wire::Refusal {
            task: Some(task(*id)),
            state: Some(name(*state)),
            verb: Some((*verb).into()),
            ..blank(Code::WrongState)
        },
        Refusal::WorkerTaken { worker } => {
            tenure_wire::Refusal { worker: Some(worker.clone()), ..blank(Code::WorkerTaken) }
        }
        Refusal::BadName { what, why } => about(what, why, blank(Code::BadName)),
        Refusal::BadValue { what, why } => about(what, why, blank(Code::BadValue)),
        Refusal::TooMany { what, limit } => beyond(what, *limit as u64, blank(Code::TooMany)),
        Refusal::Full { what, limit } => beyond(what, *limit, blank(Code::Full)),
        Refusal::NotAllowed { what } => {
            tenure_wire::Refusal { what: Some((*what).into()), ..blank(Code::NotAllowed) }
        }
        Refusal::TooLate { deadline } => {
            tenure_wire::Refusal { deadline: Some(time(*deadline)), ..blank(Code::TooLate) }
        }
    }
}

fn about(what: &str, why: &str, blank: tenure_wire::Refusal) -> tenure_wire::Refusal {
    tenure_wire::Refusal { what: Some(what.into()), why: Some(why.into()), ..blank }
}

fn beyond(what: &str, limit: u64, blank: tenure_wire::Refusal) -> tenure_wire::Refusal {
    tenure_wire::Refusal { what: Some(what.into()), limit: Some(limit), ..blank }
}
