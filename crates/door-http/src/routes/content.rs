//! `/v1/tasks/{task}/body`, `/result` and `/checkpoint`: the bytes of a task.

use std::time::Duration;

use http::Response;
use http::header::{HeaderName, HeaderValue};
use tenure_hub::words::{Blob, Query, Refusal, TaskInfo};

use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpBody, HttpResult};
use crate::routes::tasks::find;
use crate::session::wait;
use crate::translate;

const STATE: HeaderName = HeaderName::from_static("tenure-state");
const EXIT_CODE: HeaderName = HeaderName::from_static("tenure-exit-code");
const ATTEMPT: HeaderName = HeaderName::from_static("tenure-attempt");

pub(crate) async fn body(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let info = find(&call, &mut call.hub()?).await?;
    read(&call, info.body).await
}

/// The last checkpoint; a task without one has an empty one.
pub(crate) async fn checkpoint(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let info = find(&call, &mut call.hub()?).await?;
    let mut response = read(&call, info.checkpoint.map_or(Blob::EMPTY, |checkpoint| checkpoint.blob)).await?;
    if let Some(checkpoint) = info.checkpoint {
        response.headers_mut().insert(ATTEMPT, checkpoint.attempt.into());
    }
    Ok(response)
}

/// The result of a task that has ended. With `wait` the request waits for the end.
pub(crate) async fn result(call: HttpCall) -> HttpResult {
    call.query.only(&["wait"])?;
    let mut hub = call.hub()?;
    let mut info = find(&call, &mut hub).await?;
    let timeout = call.wait(Duration::ZERO)?;
    if info.state.end().is_none() && !timeout.is_zero() {
        wait(call.peer()?, &[info.id], timeout).await?;
        info = hub.task(Query::Show { task: info.id }).await?;
    }
    let Some(end) = info.state.end() else { return Err(not_ended(&info)) };
    let exit_code = end.exit_code;
    let mut response = read(&call, end.result).await?;
    let headers = response.headers_mut();
    headers.insert(STATE, HeaderValue::from_static(info.state.name().as_str()));
    headers.insert(EXIT_CODE, exit_code.into());
    Ok(response)
}

async fn read(call: &HttpCall, blob: Blob) -> Result<Response<HttpBody>, ProblemDetails> {
    // Charged first: many clients that read nothing would otherwise fill the memory with what is read for them.
    let reserved = call.connection.memory.reserve(blob.bytes() as usize)?;
    match call.read_blobs(vec![blob]).await.pop() {
        Some(Ok(bytes)) => Ok(reply::charged_bytes(reserved.hold(bytes))),
        Some(Err(no)) => Err(translate::problem(&no)),
        None => Err(ProblemDetails::unexpected()),
    }
}

fn not_ended(info: &TaskInfo) -> ProblemDetails {
    let (task, state) = (info.id, info.state.name());
    translate::problem(&Refusal::WrongState { task, state, verb: "fetch the result of" })
}
