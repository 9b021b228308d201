//! Tasks and workers as JSON, in this door's words.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tenure_hub::words::{
    Assignment, DependencyInfo, Name, PresenceName, Resource, StateName, TaskInfo, TaskState, Timestamp,
    Wanted, Why, WorkerInfo,
};
use tenure_plans::format_time;

use super::envelope::{Fields, envelope};
use super::names::{
    assigned_id, current_task, declared_offers, job_id, known_as, shown_need, status, tools_of,
};
use super::results;
use crate::json::{bytes_field, encode_base64};

/// Fields that the broker sets. Where a body has them, they are the submitter's text and not the current value.
const OWN_FIELDS: [&str; 41] = [
    "attempt",
    "body_fields",
    "cancelled_at",
    "claimed_at",
    "completed_at",
    "crash_budget",
    "crashes",
    "created_at",
    "current_task",
    "delay_secs",
    "error",
    "exit_code",
    "expires_at",
    "failed_at",
    "failures",
    "id",
    "job_id",
    "max_retries",
    "needs",
    "parent",
    "paused_at",
    "policy",
    "priority",
    "progress_percent",
    "queue",
    "reconciliation",
    "result",
    "retry_delay_secs",
    "run_at",
    "run_limit_secs",
    "start_within_secs",
    "started_at",
    "status",
    "stderr",
    "stdout",
    "tags",
    "task_results",
    "waiting_because",
    "waiting_code",
    "wanted",
    "worker_id",
];

/// What the broker adds to a popped job, and its body if that is not an envelope. Sorted by name, as all JSON of this
/// door.
#[derive(Serialize)]
struct Pulled<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<String>,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<&'a str>,
    #[serde(skip_serializing_if = "<[u16]>::is_empty")]
    cpus: &'a [u16],
    created_at: &'a str,
    #[serde(skip_serializing_if = "<[u16]>::is_empty")]
    gpus: &'a [u16],
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    job_id: &'a str,
    priority: i32,
    queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_limit_secs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a str>,
}

/// What a worker gets when it pops a whole job.
pub(super) fn pulled(assignment: &Assignment, body: &Bytes) -> Bytes {
    let element = assignment.terms.element(assignment.task);
    let trace = assignment.trace.as_deref();
    let mut own = Pulled {
        after: assignment.after.iter().map(dependency).collect(),
        array: element.map(|element| element.array.to_string()),
        attempt: assignment.attempt,
        body: None,
        body_base64: None,
        cpus: &assignment.devices.cpus,
        gpus: &assignment.devices.gpus,
        created_at: &format_time(assignment.submitted_at.millis()),
        index: element.map(|element| element.index),
        job_id: &assigned_id(assignment),
        priority: assignment.priority,
        queue: &assignment.terms.queue,
        run_limit_secs: assignment.terms.run_limit.map(|limit| limit.as_secs()),
        traceparent: trace.map(ToString::to_string),
        tracestate: trace.and_then(|trace| trace.state.as_deref()),
    };
    if let Some(mut job) = envelope(body) {
        let mut own: Fields =
            serde_json::from_slice(&serde_json::to_vec(&own).expect("plain fields")).expect("an object");
        job.append(&mut own);
        return Bytes::from(serde_json::to_vec(&job).expect("plain fields"));
    }
    let base64;
    match std::str::from_utf8(body) {
        Ok(text) => own.body = Some(text),
        Err(_) => {
            base64 = encode_base64(body);
            own.body_base64 = Some(&base64);
        }
    }
    Bytes::from(serde_json::to_vec(&own).expect("plain fields"))
}

/// What a worker of the oldest generation gets when it pulls the job of a plan; such a worker refuses a job without a
/// plan id. `None` for any other job.
pub(super) fn pulled_plan(assignment: &Assignment, body: &Bytes) -> Option<Bytes> {
    let mut job: Fields = serde_json::from_slice(&pulled(assignment, body)).ok()?;
    if !job.contains_key("tasks") {
        return None;
    }
    if !job.contains_key("plan_id") {
        job.extend(job.get("job_id").cloned().map(|id| ("plan_id".to_owned(), id)));
    }
    Some(Bytes::from(serde_json::to_vec(&job).expect("plain fields")))
}

/// Everything about a job: the fields of its body, overridden by the current values.
pub(super) fn whole(task: &TaskInfo, body: &Bytes, result: &Bytes) -> Value {
    let mut job = from_body(body);
    one_step(task, &mut job);
    let mut said: Map<String, Value> =
        OWN_FIELDS.iter().filter_map(|field| job.remove_entry(*field)).collect();
    job.append(&mut state(task, result));
    let mut terms = terms(task);
    terms.append(&mut devices(task));
    // Fields that most jobs lack may stand in the body of such a job with a meaning of their own.
    said.extend(terms.keys().filter_map(|field| job.remove_entry(field)));
    job.append(&mut terms);
    said.retain(|field, value| job.get(field) != Some(value));
    if !said.is_empty() {
        job.insert("body_fields".into(), Value::Object(said));
    }
    Value::Object(job)
}

/// The newest workers read a job that is one command. So a job of one step shows it beside its plan.
fn one_step(task: &TaskInfo, job: &mut Map<String, Value>) {
    let Some([step]) = job.get("tasks").and_then(Value::as_array).map(Vec::as_slice) else { return };
    let step = step.clone();
    let env = job.get("input").cloned().unwrap_or(Value::Null);
    let shown = [
        ("task_number", step["task_number"].clone()),
        ("command", step["command"].clone()),
        ("args", if step["args"].is_null() { json!([]) } else { step["args"].clone() }),
        ("env", env),
        ("action_id", task.id.to_string().into()),
        ("plan_id", task.id.to_string().into()),
    ];
    for (field, value) in shown {
        job.entry(field).or_insert(value);
    }
}

/// How a job is to be run, in the words of its submission.
fn terms(task: &TaskInfo) -> Map<String, Value> {
    let names = |names: &[Name]| names.iter().map(|name| Value::from(&**name)).collect::<Value>();
    let terms = &task.terms;
    let mut shown = Map::new();
    shown.insert("priority".into(), task.priority.into());
    shown.insert("needs".into(), terms.needs.iter().map(|need| Value::from(shown_need(need))).collect());
    shown.insert("tags".into(), names(&terms.tags));
    if let Some(share) = &terms.share {
        shown.insert("share".into(), (**share).into());
    }
    shown.insert("policy".into(), terms.on_lost.as_str().into());
    shown.insert("max_retries".into(), terms.retries.into());
    shown.insert("retry_delay_secs".into(), seconds(terms.backoff.first));
    shown.insert("crash_budget".into(), terms.crash_budget.into());
    if let Some(limit) = terms.run_limit {
        shown.insert("run_limit_secs".into(), seconds(limit));
    }
    if let Some(parent) = task.parent {
        shown.insert("parent".into(), parent.to_string().into());
    }
    if let Some(trace) = &task.trace {
        shown.insert("traceparent".into(), trace.to_string().into());
        if let Some(state) = &trace.state {
            shown.insert("tracestate".into(), (**state).into());
        }
    }
    if let Some(element) = terms.element(task.id) {
        shown.insert("array".into(), element.array.to_string().into());
        shown.insert("index".into(), element.index.into());
    }
    if !task.after.is_empty() {
        shown.insert("after".into(), task.after.iter().map(dependency).collect());
        shown.insert("after_broken".into(), terms.on_broken.as_str().into());
    }
    if terms.demand.slots != 1 {
        shown.insert("slots".into(), terms.demand.slots.into());
    }
    if !terms.demand.resources.is_empty() {
        let one = |of: &Resource| (of.name.to_string(), Value::from(of.quantity.to_string()));
        shown.insert("resources".into(), Value::Object(terms.demand.resources.iter().map(one).collect()));
    }
    shown
}

/// The numbers of the cpus and gpus that belong to the attempt.
fn devices(task: &TaskInfo) -> Map<String, Value> {
    let mut shown = Map::new();
    if let Some(devices) = task.state.holding().and_then(|holding| holding.devices.as_deref()) {
        for (name, numbers) in [("cpus", &devices.cpus), ("gpus", &devices.gpus)] {
            if !numbers.is_empty() {
                shown.insert(name.into(), numbers.iter().copied().map(Value::from).collect());
            }
        }
    }
    shown
}

fn dependency(info: &DependencyInfo) -> Value {
    json!({
        "job_id": known_as(info.name.as_deref(), info.task), "status": info.condition.as_str(),
        "progress": info.progress.as_str(),
    })
}

/// A job's state and what came out of it.
pub(super) fn state(task: &TaskInfo, result: &Bytes) -> Map<String, Value> {
    let mut job = Map::new();
    job.insert("job_id".into(), job_id(task).into());
    job.insert("id".into(), task.id.to_string().into());
    job.insert("status".into(), status(&task.state).word().into());
    job.insert("queue".into(), (*task.terms.queue).into());
    job.insert("attempt".into(), task.attempt.into());
    job.insert("created_at".into(), time(task.submitted_at));
    if let Some(prefix) = &task.reconciliation {
        job.insert("reconciliation".into(), (**prefix).into());
    }
    if task.crashes > 0 {
        job.insert("crashes".into(), task.crashes.into());
    }
    if task.failures > 0 {
        job.insert("failures".into(), task.failures.into());
    }
    for (field, at) in [("run_at", task.not_before), ("expires_at", task.expires_at)] {
        if let Some(at) = at {
            job.insert(field.into(), time(at));
        }
    }
    if let Some(pause) = task.state.pause() {
        job.insert("paused_at".into(), time(pause.since));
        if let Some(reason) = pause.reason {
            job.insert("reason".into(), (*reason).into());
        }
    }
    match &task.state {
        TaskState::Created | TaskState::Waiting { .. } | TaskState::Ready { .. } => {}
        TaskState::Delayed { until } => {
            job.insert("run_at".into(), time(*until));
        }
        TaskState::Assigned(_) | TaskState::Running(_) | TaskState::Suspended(_) => {
            let Some(holding) = task.state.holding() else { return job };
            job.insert("worker_id".into(), (*holding.worker).into());
            job.insert("claimed_at".into(), time(holding.since));
            if let Some(at) = holding.started_at {
                job.insert("started_at".into(), time(at));
            }
            if let Some(intent) = &holding.intent {
                job.insert("wanted".into(), wanted(intent.wanted).into());
            }
            if let Some(progress) = &holding.progress {
                if let Some(percent) = progress.percent {
                    job.insert("progress_percent".into(), percent.into());
                }
                if let Some(task) = progress.note.as_deref().and_then(current_task) {
                    job.insert("current_task".into(), task.into());
                }
            }
        }
        TaskState::Paused(_) => {}
        TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end) => {
            let (at, why) = match task.state.name() {
                StateName::Completed => ("completed_at", "message"),
                StateName::Cancelled => ("cancelled_at", "reason"),
                _ => ("failed_at", "error"),
            };
            job.insert(at.into(), time(end.at));
            job.insert("exit_code".into(), end.exit_code.into());
            if let Some(message) = &end.message {
                job.insert(why.into(), (**message).into());
            }
            if let Some(worker) = &end.worker {
                job.insert("worker_id".into(), (**worker).into());
            }
            results::insert(&mut job, result);
        }
    }
    job
}

pub(super) fn worker(worker: &WorkerInfo, now: Timestamp) -> Value {
    let mut shown = match worker.profile.as_deref().and_then(|json| serde_json::from_str(json).ok()) {
        Some(Value::Object(registration)) => registration,
        _ => Map::new(),
    };
    shown.insert("worker_id".into(), (*worker.worker).into());
    let (state, status) = if is_alive(worker, now) { ("ACTIVE", "active") } else { ("DEAD", "dead") };
    shown.insert("state".into(), state.into());
    shown.insert("status".into(), status.into());
    let tools: Vec<&str> = tools_of(&worker.capabilities).collect();
    shown.insert("tools".into(), tools.join(",").into());
    // A worker that has not returned after a restart has not been seen.
    let seen = (worker.last_seen != Timestamp::ZERO).then(|| time(worker.last_seen));
    shown.insert("last_seen".into(), seen.unwrap_or(Value::Null));
    shown.insert("active_jobs".into(), worker.held.len().into());
    shown.insert("max_concurrent_jobs".into(), worker.slots.into());
    shown.insert("offers".into(), declared_offers(&worker.capabilities).map(Value::from).collect());
    shown.insert("queues".into(), worker.queues.iter().map(|name| Value::from(&**name)).collect());
    shown.insert("crashes".into(), worker.crashes.into());
    shown.insert("draining".into(), worker.draining.into());
    // An operator should check a worker that crashed or hung.
    let hung = figure(worker, "hung").and_then(|count| count.parse::<u32>().ok()).unwrap_or(0);
    let flagged = worker.crashes > 0 || hung > 0 || worker.quarantined_until.is_some();
    shown.insert("hung".into(), hung.into());
    shown.insert("flagged".into(), flagged.into());
    if let Some(at) = worker.last_crash {
        shown.insert("last_crash".into(), time(at));
    }
    if let Some(until) = worker.quarantined_until {
        shown.insert("quarantined_until".into(), time(until));
    }
    if let Some(door) = worker.about.door {
        shown.insert("door".into(), door.into());
    }
    Value::Object(shown)
}

/// A worker's registration, or what is known of one that uses another door.
pub(super) fn metadata(worker: &WorkerInfo) -> String {
    if let Some(json) = worker.profile.as_deref() {
        return json.to_owned();
    }
    json!({
        "worker_id": &*worker.worker,
        "hostname": worker.about.host.as_deref(),
        "platform": worker.about.platform.as_deref(),
        "agw_version": worker.about.version.as_deref(),
        "capabilities": {"tools": declared_offers(&worker.capabilities).map(Value::from).collect::<Vec<_>>(), "agentic_units": []},
        "max_concurrent_jobs": worker.slots,
    })
    .to_string()
}

/// A text that travelled with the worker's figures.
pub(super) fn figure<'a>(worker: &'a WorkerInfo, name: &str) -> Option<&'a str> {
    let more = &worker.stats.as_ref()?.more;
    more.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
}

pub(super) fn is_alive(worker: &WorkerInfo, now: Timestamp) -> bool {
    worker.presence != PresenceName::Gone && worker.last_seen + worker.lost_after > now
}

pub(super) fn time(at: Timestamp) -> Value {
    format_time(at.millis()).into()
}

fn seconds(duration: Duration) -> Value {
    if duration.subsec_nanos() == 0 { duration.as_secs().into() } else { duration.as_secs_f64().into() }
}

/// Why a job waits, with the needs as this door shows them.
pub(super) fn why(why: &Why) -> String {
    match why {
        Why::NeedsUnmet { missing } => {
            let missing = missing.iter().map(|need| shown_need(need).into()).collect();
            Why::NeedsUnmet { missing }.to_string()
        }
        other => other.to_string(),
    }
}

pub(super) fn wanted(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Cancel => "cancel",
        Wanted::Pause => "pause",
    }
}

/// The fields of an envelope, or the body as one field.
fn from_body(body: &Bytes) -> Map<String, Value> {
    let Some(fields) = envelope(body) else {
        return Map::from_iter([bytes_field("body", body)]);
    };
    let value = |raw: Box<RawValue>| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
    fields.into_iter().map(|(field, raw)| (field, value(raw))).collect()
}
