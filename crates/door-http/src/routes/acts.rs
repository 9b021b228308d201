//! `/v1/tasks/{task}/…`: one act on one task.

use serde::Deserialize;
use tenure_hub::words::{Command, TaskId};

use crate::call::HttpCall;
use crate::reply::{self, HttpResult};
use crate::translate::MoveInput;

/// Why a person acts, for the submitter to read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ReasonInput {
    pub(crate) reason: Option<String>,
}

pub(crate) async fn release(call: HttpCall) -> HttpResult {
    plain(call, |task| Command::Release { task }).await
}

pub(crate) async fn resume(call: HttpCall) -> HttpResult {
    plain(call, |task| Command::Resume { task }).await
}

pub(crate) async fn retry(call: HttpCall) -> HttpResult {
    plain(call, |task| Command::Retry { task }).await
}

pub(crate) async fn cancel(call: HttpCall) -> HttpResult {
    with_reason(call, |task, reason| Command::Cancel { task, reason }).await
}

/// Why a person pauses a task, and whether its attempt should end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PauseInput {
    reason: Option<String>,
    terminate: bool,
}

pub(crate) async fn pause(mut call: HttpCall) -> HttpResult {
    let PauseInput { reason, terminate } = call.json_or_default().await?;
    act(&call, |task| Command::Pause { task, reason: reason.map(Into::into), terminate }).await
}

pub(crate) async fn change(mut call: HttpCall) -> HttpResult {
    let input: MoveInput = call.json().await?;
    let to = input.to();
    act(&call, move |task| Command::Move { task, to }).await
}

async fn plain(mut call: HttpCall, command: impl FnOnce(TaskId) -> Command) -> HttpResult {
    let _: NoInput = call.json_or_default().await?;
    act(&call, command).await
}

async fn with_reason(
    mut call: HttpCall,
    command: impl FnOnce(TaskId, Option<Box<str>>) -> Command,
) -> HttpResult {
    let ReasonInput { reason } = call.json_or_default().await?;
    act(&call, |task| command(task, reason.map(Into::into))).await
}

async fn act(call: &HttpCall, command: impl FnOnce(TaskId) -> Command) -> HttpResult {
    call.query.only(&[])?;
    let mut hub = call.hub()?;
    let task = call.task(&mut hub).await?;
    hub.command(command(task)).await?;
    Ok(reply::no_content())
}

/// An empty object, for clients that always send one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoInput {}
