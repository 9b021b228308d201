//! Which ids are good. Ids become parts of keys and of lines, so they are kept plain.

use super::error::ShapeError;

pub(crate) const WORKER_ID_BYTES_MAX: usize = 64;
pub(super) const ID_BYTES_MAX: usize = 128;

/// `[A-Za-z0-9_-]{1,64}`
pub(crate) fn check_worker_id(id: &str) -> Result<(), ShapeError> {
    if id.is_empty() {
        Err(ShapeError::WorkerIdEmpty)
    } else if !is_plain(id) {
        Err(ShapeError::WorkerIdCharacters)
    } else if id.len() > WORKER_ID_BYTES_MAX {
        Err(ShapeError::WorkerIdTooLong)
    } else {
        Ok(())
    }
}

/// The id of a plan or an action: `[A-Za-z0-9_-]{1,128}`.
pub(super) fn check_plain_id(what: &'static str, field: &str, id: &str) -> Result<(), ShapeError> {
    check_length(what, field, id)?;
    if !is_plain(id) {
        let why = format!("{field} holds characters other than letters, digits, - and _");
        return Err(ShapeError::invalid(what, why));
    }
    Ok(())
}

/// The id a client chose for a job. Any visible character will do; how plans and actions are called is kept for them.
pub(super) fn check_job_id(what: &'static str, id: &str) -> Result<(), ShapeError> {
    check_length(what, "job_id", id)?;
    if id.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(ShapeError::invalid(what, "job_id holds spaces or control characters"));
    }
    if id.starts_with("plan:") || id.starts_with("action:") {
        return Err(ShapeError::invalid(what, "job_id begins with plan: or action:"));
    }
    Ok(())
}

fn check_length(what: &'static str, field: &str, id: &str) -> Result<(), ShapeError> {
    if id.is_empty() {
        Err(ShapeError::invalid(what, format!("{field} is empty")))
    } else if id.len() > ID_BYTES_MAX {
        Err(ShapeError::invalid(what, format!("{field} is longer than {ID_BYTES_MAX} bytes")))
    } else {
        Ok(())
    }
}

fn is_plain(id: &str) -> bool {
    id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_id_is_short_and_plain() {
        assert_eq!(check_worker_id("worker-macbook_001"), Ok(()));
        assert_eq!(check_worker_id(&"w".repeat(64)), Ok(()));
        assert_eq!(check_worker_id(&"w".repeat(65)), Err(ShapeError::WorkerIdTooLong));
        assert_eq!(check_worker_id(""), Err(ShapeError::WorkerIdEmpty));
        for id in ["a b", "a:b", "a*", "a\r\n", "wörker", "a.b", "a/b"] {
            assert_eq!(check_worker_id(id), Err(ShapeError::WorkerIdCharacters), "{id:?}");
        }
    }
}
