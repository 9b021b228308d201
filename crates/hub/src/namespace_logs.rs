//! The topics and stored keys of a namespace that moves to another group. A program that leads both groups has the logs
//! open, and no broker serves them. Each step can be repeated: adding replaces what is there, and dropping what is
//! gone does nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tenure_engine::Name;
use tenure_store::{AppendError, IdleJournal, Opened, StoreError, WriteError};

use crate::keyspace::{IdleKeys, KeyReplay};
use crate::topics::{IdleTopics, TopicContents, has_rows_of};

/// How long the database may be away while a namespace is moved.
const AWAY_MAX: Duration = Duration::from_secs(30);
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Renews the leases of the groups while a log is written.
pub type Renew<'a> = &'a mut dyn FnMut() -> Result<(), AppendError>;

/// Why topics or stored keys were not moved.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum LogMoveError {
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the group has {of} in {limit} namespaces already, which is the limit")]
    TooManyNamespaces { of: &'static str, limit: usize },
}

/// The contents of the logs for a namespace, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogContents {
    /// Topics with a number or a retained value.
    pub topics: u64,
    /// Subscriptions with an id.
    pub subscriptions: u64,
    /// Durable messages.
    pub messages: u64,
    /// Stored keys.
    pub keys: u64,
}

/// The logs of topics and stored keys of a group that no broker serves.
#[derive(Debug)]
pub struct IdleLogs {
    topics: IdleTopics,
    keys: IdleKeys,
}

impl IdleLogs {
    /// Opens the logs beside a journal.
    pub fn open(journal: &IdleJournal) -> Result<IdleLogs, StoreError> {
        let reader = journal.reader();
        Ok(IdleLogs { topics: IdleTopics::open(reader)?, keys: IdleKeys::open(reader)? })
    }

    /// The namespaces that have topics, subscriptions or keys.
    pub fn namespaces(&self) -> Result<BTreeSet<Name>, StoreError> {
        let mut found = self.topics.namespaces()?;
        found.extend(self.keys.namespaces()?);
        Ok(found)
    }

    /// Counts what the logs hold of a namespace.
    pub fn contents_of(&self, namespace: &str) -> Result<LogContents, StoreError> {
        let TopicContents { topics, subscriptions, messages } = self.topics.contents_of(namespace)?;
        Ok(LogContents { topics, subscriptions, messages, keys: self.keys.count_of(namespace)? })
    }

    /// Adds a namespace of other logs, in place of what these have of it. Its events in this group begin at
    /// `first_event`.
    pub fn add_namespace(
        &mut self,
        from: &IdleLogs,
        namespace: &str,
        first_event: u64,
        renew: Renew<'_>,
    ) -> Result<(), LogMoveError> {
        self.topics.add_namespace(&from.topics, namespace, first_event, renew)?;
        self.keys.add_namespace(&from.keys, namespace, renew)
    }

    /// Removes a namespace from the logs.
    pub fn drop_namespace(&mut self, namespace: &str, renew: Renew<'_>) -> Result<(), LogMoveError> {
        self.topics.drop_namespace(namespace, renew)?;
        self.keys.drop_namespace(namespace, renew)
    }
}

/// Which of these namespaces have anything in the logs that a new leader has found, and not opened yet.
pub fn in_logs(opened: &Opened, namespaces: &BTreeSet<&str>) -> Result<BTreeSet<Name>, StoreError> {
    let mut found = BTreeSet::new();
    opened.topic_rows(|key, _| found.extend(has_rows_of(key, namespaces.iter().copied()).map(Name::from)));
    let mut keys = KeyReplay::default();
    opened.key_records(|namespace, record| {
        if let Ok(namespace) = std::str::from_utf8(namespace)
            && namespaces.contains(namespace)
        {
            keys.add(namespace, record);
        }
    })?;
    found.extend(keys.namespaces()?);
    Ok(found)
}

/// Returns when everything that was appended is committed.
pub(crate) fn commit(
    mut sync: impl FnMut() -> Result<(), AppendError>,
    renew: Renew<'_>,
) -> Result<(), LogMoveError> {
    let since = Instant::now();
    loop {
        renew()?;
        match sync() {
            Ok(()) => return Ok(()),
            Err(AppendError::Away { .. }) if since.elapsed() < AWAY_MAX => std::thread::sleep(RETRY_AFTER),
            Err(error) => return Err(error.into()),
        }
    }
}
