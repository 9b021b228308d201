//! What the database may say instead of doing what it was asked, and what that means for a journal.

use std::time::Duration;

use tenure_store::ReplicationError;
use tokio_postgres::error::SqlState;

#[derive(Debug)]
pub(crate) enum DatabaseFault {
    Database(tokio_postgres::Error),
    NoAnswer(Duration),
    /// The connection's thread has ended.
    Closed,
    /// The database warned: a commit may not be replicated.
    Warned(String),
    Known(ReplicationError),
}

impl From<tokio_postgres::Error> for DatabaseFault {
    fn from(error: tokio_postgres::Error) -> DatabaseFault {
        DatabaseFault::Database(error)
    }
}

impl From<ReplicationError> for DatabaseFault {
    fn from(error: ReplicationError) -> DatabaseFault {
        DatabaseFault::Known(error)
    }
}

impl DatabaseFault {
    /// The same for a statement that changes something. If there is no clear answer, it may have been done.
    pub(crate) fn of_change(self) -> ReplicationError {
        match self {
            DatabaseFault::Known(error) => error,
            DatabaseFault::Database(error) => match refusal(&error) {
                Some(refused) => refused,
                None => doubt(&described(&error)),
            },
            DatabaseFault::NoAnswer(limit) => doubt(&format!("no answer within {limit:?}")),
            DatabaseFault::Closed => doubt("the connection is closed"),
            DatabaseFault::Warned(text) => doubt(&text),
        }
    }

    /// The same for a statement that only reads.
    pub(crate) fn of_query(self) -> ReplicationError {
        match self {
            DatabaseFault::Known(error) => error,
            DatabaseFault::Database(error) => {
                refusal(&error).unwrap_or_else(|| ReplicationError::Away(described(&error)))
            }
            DatabaseFault::NoAnswer(limit) => ReplicationError::Away(format!("no answer within {limit:?}")),
            DatabaseFault::Closed => ReplicationError::Away("the connection is closed".to_owned()),
            DatabaseFault::Warned(text) => ReplicationError::Away(text),
        }
    }

    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            DatabaseFault::Database(error) => error.code(),
            _ => None,
        }
    }
}

fn doubt(why: &str) -> ReplicationError {
    tracing::warn!(
        why,
        "it is unknown whether the database has committed a change; the next epoch resolves it"
    );
    ReplicationError::Doubt
}

/// What the error means if the database has certainly not done the statement. `None`: it may have.
fn refusal(error: &tokio_postgres::Error) -> Option<ReplicationError> {
    let database = error.as_db_error()?;
    let (code, said) = (database.code().code(), described(error));
    // Classes: 08 connection, 57 operator intervention (shutdown, cancel). Both may follow a commit.
    if code.starts_with("08") || code.starts_with("57") || code == "XX000" {
        return None;
    }
    Some(match code {
        "42P01" => ReplicationError::Gone(said),
        "42501" => ReplicationError::Misconfigured(format!("the database user has too few rights: {said}")),
        _ => ReplicationError::Away(said),
    })
}

/// The server's message and the reason below it.
pub(crate) fn described(error: &tokio_postgres::Error) -> String {
    if let Some(database) = error.as_db_error() {
        return format!("{} ({})", database.message(), database.code().code());
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text += &format!(": {inner}");
        source = inner.source();
    }
    text
}
