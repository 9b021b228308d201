//! Errors in a document.

/// A document that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A field is missing, or its value is wrong. `what` names the document.
    #[error("{what}: {why}")]
    Invalid {
        /// The document, and that it is refused.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// An action has more than [`ACTION_INPUTS_MAX`](crate::ACTION_INPUTS_MAX) inputs.
    #[error("Too many inputs: max {max}")]
    TooManyInputs {
        /// The limit.
        max: usize,
    },
}

impl SchemaError {
    /// `what` says which document is refused, such as `Invalid job`.
    pub fn invalid(what: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { what, why: why.into() }
    }

    /// Adds the part of the document that contains the error.
    #[must_use]
    pub fn within(self, part: &str) -> Self {
        match self {
            Self::Invalid { what, why } => Self::Invalid { what, why: format!("{part}: {why}") },
            Self::TooManyInputs { max } => Self::TooManyInputs { max },
        }
    }
}
