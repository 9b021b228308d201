//! Responses: JSON, bytes, nothing, and streams.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_FRAME_OPTIONS};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use serde_json::Value;

use crate::memory::{ChargedBytes, ResponseMemory};
use crate::problem::ProblemDetails;
use crate::session::Delivered;

pub(crate) type HttpResult = Result<Response<HttpBody>, ProblemDetails>;

/// The body of a response.
pub(crate) enum HttpBody {
    /// All of it; empty once it is sent.
    Full(Bytes),
    /// The same, with bytes that were charged before they were read.
    Charged(Bytes),
    /// A task for a worker. It counts as delivered once the server takes the bytes.
    Fetched(Bytes, Delivered),
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

/// JSON that is written already, and charged.
pub(crate) fn charged_json(bytes: ChargedBytes) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::Charged(bytes.into_bytes()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
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

/// The same with bytes that were charged before they were read.
pub(crate) fn charged_bytes(bytes: ChargedBytes) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::Charged(bytes.into_bytes()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

/// A task for a worker, which gets it back if the response is dropped before the server takes it.
pub(crate) fn fetched(response: Response<HttpBody>, delivered: Delivered) -> Response<HttpBody> {
    response.map(|body| match body {
        // The server never asks for the bytes of an empty body: it counts as taken at once.
        HttpBody::Charged(bytes) if !bytes.is_empty() => HttpBody::Fetched(bytes, delivered),
        other => {
            let mut delivered = delivered;
            delivered.is_taken();
            other
        }
    })
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

/// Counts the bytes of a response until the last of them is sent.
pub(crate) fn charged(response: Response<HttpBody>, memory: &ResponseMemory) -> HttpResult {
    let (head, body) = response.into_parts();
    let body = match body {
        HttpBody::Full(bytes) => full(memory.reserve(bytes.len())?.hold(bytes).into_bytes()),
        other => other,
    };
    Ok(Response::from_parts(head, body))
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
            HttpBody::Full(bytes) | HttpBody::Charged(bytes) => Poll::Ready(take(bytes)),
            HttpBody::Fetched(bytes, delivered) => {
                delivered.is_taken();
                Poll::Ready(take(bytes))
            }
            HttpBody::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|part| part.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            HttpBody::Full(bytes) | HttpBody::Charged(bytes) | HttpBody::Fetched(bytes, _) => {
                bytes.is_empty()
            }
            HttpBody::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            HttpBody::Full(bytes) | HttpBody::Charged(bytes) | HttpBody::Fetched(bytes, _) => {
                SizeHint::with_exact(bytes.len() as u64)
            }
            HttpBody::Stream(_) => SizeHint::default(),
        }
    }
}

/// How many bytes are handed to the server at a time. It copies them into a buffer of its own, where they count no longer.
const FRAME_BYTES_MAX: usize = 64 << 10;

/// The next part of the bytes, or the end.
fn take(bytes: &mut Bytes) -> Option<Result<Frame<Bytes>, Infallible>> {
    let count = bytes.len().min(FRAME_BYTES_MAX);
    (count > 0).then(|| Ok(Frame::data(bytes.split_to(count))))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tenure_door_kit::ByteBudget;

    use super::*;

    #[tokio::test]
    async fn a_long_answer_counts_until_its_last_part_is_gone() {
        let budget = ByteBudget::new(1 << 30);
        let memory = ResponseMemory::new(&budget);
        let bytes = Bytes::from(vec![7; 3 * FRAME_BYTES_MAX + 1]);
        let mut body = charged(Response::new(full(bytes)), &memory).expect("there is room").into_body();
        let charged = budget.used();
        assert!(charged > FRAME_BYTES_MAX);
        let mut parts = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let part = frame.into_data().expect("bytes");
            parts.push(part.len());
            assert_eq!(budget.used(), charged, "what is left of it still counts");
        }
        assert_eq!(parts, [FRAME_BYTES_MAX, FRAME_BYTES_MAX, FRAME_BYTES_MAX, 1]);
        drop(body);
        assert_eq!(budget.used(), 0);
    }
}
