//! What is delivered: the event as JSON, with the hook and the namespace.

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_hub::event_as_json;
use tenure_hub::words::{Event, Name};

/// One event on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutgoingEvent {
    /// The number of the event; for a gap, of the first event that is missing.
    pub(super) seq: u64,
    pub(super) kind: Box<str>,
    pub(super) body: Bytes,
}

/// The kind of a event that stands for events the broker no longer keeps.
pub(super) const GAP: &str = "gap";

impl OutgoingEvent {
    pub(super) fn of_event(hook: &Name, event: &Event) -> OutgoingEvent {
        let body = format!(
            r#"{{"hook":{},"namespace":{},"event":{}}}"#,
            Value::from(&**hook),
            Value::from(&**event.namespace()),
            event_as_json(event)
        );
        OutgoingEvent { seq: event.seq, kind: event.kind.as_str().into(), body: body.into() }
    }

    /// Events from `from` to before `oldest` are gone.
    pub(super) fn of_gap(hook: &Name, namespace: &Name, from: u64, oldest: u64) -> OutgoingEvent {
        let body = json!({
            "hook": &**hook,
            "namespace": &**namespace,
            "event": { "seq": from, "kind": GAP, "from": from, "to": oldest.saturating_sub(1) },
        });
        OutgoingEvent { seq: from, kind: GAP.into(), body: body.to_string().into() }
    }

    /// The same for every attempt, so that a receiver can tell a repetition.
    pub(super) fn delivery_id(&self, hook: &Name) -> String {
        format!("{hook}-{}", self.seq)
    }
}
