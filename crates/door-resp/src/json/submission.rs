//! `JOB.SUBMIT`, and the name inside a pushed body.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tenure_plans::{Document, ID_BYTES_MAX, Plan, SchemaError, check_id};

use super::base64::decode_base64;
use super::identifier::check_job_id;
use super::options::TaskOptions;

const WHAT: &str = "Invalid job";
const SUBMISSION_BYTES_MAX: usize = crate::codec::RespLimits::MESSAGE_BYTES_MAX;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobSubmission {
    /// The client's idempotency key.
    pub name: Option<String>,
    pub work: JobWork,
    pub parent: Option<String>,
    pub options: TaskOptions,
}

/// The work of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JobWork {
    /// Opaque bytes.
    Body(Bytes),
    /// A stored plan and its input.
    Plan { plan: String, input: Value },
    /// A plan to store under its id, and its input.
    Inline { plan: Box<Plan>, json: Value, input: Value },
    /// A plan without an id, for this job alone.
    Unnamed { needs: Vec<String>, json: Value, input: Value },
}

impl JobSubmission {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, SchemaError> {
        let mut object = Document::parse(WHAT, json, SUBMISSION_BYTES_MAX)?;
        let name = object.text("job_id", SUBMISSION_BYTES_MAX)?;
        if let Some(name) = &name {
            check_job_id(WHAT, name)?;
        }
        let parent = object.text("parent", ID_BYTES_MAX)?;
        let options = TaskOptions::take(&mut object)?;
        let work = work(&mut object)?;
        object.end()?;
        Ok(Self { name, work, parent, options })
    }
}

/// The `job_id` of a pushed body, if the body is a JSON object that has one. Any other body is opaque.
pub(crate) fn pushed_name(body: &[u8]) -> Result<Option<String>, SchemaError> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        job_id: Option<Value>,
    }
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    match serde_json::from_slice(body) {
        Ok(Named { job_id: Some(Value::String(name)) }) => {
            check_job_id(WHAT, &name)?;
            Ok(Some(name))
        }
        Ok(_) | Err(_) => Ok(None),
    }
}

fn work(object: &mut Document) -> Result<JobWork, SchemaError> {
    let forms = ["body", "body_base64", "plan", "tasks"].iter().filter(|field| object.has(field)).count();
    if forms > 1 {
        return Err(object.invalid("more than one of body, body_base64, plan and tasks"));
    }
    for one in ["body", "body_base64", "plan"] {
        for other in ["plan_id", "plan_description", "input", "inputs"] {
            let goes_together = one == "plan" && other.starts_with("input");
            if object.has(one) && object.has(other) && !goes_together {
                return Err(object.invalid(format!("{one} and {other} exclude each other")));
            }
        }
    }
    if let Some(body) = object.take("body") {
        return Ok(JobWork::Body(match body {
            Value::String(text) => Bytes::from(text),
            other => Bytes::from(other.to_string()),
        }));
    }
    if let Some(text) = object.text("body_base64", SUBMISSION_BYTES_MAX)? {
        let body = decode_base64(&text).ok_or_else(|| object.invalid("body_base64 is not base64"))?;
        return Ok(JobWork::Body(Bytes::from(body)));
    }
    let input = input(object)?;
    if let Some(json) = object.take("plan") {
        return inline(json, input);
    }
    if object.has("tasks") {
        let mut json = serde_json::Map::new();
        for field in ["plan_id", "plan_description", "tasks"] {
            if let Some(value) = object.take(field) {
                json.insert(field.to_owned(), value);
            }
        }
        return inline(Value::Object(json), input);
    }
    let Some(plan) = object.text("plan_id", ID_BYTES_MAX)? else {
        return Err(object.invalid("none of body, body_base64, plan_id, plan and tasks"));
    };
    check_id(WHAT, "plan_id", &plan)?;
    // Clients repeat the plan's description here; the stored plan takes precedence.
    object.take("plan_description");
    Ok(JobWork::Plan { plan, input })
}

fn inline(json: Value, input: Value) -> Result<JobWork, SchemaError> {
    if json.is_object() && json["plan_id"].is_null() {
        let needs = Plan::tasks_of(json.clone())?.needs();
        return Ok(JobWork::Unnamed { needs, json, input });
    }
    let plan = Box::new(Plan::from_value(json.clone())?);
    Ok(JobWork::Inline { plan, json, input })
}

/// Older documents say `input`, newer ones `inputs`.
fn input(object: &mut Document) -> Result<Value, SchemaError> {
    match (object.take("input"), object.take("inputs")) {
        (Some(_), Some(_)) => Err(object.invalid("input and inputs exclude each other")),
        (Some(input), None) | (None, Some(input)) => Ok(input),
        (None, None) => Ok(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tenure_hub::words::OnLost;

    use super::*;
    use crate::json::NotBefore;
    use crate::key::RespQueueKey;

    fn parse(value: &Value) -> Result<JobSubmission, String> {
        JobSubmission::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_body_with_every_option() {
        let job = parse(&json!({
            "job_id": "job-1", "body": "hello", "queue": "queue:images", "priority": -3, "needs": ["gpu", "gpu"],
            "tags": ["licence"], "policy": "pause", "run_at": "2030-01-01T00:00:00Z", "run_limit_secs": 1.5,
            "start_within_secs": 60, "max_retries": 2, "retry_delay_secs": 10, "crash_budget": 1,
            "parent": "job-0",
        }))
        .unwrap();
        assert_eq!(job.name.as_deref(), Some("job-1"));
        assert_eq!(job.work, JobWork::Body("hello".into()));
        let options = job.options;
        assert_eq!(options.queue, RespQueueKey::Named("images".into()));
        assert_eq!(options.needs.unwrap(), ["gpu"]);
        assert_eq!(options.on_lost_worker, Some(OnLost::Pause));
        assert_eq!(options.not_before, Some(NotBefore::At(1_893_456_000_000)));
        assert_eq!(options.run_limit, Some(Duration::from_millis(1500)));
        assert_eq!((options.retries, options.crash_budget), (Some(2), Some(1)));
    }

    #[test]
    fn a_body_that_is_no_string_travels_as_json_and_bytes_as_base64() {
        assert_eq!(parse(&json!({"body": {"a": [1]}})).unwrap().work, JobWork::Body(r#"{"a":[1]}"#.into()));
        assert_eq!(
            parse(&json!({"body_base64": "//4="})).unwrap().work,
            JobWork::Body(b"\xff\xfe"[..].into())
        );
    }

    #[test]
    fn a_job_may_name_a_plan_or_bring_one_along() {
        let job = parse(&json!({"plan_id": "p", "input": {"file": "x"}})).unwrap();
        assert_eq!(job.work, JobWork::Plan { plan: "p".into(), input: json!({"file": "x"}) });
        let tasks = json!([{"task_number": 1, "command": "sort"}]);
        for job in [
            json!({"job_id": "j", "plan_id": "p", "plan_description": "d", "tasks": tasks}),
            json!({"plan": {"plan_id": "p", "plan_description": "d", "tasks": tasks}}),
        ] {
            let JobWork::Inline { plan, json, .. } = parse(&job).unwrap().work else { panic!("not inline") };
            assert_eq!((plan.id.as_str(), plan.tasks.needs().as_slice()), ("p", &["sort".to_owned()][..]));
            assert_eq!(json["plan_description"], "d");
        }
    }

    #[test]
    fn a_plan_without_an_id_is_for_its_job_alone() {
        let tasks = json!([{"task_number": 1, "command": "sort"}]);
        for job in [json!({"tasks": tasks, "input": 7}), json!({"plan": {"tasks": tasks}, "inputs": 7})] {
            let JobWork::Unnamed { needs, json, input } = parse(&job).unwrap().work else {
                panic!("not unnamed")
            };
            assert_eq!((needs.as_slice(), input), (&["sort".to_owned()][..], json!(7)));
            assert_eq!(json, json!({"tasks": tasks}));
        }
        assert_eq!(parse(&json!({"tasks": []})).unwrap_err(), "Plan validation failed: tasks is empty");
        assert_eq!(parse(&json!({"plan": 7})).unwrap_err(), "Plan validation failed: not a JSON object");
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (job, why) in [
            (json!({}), "none of body, body_base64, plan_id, plan and tasks"),
            (json!({"body": "a", "tasks": []}), "more than one of body, body_base64, plan and tasks"),
            (json!({"body": "a", "plan_id": "p"}), "body and plan_id exclude each other"),
            (json!({"body": "a", "input": 1}), "body and input exclude each other"),
            (json!({"body_base64": "YQ==", "inputs": 1}), "body_base64 and inputs exclude each other"),
            (json!({"plan": {}, "plan_id": "p"}), "plan and plan_id exclude each other"),
            (json!({"plan_id": "p", "typo": 1}), "unknown field typo"),
            (json!({"body": "a", "policy": "maybe"}), "policy is not requeue, pause or fail"),
            (json!({"body": "a", "run_at": "tomorrow"}), "run_at is neither ISO 8601 nor Unix seconds"),
            (json!({"body": "a", "run_at": 1, "delay_secs": 1}), "run_at and delay_secs exclude each other"),
            (json!({"body": "a", "priority": 1.5}), "priority is not an integer"),
            (json!({"body": "a", "delay_secs": -1}), "delay_secs is not between 0 and 315360000"),
            (json!({"body": "a", "typo": 1}), "unknown field typo"),
            (json!({"body": "a", "job_id": "a b"}), "job_id holds spaces or control characters"),
            (json!({"body": "a", "job_id": ""}), "job_id is empty"),
            (json!({"body": "a", "needs": [""]}), "needs has an entry that is not a name"),
            (json!({"body_base64": "?"}), "body_base64 is not base64"),
            (
                json!({"body": "a", "queue": "scheduled"}),
                "queue names a view, not a queue; use run_at to schedule",
            ),
        ] {
            assert_eq!(parse(&job).unwrap_err(), format!("Invalid job: {why}"));
        }
    }

    #[test]
    fn a_pushed_body_may_name_itself_and_is_opaque_otherwise() {
        assert_eq!(pushed_name(br#" {"job_id":"j-1","tasks":[]}"#), Ok(Some("j-1".into())));
        for opaque in [&b"hello"[..], b"", b"\xff{", br#"{"job_id":7}"#, br#"{"job_id""#, br#"["job_id"]"#] {
            assert_eq!(pushed_name(opaque), Ok(None));
        }
        assert!(pushed_name(br#"{"job_id":"a b"}"#).is_err());
    }
}
