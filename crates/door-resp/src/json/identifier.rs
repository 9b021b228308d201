//! Which ids are valid. Ids become parts of keys and of lines, so only plain characters are allowed.

use tenure_plans::{SchemaError, check_id_length, is_plain};

use super::error::DocumentError;

pub(crate) const WORKER_ID_BYTES_MAX: usize = 64;

/// `[A-Za-z0-9_-]{1,64}`
pub(crate) fn check_worker_id(id: &str) -> Result<(), DocumentError> {
    if id.is_empty() {
        Err(DocumentError::WorkerIdEmpty)
    } else if !is_plain(id) {
        Err(DocumentError::WorkerIdCharacters)
    } else if id.len() > WORKER_ID_BYTES_MAX {
        Err(DocumentError::WorkerIdTooLong)
    } else {
        Ok(())
    }
}

/// The id that a client chose for a job. Any visible character is allowed; the ids of plans and actions are reserved.
pub(super) fn check_job_id(what: &'static str, id: &str) -> Result<(), SchemaError> {
    check_id_length(what, "job_id", id)?;
    if id.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(SchemaError::invalid(what, "job_id holds spaces or control characters"));
    }
    if id.starts_with("plan:") || id.starts_with("action:") {
        return Err(SchemaError::invalid(what, "job_id begins with plan: or action:"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_id_is_short_and_plain() {
        assert_eq!(check_worker_id("worker-macbook_001"), Ok(()));
        assert_eq!(check_worker_id(&"w".repeat(64)), Ok(()));
        assert_eq!(check_worker_id(&"w".repeat(65)), Err(DocumentError::WorkerIdTooLong));
        assert_eq!(check_worker_id(""), Err(DocumentError::WorkerIdEmpty));
        for id in ["a b", "a:b", "a*", "a\r\n", "wörker", "a.b", "a/b"] {
            assert_eq!(check_worker_id(id), Err(DocumentError::WorkerIdCharacters), "{id:?}");
        }
    }
}
