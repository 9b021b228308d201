//! `/v1/hooks`: where events leave the broker, and what could not be delivered.

use serde::Deserialize;
use serde_json::{Value, json};
use tenure_hub::{Request, Response};

use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::translate;

pub(crate) async fn list(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    match call.hub()?.ask(Request::Hooks).await? {
        Response::Hooks(hooks) => {
            let hooks: Vec<Value> = hooks.iter().map(translate::hook).collect();
            Ok(reply::json(&json!({ "hooks": hooks })))
        }
        _ => Err(ProblemDetails::unexpected()),
    }
}

pub(crate) async fn undelivered(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let hook = call.name("hook")?;
    match call.hub()?.ask(Request::Undelivered { hook }).await? {
        Response::Undelivered(events) => {
            let events: Vec<Value> = events.iter().map(translate::undelivered).collect();
            Ok(reply::json(&json!({ "events": events })))
        }
        _ => Err(ProblemDetails::unexpected()),
    }
}

/// Which event to send again; without one, all.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RedeliverInput {
    event: Option<u64>,
}

pub(crate) async fn redeliver(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let RedeliverInput { event: seq } = call.json_or_default().await?;
    let hook = call.name("hook")?;
    match call.hub()?.ask(Request::Redeliver { hook, seq }).await? {
        Response::Redelivered(events) => Ok(reply::json(&json!({ "events": events }))),
        _ => Err(ProblemDetails::unexpected()),
    }
}
