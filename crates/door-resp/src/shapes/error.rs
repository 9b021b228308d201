//! What can be wrong with a JSON document.

/// A document that is refused. Its text follows the code `ERR`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error("Invalid {what}: {why}")]
    Invalid { what: &'static str, why: String },
    #[error("Invalid capabilities format")]
    Capabilities,
    #[error("Invalid capabilities: names that begin with worker= are reserved")]
    CapabilityReserved,
    #[error("Invalid worker ID characters")]
    WorkerIdCharacters,
    #[error("Worker ID too long")]
    WorkerIdTooLong,
    #[error("Worker ID is empty")]
    WorkerIdEmpty,
    #[error("Too many inputs: max {max}")]
    TooManyInputs { max: usize },
}

impl ShapeError {
    pub(super) fn invalid(what: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { what, why: why.into() }
    }

    /// Says in which part of the document it is.
    pub(super) fn within(self, part: &str) -> Self {
        match self {
            Self::Invalid { what, why } => Self::Invalid { what, why: format!("{part}: {why}") },
            other => other,
        }
    }
}
