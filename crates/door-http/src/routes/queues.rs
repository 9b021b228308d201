//! `/v1/queues`: list, pause, resume, thresholds, and submitting bytes as they are.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tenure_hub::limits::BODY_BYTES_MAX;
use tenure_hub::words::{Answer, Command, Name, Query, QueueInfo, Refusal, Thresholds};

use super::acts::NoInput;
use super::limits::RateInput;
use super::tasks::{idempotent, submitted, traced};
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::HubAccess;
use crate::translate::{self, TaskInput};

pub(crate) async fn list(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let queues = queues(&mut call.hub()?, Query::Queues).await?;
    let queues: Vec<Value> = queues.iter().map(translate::queue).collect();
    Ok(reply::json(&json!({ "queues": queues })))
}

pub(crate) async fn show(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let queue = call.name("queue")?;
    let found = queues(&mut call.hub()?, Query::Queue { queue: queue.clone() }).await?;
    let found = found.first().ok_or_else(|| translate::problem(&Refusal::UnknownQueue { queue }))?;
    Ok(reply::json(&translate::queue(found)))
}

pub(crate) async fn queues(hub: &mut HubAccess, query: Query) -> Result<Vec<QueueInfo>, ProblemDetails> {
    match hub.query(query).await? {
        Answer::Queues(queues) => Ok(queues),
        _ => Err(ProblemDetails::unexpected()),
    }
}

pub(crate) async fn pause(call: HttpCall) -> HttpResult {
    manage(call, |queue| Command::PauseQueue { queue }).await
}

pub(crate) async fn resume(call: HttpCall) -> HttpResult {
    manage(call, |queue| Command::ResumeQueue { queue }).await
}

/// Takes the broker's default thresholds from now on.
pub(crate) async fn clear_thresholds(call: HttpCall) -> HttpResult {
    manage(call, |queue| Command::SetThresholds { queue, thresholds: None }).await
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ThresholdsInput {
    depth: Option<u32>,
    age_ms: Option<u64>,
}

pub(crate) async fn set_thresholds(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let ThresholdsInput { depth, age_ms } = call.json().await?;
    let thresholds = Some(Thresholds { depth, age: age_ms.map(Duration::from_millis) });
    let queue = call.name("queue")?;
    call.hub()?.command(Command::SetThresholds { queue, thresholds }).await?;
    Ok(reply::no_content())
}

pub(crate) async fn set_rate(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let rate: RateInput = call.json().await?;
    let queue = call.name("queue")?;
    call.hub()?.command(Command::SetQueueRate { queue, rate: Some(rate.rate()) }).await?;
    Ok(reply::no_content())
}

pub(crate) async fn remove_rate(call: HttpCall) -> HttpResult {
    manage(call, |queue| Command::SetQueueRate { queue, rate: None }).await
}

async fn manage(mut call: HttpCall, command: impl FnOnce(Name) -> Command) -> HttpResult {
    call.query.only(&[])?;
    let _: NoInput = call.json_or_default().await?;
    let queue = call.name("queue")?;
    call.hub()?.command(command(queue)).await?;
    Ok(reply::no_content())
}

/// Submits the body of the request as it is. Everything else about the task stands in the query string.
pub(crate) async fn submit(mut call: HttpCall) -> HttpResult {
    let mut input = task_input(&call)?;
    idempotent(&call, &mut input)?;
    traced(&call, &mut input);
    let body = call.bytes(BODY_BYTES_MAX).await?;
    // A small body is copied out of the connection's read buffer, so that it does not keep it in memory.
    let body = Bytes::copy_from_slice(&body);
    let submission = input.submission_with(body).map_err(|no| translate::problem(&no))?;
    submitted(&mut call.hub()?, submission).await
}

/// Each as `NAME=QUANTITY`.
fn resources<'a>(given: impl Iterator<Item = &'a str>) -> Result<Map<String, Value>, ProblemDetails> {
    let one = |text: &str| {
        let why = "is not NAME=QUANTITY, such as gpus=0.5";
        let pair = text.split_once('=').ok_or(Refusal::BadValue { what: "resource", why });
        pair.map(|(name, quantity)| (name.to_owned(), quantity.into()))
    };
    given.map(one).collect::<Result<_, _>>().map_err(|no| translate::problem(&no))
}

fn task_input(call: &HttpCall) -> Result<TaskInput, ProblemDetails> {
    const KNOWN: [&str; 22] = [
        "id",
        "name",
        "priority",
        "need",
        "tag",
        "slots",
        "resource",
        "share",
        "parent",
        "after",
        "on_broken",
        "hold",
        "not_before",
        "expires_at",
        "on_lost",
        "crash_budget",
        "retries",
        "backoff_first_ms",
        "backoff_max_ms",
        "accept_timeout_ms",
        "run_limit_ms",
        "cancel_timeout_ms",
    ];
    let query = &call.query;
    query.only(&KNOWN)?;
    let text = |key: &str| query.one(key).map(|text| text.map(str::to_owned));
    let texts = |key: &str| query.many(key).map(str::to_owned).collect::<Vec<_>>();
    Ok(TaskInput {
        id: text("id")?,
        name: text("name")?,
        queue: Some(call.path.get("queue")?.to_owned()),
        body: None,
        body_base64: None,
        priority: query.number("priority")?,
        needs: texts("need"),
        tags: texts("tag"),
        slots: query.number("slots")?,
        resources: resources(query.many("resource"))?,
        share: text("share")?,
        parent: text("parent")?,
        after: texts("after").into_iter().map(translate::AfterInput::Task).collect(),
        on_broken: text("on_broken")?,
        traceparent: None,
        tracestate: None,
        hold: query.flag("hold")?,
        not_before: text("not_before")?.map(translate::TimeInput::Text),
        expires_at: text("expires_at")?.map(translate::TimeInput::Text),
        on_lost: text("on_lost")?,
        crash_budget: query.number("crash_budget")?,
        retries: query.number("retries")?,
        backoff_first_ms: query.number("backoff_first_ms")?,
        backoff_max_ms: query.number("backoff_max_ms")?,
        accept_timeout_ms: query.number("accept_timeout_ms")?,
        run_limit_ms: query.number("run_limit_ms")?,
        cancel_timeout_ms: query.number("cancel_timeout_ms")?,
    })
}
