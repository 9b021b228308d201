//! `/v1/reconcile`: compares a page of tasks with those of another store.

use tenure_hub::{Request, Response};

use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::translate::{self, ReconcileInput};

pub(crate) async fn page(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let input: ReconcileInput = call.json().await?;
    let page = input.page().map_err(|no| translate::problem(&no))?;
    match call.hub()?.ask(Request::Reconcile(Box::new(page))).await? {
        Response::Reconciled(answer) => Ok(reply::json(&translate::reconciled(&answer))),
        _ => Err(ProblemDetails::unexpected()),
    }
}
