//! `/v1/limits`: how many tasks of a tag may run at once, and how often one is handed out.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tenure_hub::words::{Answer, Command, Query, Rate};

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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateInput {
    count: u32,
    period_ms: u64,
    burst: Option<u32>,
}

impl RateInput {
    /// Without a burst, the rate has the usual one.
    pub(super) fn rate(&self) -> Rate {
        let usual = Rate::new(self.count, Duration::from_millis(self.period_ms));
        Rate { burst: self.burst.unwrap_or(usual.burst), ..usual }
    }
}

pub(crate) async fn set_rate(mut call: HttpCall) -> HttpResult {
    let rate: RateInput = call.json().await?;
    change_rate(&call, Some(rate.rate())).await
}

pub(crate) async fn remove_rate(call: HttpCall) -> HttpResult {
    change_rate(&call, None).await
}

async fn change_rate(call: &HttpCall, rate: Option<Rate>) -> HttpResult {
    call.query.only(&[])?;
    let tag = call.name("tag")?;
    call.hub()?.command(Command::SetTagRate { tag, rate }).await?;
    Ok(reply::no_content())
}

async fn change(call: &HttpCall, limit: Option<u32>) -> HttpResult {
    call.query.only(&[])?;
    let tag = call.name("tag")?;
    call.hub()?.command(Command::SetLimit { tag, limit }).await?;
    Ok(reply::no_content())
}
