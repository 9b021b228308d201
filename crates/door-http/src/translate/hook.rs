//! Hooks as JSON.

use serde_json::{Value, json};
use tenure_hub::{HookInfo, Undelivered};

use super::word::{some_time, texts, time};

pub(crate) fn hook(hook: &HookInfo) -> Value {
    json!({
        "hook": &*hook.about.name,
        "kind": hook.about.kind.as_str(),
        "target": hook.about.target,
        "events": texts(&hook.about.events),
        "queues": texts(&hook.about.queues),
        "next_event": hook.next_event,
        "delivered": hook.counts.delivered,
        "failed_attempts": hook.counts.failed_attempts,
        "given_up": hook.counts.given_up,
        "missed": hook.counts.missed,
        "discarded": hook.counts.discarded,
        "in_flight": hook.in_flight,
        "undelivered": hook.undelivered,
        "last_delivered_at": some_time(hook.last_delivered_at),
        "last_error": hook.last_error,
    })
}

pub(crate) fn undelivered(event: &Undelivered) -> Value {
    json!({
        "seq": event.seq,
        "kind": event.kind,
        "given_up_at": time(event.given_up_at),
        "attempts": event.attempts,
        "error": event.error,
        "body": serde_json::from_slice::<Value>(&event.body).unwrap_or_default(),
    })
}
