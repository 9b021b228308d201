//! Which ids plans and actions may have. Ids become parts of keys and of log lines, so only plain characters are
//! allowed.

use crate::SchemaError;

/// Maximum length of an id.
pub const ID_BYTES_MAX: usize = 128;

/// Accepts `[A-Za-z0-9_-]{1,128}`. `what` begins the error, `field` the place of the id in it.
pub fn check_id(what: &'static str, field: &str, id: &str) -> Result<(), SchemaError> {
    check_id_length(what, field, id)?;
    if is_plain(id) {
        return Ok(());
    }
    Err(SchemaError::invalid(what, format!("{field} holds characters other than letters, digits, - and _")))
}

/// Refuses an id that is empty or too long.
pub fn check_id_length(what: &'static str, field: &str, id: &str) -> Result<(), SchemaError> {
    if id.is_empty() {
        Err(SchemaError::invalid(what, format!("{field} is empty")))
    } else if id.len() > ID_BYTES_MAX {
        Err(SchemaError::invalid(what, format!("{field} is longer than {ID_BYTES_MAX} bytes")))
    } else {
        Ok(())
    }
}

/// Letters, digits, `-` and `_` only.
pub fn is_plain(id: &str) -> bool {
    id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_and_plain() {
        let check = |id: &str| check_id("Invalid plan", "plan_id", id).map_err(|error| error.to_string());
        assert_eq!(check(&"p".repeat(128)), Ok(()));
        assert_eq!(check("").unwrap_err(), "Invalid plan: plan_id is empty");
        assert_eq!(check(&"p".repeat(129)).unwrap_err(), "Invalid plan: plan_id is longer than 128 bytes");
        for id in ["a b", "a:b", "ä", "a#b", "a.b"] {
            assert!(check(id).unwrap_err().contains("letters, digits"), "{id}");
        }
    }
}
