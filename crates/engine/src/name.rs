//! Names of queues, capabilities, tags, workers and namespaces: shared text with one rule for what is allowed.

use std::sync::Arc;

use crate::limits::NAME_BYTES_MAX;
use crate::refusal::Refusal;

/// A name is shared, never copied: a million tasks of one queue hold the same text.
pub type Name = Arc<str>;

/// The namespace of whoever does not ask for another.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Refuses a text that is too long to be kept. `what` says which text it is.
pub(crate) fn check_text(what: &'static str, text: Option<&str>, limit: usize) -> Result<(), Refusal> {
    if text.is_some_and(|text| text.len() > limit) {
        return Err(Refusal::TooMany { what, limit });
    }
    Ok(())
}

/// Refuses a name that is empty, too long, or holds control characters. `what` says which name it is.
pub fn check(what: &'static str, name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::BadName { what, why: "is empty" });
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Refusal::BadName { what, why: "is longer than 255 bytes" });
    }
    if name.chars().any(char::is_control) {
        return Err(Refusal::BadName { what, why: "holds control characters" });
    }
    Ok(())
}
