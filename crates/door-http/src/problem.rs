//! Problem details (RFC 9457): what a request that fails is answered with.

use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use tenure_door_kit::LoginError;

use crate::reply::{HttpBody, full};

/// The media type of RFC 9457.
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");
/// How long a client should wait before it tries again.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// The detail of a refusal without a key.
pub(crate) const NO_KEY: &str = "a key is required";

/// Why a request fails: a stable code, a sentence, and what to do about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProblemDetails {
    pub(crate) status: StatusCode,
    /// Stable: the code of a refusal, or one of this door's own.
    pub(crate) code: &'static str,
    /// What is wrong, for people.
    pub(crate) detail: Box<str>,
    /// What to do.
    pub(crate) action: &'static str,
    pub(crate) facts: Box<Map<String, Value>>,
    /// The methods that the path has, if the method is wrong.
    pub(crate) allow: Option<Box<str>>,
    /// How long the answer is held back: the peer has sent too many wrong keys.
    pub(crate) delay: Duration,
    /// The connection ends after the answer.
    pub(crate) ends: bool,
}

impl ProblemDetails {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Box<str>>,
        action: &'static str,
    ) -> ProblemDetails {
        let (facts, allow, delay) = (Box::default(), None, Duration::ZERO);
        ProblemDetails { status, code, detail: detail.into(), action, facts, allow, delay, ends: false }
    }

    /// A part of the request is not what the door expects.
    pub(crate) fn bad_value(detail: impl Into<Box<str>>) -> ProblemDetails {
        ProblemDetails::new(StatusCode::BAD_REQUEST, "bad-value", detail, "correct the request")
    }

    pub(crate) fn not_found(path: &str) -> ProblemDetails {
        let detail = format!("this broker has nothing at {path}");
        ProblemDetails::new(StatusCode::NOT_FOUND, "not-found", detail, "see /openapi.json for what there is")
    }

    pub(crate) fn method_not_allowed(allow: &str) -> ProblemDetails {
        let detail = format!("this path accepts only {allow}");
        let action = "use one of these methods";
        let problem =
            ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail, action);
        ProblemDetails { allow: Some(allow.into()), ..problem }
    }

    pub(crate) fn unauthenticated(detail: &str) -> ProblemDetails {
        let action = "send a key of this broker: Authorization: Bearer KEY";
        ProblemDetails::new(StatusCode::UNAUTHORIZED, "not-allowed", detail, action)
    }

    /// The key is missing or wrong.
    pub(crate) fn not_admitted(no: LoginError) -> ProblemDetails {
        match no {
            LoginError::NoKey => ProblemDetails::unauthenticated(NO_KEY),
            LoginError::WrongKey { wait, ends } => {
                ProblemDetails { delay: wait, ends, ..ProblemDetails::unauthenticated("invalid key") }
            }
        }
    }

    /// The reply of the hub does not fit the request: a bug in this door.
    pub(crate) fn unexpected() -> ProblemDetails {
        let detail = "internal error: the reply does not match the request; please report this";
        ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail, "report it")
    }

    pub(crate) fn with(mut self, fact: &str, value: impl Into<Value>) -> ProblemDetails {
        self.facts.insert(fact.to_owned(), value.into());
        self
    }

    /// The problem as JSON, also inside of other answers.
    pub(crate) fn json(&self) -> Value {
        json!({
            "type": format!("urn:tenure:problem:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("Problem"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
            "action": self.action,
            "facts": self.facts,
        })
    }

    pub(crate) fn response(&self) -> Response<HttpBody> {
        let mut response = Response::new(full(self.json().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, MEDIA_TYPE);
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tenure\""));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, RETRY_SECONDS);
        }
        if let Some(allow) = self.allow.as_deref().and_then(|allow| HeaderValue::from_str(allow).ok()) {
            headers.insert(ALLOW, allow);
        }
        response
    }
}
