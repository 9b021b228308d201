//! Queues, workers, limits, shares and counts as JSON.

use serde_json::{Map, Value, json};
use tenure_hub::Stats;
use tenure_hub::words::{
    ArrayAccepted, ArrayInfo, Counts, Held, LimitInfo, QueueInfo, Rate, ShareInfo, StateName, WorkerInfo,
    WorkerStats,
};

use super::resources::quantities;
use super::why::why;
use super::word::{millis, some_millis, some_time, texts, time};

pub(crate) fn array(array: &ArrayInfo) -> Value {
    json!({
        "id": array.id.to_string(),
        "name": array.name.as_deref(),
        "state": array.state.as_str(),
        "queue": &*array.queue,
        "submitter": &*array.submitter,
        "size": array.size,
        "first": array.first,
        "step": array.step,
        "limit": array.limit,
        "submitted_at": time(array.submitted_at),
        "ended_at": some_time(array.ended_at),
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

pub(crate) fn queue(queue: &QueueInfo) -> Value {
    let passed = [("depth", queue.passed.depth), ("age", queue.passed.age)];
    let backlog: Vec<&str> = passed.into_iter().filter(|(_, passed)| *passed).map(|(name, _)| name).collect();
    json!({
        "queue": &*queue.queue,
        "paused": queue.paused,
        "counts": states(&queue.counts),
        "live_workers": queue.live_workers,
        "ever_served": queue.ever_served,
        "unserved_since": some_time(queue.unserved_since),
        "oldest_ready": some_time(queue.oldest_ready),
        "thresholds": { "depth": queue.thresholds.depth, "age_ms": some_millis(queue.thresholds.age) },
        "backlog": backlog,
        "rate": queue.rate.as_ref().map(rate),
        "ready_by_priority": queue.ready_by_priority.iter().map(|(priority, ready)| json!({
            "priority": priority, "ready": ready,
        })).collect::<Vec<_>>(),
    })
}

pub(crate) fn worker(worker: &WorkerInfo) -> Value {
    json!({
        "worker": &*worker.worker,
        "presence": worker.presence.as_str(),
        "since": time(worker.since),
        "last_seen": time(worker.last_seen),
        "queues": texts(&worker.queues),
        "capabilities": texts(&worker.capabilities),
        "slots": worker.slots,
        "slots_used": worker.slots_used,
        "light_slots": worker.light_slots,
        "light_used": worker.light_used,
        "resources": quantities(worker.resources.iter().map(|of| (&of.name, of.total))),
        "resources_used": quantities(worker.resources.iter().map(|of| (&of.name, of.used))),
        "pulls": worker.pulls,
        "held": worker.held.iter().map(held).collect::<Vec<_>>(),
        "suspended": worker.suspended,
        "stopping": worker.stopping.iter().map(held).collect::<Vec<_>>(),
        "draining": worker.draining,
        "crashes": worker.crashes,
        "last_crash": some_time(worker.last_crash),
        "quarantined_until": some_time(worker.quarantined_until),
        "heartbeat_ms": millis(worker.heartbeat),
        "lost_after_ms": millis(worker.lost_after),
        "lease_ms": millis(worker.lease),
        "host": worker.about.host,
        "platform": worker.about.platform,
        "version": worker.about.version,
        "door": worker.about.door,
        "stats": worker.stats.as_ref().map(worker_stats),
    })
}

fn worker_stats(stats: &WorkerStats) -> Value {
    let more: Map<String, Value> =
        stats.more.iter().map(|(name, value)| (name.to_string(), (&**value).into())).collect();
    json!({
        "cpu_percent": stats.cpu_percent,
        "memory_used": stats.memory_used,
        "memory_total": stats.memory_total,
        "more": more,
    })
}

pub(crate) fn held(held: &Held) -> Value {
    json!({ "task": held.task.to_string(), "attempt": held.attempt })
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
    json!({ "count": rate.count, "period_ms": millis(rate.period), "burst": rate.burst })
}

pub(crate) fn share(share: &ShareInfo) -> Value {
    json!({ "share": &*share.share, "weight": share.weight, "ready": share.ready })
}

pub(crate) fn counts(counts: &Counts) -> Value {
    json!({
        "by_state": states(&counts.by_state),
        "live_workers": counts.live_workers,
        "lost_workers": counts.lost_workers,
        "last_event": counts.last_event,
    })
}

fn states(counts: &[u64; StateName::COUNT]) -> Value {
    let by_name = StateName::ALL.iter().zip(counts);
    Value::Object(by_name.map(|(state, count)| (state.as_str().to_owned(), (*count).into())).collect())
}

/// The figures that `/metrics` shows as text.
pub(crate) fn figures(stats: &Stats) -> Value {
    let mut figures = Map::new();
    for line in stats.render().lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, value)) = line.rsplit_once(' ')
            && let Ok(value) = value.parse::<f64>()
        {
            figures.insert(name.to_owned(), value.into());
        }
    }
    Value::Object(figures)
}
