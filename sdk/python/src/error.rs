//! Errors of the client as exceptions of `tenure.errors`, which has a class for each.

use pyo3::prelude::*;
use tenure_client::{Error, Refusal};

/// `tenure.errors.make(kind, message, code, facts)`
fn make(py: Python<'_>, kind: &str, message: &str, code: Option<&str>, facts: Option<&str>) -> PyErr {
    let made = py
        .import("tenure.errors")
        .and_then(|errors| errors.getattr("make"))
        .and_then(|make| make.call1((kind, message, code, facts)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Refused(refusal) => refused(py, refusal),
        Error::Unreachable { .. } => make(py, "unreachable", &message, None, None),
        Error::UnknownOutcome { .. } => make(py, "unknown-outcome", &message, None, None),
        Error::Lost { .. } | Error::NotListening { .. } => make(py, "lost", &message, None, None),
        Error::Protocol { .. } => make(py, "protocol", &message, None, None),
        Error::BadAddress { .. } => make(py, "bad-address", &message, None, None),
        Error::TooLarge { .. } => make(py, "too-large", &message, None, None),
        Error::BadSetting { .. } => make(py, "bad-setting", &message, None, None),
        Error::Closed => make(py, "closed", &message, None, None),
        // The list of errors stays open to newer ones.
        _ => make(py, "other", &message, None, None),
    }
}

pub(crate) fn refused(py: Python<'_>, refusal: &Refusal) -> PyErr {
    let facts = serde_json::to_string(refusal).ok();
    make(py, "refused", &refusal.to_string(), Some(refusal.code.as_str()), facts.as_deref())
}

pub(crate) fn bad_setting(what: &str, why: &str) -> PyErr {
    Python::attach(|py| make(py, "bad-setting", &format!("{what} {why}"), None, None))
}

pub(crate) fn closed(why: &str) -> PyErr {
    Python::attach(|py| make(py, "closed", why, None, None))
}

pub(crate) fn forked() -> PyErr {
    let message = "this object belongs to the parent process: make a new one after fork";
    Python::attach(|py| make(py, "forked", message, None, None))
}
