//! Server-sent events: how an event stands in the stream.

use std::fmt::Write as _;

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::Value;

/// How long a browser waits before it connects again, in milliseconds.
pub(crate) const RETRY: &str = "retry: 1000\n\n";
/// A comment that shows that the stream is alive.
pub(crate) const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// Appends one event. JSON text has no line breaks, so the data is one line.
pub(crate) fn append(out: &mut String, name: Option<&str>, id: Option<&str>, data: &Value) {
    if let Some(name) = name {
        let _ = writeln!(out, "event: {name}");
    }
    if let Some(id) = id {
        let _ = writeln!(out, "id: {id}");
    }
    let _ = write!(out, "data: {data}\n\n");
}

/// Whether the client asks for a stream of events.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|part| {
        part.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// Where the client has stopped reading, from its last connection.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id")?.to_str().ok().filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_name_an_id_and_one_line_of_data() {
        let mut out = String::new();
        append(&mut out, None, Some("7"), &serde_json::json!({ "note": "a\nb" }));
        append(&mut out, Some("live"), None, &serde_json::json!({}));
        assert_eq!(out, "id: 7\ndata: {\"note\":\"a\\nb\"}\n\nevent: live\ndata: {}\n\n");
    }

    #[test]
    fn a_stream_is_given_to_those_who_ask_for_it() {
        let headers = |accept: &str| HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        assert!(is_wanted(&headers("text/event-stream")));
        assert!(is_wanted(&headers("application/json, text/event-stream;q=0.5")));
        assert!(!is_wanted(&headers("*/*")));
        assert!(!is_wanted(&HeaderMap::new()));
    }
}
