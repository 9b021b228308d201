//! `/v1/tasks`: submit, list and show.

use http::StatusCode;
use http::header::{HeaderName, HeaderValue, LOCATION};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tenure_hub::limits::MANY_MAX;
use tenure_hub::words::{Answer, ListQuery, Query, Refusal, Reply, TaskInfo, TraceContext};
use tenure_hub::{Request, Response};

use crate::call::HttpCall;
use crate::codec;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::HubAccess;
use crate::translate::{self, TaskInput};

/// The name of a task makes its submission idempotent; this is the usual header field for it.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How many tasks a page has, unless the client says otherwise, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;
pub(crate) const FILTERS: [&str; 9] = [
    "state",
    "queue",
    "tag",
    "worker",
    "parent",
    "array",
    "submitter",
    "submitted_after",
    "submitted_before",
];

/// Submits one task.
pub(crate) async fn submit(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let mut input: TaskInput = call.json().await?;
    idempotent(&call, &mut input)?;
    traced(&call, &mut input);
    let submission = input.submission().map_err(|no| translate::problem(&no))?;
    submitted(&mut call.hub()?, submission).await
}

/// Takes the trace from the header fields, unless the task names one. What is no trace is ignored, as the recommendation wants
/// it.
pub(crate) fn traced(call: &HttpCall, input: &mut TaskInput) {
    let text = |name: &str| call.head.headers.get(name).and_then(|value| value.to_str().ok());
    if input.traceparent.is_none()
        && let Some(parent) = text("traceparent")
        && TraceContext::parse(parent, text("tracestate")).is_ok()
    {
        input.traceparent = Some(parent.to_owned());
        input.tracestate = text("tracestate").map(str::to_owned);
    }
}

/// Takes the name from the header field, if it has one.
pub(crate) fn idempotent(call: &HttpCall, input: &mut TaskInput) -> Result<(), ProblemDetails> {
    let Some(key) = call.head.headers.get(IDEMPOTENCY_KEY) else { return Ok(()) };
    let key = key.to_str().map_err(|_| ProblemDetails::bad_value("Idempotency-Key is not visible ASCII"))?;
    // The header field is a quoted string in the draft standard, and plain text in most programs.
    let key = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
    match &input.name {
        Some(name) if name != key => {
            Err(ProblemDetails::bad_value("Idempotency-Key and name differ: both are the name of the task"))
        }
        _ => {
            input.name = Some(key.to_owned());
            Ok(())
        }
    }
}

pub(crate) async fn submitted(hub: &mut HubAccess, submission: tenure_hub::Submission) -> HttpResult {
    let reply = hub.ask(Request::Submit(vec![submission])).await?;
    let Response::Command(Reply::Submitted(mut each)) = reply else {
        return Err(ProblemDetails::unexpected());
    };
    let accepted =
        each.pop().ok_or_else(ProblemDetails::unexpected)?.map_err(|no| translate::problem(&no))?;
    let status = if accepted.known { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = reply::json_with(status, &translate::accepted(&accepted));
    let location = format!("/v1/tasks/{}", accepted.task);
    let location = HeaderValue::from_str(&location).map_err(|_| ProblemDetails::unexpected())?;
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchInput {
    /// Each is read by itself, so that a refusal says which one it is about.
    tasks: Vec<Map<String, Value>>,
}

/// Submits many tasks at once. Each has its own verdict; the answer comes when all of them are on disk.
pub(crate) async fn submit_many(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let BatchInput { tasks } = call.json().await?;
    if tasks.len() > MANY_MAX {
        return Err(translate::problem(&Refusal::TooMany { what: "tasks", limit: MANY_MAX }));
    }
    let mut submissions = Vec::with_capacity(tasks.len());
    let mut verdicts: Vec<Option<Value>> = Vec::with_capacity(tasks.len());
    let mut refusals = Vec::new();
    for (index, task) in tasks.into_iter().enumerate() {
        let task: TaskInput = codec::from_value(Value::Object(task)).map_err(|error| {
            ProblemDetails::bad_value(format!("cannot parse task {index} of the batch: {error}"))
        })?;
        let mut task = task;
        traced(&call, &mut task);
        let submission = task.submission().and_then(|mut submission| {
            submission.skip_refused(&refusals)?;
            Ok(submission)
        });
        match submission {
            Ok(submission) => {
                submissions.push(submission);
                verdicts.push(None);
            }
            Err(no) => {
                verdicts.push(Some(refused(&no)));
                refusals.push((index, no));
            }
        }
    }
    // The hub is asked even if no task is left, because it checks the right.
    let reply = call.hub()?.ask(Request::Submit(submissions)).await?;
    let Response::Command(Reply::Submitted(each)) = reply else { return Err(ProblemDetails::unexpected()) };
    let mut each = each.iter().map(|verdict| match verdict {
        Ok(accepted) => json!({ "accepted": translate::accepted(accepted) }),
        Err(no) => refused(no),
    });
    let verdicts: Vec<Value> =
        verdicts.into_iter().map(|verdict| verdict.or_else(|| each.next()).unwrap_or_default()).collect();
    Ok(reply::json(&json!({ "tasks": verdicts })))
}

fn refused(no: &Refusal) -> Value {
    json!({ "refused": translate::problem(no).json() })
}

/// Lists tasks, page by page.
pub(crate) async fn list(call: HttpCall) -> HttpResult {
    let known: Vec<&str> = FILTERS.into_iter().chain(["cursor", "limit"]).collect();
    call.query.only(&known)?;
    let mut query = filter(&call)?;
    query.cursor =
        call.query.one("cursor")?.map(str::parse).transpose().map_err(|no| translate::problem(&no))?;
    query.limit = call.page_limit(PAGE, PAGE_MAX)?;
    match call.hub()?.query(Query::List(Box::new(query))).await? {
        Answer::Tasks { tasks, next } => {
            let tasks: Vec<_> = tasks.iter().map(translate::task).collect();
            Ok(reply::json(&json!({ "tasks": tasks, "next": next.map(|cursor| cursor.to_string()) })))
        }
        _ => Err(ProblemDetails::unexpected()),
    }
}

/// Which tasks the parameters select.
pub(crate) fn filter(call: &HttpCall) -> Result<ListQuery, ProblemDetails> {
    let query = &call.query;
    let states = query.many("state").flat_map(|states| states.split(',')).map(translate::state);
    let parent = query.one("parent")?.map(|text| translate::task_id("parent", text)).transpose();
    let array = query.one("array")?.map(|text| translate::task_id("array", text)).transpose();
    Ok(ListQuery {
        array: array.map_err(|no| translate::problem(&no))?,
        states: states.collect::<Result<_, _>>().map_err(|no| translate::problem(&no))?,
        queue: query.one("queue")?.map(Into::into),
        tag: query.one("tag")?.map(Into::into),
        worker: query.one("worker")?.map(Into::into),
        parent: parent.map_err(|no| translate::problem(&no))?,
        submitter: query.one("submitter")?.map(Into::into),
        submitted_after: query.one("submitted_after")?.map(codec::time).transpose()?,
        submitted_before: query.one("submitted_before")?.map(codec::time).transpose()?,
        cursor: None,
        limit: PAGE,
        ..ListQuery::default()
    })
}

/// One task, by its id or by `name:NAME`.
pub(crate) async fn show(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let info = find(&call, &mut call.hub()?).await?;
    Ok(reply::json(&translate::task(&info)))
}

/// Why a task is not running.
pub(crate) async fn explain(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let mut hub = call.hub()?;
    let task = call.task(&mut hub).await?;
    match hub.query(Query::Explain { task }).await? {
        Answer::Why { why, reconciliation } => {
            Ok(reply::json(&translate::explanation(&why, reconciliation.as_deref())))
        }
        _ => Err(ProblemDetails::unexpected()),
    }
}

/// The task in the path.
pub(crate) async fn find(call: &HttpCall, hub: &mut HubAccess) -> Result<TaskInfo, ProblemDetails> {
    let path = call.path.get("task")?;
    let (task, array) = match path.strip_prefix("name:") {
        Some(name) => (Query::Find { name: name.into() }, Query::FindArray { name: name.into() }),
        None => {
            let task = call.task(hub).await?;
            (Query::Show { task }, Query::Array { array: task })
        }
    };
    match hub.task(task).await {
        Err(problem) if problem.status == StatusCode::NOT_FOUND && hub.query(array).await.is_ok() => {
            let detail = format!("{path} is an array: see /v1/arrays/{path}").into();
            Err(ProblemDetails { detail, ..problem })
        }
        other => other,
    }
}
