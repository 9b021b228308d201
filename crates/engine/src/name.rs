//! Names of queues, capabilities, tags, workers and namespaces: shared text with one validation rule.

use std::sync::Arc;

use crate::limits::NAME_BYTES_MAX;
use crate::refusal::Refusal;

/// A name is shared, never copied: a million tasks of one queue hold the same text.
pub type Name = Arc<str>;

/// The namespace of a peer that does not name another.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Refuses a text over its limit. `what` says which text it is.
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
    // Most names are ASCII, and need no look at each character.
    if name.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    if name.chars().any(char::is_control) {
        return Err(Refusal::BadName { what, why: "holds control characters" });
    }
    if name.chars().any(is_invisible) {
        return Err(Refusal::BadName {
            what,
            why: "holds invisible characters (zero-width, or for the direction of writing)",
        });
    }
    Ok(())
}

/// Characters that are invisible or change how others are displayed. With them, two different names could
/// look alike, or a name could imitate another one.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}
