//! A submission: its JSON, and what the hub makes of it.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};
use tenure_hub::limits::BODY_BYTES_MAX;
use tenure_hub::words::{After, AfterTask, Backoff, Demand, Move, NewTask, Refusal, Timestamp, TraceContext};
use tenure_hub::{Submission, fresh_id};

use super::resources::resources;
use super::word::{from_condition, from_on_broken, from_on_lost, names, task_id};

/// The queue of a task that names none.
const QUEUE: &str = "default";

/// One task, as a client writes it. A field that is missing has the default of all doors.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TaskInput {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) queue: Option<String>,
    /// A text stands for its bytes; any other JSON value for its JSON text.
    pub(crate) body: Option<Value>,
    pub(crate) body_base64: Option<String>,
    pub(crate) priority: Option<i32>,
    pub(crate) needs: Vec<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) slots: Option<u32>,
    /// Numbers, or texts with a unit.
    pub(crate) resources: Map<String, Value>,
    pub(crate) share: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) after: Vec<AfterInput>,
    pub(crate) on_broken: Option<String>,
    pub(crate) traceparent: Option<String>,
    pub(crate) tracestate: Option<String>,
    pub(crate) hold: bool,
    pub(crate) not_before: Option<TimeInput>,
    pub(crate) expires_at: Option<TimeInput>,
    pub(crate) on_lost: Option<String>,
    pub(crate) crash_budget: Option<u16>,
    pub(crate) retries: Option<u16>,
    pub(crate) backoff_first_ms: Option<u64>,
    pub(crate) backoff_max_ms: Option<u64>,
    pub(crate) accept_timeout_ms: Option<u64>,
    pub(crate) run_limit_ms: Option<u64>,
    pub(crate) cancel_timeout_ms: Option<u64>,
}

/// A task to wait for: `"ID"`, `"name:NAME"`, or an object that also says how it has to end, or its index in the request.
#[derive(Clone, Debug)]
pub(crate) enum AfterInput {
    Task(String),
    Object(AfterObject),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AfterObject {
    task: Option<String>,
    index: Option<u32>,
    condition: Option<String>,
}

/// Written out, because a derived reader would forget on the way that a list is no object.
impl<'de> Deserialize<'de> for AfterInput {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<AfterInput, D::Error> {
        struct AfterVisitor;
        impl<'de> Visitor<'de> for AfterVisitor {
            type Value = AfterInput;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the id of a task, name:NAME, or an object with task or index")
            }

            fn visit_str<E: Error>(self, task: &str) -> Result<AfterInput, E> {
                Ok(AfterInput::Task(task.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<AfterInput, A::Error> {
                AfterObject::deserialize(MapAccessDeserializer::new(object)).map(AfterInput::Object)
            }
        }
        input.deserialize_any(AfterVisitor)
    }
}

impl AfterInput {
    fn after(self) -> Result<After, Refusal> {
        let object = match self {
            AfterInput::Task(task) => AfterObject { task: Some(task), ..AfterObject::default() },
            AfterInput::Object(object) => object,
        };
        let task = match (object.task.as_deref(), object.index) {
            (Some(text), None) => match text.strip_prefix("name:") {
                Some(name) => AfterTask::Name(name.into()),
                None => AfterTask::Id(task_id("after", text)?),
            },
            (None, Some(index)) => AfterTask::Index(index),
            _ => {
                let why = "names a task by exactly one of task and index";
                return Err(Refusal::BadValue { what: "after", why });
            }
        };
        let condition = object.condition.as_deref().map(from_condition).transpose()?;
        Ok(After { task, condition: condition.unwrap_or_default() })
    }
}

/// A point in time: RFC 3339, or milliseconds since 1970.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum TimeInput {
    Millis(u64),
    Text(String),
}

impl TimeInput {
    pub(crate) fn at(&self, what: &'static str) -> Result<Timestamp, Refusal> {
        let why = "is not a time: write it like 2026-01-31T12:00:00Z, or in milliseconds since 1970";
        match self {
            TimeInput::Millis(millis) => Ok(Timestamp(*millis)),
            TimeInput::Text(text) => crate::codec::time(text).map_err(|_| Refusal::BadValue { what, why }),
        }
    }
}

impl TaskInput {
    /// The body, as bytes.
    pub(crate) fn take_body(&mut self) -> Result<Bytes, Refusal> {
        let body = match (self.body.take(), self.body_base64.take()) {
            (Some(_), Some(_)) => {
                return Err(Refusal::BadValue {
                    what: "body",
                    why: "is there twice: as body and body_base64",
                });
            }
            (Some(Value::String(text)), None) => Bytes::from(text),
            (Some(value), None) => Bytes::from(value.to_string()),
            (None, Some(text)) => from_base64("body_base64", &text)?,
            (None, None) => Bytes::new(),
        };
        check_size("bytes of body", body.len())?;
        Ok(body)
    }

    pub(crate) fn submission(mut self) -> Result<Submission, Refusal> {
        let body = self.take_body()?;
        self.submission_with(body)
    }

    /// The submission of this task with a body that came beside it.
    pub(crate) fn submission_with(self, body: Bytes) -> Result<Submission, Refusal> {
        check_size("bytes of body", body.len())?;
        let id = self.id.map(|id| task_id("id", &id)).transpose()?;
        let plain = NewTask::new(id.unwrap_or_else(fresh_id), self.queue.as_deref().unwrap_or(QUEUE));
        let backoff = Backoff {
            first: self.backoff_first_ms.map_or(plain.backoff.first, Duration::from_millis),
            max: self.backoff_max_ms.map_or(plain.backoff.max, Duration::from_millis),
        };
        let on_lost = self.on_lost.as_deref().map(from_on_lost).transpose()?;
        let task = NewTask {
            name: self.name.map(Into::into),
            priority: self.priority,
            needs: names(self.needs),
            tags: names(self.tags),
            demand: Demand { slots: self.slots.unwrap_or(1), resources: resources(&self.resources)? },
            share: self.share.map(Into::into),
            parent: self.parent.map(|parent| task_id("parent", &parent)).transpose()?,
            after: self.after.into_iter().map(AfterInput::after).collect::<Result<_, _>>()?,
            on_broken: self.on_broken.as_deref().map(from_on_broken).transpose()?.unwrap_or_default(),
            trace: self
                .traceparent
                .as_deref()
                .map(|parent| trace(parent, self.tracestate.as_deref()))
                .transpose()?,
            hold: self.hold,
            not_before: self.not_before.map(|at| at.at("not_before")).transpose()?,
            expires_at: self.expires_at.map(|at| at.at("expires_at")).transpose()?,
            on_lost: on_lost.unwrap_or(plain.on_lost),
            crash_budget: self.crash_budget.unwrap_or(plain.crash_budget),
            retries: self.retries.unwrap_or(plain.retries),
            backoff,
            accept_timeout: self.accept_timeout_ms.map(Duration::from_millis),
            run_limit: self.run_limit_ms.map(Duration::from_millis),
            cancel_timeout: self.cancel_timeout_ms.map(Duration::from_millis),
            ..plain
        };
        Ok(Submission::new(task, body))
    }
}

/// What to change about a waiting task. A field that is missing stays as it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MoveInput {
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<i32>,
    pub(crate) tags: Option<Vec<String>>,
}

impl MoveInput {
    pub(crate) fn to(self) -> Move {
        Move { queue: self.queue.map(Into::into), priority: self.priority, tags: self.tags.map(names) }
    }
}

fn trace(parent: &str, state: Option<&str>) -> Result<Box<TraceContext>, Refusal> {
    TraceContext::parse(parent, state).map(Box::new)
}

pub(crate) fn from_base64(what: &'static str, text: &str) -> Result<Bytes, Refusal> {
    let bytes = STANDARD.decode(text).map_err(|_| Refusal::BadValue { what, why: "is not base64" })?;
    Ok(Bytes::from(bytes))
}

pub(crate) fn check_size(what: &'static str, length: usize) -> Result<(), Refusal> {
    if length > BODY_BYTES_MAX {
        return Err(Refusal::TooMany { what, limit: BODY_BYTES_MAX });
    }
    Ok(())
}
