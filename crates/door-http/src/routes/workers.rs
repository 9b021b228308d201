//! `/v1/workers`: list, drain, and lift a quarantine. What workers themselves send is in `work.rs`.

use serde_json::{Value, json};
use tenure_hub::words::{Answer, Command, Name, Query, Refusal, WorkerInfo};

use super::acts::NoInput;
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::HubAccess;
use crate::translate;

pub(crate) async fn list(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let workers = workers(&mut call.hub()?, Query::Workers).await?;
    let workers: Vec<Value> = workers.iter().map(translate::worker).collect();
    Ok(reply::json(&json!({ "workers": workers })))
}

pub(crate) async fn show(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let worker = call.name("worker")?;
    let found = workers(&mut call.hub()?, Query::Worker { worker: worker.clone() }).await?;
    let found = found.first().ok_or_else(|| translate::problem(&Refusal::UnknownWorker { worker }))?;
    Ok(reply::json(&translate::worker(found)))
}

pub(crate) async fn workers(hub: &mut HubAccess, query: Query) -> Result<Vec<WorkerInfo>, ProblemDetails> {
    match hub.query(query).await? {
        Answer::Workers(workers) => Ok(workers),
        _ => Err(ProblemDetails::unexpected()),
    }
}

pub(crate) async fn drain(call: HttpCall) -> HttpResult {
    manage(call, |worker| Command::DrainWorker { worker }).await
}

/// Lifts a quarantine and forgets the crashes.
pub(crate) async fn clear(call: HttpCall) -> HttpResult {
    manage(call, |worker| Command::ClearWorker { worker }).await
}

async fn manage(mut call: HttpCall, command: impl FnOnce(Name) -> Command) -> HttpResult {
    call.query.only(&[])?;
    let _: NoInput = call.json_or_default().await?;
    let worker = call.name("worker")?;
    call.hub()?.command(command(worker)).await?;
    Ok(reply::no_content())
}
