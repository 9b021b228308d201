//! Errors in the JSON documents of this door.

use tenure_plans::SchemaError;

/// A document that is refused. Its text follows the code `ERR`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error(transparent)]
    Schema(#[from] SchemaError),
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
}
