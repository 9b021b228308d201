//! The names under which the broker tells what happens in it: `task.<id>`, `queue.<name>`, `worker.<name>`.

use tenure_topics::Refusal;

/// First levels that belong to the broker.
pub const EVENT_PREFIXES: [&str; 3] = ["task", "queue", "worker"];

/// The prefix of a name or pattern that belongs to the broker. A pattern has to begin with the word itself: `>` and `*.x`
/// are about other topics.
pub(super) fn event_prefix(text: &str) -> Option<&'static str> {
    let (first, _) = text.split_once('.')?;
    EVENT_PREFIXES.into_iter().find(|prefix| *prefix == first)
}

pub(super) fn refuse_read_only(topic: &str) -> Result<(), Refusal> {
    event_prefix(topic).map_or(Ok(()), |prefix| Err(Refusal::ReadOnly { prefix }))
}
