//! The errors of a replicated journal.

/// Why a replicated journal did not do what it was asked.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicationError {
    /// Another epoch has begun: this member leads no longer.
    #[error("{holder} leads with epoch {epoch}")]
    Fenced { holder: String, epoch: u64 },
    /// The statement may be committed, may be committed later, or may vanish again. Only a change under a new
    /// epoch tells.
    #[error("the journal may or may not have done it")]
    Doubt,
    /// The database did not get the statement.
    #[error("the journal does not answer: {0}")]
    Away(String),
    /// The journal does not end where the append begins.
    #[error("the journal ends at position {end}")]
    NotAtEnd { end: u64 },
    /// The requested rows or file were dropped or replaced meanwhile.
    #[error("{0} is no longer in the journal")]
    Gone(String),
    #[error("{0}")]
    Misconfigured(String),
}

impl ReplicationError {
    /// Whether the same call may succeed on another connection.
    pub fn is_passing(&self) -> bool {
        matches!(self, ReplicationError::Doubt | ReplicationError::Away(_))
    }
}
