//! `/v1/work/{worker}`: for workers. Register, send heartbeats, fetch tasks, drain, leave. What a worker reports about
//! its tasks is in `reports.rs`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::{ACCEPT, HeaderName, HeaderValue};
use tenure_hub::words::{Assignment, Command, Name, Reply};
use tenure_hub::{Needs, Request, Response as HubResponse, Right};

use super::acts::NoInput;
use crate::call::HttpCall;
use crate::memory::Reserved;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpBody, HttpResult};
use crate::session::{AbandonedFetch, Delivered, HttpWorker};
use crate::translate::{self, HeartbeatInput, WorkerInput};

/// How long a fetch waits unless it says otherwise.
const FETCH_WITHIN: Duration = Duration::from_secs(30);
/// How much longer than the hub the door remembers a silent worker.
const MARGIN: Duration = Duration::from_secs(30);
const TASK: HeaderName = HeaderName::from_static("tenure-task");
const ATTEMPT: HeaderName = HeaderName::from_static("tenure-attempt");
const QUEUE: HeaderName = HeaderName::from_static("tenure-queue");
const ARRAY: HeaderName = HeaderName::from_static("tenure-array");
const INDEX: HeaderName = HeaderName::from_static("tenure-index");

/// The worker that a request is from.
pub(crate) fn worker(call: &HttpCall) -> Result<Arc<HttpWorker>, ProblemDetails> {
    let peer = call.peer()?;
    peer.check("work", Needs::Right(Right::Work))?;
    call.door.workers.find(peer, &call.name("worker")?)
}

/// Registers, or comes back with the attempts that the worker still holds.
pub(crate) async fn register(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    call.peer()?.check("register", Needs::Right(Right::Work))?;
    let input: WorkerInput = call.json().await?;
    let name: Name = call.name("worker")?;
    let peer = call.peer()?;
    peer.hub.may_work_as(&peer.principal.grant, &name).map_err(|no| translate::problem(&no))?;
    let spec = input.spec(name.clone()).map_err(|no| translate::problem(&no))?;
    let held = spec.held.clone();
    let silence = spec.lost_after.max(spec.busy_lost_after.unwrap_or_default());
    let (queues, heartbeat, silence_max) =
        (spec.queues.clone(), spec.heartbeat, silence + spec.lease + MARGIN);
    let terms = translate::registered(&spec);
    let worker = call.door.workers.open(peer, &name)?;
    let reply = worker
        .ask(Request::Command(Command::Register(Box::new(spec))))
        .await
        .map_err(|no| translate::problem(&no))?;
    let HubResponse::Command(Reply::Registered { held: each, returned }) = reply else {
        return Err(ProblemDetails::unexpected());
    };
    worker.registered(queues, heartbeat, silence_max);
    call.door.workers.keep(peer, &name, worker);
    let mut answer = terms;
    answer["returned"] = returned.into();
    answer["held"] = translate::held_verdicts(&held, &each);
    Ok(reply::json(&answer))
}

/// A sign of life. The answer says what clients want, and which attempts are over.
pub(crate) async fn heartbeat(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let worker = worker(&call)?;
    let input: HeartbeatInput = call.json_or_default().await?;
    let (held, stats) = input.parts().map_err(|no| translate::problem(&no))?;
    let listed = held.clone().unwrap_or_default();
    let reply = worker.ask(Request::Command(Command::Heartbeat { held, stats })).await;
    let each = match reply.map_err(|no| translate::problem(&no))? {
        HubResponse::Command(Reply::Held(each)) => each,
        _ => Vec::new(),
    };
    let mut answer = translate::worker_news(&worker.news());
    answer["held"] = translate::held_verdicts(&listed, &each);
    Ok(reply::json(&answer))
}

/// Takes nothing new; what it holds it finishes.
pub(crate) async fn drain(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let _: NoInput = call.json_or_default().await?;
    let worker = worker(&call)?;
    worker.ask(Request::Command(Command::Drain)).await.map_err(|no| translate::problem(&no))?;
    Ok(reply::no_content())
}

/// Leaves. What it still holds becomes ready again.
pub(crate) async fn leave(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let worker = worker(&call)?;
    worker.ask(Request::Command(Command::Leave)).await.map_err(|no| translate::problem(&no))?;
    call.door.workers.remove(call.peer()?, &call.name("worker")?);
    Ok(reply::no_content())
}

/// Waits for a task. 204 if none comes in time.
pub(crate) async fn fetch(mut call: HttpCall) -> HttpResult {
    call.query.only(&["wait"])?;
    let worker = worker(&call)?;
    let _: NoInput = call.json_or_default().await?;
    let timeout = call.wait(FETCH_WITHIN)?;
    loop {
        let mut abandoned = AbandonedFetch::guard(&worker);
        let fetched = worker.fetch(timeout).await;
        abandoned.disarm();
        let Some(assignment) = fetched.map_err(|no| translate::problem(&no))? else {
            return Ok(reply::no_content());
        };
        // A fetch that is refused from here on, or whose client is gone, gives the task back.
        let mut delivered = Delivered::guard(&worker, &assignment);
        let bytes = assignment.body.bytes() as usize + assignment.checkpoint.bytes() as usize;
        let reserved = call.connection.memory.reserve(bytes)?;
        let read = call.read_blobs(vec![assignment.body, assignment.checkpoint]).await;
        let mut read = read.into_iter();
        match (read.next(), read.next()) {
            (Some(Ok(body)), Some(Ok(checkpoint))) => {
                let response = task(&call, &assignment, body, &checkpoint, reserved)?;
                return Ok(reply::fetched(response, delivered));
            }
            (Some(Err(no)), _) | (_, Some(Err(no))) => {
                // No worker can run it, so it fails, and the next task is fetched.
                delivered.is_taken();
                let _ = worker.ask(Request::cannot_be_run(&assignment, &no)).await;
            }
            _ => return Err(ProblemDetails::unexpected()),
        }
    }
}

/// The task as JSON; or its body alone, for a worker that asks for bytes.
fn task(
    call: &HttpCall,
    assignment: &Assignment,
    body: Bytes,
    checkpoint: &Bytes,
    mut reserved: Reserved,
) -> Result<Response<HttpBody>, ProblemDetails> {
    let accept = call.head.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut response = if accept.trim().eq_ignore_ascii_case("application/octet-stream") {
        reserved.set(body.len())?;
        reply::charged_bytes(reserved.hold(body))
    } else {
        let head = translate::assignment(assignment);
        let length = translate::assignment_length(&head, &body, checkpoint);
        reserved.set(body.len() + checkpoint.len() + length)?;
        let json = translate::assignment_json(&head, &body, checkpoint, length);
        drop(body);
        reserved.set(json.len())?;
        reply::charged_json(reserved.hold(json.into()))
    };
    let headers = response.headers_mut();
    if let Ok(task) = HeaderValue::from_str(&assignment.task.to_string()) {
        headers.insert(TASK, task);
    }
    headers.insert(ATTEMPT, assignment.attempt.into());
    if let Ok(queue) = HeaderValue::from_bytes(assignment.terms.queue.as_bytes()) {
        headers.insert(QUEUE, queue);
    }
    if let Some(element) = assignment.terms.element(assignment.task) {
        if let Ok(array) = HeaderValue::from_str(&element.array.to_string()) {
            headers.insert(ARRAY, array);
        }
        headers.insert(INDEX, element.index.into());
    }
    Ok(response)
}
