//! `/v1/tasks/{task}/logs`: what a task has printed, as a page of JSON or as a stream.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tenure_hub::words::{Query, TaskId};
use tenure_hub::{KeptPiece, OutputStream, PrintedPage, Request, Response};
use tokio::time::sleep;

use crate::call::HttpCall;
use crate::codec::sse;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::HubAccess;
use crate::translate;

/// How soon a stream looks for more.
const LOOK_AFTER: Duration = Duration::from_millis(500);
/// A comment is sent after this many looks without anything new, so that proxies keep the stream open.
const SILENT_LOOKS: u32 = 30;

pub(crate) async fn logs(call: HttpCall) -> HttpResult {
    call.query.only(&["after"])?;
    let mut hub = call.hub()?;
    let task = call.task(&mut hub).await?;
    let after: u64 = call.query.number("after")?.unwrap_or(0);
    if !sse::is_wanted(&call.head.headers) {
        let page = page(&mut hub, task, after).await?;
        let pieces: Vec<Value> = page.pieces.iter().map(piece).collect();
        return Ok(reply::json(&json!({ "pieces": pieces, "next": page.next, "more": page.more })));
    }
    let after = match sse::last_event_id(&call.head.headers) {
        None => after,
        Some(id) => id.parse().map_err(|_| ProblemDetails::bad_value("Last-Event-ID is not a number"))?,
    };
    let first = Bytes::from_static(sse::RETRY.as_bytes());
    let log = stream::unfold(Some(LogStream { hub, task, after, silent: 0 }), |log| async move {
        let mut log = log?;
        let (text, goes_on) = log.next().await;
        Some((Bytes::from(text), goes_on.then_some(log)))
    });
    Ok(reply::event_stream(stream::once(async { first }).chain(log)))
}

/// A client that follows the log of a task.
struct LogStream {
    hub: HubAccess,
    task: TaskId,
    after: u64,
    silent: u32,
}

impl LogStream {
    /// Waits for more. Returns what to send, and whether the stream goes on.
    async fn next(&mut self) -> (String, bool) {
        loop {
            // Whether the task has ended is read first, so that nothing is printed between the two.
            let has_ended = match self.hub.task(Query::Show { task: self.task }).await {
                Ok(task) => task.state.name().has_ended(),
                Err(problem) => return (end(&problem.json()), false),
            };
            let page = match page(&mut self.hub, self.task, self.after).await {
                Ok(page) => page,
                Err(problem) => return (end(&problem.json()), false),
            };
            if !page.pieces.is_empty() {
                self.after = page.next;
                self.silent = 0;
                let mut out = String::new();
                for kept in &page.pieces {
                    // A client that is cut off in the middle of a page goes on there.
                    sse::append(&mut out, None, Some(&kept.number.to_string()), &piece(kept));
                }
                return (out, true);
            }
            if has_ended && !page.more {
                return (end(&json!({ "next": self.after })), false);
            }
            self.silent += 1;
            sleep(LOOK_AFTER).await;
            if self.silent >= SILENT_LOOKS {
                self.silent = 0;
                return (sse::KEEP_ALIVE.to_owned(), true);
            }
        }
    }
}

fn end(data: &Value) -> String {
    let mut out = String::new();
    sse::append(&mut out, Some("end"), None, data);
    out
}

async fn page(hub: &mut HubAccess, task: TaskId, after: u64) -> Result<PrintedPage, ProblemDetails> {
    match hub.ask(Request::Logs { task, after }).await? {
        Response::Logs(page) => Ok(page),
        _ => Err(ProblemDetails::unexpected()),
    }
}

/// Text as it is, other bytes in base64.
fn piece(kept: &KeptPiece) -> Value {
    let bytes = &kept.piece.bytes;
    let text = std::str::from_utf8(bytes).ok();
    json!({
        "attempt": kept.attempt,
        "stream": match kept.piece.stream {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        },
        "offset": kept.piece.offset,
        "at": translate::moment(kept.at),
        "bytes": bytes.len(),
        "text": text,
        "base64": text.is_none().then(|| STANDARD.encode(bytes)),
    })
}
