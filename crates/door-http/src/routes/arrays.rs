//! `/v1/arrays`: many tasks as one. The acts on a task take the id of an array, too.

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tenure_hub::words::{Answer, ArrayInfo, Command, NewArray, Query, Refusal, Reply, TaskId};
use tenure_hub::{ArraySubmission, Request, Response, Submission};

use crate::call::HttpCall;
use crate::codec;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::HubAccess;
use crate::translate::{self, TaskInput};

/// How many arrays a page has, unless the client says otherwise, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayInput {
    /// What all elements have in common; its id and its name are those of the array.
    task: Map<String, Value>,
    size: Option<u32>,
    #[serde(default)]
    first: u32,
    #[serde(default = "one")]
    step: u32,
    limit: Option<u32>,
    /// One body for each element. A text stands for its bytes; any other JSON value for its JSON text.
    bodies: Option<Vec<Value>>,
}

fn one() -> u32 {
    1
}

impl ArrayInput {
    fn submission(self) -> Result<ArraySubmission, ProblemDetails> {
        let task: TaskInput = codec::from_value(Value::Object(self.task))
            .map_err(|error| ProblemDetails::bad_value(format!("cannot parse task: {error}")))?;
        let Submission { task, body } = task.submission().map_err(|no| translate::problem(&no))?;
        let bodies: Vec<Bytes> = self.bodies.into_iter().flatten().map(bytes).collect();
        let given = u32::try_from(bodies.len()).unwrap_or(u32::MAX);
        let size = match (self.size, given) {
            (Some(size), _) => size,
            (None, 0) => return Err(ProblemDetails::bad_value("an array needs size or bodies")),
            (None, given) => given,
        };
        let wrong =
            |what: &'static str, why: &'static str| Err(translate::problem(&Refusal::BadValue { what, why }));
        if given > 0 && given != size {
            return wrong("bodies", "must have one entry for each element");
        }
        if given > 0 && !body.is_empty() {
            return wrong("body", "cannot be combined with one body for each element");
        }
        let array = NewArray {
            task,
            size,
            first: self.first,
            step: self.step,
            limit: self.limit,
            bodies: Vec::new(),
        };
        Ok(ArraySubmission::new(array, body, bodies))
    }
}

fn bytes(value: Value) -> Bytes {
    match value {
        Value::String(text) => Bytes::from(text),
        value => Bytes::from(value.to_string()),
    }
}

/// Submits an array: all of its elements, or none.
pub(crate) async fn submit(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let input: ArrayInput = call.json().await?;
    let request = Request::SubmitArray(Box::new(input.submission()?));
    let Response::Command(Reply::ArraySubmitted(accepted)) = call.hub()?.ask(request).await? else {
        return Err(ProblemDetails::unexpected());
    };
    let status = if accepted.known { StatusCode::OK } else { StatusCode::CREATED };
    Ok(reply::json_with(status, &translate::array_accepted(&accepted)))
}

/// Lists arrays, newest first, page by page.
pub(crate) async fn list(call: HttpCall) -> HttpResult {
    call.query.only(&["cursor", "limit"])?;
    let cursor = call.query.one("cursor")?.map(str::parse).transpose();
    let cursor = cursor.map_err(|no: Refusal| translate::problem(&no))?;
    let limit = call.page_limit(PAGE, PAGE_MAX)?;
    match call.hub()?.query(Query::Arrays { cursor, limit }).await? {
        Answer::Arrays { arrays, next } => {
            let arrays: Vec<Value> = arrays.iter().map(translate::array).collect();
            Ok(reply::json(&json!({ "arrays": arrays, "next": next.map(|cursor| cursor.to_string()) })))
        }
        _ => Err(ProblemDetails::unexpected()),
    }
}

pub(crate) async fn show(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let info = find(&call, &mut call.hub()?).await?;
    Ok(reply::json(&translate::array(&info)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayLimitInput {
    limit: u32,
}

pub(crate) async fn set_limit(mut call: HttpCall) -> HttpResult {
    let ArrayLimitInput { limit } = call.json().await?;
    change_limit(&call, Some(limit)).await
}

pub(crate) async fn remove_limit(call: HttpCall) -> HttpResult {
    change_limit(&call, None).await
}

async fn change_limit(call: &HttpCall, limit: Option<u32>) -> HttpResult {
    call.query.only(&[])?;
    let mut hub = call.hub()?;
    let array = id(call, &mut hub).await?;
    hub.command(Command::LimitArray { array, limit }).await?;
    Ok(reply::no_content())
}

/// The array in the path: its id, or `name:NAME`.
async fn find(call: &HttpCall, hub: &mut HubAccess) -> Result<ArrayInfo, ProblemDetails> {
    let text = call.path.get("array")?;
    let query = match text.strip_prefix("name:") {
        Some(name) => Query::FindArray { name: name.into() },
        None => {
            Query::Array { array: translate::task_id("array", text).map_err(|no| translate::problem(&no))? }
        }
    };
    match hub.query(query).await? {
        Answer::Array(info) => Ok(*info),
        _ => Err(ProblemDetails::unexpected()),
    }
}

async fn id(call: &HttpCall, hub: &mut HubAccess) -> Result<TaskId, ProblemDetails> {
    let text = call.path.get("array")?;
    match text.strip_prefix("name:") {
        Some(_) => Ok(find(call, hub).await?.id),
        None => translate::task_id("array", text).map_err(|no| translate::problem(&no)),
    }
}
