//! `/v1/limits`: how many tasks of a tag may run at once.

use serde::Deserialize;
use serde_json::{Value, json};
use tenure_hub::words::{Answer, Command, Query};

use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::translate;

pub(crate) async fn list(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    match call.hub()?.query(Query::Limits).await? {
        Answer::Limits(limits) => {
            let limits: Vec<Value> = limits.iter().map(translate::limit).collect();
            Ok(reply::json(&json!({ "limits": limits })))
        }
        _ => Err(ProblemDetails::unexpected()),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitInput {
    limit: u32,
}

pub(crate) async fn set(mut call: HttpCall) -> HttpResult {
    let LimitInput { limit } = call.json().await?;
    change(&call, Some(limit)).await
}

pub(crate) async fn remove(call: HttpCall) -> HttpResult {
    change(&call, None).await
}

async fn change(call: &HttpCall, limit: Option<u32>) -> HttpResult {
    call.query.only(&[])?;
    let tag = call.name("tag")?;
    call.hub()?.command(Command::SetLimit { tag, limit }).await?;
    Ok(reply::no_content())
}
