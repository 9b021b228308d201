//! What workers send and get, as JSON.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tenure_hub::words::{Assignment, Held, Name, Refusal, WorkerAbout, WorkerSpec, WorkerStats};

use super::broker::held;
use super::refusal::problem;
use super::resources::{quantities, resources};
use super::submission::{check_size, from_base64};
use super::task::dependency;
use super::word::{millis, names, some_millis, task_id, texts, time, wanted};
use crate::session::WorkerUpdate;

/// A worker that is driven by requests is slower to answer than one with a connection of its own.
const HEARTBEAT: Duration = Duration::from_secs(15);
const LOST_AFTER: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldInput {
    task: String,
    attempt: u32,
}

impl HeldInput {
    fn held(&self) -> Result<Held, Refusal> {
        Ok(Held { task: task_id("held", &self.task)?, attempt: self.attempt })
    }
}

/// A registration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WorkerInput {
    queues: Vec<String>,
    capabilities: Vec<String>,
    slots: Option<u32>,
    light_slots: Option<u32>,
    resources: Map<String, Value>,
    instance: u64,
    heartbeat_ms: Option<u64>,
    lost_after_ms: Option<u64>,
    busy_lost_after_ms: Option<u64>,
    lease_ms: Option<u64>,
    held: Vec<HeldInput>,
    host: Option<String>,
    platform: Option<String>,
    version: Option<String>,
}

impl WorkerInput {
    pub(crate) fn spec(self, worker: Name) -> Result<WorkerSpec, Refusal> {
        if self.heartbeat_ms == Some(0) {
            return Err(Refusal::BadValue {
                what: "heartbeat_ms",
                why: "is 0: leave it out for the default",
            });
        }
        if self.queues.is_empty() {
            return Err(Refusal::BadValue { what: "queues", why: "is empty: name at least one queue" });
        }
        let span = |span: Option<u64>, default| span.map_or(default, Duration::from_millis);
        let text = |text: Option<String>| text.map(Into::into);
        let plain = WorkerSpec::new(worker, names(self.queues), self.slots.unwrap_or(1));
        Ok(WorkerSpec {
            light_slots: self.light_slots.unwrap_or(plain.light_slots),
            resources: resources(&self.resources)?,
            instance: self.instance,
            capabilities: names(self.capabilities),
            pulls: true,
            // A worker may begin as soon as it has the task, so a task that must not run twice is started then.
            starts_on_assign: true,
            heartbeat: span(self.heartbeat_ms, HEARTBEAT),
            lost_after: span(self.lost_after_ms, LOST_AFTER),
            busy_lost_after: self.busy_lost_after_ms.map(Duration::from_millis),
            lease: span(self.lease_ms, LEASE),
            held: self.held.iter().map(HeldInput::held).collect::<Result<_, _>>()?,
            about: WorkerAbout {
                host: text(self.host),
                platform: text(self.platform),
                version: text(self.version),
                door: Some("http"),
            },
            ..plain
        })
    }
}

/// The terms of a worker.
pub(crate) fn registered(spec: &WorkerSpec) -> Value {
    json!({
        "worker": &*spec.worker,
        "queues": texts(&spec.queues),
        "slots": spec.slots,
        "heartbeat_ms": millis(spec.heartbeat),
        "lost_after_ms": millis(spec.lost_after),
        "busy_lost_after_ms": some_millis(spec.busy_lost_after),
        "lease_ms": millis(spec.lease),
    })
}

/// For each attempt that a worker named: whether it continues.
pub(crate) fn held_verdicts(named: &[Held], each: &[Result<(), Refusal>]) -> Value {
    let verdicts = named.iter().zip(each).map(|(attempt, verdict)| {
        let mut value = held(attempt);
        value["continue"] = verdict.is_ok().into();
        value["problem"] = verdict.as_ref().err().map(|no| problem(no).json()).into();
        value
    });
    verdicts.collect::<Vec<_>>().into()
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HeartbeatInput {
    held: Option<Vec<HeldInput>>,
    cpu_percent: Option<f32>,
    memory_used: Option<u64>,
    memory_total: Option<u64>,
    more: Map<String, Value>,
}

impl HeartbeatInput {
    #[expect(clippy::type_complexity, reason = "the two parts of the hub's command")]
    pub(crate) fn parts(self) -> Result<(Option<Vec<Held>>, Option<Box<WorkerStats>>), Refusal> {
        let held = self.held.map(|held| held.iter().map(HeldInput::held).collect()).transpose()?;
        if self.cpu_percent.is_some_and(|percent| !percent.is_finite()) {
            return Err(Refusal::BadValue { what: "cpu_percent", why: "is not a number" });
        }
        let more = self.more.into_iter().map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.into(), value.into())
        });
        let stats = WorkerStats {
            cpu_percent: self.cpu_percent,
            memory_used: self.memory_used,
            memory_total: self.memory_total,
            more: more.collect(),
        };
        let stats = (stats != WorkerStats::default()).then(|| Box::new(stats));
        Ok((held, stats))
    }
}

/// What a worker should know.
pub(crate) fn worker_news(news: &WorkerUpdate) -> Value {
    let wanted_of = news.wanted.iter().map(|(attempt, notice)| {
        let mut value = held(attempt);
        value["wanted"] = wanted(notice.wanted).into();
        value["in_place"] = notice.in_place.into();
        value["reason"] = notice.reason.as_deref().into();
        value
    });
    let stopped = news.stopped.iter().map(|(attempt, why)| {
        let mut value = held(attempt);
        value["why"] = why.as_str().into();
        value
    });
    json!({
        "wanted": wanted_of.collect::<Vec<_>>(),
        "stop": stopped.collect::<Vec<_>>(),
        "drain": news.is_draining,
    })
}

/// A task for a worker, without its bytes.
pub(crate) fn assignment(assignment: &Assignment) -> Value {
    let terms = &assignment.terms;
    let element = terms.element(assignment.task);
    json!({
        "task": assignment.task.to_string(),
        "attempt": assignment.attempt,
        "name": assignment.name.as_deref(),
        "queue": &*terms.queue,
        "priority": assignment.priority,
        "needs": texts(&terms.needs),
        "tags": texts(&terms.tags),
        "share": terms.share.as_deref(),
        "submitter": &*terms.submitter,
        "parent": assignment.parent.map(|parent| parent.to_string()),
        "array": element.map(|element| element.array.to_string()),
        "index": element.map(|element| element.index),
        "after": assignment.after.iter().map(dependency).collect::<Vec<_>>(),
        "submitted_at": time(assignment.submitted_at),
        "crashes": assignment.crashes,
        "failures": assignment.failures,
        "on_lost": terms.on_lost.as_str(),
        "run_limit_ms": some_millis(terms.run_limit),
        "slots": terms.demand.slots,
        "resources": quantities(terms.demand.resources.iter().map(|of| (&of.name, of.quantity))),
        "cpus": assignment.devices.cpus,
        "gpus": assignment.devices.gpus,
        "traceparent": assignment.trace.as_ref().map(ToString::to_string),
        "tracestate": assignment.trace.as_ref().and_then(|trace| trace.state.as_deref()),
    })
}

/// Room for the names of the fields with bytes, and for what is around them.
const FIELD_NAMES_BYTES: usize = 128;

/// How long a task is as JSON, at most.
pub(crate) fn assignment_length(head: &Value, body: &[u8], checkpoint: &[u8]) -> usize {
    head.to_string().len() + bytes_length(body) + bytes_length(checkpoint) + FIELD_NAMES_BYTES
}

/// A task with its bytes: text as it is, other bytes in base64. Long bytes are written once, into their place.
pub(crate) fn assignment_json(head: &Value, body: &[u8], checkpoint: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length);
    out.extend_from_slice(head.to_string().as_bytes());
    out.pop();
    for (name, bytes) in [("body", body), ("checkpoint", checkpoint)] {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                out.extend_from_slice(format!(",\"{name}\":").as_bytes());
                serde_json::to_writer(&mut out, text).expect("a text is written to memory");
                out.extend_from_slice(format!(",\"{name}_base64\":null").as_bytes());
            }
            Err(_) => {
                out.extend_from_slice(format!(",\"{name}\":null,\"{name}_base64\":\"").as_bytes());
                let begin = out.len();
                out.resize(begin + base64_length(bytes), 0);
                STANDARD.encode_slice(bytes, &mut out[begin..]).expect("the length is that of base64");
                out.push(b'"');
            }
        }
    }
    out.push(b'}');
    out
}

/// How long the bytes are between their quotation marks.
fn bytes_length(bytes: &[u8]) -> usize {
    if std::str::from_utf8(bytes).is_err() {
        return base64_length(bytes);
    }
    let escaped = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    bytes.iter().map(escaped).sum()
}

fn base64_length(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(3) * 4
}

/// A result among other fields: as a text, as any JSON value, or in base64.
pub(crate) fn result_bytes(result: Option<Value>, base64: Option<String>) -> Result<Bytes, Refusal> {
    let bytes = match (result, base64) {
        (Some(_), Some(_)) => {
            let why = "is there twice: as result and result_base64";
            return Err(Refusal::BadValue { what: "result", why });
        }
        (Some(Value::String(text)), None) => Bytes::from(text),
        (Some(value), None) => Bytes::from(value.to_string()),
        (None, Some(text)) => from_base64("result_base64", &text)?,
        (None, None) => Bytes::new(),
    };
    check_size("bytes of result", bytes.len())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_as_long_as_was_foretold_and_has_its_bytes() {
        let head = json!({ "task": "x" });
        let every_byte: Vec<u8> = (0..=255).collect();
        for (body, text) in [
            (&b"plain"[..], true),
            (b"", true),
            ("\0\x01\n\r\t\x08\x0c\"\\/\x1f\x7f \u{fc}\u{2028}\u{1f600}".as_bytes(), true),
            (&every_byte, false),
            (b"\xff", false),
        ] {
            let length = assignment_length(&head, body, b"half");
            let written = assignment_json(&head, body, b"half", length);
            assert!(written.len() <= length && length - written.len() < FIELD_NAMES_BYTES);
            let value: Value = serde_json::from_slice(&written).unwrap();
            let read = if text {
                assert_eq!(value["body_base64"], Value::Null);
                value["body"].as_str().unwrap().as_bytes().to_vec()
            } else {
                assert_eq!(value["body"], Value::Null);
                STANDARD.decode(value["body_base64"].as_str().unwrap()).unwrap()
            };
            assert_eq!(read, body);
            assert_eq!((&value["task"], &value["checkpoint"]), (&json!("x"), &json!("half")));
        }
    }
}
