//! The options of a submission, for any kind of work.

use std::time::Duration;

use serde_json::Value;
use tenure_hub::limits::{AFTER_MAX, TRACESTATE_BYTES_MAX};
use tenure_hub::words::{Condition, Demand, OnBroken, OnLost, Quantity, Resource, TraceContext};
use tenure_plans::{Document, SchemaError};

use crate::command::WORDS_BYTES_MAX;
use crate::key::RespQueueKey;

const NAMES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 128;
const QUEUE_BYTES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskOptions {
    pub queue: RespQueueKey,
    pub priority: i32,
    /// `None`: the work decides.
    pub needs: Option<Vec<String>>,
    /// The description of a further capability that the task needs.
    pub needs_described: Option<String>,
    /// The capability that was found by that description.
    pub needs_matched: Option<String>,
    pub tags: Vec<String>,
    /// What it occupies on its worker.
    pub demand: Demand,
    /// The share key: with whom the task takes turns in its queue.
    pub share: Option<String>,
    /// The jobs that have to end before it may run.
    pub after: Vec<AfterJob>,
    pub after_broken: OnBroken,
    pub trace: Option<Box<TraceContext>>,
    pub on_lost_worker: Option<OnLost>,
    pub not_before: Option<NotBefore>,
    pub start_within: Option<Duration>,
    pub run_limit: Option<Duration>,
    pub cancel_timeout: Option<Duration>,
    pub retries: Option<u32>,
    pub retry_delay: Option<Duration>,
    pub crash_budget: Option<u32>,
}

/// A job to wait for, and how it has to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AfterJob {
    pub job: String,
    pub condition: Condition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBefore {
    /// Milliseconds since 1970.
    At(u64),
    In(Duration),
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            queue: RespQueueKey::Default,
            priority: 0,
            needs: None,
            needs_described: None,
            needs_matched: None,
            tags: Vec::new(),
            demand: Demand::default(),
            share: None,
            after: Vec::new(),
            after_broken: OnBroken::default(),
            trace: None,
            on_lost_worker: None,
            not_before: None,
            start_within: None,
            run_limit: None,
            cancel_timeout: None,
            retries: None,
            retry_delay: None,
            crash_budget: None,
        }
    }
}

/// `slots`, and `resources`.
fn demand(object: &mut Document) -> Result<Demand, SchemaError> {
    let slots = object.integer("slots", 0..=i64::from(u32::MAX))?.unwrap_or(1);
    let slots = u32::try_from(slots).expect("within the limit");
    Ok(Demand { slots, resources: resources(object)? })
}

/// What a job needs, or what a worker has: an object of numbers, or of texts with a unit.
pub(super) fn resources(object: &mut Document) -> Result<Vec<Resource>, SchemaError> {
    let entries = match object.take("resources") {
        None => return Ok(Vec::new()),
        Some(Value::Object(entries)) => entries,
        Some(_) => return Err(object.invalid("resources is not an object")),
    };
    let one = |(name, value): (String, Value)| {
        let quantity = match value {
            Value::String(text) => Quantity::parse(&text),
            other => Quantity::parse(&other.to_string()),
        };
        quantity.map(|quantity| Resource::new(name, quantity))
    };
    let why =
        "resources has an entry that is neither a number with at most three decimals nor a text such as 8GB";
    let resources: Option<Vec<Resource>> = entries.into_iter().map(one).collect();
    resources.ok_or_else(|| object.invalid(why))
}

/// `after`: a job, or a list of jobs; each is the job's id, or an object with `job_id` and `status`.
fn after(object: &mut Document) -> Result<Vec<AfterJob>, SchemaError> {
    let entries = match object.take("after") {
        None => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(one) => vec![one],
    };
    if entries.len() > AFTER_MAX {
        return Err(object.invalid(format!("after has more than {AFTER_MAX} entries")));
    }
    let one = |entry: Value| match entry {
        Value::String(job) => Some(AfterJob { job, condition: Condition::default() }),
        Value::Object(mut fields) => {
            let Some(Value::String(job)) = fields.remove("job_id") else { return None };
            let condition = match fields.remove("status") {
                None => Condition::default(),
                Some(status) => Condition::parse(status.as_str()?)?,
            };
            fields.is_empty().then_some(AfterJob { job, condition })
        }
        _ => None,
    };
    let why = "after has an entry that is neither a job id nor an object with job_id and status (completed, ended or failed)";
    let jobs: Option<Vec<AfterJob>> = entries.into_iter().map(one).collect();
    jobs.ok_or_else(|| object.invalid(why))
}

/// The trace that the job belongs to.
fn trace(object: &mut Document) -> Result<Option<Box<TraceContext>>, SchemaError> {
    let parent = object.text("traceparent", NAME_BYTES_MAX)?;
    let state = object.text("tracestate", TRACESTATE_BYTES_MAX)?;
    let Some(parent) = parent else { return Ok(None) };
    let parsed = TraceContext::parse(&parent, state.as_deref());
    parsed
        .map(|trace| Some(Box::new(trace)))
        .map_err(|_| object.invalid("traceparent or tracestate is not valid"))
}

fn after_broken(object: &mut Document) -> Result<OnBroken, SchemaError> {
    match object.text("after_broken", NAME_BYTES_MAX)? {
        None => Ok(OnBroken::default()),
        Some(text) => {
            OnBroken::parse(&text).ok_or_else(|| object.invalid("after_broken is not cancel, run or hold"))
        }
    }
}

impl TaskOptions {
    /// Takes the options out of a document and leaves the rest.
    pub(super) fn take(object: &mut Document) -> Result<Self, SchemaError> {
        let queue = match object.text("queue", QUEUE_BYTES_MAX)? {
            None => RespQueueKey::Default,
            Some(name) => queue(object, &name)?,
        };
        let priority = object.integer("priority", i64::from(i32::MIN)..=i64::from(i32::MAX))?.unwrap_or(0);
        let not_before = match (object.time("run_at")?, object.seconds("delay_secs")?) {
            (Some(_), Some(_)) => return Err(object.invalid("run_at and delay_secs exclude each other")),
            (Some(millis), None) => Some(NotBefore::At(millis)),
            (None, delay) => delay.map(NotBefore::In),
        };
        object.take("run_at");
        Ok(Self {
            queue,
            priority: i32::try_from(priority).expect("within the limit"),
            needs: object.names("needs", NAMES_MAX, NAME_BYTES_MAX)?,
            needs_described: object.text("needs_described", WORDS_BYTES_MAX)?,
            needs_matched: None,
            tags: object.names("tags", NAMES_MAX, NAME_BYTES_MAX)?.unwrap_or_default(),
            demand: demand(object)?,
            share: object.text("share", NAME_BYTES_MAX)?,
            after: after(object)?,
            after_broken: after_broken(object)?,
            trace: trace(object)?,
            on_lost_worker: lost_policy(object)?,
            not_before,
            start_within: object.seconds("start_within_secs")?,
            run_limit: object.seconds("run_limit_secs")?,
            cancel_timeout: object.seconds("cancel_timeout_secs")?,
            retries: count(object, "max_retries")?,
            retry_delay: object.seconds("retry_delay_secs")?,
            crash_budget: count(object, "crash_budget")?,
        })
    }
}

fn queue(object: &Document, name: &str) -> Result<RespQueueKey, SchemaError> {
    let bare = name.strip_prefix("queue:").unwrap_or(name);
    if bare.is_empty() || bare.chars().any(char::is_control) {
        return Err(object.invalid("queue is not a queue name"));
    }
    match RespQueueKey::parse(bare) {
        RespQueueKey::Scheduled | RespQueueKey::Processing => {
            Err(object.invalid("queue names a view, not a queue; use run_at to schedule"))
        }
        queue @ (RespQueueKey::Default | RespQueueKey::Named(_)) => Ok(queue),
    }
}

fn lost_policy(object: &mut Document) -> Result<Option<OnLost>, SchemaError> {
    let Some(policy) = object.text("policy", 32)? else { return Ok(None) };
    match OnLost::parse(&policy) {
        Some(policy) => Ok(Some(policy)),
        None => Err(object.invalid("policy is not requeue, pause or fail")),
    }
}

fn count(object: &mut Document, field: &str) -> Result<Option<u32>, SchemaError> {
    const COUNT_MAX: i64 = 1_000_000;
    let count = object.integer(field, 0..=COUNT_MAX)?;
    Ok(count.map(|count| u32::try_from(count).expect("within the limit")))
}
