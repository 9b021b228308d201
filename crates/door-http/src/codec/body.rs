//! The body of a request: read whole, within a limit, and counted until the request is handled.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tenure_door_kit::Charge;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::objects;
use crate::problem::ProblemDetails;
use crate::reply::no_memory;
use crate::server::HttpDoor;

/// The body of a request, which its handler reads, and which is drained if the handler does not.
pub(crate) type SharedBody = Arc<Mutex<Incoming>>;

/// How many bytes of a refused request are read and dropped, and how long that may take. The server closes the
/// connection after a longer one, because its rest would be taken for the next request.
const DRAINED_BYTES_MAX: u64 = 64 << 10;
const DRAINED_WITHIN: Duration = Duration::from_secs(1);

/// Reads and drops a short body that the handler has left unread, so that the connection can be used again.
pub(crate) async fn drain(body: &SharedBody) {
    let mut body = body.lock().await;
    if body.size_hint().upper().is_none_or(|upper| upper > DRAINED_BYTES_MAX) {
        return;
    }
    let draining = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = timeout(DRAINED_WITHIN, draining).await;
}

/// Reads the whole body: the engine needs it whole, because the journal has one record for each submission or report.
/// Its length counts against the byte budget of all connections from its first part until the charge is dropped.
pub(crate) async fn read_body(
    body: &SharedBody,
    door: &HttpDoor,
    bytes_max: usize,
) -> Result<(Bytes, Charge), ProblemDetails> {
    let mut body = body.lock().await;
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_long(bytes_max));
    }
    let mut charge = door.settings.door.budget.charge();
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        let arriving = timeout(door.settings.door.frame_within, body.frame());
        let frame = match arriving.await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(broken(&error)),
            Err(_) => return Err(unfinished()),
        };
        let Ok(part) = frame.into_data() else { continue };
        let length = first.len() + rest.len() + part.len();
        if length > bytes_max {
            return Err(too_long(bytes_max));
        }
        charge.set(length).map_err(|_| no_memory())?;
        // Most bodies are a single part, which needs no copy.
        if first.is_empty() && rest.is_empty() {
            first = part;
        } else {
            if !first.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&part);
        }
    }
    Ok((if rest.is_empty() { first } else { rest.freeze() }, charge))
}

/// Reads JSON. A form that a page of another site could send is not taken for JSON.
pub(crate) fn read_json<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, ProblemDetails> {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let is_json = essence.eq_ignore_ascii_case("application/json")
        || (essence.len() > 5 && essence[essence.len() - 5..].eq_ignore_ascii_case("+json"));
    if !is_json {
        let detail = format!("the Content-Type is {essence:?}; send application/json");
        let action = "send it with Content-Type: application/json";
        return Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", detail, action));
    }
    objects::from_slice(bytes)
        .map_err(|error| ProblemDetails::bad_value(format!("cannot parse the body: {error}")))
}

fn too_long(limit: usize) -> ProblemDetails {
    let detail = format!("the body is longer than {limit} bytes");
    ProblemDetails::new(StatusCode::PAYLOAD_TOO_LARGE, "too-many", detail, "send less").with("limit", limit)
}

fn unfinished() -> ProblemDetails {
    let detail = "the body was left unfinished for too long";
    ProblemDetails::new(StatusCode::REQUEST_TIMEOUT, "unfinished", detail, "send the request again")
}

fn broken(error: &hyper::Error) -> ProblemDetails {
    ProblemDetails::bad_value(format!("the body cannot be read: {error}"))
}
