//! `/v1/shares`: share keys and their weights.

use serde::Deserialize;
use serde_json::{Value, json};
use tenure_hub::words::{Answer, Command, Query};

use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::translate;

pub(crate) async fn list(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    match call.hub()?.query(Query::Shares).await? {
        Answer::Shares(shares) => {
            let shares: Vec<Value> = shares.iter().map(translate::share).collect();
            Ok(reply::json(&json!({ "shares": shares })))
        }
        _ => Err(ProblemDetails::unexpected()),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShareInput {
    weight: u32,
}

pub(crate) async fn set(mut call: HttpCall) -> HttpResult {
    let ShareInput { weight } = call.json().await?;
    change(&call, Some(weight)).await
}

pub(crate) async fn reset(call: HttpCall) -> HttpResult {
    change(&call, None).await
}

async fn change(call: &HttpCall, weight: Option<u32>) -> HttpResult {
    call.query.only(&[])?;
    let share = call.name("share")?;
    call.hub()?.command(Command::SetShare { share, weight }).await?;
    Ok(reply::no_content())
}
