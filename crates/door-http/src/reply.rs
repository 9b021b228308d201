//! Responses: JSON, bytes, nothing, and streams.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_FRAME_OPTIONS};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use serde_json::Value;
use tenure_door_kit::{ByteBudget, Charge, FREE_BYTES};

use crate::problem::ProblemDetails;

pub(crate) type HttpResult = Result<Response<HttpBody>, ProblemDetails>;

/// The body of a response.
pub(crate) enum HttpBody {
    /// All of it; empty once it is sent.
    Full(Bytes),
    /// Parts that come as they arise.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

pub(crate) fn full(bytes: impl Into<Bytes>) -> HttpBody {
    HttpBody::Full(bytes.into())
}

pub(crate) fn json(value: &Value) -> Response<HttpBody> {
    json_with(StatusCode::OK, value)
}

pub(crate) fn json_with(status: StatusCode, value: &Value) -> Response<HttpBody> {
    let mut response = text(value.to_string(), HeaderValue::from_static("application/json"));
    *response.status_mut() = status;
    response
}

/// Text or bytes of a known type.
pub(crate) fn text(bytes: impl Into<Bytes>, media_type: HeaderValue) -> Response<HttpBody> {
    let mut response = Response::new(full(bytes));
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

/// Bytes of a task, whose type the broker does not know.
pub(crate) fn bytes(bytes: Bytes) -> Response<HttpBody> {
    text(bytes, HeaderValue::from_static("application/octet-stream"))
}

/// A page for people. Its scripts and styles are files of this broker; nothing in the page itself is run.
#[allow(dead_code, reason = "the pages of the dashboard use it")]
pub(crate) fn html(page: impl Into<Bytes>) -> Response<HttpBody> {
    let mut response = text(page, HeaderValue::from_static("text/html; charset=utf-8"));
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

/// What a page may load: files of this broker, and nothing inline.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

/// A stream of server-sent events.
pub(crate) fn event_stream(parts: impl Stream<Item = Bytes> + Send + 'static) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::Stream(Box::pin(parts)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// Done, and nothing to say.
pub(crate) fn no_content() -> Response<HttpBody> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Counts the bytes of a long response against the budget that all connections share, until the last of them is sent.
pub(crate) fn charged(response: Response<HttpBody>, budget: &Arc<ByteBudget>) -> HttpResult {
    let (head, body) = response.into_parts();
    let body = match body {
        HttpBody::Full(bytes) if bytes.len() > FREE_BYTES => {
            let mut charge = budget.charge();
            charge.set(bytes.len()).map_err(|_| no_memory())?;
            // The server takes all bytes at once and then drops the body, so the bytes themselves hold the charge.
            full(Bytes::from_owner(Kept { bytes, _charge: charge }))
        }
        other => other,
    };
    Ok(Response::from_parts(head, body))
}

struct Kept {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// All connections together hold as much as they may.
pub(crate) fn no_memory() -> ProblemDetails {
    let detail = "the broker has no memory for a message of this size now";
    ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, "full", detail, "wait, then try again")
}

impl http_body::Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            HttpBody::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            HttpBody::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            HttpBody::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|part| part.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            HttpBody::Full(bytes) => bytes.is_empty(),
            HttpBody::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            HttpBody::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            HttpBody::Stream(_) => SizeHint::default(),
        }
    }
}
