//! `/v1/stats` and `/v1/counts`: figures of the broker and of the namespace.

use serde_json::json;
use tenure_hub::words::{Answer, Query};
use tenure_hub::{Request, Response};

use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::translate;

/// How many tasks of the namespace are in which state, and how many workers there are.
pub(crate) async fn counts(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    match call.hub()?.query(Query::Counts).await? {
        Answer::Counts(counts) => Ok(reply::json(&translate::counts(&counts))),
        _ => Err(ProblemDetails::unexpected()),
    }
}

/// Every figure of the broker by its name.
pub(crate) async fn all(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    match call.hub_of_broker()?.ask(Request::Stats).await? {
        Response::Stats(stats) => Ok(reply::json(&json!({ "figures": translate::figures(&stats) }))),
        _ => Err(ProblemDetails::unexpected()),
    }
}
