//! `/v1/tasks/{task}/wait` and `/v1/wait`: requests that wait for tasks to end.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tenure_hub::words::{Query, TaskId};

use crate::call::HttpCall;
use crate::reply::{self, HttpResult};
use crate::session::wait;
use crate::translate;

/// How long a request waits unless it says otherwise.
const WAIT: Duration = Duration::from_secs(30);

/// One task: the task when it has ended, or nothing if it does not end in time.
pub(crate) async fn one(call: HttpCall) -> HttpResult {
    call.query.only(&["wait"])?;
    let mut hub = call.hub()?;
    let task = call.task(&mut hub).await?;
    if !wait(call.peer()?, &[task], call.wait(WAIT)?).await?.is_empty() {
        return Ok(reply::no_content());
    }
    let info = hub.task(Query::Show { task }).await?;
    Ok(reply::json(&translate::task(&info)))
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
    let pending = wait(call.peer()?, &tasks, timeout).await?;
    let text = |tasks: &[TaskId]| tasks.iter().map(ToString::to_string).collect::<Vec<_>>();
    let ended: Vec<TaskId> = tasks.into_iter().filter(|task| !pending.contains(task)).collect();
    Ok(reply::json(&json!({ "ended": text(&ended), "pending": text(&pending) })))
}
