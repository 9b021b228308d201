//! Texts with placeholders.

use super::{Bindings, NotationError, Part};
use crate::value::Value;

pub(super) fn build(parts: &[Part], bindings: &Bindings) -> Result<String, NotationError> {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Exactly(exactly) => text.push_str(exactly),
            Part::Named(name) => match bindings.get(name) {
                Some(Value::Text(bound)) => text.push_str(bound),
                _ => return Err(NotationError::Unbound(name.clone())),
            },
            Part::Anything => return Err(NotationError::Open),
        }
    }
    Ok(text)
}

/// Compares, and binds new names. A placeholder ends where the text after it begins.
pub(super) fn match_and_bind(parts: &[Part], text: &str, bindings: &mut Bindings) -> bool {
    let Some((first, later)) = parts.split_first() else { return text.is_empty() };
    let known = match first {
        Part::Exactly(exactly) => Some(exactly.clone()),
        Part::Named(name) => match bindings.get(name) {
            Some(Value::Text(bound)) => Some(bound.clone()),
            Some(_) => return false,
            None => None,
        },
        Part::Anything => None,
    };
    if let Some(known) = known {
        return text.strip_prefix(&known).is_some_and(|rest| match_and_bind(later, rest, bindings));
    }
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    for end in ends {
        let mut tried = bindings.clone();
        if let Part::Named(name) = first {
            tried.insert(name.clone(), Value::Text(text[..end].to_owned()));
        }
        if match_and_bind(later, &text[end..], &mut tried) {
            *bindings = tried;
            return true;
        }
    }
    false
}
