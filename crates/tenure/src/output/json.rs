//! The JSON output: every field always present, ids as text, times in RFC 3339.

use serde_json::{Map, Value, json};
use tenure_client::wire::queue::StateCounts;
use tenure_client::wire::task::Terms;
use tenure_client::{
    Accepted, ArrayAccepted, ArrayInfo, Counts, DependencyInfo, Ended, Event, HookInfo, LimitInfo, Message,
    MessageKind, QueueInfo, Rate, ScheduleInfo, ShareInfo, SubscriptionInfo, TaskInfo, Threshold, Thresholds,
    Timestamp, TopicInfo, UndeliveredEvent, Why, WorkerInfo,
};

use super::times::rfc3339;

/// Bytes as text if they are text, else in hexadecimal digits.
pub(crate) fn payload(bytes: &[u8]) -> Value {
    match str::from_utf8(bytes) {
        Ok(text) => json!({ "payload": text }),
        Err(_) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "payload": null, "payload_hex": digits })
        }
    }
}

pub(crate) fn message(kind: &MessageKind, message: &Message) -> Value {
    let mut value = payload(&message.payload);
    value["topic"] = (&*message.topic).into();
    value["sequence"] = message.sequence.into();
    value["kind"] = kind.as_str().into();
    value["published_at"] = time(message.published_at);
    value["id"] = message.id.map(|id| id.to_string()).into();
    value["source"] = message.source.as_deref().into();
    value["content_type"] = message.content_type.as_deref().into();
    value["correlation"] = message.correlation.as_deref().into();
    value["reply_to"] = message.reply_to.as_deref().into();
    value
}

pub(crate) fn topic(topic: &TopicInfo) -> Value {
    json!({
        "topic": &*topic.topic,
        "sequence": topic.sequence,
        "kept": topic.kept,
        "oldest_kept": topic.oldest_kept,
        "retained": topic.retained,
        "subscribers": topic.subscribers,
    })
}

pub(crate) fn subscription(one: &SubscriptionInfo) -> Value {
    json!({
        "id": &*one.id,
        "client": &*one.client,
        "topics": names(&one.topics),
        "group": one.group.as_deref(),
        "policy": one.policy.as_str(),
        "paused_until": maybe_time(one.paused_until),
        "depth": one.depth,
        "limit": one.limit,
        "high_watermark": one.high_watermark,
        "enqueued": one.enqueued,
        "delivered": one.delivered,
        "dropped": {
            "oldest": one.dropped_oldest,
            "newest": one.dropped_newest,
            "ttl": one.dropped_ttl,
            "disconnect": one.dropped_disconnect,
        },
        "blocked_ms": one.blocked_ms,
    })
}

pub(crate) fn time(at: Timestamp) -> Value {
    rfc3339(at.0).into()
}

fn maybe_time(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, time)
}

pub(crate) fn task(task: &TaskInfo) -> Value {
    let holding = task.holding.as_ref().map(|holding| {
        json!({
            "worker": &*holding.worker,
            "since": time(holding.since),
            "started_at": maybe_time(holding.started_at),
            "cpus": holding.cpus,
            "gpus": holding.gpus,
            "wanted": holding.intent.as_ref().map(|intent| json!({
                "wanted": intent.wanted.as_str(), "reason": intent.reason, "delivered": intent.delivered,
            })),
            "progress": holding.progress.as_ref().map(|progress| json!({
                "percent": progress.percent, "note": progress.note, "at": time(progress.at),
            })),
        })
    });
    let pause = task.pause.as_ref().map(
        |pause| json!({ "since": time(pause.since), "why": pause.why.as_str(), "reason": pause.reason }),
    );
    let end = task.end.as_ref().map(|end| {
        json!({
            "at": time(end.at), "event": end.event, "exit_code": end.exit_code, "message": end.message,
            "worker": end.worker.as_deref(), "result_bytes": end.result_bytes,
        })
    });
    let mut value = json!({
        "id": task.id.to_string(),
        "name": task.name.as_deref(),
        "state": task.state.as_str(),
        "priority": task.priority,
        "attempt": task.attempt,
        "crashes": task.crashes,
        "failures": task.failures,
        "crashed_on": names(&task.crashed_on),
        "parent": task.parent.map(|parent| parent.to_string()),
        "children": task.children,
        "array": task.array.map(|array| array.to_string()),
        "index": task.index,
        "after": task.after.iter().map(dependency).collect::<Vec<_>>(),
        "submitted_at": time(task.submitted_at),
        "reconciliation": task.reconciliation.as_deref(),
        "not_before": maybe_time(task.not_before),
        "expires_at": maybe_time(task.expires_at),
        "body_bytes": task.body_bytes,
        "traceparent": task.traceparent.as_deref(),
        "checkpoint": task.checkpoint.as_ref().map(|checkpoint| json!({
            "attempt": checkpoint.attempt,
            "at": time(checkpoint.at),
            "bytes": checkpoint.bytes,
        })),
        "until": maybe_time(task.until),
        "holding": holding,
        "suspension": task.suspended_since.map(|since| json!({ "since": time(since), "open": task.open })),
        "pause": pause,
        "end": end,
    });
    let fields = value.as_object_mut().expect("made above");
    fields.append(&mut terms(&task.terms));
    value
}

fn dependency(info: &DependencyInfo) -> Value {
    json!({
        "task": info.task.to_string(),
        "name": info.name.as_deref(),
        "condition": info.condition.as_str(),
        "progress": info.progress.as_str(),
        "state": info.state.as_ref().map(tenure_client::StateName::as_str),
        "result_bytes": info.result_bytes,
    })
}

fn terms(terms: &Terms) -> Map<String, Value> {
    let value = json!({
        "queue": &*terms.queue,
        "needs": names(&terms.needs),
        "tags": names(&terms.tags),
        "share": terms.share.as_deref(),
        "submitter": terms.submitter.as_deref(),
        "on_lost": terms.on_lost.as_str(),
        "crash_budget": terms.crash_budget,
        "retries": terms.retries,
        "backoff_first_ms": terms.backoff_first_ms,
        "backoff_max_ms": terms.backoff_max_ms,
        "accept_timeout_ms": terms.accept_timeout_ms,
        "run_limit_ms": terms.run_limit_ms,
        "cancel_timeout_ms": terms.cancel_timeout_ms,
        "on_broken": terms.on_broken.as_str(),
        "slots": terms.slots,
        "resources": quantities(terms.resources.iter().map(|resource| (&*resource.name, resource.quantity))),
    });
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

pub(crate) fn array(array: &ArrayInfo) -> Value {
    json!({
        "id": array.id.to_string(),
        "name": array.name.as_deref(),
        "state": array.state.as_str(),
        "queue": &*array.queue,
        "submitter": array.submitter.as_deref(),
        "size": array.size,
        "first": array.first,
        "step": array.step,
        "limit": array.limit,
        "submitted_at": time(array.submitted_at),
        "ended_at": maybe_time(array.ended_at),
        "counts": states(&array.counts),
    })
}

pub(crate) fn array_accepted(accepted: &ArrayAccepted) -> Value {
    json!({
        "array": accepted.array.to_string(),
        "size": accepted.size,
        "state": accepted.state.as_str(),
        "known": accepted.known,
        "unserved": accepted.unserved.as_ref().map(why),
    })
}

pub(crate) fn accepted(accepted: &Accepted) -> Value {
    json!({
        "task": accepted.task.to_string(),
        "state": accepted.state.as_str(),
        "known": accepted.known,
        "unserved": accepted.unserved.as_ref().map(why),
    })
}

pub(crate) fn ended(ended: &Ended) -> Value {
    json!({
        "task": ended.task.to_string(),
        "state": ended.state.as_str(),
        "exit_code": ended.exit_code,
        "at": time(ended.at),
        "message": ended.message,
        "worker": ended.worker.as_deref(),
        "result_bytes": ended.result_bytes,
    })
}

/// The same with the result: as a text, which is what it mostly is.
pub(crate) fn ended_with_result(ended: &Ended) -> Value {
    let mut value = self::ended(ended);
    if let Some(result) = &ended.result {
        value["result"] = json!(String::from_utf8_lossy(result));
    }
    value
}

pub(crate) fn why(why: &Why) -> Value {
    json!({
        "code": why.code.as_str(),
        "message": why.message,
        "facts": with_times(serde_json::to_value(why).unwrap_or_default(), &["code", "message"]),
    })
}

/// Quantities in whole units, memory in bytes.
fn quantities<'a>(resources: impl Iterator<Item = (&'a str, u64)>) -> Map<String, Value> {
    let number = |thousandths: u64| match thousandths % 1000 {
        0 => json!(thousandths / 1000),
        _ => json!(thousandths as f64 / 1000.0),
    };
    resources.map(|(name, thousandths)| (name.to_owned(), number(thousandths))).collect()
}

pub(crate) fn worker(worker: &WorkerInfo) -> Value {
    let held =
        worker.held.iter().map(|held| json!({ "task": held.task.to_string(), "attempt": held.attempt }));
    json!({
        "worker": &*worker.worker,
        "presence": worker.presence.as_str(),
        "since": time(worker.since),
        "last_seen": time(worker.last_seen),
        "queues": names(&worker.queues),
        "capabilities": names(&worker.capabilities),
        "slots": worker.slots,
        "slots_used": worker.slots_used,
        "light_slots": worker.light_slots,
        "light_used": worker.light_used,
        "resources": quantities(worker.resources.iter().map(|resource| (&*resource.name, resource.total))),
        "resources_used": quantities(worker.resources.iter().map(|resource| (&*resource.name, resource.used))),
        "pulls": worker.pulls,
        "held": held.collect::<Vec<_>>(),
        "suspended": worker.suspended,
        "draining": worker.draining,
        "crashes": worker.crashes,
        "last_crash": maybe_time(worker.last_crash),
        "quarantined_until": maybe_time(worker.quarantined_until),
        "heartbeat_ms": worker.heartbeat_ms,
        "lost_after_ms": worker.lost_after_ms,
        "lease_ms": worker.lease_ms,
        "host": worker.host,
        "platform": worker.platform,
        "version": worker.version,
        "door": worker.door,
        "stats": worker.stats,
    })
}

pub(crate) fn queue(queue: &QueueInfo) -> Value {
    json!({
        "queue": &*queue.queue,
        "paused": queue.paused,
        "counts": states(&queue.counts),
        "live_workers": queue.live_workers,
        "ever_served": queue.ever_served,
        "unserved_since": maybe_time(queue.unserved_since),
        "oldest_ready": maybe_time(queue.oldest_ready),
        "thresholds": queue.thresholds.map(|thresholds| self::thresholds(&thresholds)),
        "backlog": queue.backlog.iter().map(Threshold::as_str).collect::<Vec<_>>(),
        "rate": queue.rate.as_ref().map(rate),
    })
}

pub(crate) fn thresholds(thresholds: &Thresholds) -> Value {
    json!({ "depth": thresholds.depth, "age_ms": thresholds.age_ms })
}

pub(crate) fn limit(limit: &LimitInfo) -> Value {
    json!({
        "tag": &*limit.tag,
        "limit": limit.limit,
        "in_use": limit.in_use,
        "rate": limit.rate.as_ref().map(rate),
    })
}

pub(crate) fn rate(rate: &Rate) -> Value {
    json!({ "count": rate.count, "period_ms": rate.period_ms, "burst": rate.burst })
}

pub(crate) fn share(share: &ShareInfo) -> Value {
    json!({ "share": &*share.share, "weight": share.weight, "ready": share.ready })
}

pub(crate) fn schedule(info: &ScheduleInfo) -> Value {
    let mut value = json!({
        "schedule": &*info.schedule,
        "state": info.state.as_str(),
        "when": info.when,
        "zone": info.zone.as_deref(),
        "catch_up": info.catch_up.as_str(),
        "overlap": info.overlap.as_str(),
        "jitter_ms": info.jitter_ms,
        "created_at": time(info.created_at),
        "next": info.next.iter().copied().map(time).collect::<Vec<_>>(),
        "last_due": maybe_time(info.last_due),
        "last_task": info.last_task.map(|task| task.to_string()),
        "fired": info.fired,
        "skipped": info.skipped,
        "priority": info.priority,
        "expires_after_ms": info.expires_after_ms,
        "body_bytes": info.body_bytes,
    });
    let fields = value.as_object_mut().expect("made above");
    fields.append(&mut terms(&info.terms));
    value
}

pub(crate) fn hook(hook: &HookInfo) -> Value {
    json!({
        "hook": &*hook.hook,
        "kind": hook.kind.as_str(),
        "target": &*hook.target,
        "events": names(&hook.events),
        "queues": names(&hook.queues),
        "next_event": hook.next_event,
        "delivered": hook.delivered,
        "failed_attempts": hook.failed_attempts,
        "given_up": hook.given_up,
        "missed": hook.missed,
        "discarded": hook.discarded,
        "in_flight": hook.in_flight,
        "undelivered": hook.undelivered,
        "last_delivered_at": maybe_time(hook.last_delivered_at),
        "last_error": hook.last_error.as_deref(),
    })
}

pub(crate) fn undelivered(event: &UndeliveredEvent) -> Value {
    json!({
        "seq": event.seq,
        "kind": &*event.kind,
        "given_up_at": time(event.given_up_at),
        "attempts": event.attempts,
        "error": &*event.error,
        "body": serde_json::from_slice::<Value>(&event.body).unwrap_or_default(),
    })
}

pub(crate) fn counts(counts: &Counts) -> Value {
    json!({
        "by_state": states(&counts.by_state),
        "live_workers": counts.live_workers,
        "lost_workers": counts.lost_workers,
        "last_event": counts.last_event,
    })
}

pub(crate) fn states(counts: &StateCounts) -> Value {
    let StateCounts {
        created,
        waiting,
        delayed,
        ready,
        assigned,
        running,
        suspended,
        paused,
        completed,
        failed,
        cancelled,
    } = *counts;
    json!({
        "created": created, "waiting": waiting, "delayed": delayed, "ready": ready, "assigned": assigned, "running": running,
        "suspended": suspended, "paused": paused, "completed": completed, "failed": failed, "cancelled": cancelled,
    })
}

pub(crate) fn event(event: &Event) -> Value {
    let more = event.more.as_ref().map_or(Value::Null, |more| serde_json::to_value(more).unwrap_or_default());
    json!({
        "seq": event.seq,
        "at": time(event.at),
        "kind": event.kind.as_str(),
        "task": event.task.map(|task| task.to_string()),
        "attempt": event.attempt,
        "queue": event.queue.as_deref(),
        "submitter": event.submitter.as_deref(),
        "worker": event.worker.as_deref(),
        "more": with_times(more, &[]),
    })
}

fn names(names: &[tenure_client::Name]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

/// Facts that only some kinds have: unchanged, with times formatted like all times.
fn with_times(value: Value, without: &[&str]) -> Value {
    const TIMES: [&str; 9] =
        ["until", "since", "lease_until", "retry_at", "deadline", "at", "due", "from", "to"];
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(name, _)| !without.contains(&name.as_str()))
                .map(|(name, value)| match value.as_u64() {
                    Some(millis) if TIMES.contains(&name.as_str()) => (name, rfc3339(millis).into()),
                    _ => (name, with_times(value, &[])),
                })
                .collect(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_among_the_facts_are_written_like_all_times() {
        let facts = json!({ "code": "x", "lease_until": 1_769_860_800_000_u64, "unserved": { "since": 0 }, "crashes": 3 });
        assert_eq!(
            with_times(facts, &["code"]),
            json!({ "lease_until": "2026-01-31T12:00:00.000Z", "unserved": { "since": "1970-01-01T00:00:00.000Z" }, "crashes": 3 })
        );
    }
}
