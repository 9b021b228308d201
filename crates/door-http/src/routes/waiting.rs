//! `/v1/tasks/{task}/wait` and `/v1/wait`: requests that wait for tasks and arrays to end.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tenure_hub::words::{Answer, Query, Refusal, TaskId};
use tenure_hub::{HubRefusal, Request, Response};

use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::{HubAccess, wait};
use crate::translate;

/// How long a request waits unless it says otherwise.
const WAIT: Duration = Duration::from_secs(30);

/// One task or array: it is shown when it has ended, or nothing if it does not end in time.
pub(crate) async fn one(call: HttpCall) -> HttpResult {
    call.query.only(&["wait"])?;
    let mut hub = call.hub()?;
    let task = id(&call, &mut hub).await?;
    if !wait(call.peer()?, &[task], call.wait(WAIT)?).await?.is_empty() {
        return Ok(reply::no_content());
    }
    let shown = match hub.ask_raw(Request::Query(Query::Show { task })).await {
        Err(HubRefusal::Engine(Refusal::UnknownTask { .. })) => {
            hub.query(Query::Array { array: task }).await?
        }
        Ok(Response::Answer(answer)) => answer,
        Ok(_) => return Err(ProblemDetails::unexpected()),
        Err(no) => return Err(translate::problem(&no)),
    };
    match shown {
        Answer::Task(info) => Ok(reply::json(&translate::task(&info))),
        Answer::Array(info) => Ok(reply::json(&translate::array(&info))),
        _ => Err(ProblemDetails::unexpected()),
    }
}

/// The task or array in the path. A name is looked up among both.
async fn id(call: &HttpCall, hub: &mut HubAccess) -> Result<TaskId, ProblemDetails> {
    let unknown = match call.task(hub).await {
        Err(problem) if problem.code == "unknown-name" => problem,
        found => return found,
    };
    let Some(name) = call.path.get("task")?.strip_prefix("name:") else { return Err(unknown) };
    match hub.query(Query::FindArray { name: name.into() }).await {
        Ok(Answer::Array(info)) => Ok(info.id),
        _ => Err(unknown),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitInput {
    tasks: Vec<String>,
    /// Seconds.
    wait: Option<f64>,
}

/// Many tasks: which of them have ended, and which have not.
pub(crate) async fn many(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let input: WaitInput = call.json().await?;
    let tasks: Result<Vec<TaskId>, _> =
        input.tasks.iter().map(|task| translate::task_id("tasks", task)).collect();
    let tasks = tasks.map_err(|no| translate::problem(&no))?;
    let timeout = input.wait.map(|seconds| crate::codec::seconds(&seconds.to_string())).transpose()?;
    let timeout = timeout.unwrap_or(WAIT).min(call.door.settings.wait_max);
    call.release_body();
    let pending = wait(call.peer()?, &tasks, timeout).await?;
    let text = |tasks: &[TaskId]| tasks.iter().map(ToString::to_string).collect::<Vec<_>>();
    let ended: Vec<TaskId> = tasks.into_iter().filter(|task| !pending.contains(task)).collect();
    Ok(reply::json(&json!({ "ended": text(&ended), "pending": text(&pending) })))
}
