//! Why a task is not running, as JSON.

use serde_json::{Value, json};
use tenure_hub::words::{WaitedFor, Why};

use super::broker::rate;
use super::resources::quantity;
use super::word::{texts, time};

pub(crate) fn why(why: &Why) -> Value {
    json!({ "code": why.code(), "message": why.to_string(), "facts": facts(why) })
}

/// The same, with the reconciliation that submitted the task, if one did.
pub(crate) fn explanation(why: &Why, reconciliation: Option<&str>) -> Value {
    let mut told = self::why(why);
    if let Some(prefix) = reconciliation {
        told["facts"]["reconciliation"] = prefix.into();
    }
    told
}

fn facts(why: &Why) -> Value {
    match why {
        Why::NotWaiting { state } => json!({ "state": state.as_str() }),
        Why::Held | Why::Paused | Why::AwaitingDisk | Why::AwaitingJournal => json!({}),
        Why::Dependencies { open, some } | Why::Suspended { open, some } => json!({
            "open": open,
            "some": some.iter().map(waited_for).collect::<Vec<_>>(),
        }),
        Why::NotBefore { until } => json!({ "until": time(*until) }),
        Why::QueuePaused { queue } | Why::NoWorkerEver { queue } => json!({ "queue": &**queue }),
        Why::AllLost { queue, since } => json!({ "queue": &**queue, "since": time(*since) }),
        Why::NeedsUnmet { missing } => json!({ "missing": texts(missing) }),
        Why::Quarantined { worker, until } => json!({ "worker": &**worker, "until": time(*until) }),
        Why::Draining { workers } | Why::NoWorkerAsks { workers } => json!({ "workers": workers }),
        Why::ArrayLimit { array, limit, in_use } => {
            json!({ "array": array.to_string(), "limit": limit, "in_use": in_use })
        }
        Why::TagLimit { tag, limit, in_use } => json!({ "tag": &**tag, "limit": limit, "in_use": in_use }),
        Why::TagRate { tag, rate: of, next_at } => {
            json!({ "tag": &**tag, "rate": rate(of), "next_at": time(*next_at) })
        }
        Why::QueueRate { queue, rate: of, next_at } => {
            json!({ "queue": &**queue, "rate": rate(of), "next_at": time(*next_at) })
        }
        Why::AllFull { workers, slots } => json!({ "workers": workers, "slots": slots }),
        Why::Short { resource, needed, free, worker } => json!({
            "resource": &**resource, "needed": quantity(*needed), "free": quantity(*free), "worker": &**worker,
        }),
        Why::TooLarge { resource, needed, total, worker } => json!({
            "resource": &**resource, "needed": quantity(*needed), "total": quantity(*total), "worker": &**worker,
        }),
        Why::Reserved { worker, task } => json!({ "worker": &**worker, "task": task.to_string() }),
        Why::AwaitingSlot { worker } => json!({ "worker": &**worker }),
        Why::AwaitingAcceptance { worker, since } => json!({ "worker": &**worker, "since": time(*since) }),
    }
}

fn waited_for(one: &WaitedFor) -> Value {
    json!({
        "task": one.task.to_string(), "name": one.name.as_deref(), "condition": one.condition.as_str(),
        "state": one.state.as_str(),
    })
}
