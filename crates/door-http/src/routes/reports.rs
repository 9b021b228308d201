//! `/v1/work/{worker}/tasks/{task}/{attempt}/…`: what a worker reports about a task it holds. The attempt in the path
//! fences: the broker refuses a report about another one as `stale-attempt`.

use std::time::Duration;

use http::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tenure_hub::limits::BODY_BYTES_MAX;
use tenure_hub::words::{AttemptFailure, Blob, Command, Held, Refusal, Reply, WaitOn};
use tenure_hub::{Done, HubRefusal, LogPiece, OutputStream, Request, Response as HubResponse};

use super::acts::{NoInput, ReasonInput};
use super::work::worker;
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpBody, HttpResult};
use crate::session::HttpWorker;
use crate::translate;

/// How long a suspended worker waits if it does not say.
const SUSPEND_WITHIN: Duration = Duration::from_secs(30);

/// The attempt in the path.
fn held(call: &HttpCall) -> Result<Held, ProblemDetails> {
    let task = translate::task_id("task", call.path.get("task")?).map_err(|no| translate::problem(&no))?;
    let attempt = call.path.get("attempt")?.parse();
    let attempt =
        attempt.map_err(|_| ProblemDetails::bad_value("the attempt in the path is not a number"))?;
    Ok(Held { task, attempt })
}

pub(crate) async fn start(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let (worker, held) = (worker(&call)?, held(&call)?);
    let _: NoInput = call.json_or_default().await?;
    report(&worker, held, Request::Command(Command::Start(vec![held]))).await?;
    Ok(continues(&worker, held))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ProgressInput {
    percent: Option<u8>,
    note: Option<String>,
}

pub(crate) async fn progress(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let (worker, held) = (worker(&call)?, held(&call)?);
    let ProgressInput { percent, note } = call.json_or_default().await?;
    let command = Command::Progress { held, percent, note: note.map(Into::into) };
    report(&worker, held, Request::Command(command)).await?;
    Ok(continues(&worker, held))
}

/// Saves the body of the request as the checkpoint; an empty one removes it.
pub(crate) async fn checkpoint(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let (worker, held) = (worker(&call)?, held(&call)?);
    let checkpoint = call.bytes(BODY_BYTES_MAX).await?;
    report(&worker, held, Request::Checkpoint { held, checkpoint }).await?;
    Ok(continues(&worker, held))
}

/// Appends the body of the request to what the attempt has printed.
pub(crate) async fn logs(mut call: HttpCall) -> HttpResult {
    call.query.only(&["stream", "offset"])?;
    let (worker, held) = (worker(&call)?, held(&call)?);
    let stream = match call.query.one("stream")? {
        None | Some("stdout") => OutputStream::Stdout,
        Some("stderr") => OutputStream::Stderr,
        Some(_) => return Err(ProblemDetails::bad_value("stream is neither stdout nor stderr")),
    };
    let Some(offset) = call.query.number("offset")? else {
        return Err(ProblemDetails::bad_value("offset is missing: give the bytes sent before"));
    };
    let bytes = call.bytes(BODY_BYTES_MAX).await?;
    let piece = LogPiece { stream, offset, bytes };
    report(&worker, held, Request::AppendLog { held, piece }).await?;
    Ok(continues(&worker, held))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SuspendInput {
    on: Vec<String>,
    /// Wait for the children of the task instead.
    children: bool,
    /// Wait until a client resumes the task instead: the worker has stopped the attempt in place.
    resume: bool,
}

/// Waits for other tasks. A worker that gets no `continues` in time says it again, with the same tasks.
pub(crate) async fn suspend(mut call: HttpCall) -> HttpResult {
    call.query.only(&["wait"])?;
    let (worker, held) = (worker(&call)?, held(&call)?);
    let timeout = call.wait(SUSPEND_WITHIN)?;
    let SuspendInput { on, children, resume } = call.json().await?;
    let on = match (children, resume, &on[..]) {
        (true, false, []) => WaitOn::Children,
        (false, true, []) => WaitOn::Resume,
        (true, ..) | (_, true, _) => {
            return Err(ProblemDetails::bad_value("give one of `on`, `children` and `resume`"));
        }
        (false, false, on) => {
            let tasks = on.iter().map(|task| translate::task_id("on", task)).collect::<Result<_, _>>();
            WaitOn::Tasks(tasks.map_err(|no| translate::problem(&no))?)
        }
    };
    call.release_body();
    worker.suspend_again(held);
    let reply = worker.ask(Request::Command(Command::Suspend { held, on })).await;
    if let Err(no) = reply {
        if matches!(no, HubRefusal::Engine(Refusal::StaleAttempt { .. })) {
            worker.is_over(held);
        }
        return Err(translate::problem(&no));
    }
    let ends = worker.continued(held, timeout).await.map_err(|no| translate::problem(&no))?;
    let notice = worker.wanted(held);
    Ok(reply::json(&json!({
        "continues": ends.is_some(),
        "ends": ends.unwrap_or_default().iter().map(|end| json!({
            "task": end.task.to_string(), "state": end.state.as_str(),
        })).collect::<Vec<_>>(),
        "wanted": notice.as_ref().map(|notice| translate::wanted(notice.wanted)),
        "in_place": notice.as_ref().is_some_and(|notice| notice.in_place),
        "reason": notice.as_ref().and_then(|notice| notice.reason.as_deref()),
    })))
}

/// The body of the request is the result.
pub(crate) async fn complete(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let (worker, held) = (worker(&call)?, held(&call)?);
    let result = call.bytes(BODY_BYTES_MAX).await?;
    ends(&worker, held, Request::Complete(vec![Done { held, result }])).await
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FailInput {
    exit_code: Option<i32>,
    message: Option<String>,
    /// The process died: counts as a crash instead of a failure.
    crashed: bool,
    /// A retry would not help.
    r#final: bool,
    result: Option<Value>,
    result_base64: Option<String>,
}

pub(crate) async fn fail(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let (worker, held) = (worker(&call)?, held(&call)?);
    let input: FailInput = call.json_or_default().await?;
    let result =
        translate::result_bytes(input.result, input.result_base64).map_err(|no| translate::problem(&no))?;
    let failure = AttemptFailure {
        held,
        exit_code: input.exit_code.unwrap_or(1),
        message: input.message.map(Into::into),
        result: Blob::EMPTY,
        crashed: input.crashed,
        is_final: input.r#final,
    };
    ends(&worker, held, Request::Fail { failure, result }).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfirmInput {
    wanted: String,
    result: Option<Value>,
    result_base64: Option<String>,
}

/// The worker has stopped the task because a client wanted it.
pub(crate) async fn confirm(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let (worker, held) = (worker(&call)?, held(&call)?);
    let input: ConfirmInput = call.json().await?;
    let wanted = translate::from_wanted(&input.wanted).map_err(|no| translate::problem(&no))?;
    let result =
        translate::result_bytes(input.result, input.result_base64).map_err(|no| translate::problem(&no))?;
    ends(&worker, held, Request::Confirm { held, wanted, result }).await
}

pub(crate) async fn give_back(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let (worker, held) = (worker(&call)?, held(&call)?);
    let ReasonInput { reason } = call.json_or_default().await?;
    let command = Command::GiveBack { held, reason: reason.map(Into::into) };
    ends(&worker, held, Request::Command(command)).await
}

/// A report after which the worker holds the task no longer.
async fn ends(worker: &HttpWorker, held: Held, request: Request) -> HttpResult {
    report(worker, held, request).await?;
    worker.is_over(held);
    Ok(reply::no_content())
}

async fn report(worker: &HttpWorker, held: Held, request: Request) -> Result<(), ProblemDetails> {
    let reply = worker.ask(request).await;
    let refused = match reply {
        Ok(HubResponse::Command(Reply::Held(each))) => {
            each.into_iter().find_map(Result::err).map(HubRefusal::Engine)
        }
        Ok(_) => None,
        Err(no) => Some(no),
    };
    match refused {
        None => Ok(()),
        Some(no) => {
            if matches!(no, HubRefusal::Engine(Refusal::StaleAttempt { .. } | Refusal::UnknownTask { .. })) {
                worker.is_over(held);
            }
            Err(translate::problem(&no))
        }
    }
}

/// The worker goes on, unless a client wants something else.
fn continues(worker: &HttpWorker, held: Held) -> Response<HttpBody> {
    let notice = worker.wanted(held);
    let wanted = notice.as_ref().map(|notice| translate::wanted(notice.wanted));
    let reason = notice.as_ref().and_then(|notice| notice.reason.as_deref());
    let in_place = notice.as_ref().is_some_and(|notice| notice.in_place);
    reply::json(&json!({ "wanted": wanted, "in_place": in_place, "reason": reason }))
}
