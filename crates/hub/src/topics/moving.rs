//! Brings the topics of a namespace from the log of one group into that of another, while no broker serves them.
//!
//! Rows and messages are copied as they are, so numbers, retained values and positions of subscriptions continue. What
//! a start derives from how the log was closed must still come out right: if either log was not closed cleanly, the one
//! that gets the namespace counts as not closed cleanly, and its next leader skips numbers, as after a crash.

use std::collections::{BTreeMap, BTreeSet};

use tenure_engine::Name;
use tenure_store::{Reader, StoreError, TopicLog, TopicLogSettings, TopicRows, TopicsOpened};
use tenure_topics::SEQUENCE_BLOCK;

use super::NAMESPACES_MAX;
use super::rows::{self, Namespace, TopicRow};
use crate::namespace_logs::{LogMoveError, Renew, commit};

/// How much goes into one frame.
const FRAME_BYTES: usize = 1 << 20;

/// How many topics, subscriptions and messages of a namespace the topic log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicContents {
    pub(crate) topics: u64,
    pub(crate) subscriptions: u64,
    pub(crate) messages: u64,
}

/// The open topic log of a group that no broker serves.
#[derive(Debug)]
pub(crate) struct IdleTopics {
    log: TopicLog,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Whether a row belongs to one of these namespaces.
pub(crate) fn has_rows_of<'n>(key: &[u8], mut namespaces: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    namespaces.find(|namespace| Namespace(namespace).has_key(key))
}

impl IdleTopics {
    pub(crate) fn open(reader: &Reader) -> Result<IdleTopics, StoreError> {
        let TopicsOpened { log, rows, .. } = reader.open_topics(TopicLogSettings::default())?;
        Ok(IdleTopics { log, rows })
    }

    /// The namespaces that have topics or subscriptions.
    pub(crate) fn namespaces(&self) -> Result<BTreeSet<Name>, StoreError> {
        let mut found = BTreeSet::new();
        for (key, value) in &self.rows {
            match rows::decode_row(key, value)? {
                TopicRow::Topic(namespace, _)
                | TopicRow::Number(namespace, _)
                | TopicRow::Subscription(namespace, _) => found.insert(namespace),
                // What is left of topics that are gone is nothing that a client could miss.
                TopicRow::Floor(..)
                | TopicRow::Start(..)
                | TopicRow::GlobalFloor(_)
                | TopicRow::Allowance(_)
                | TopicRow::Exact(_)
                | TopicRow::Clean => false,
            };
        }
        Ok(found)
    }

    pub(crate) fn contents_of(&self, namespace: &str) -> Result<TopicContents, StoreError> {
        let (mut names, mut subscriptions, mut messages) = (BTreeSet::new(), 0, 0);
        for (key, value) in self.rows_of(namespace) {
            match rows::decode_row(key, value)? {
                TopicRow::Topic(_, topic) | TopicRow::Number(_, topic) => {
                    names.insert(topic.name);
                }
                TopicRow::Subscription(..) => subscriptions += 1,
                _ => {}
            }
        }
        self.messages_of(namespace, |_, _, _| messages += 1)?;
        Ok(TopicContents { topics: names.len() as u64, subscriptions, messages })
    }

    /// Removes everything of a namespace. What is removed already stays so.
    pub(crate) fn drop_namespace(&mut self, namespace: &str, renew: Renew<'_>) -> Result<(), LogMoveError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = self.removal(namespace);
        self.append(&rows, renew)
    }

    /// Adds a namespace of another log, in place of what this one has of it. Its events are those from `first_event` on.
    pub(crate) fn add_namespace(
        &mut self,
        from: &IdleTopics,
        namespace: &str,
        first_event: u64,
        renew: Renew<'_>,
    ) -> Result<(), LogMoveError> {
        if from.contents_of(namespace)? == TopicContents::default()
            && from.rows_of(namespace).next().is_none()
        {
            return self.drop_namespace(namespace, renew);
        }
        let others = self.namespaces()?;
        if others.len() >= NAMESPACES_MAX && !others.contains(namespace) {
            return Err(LogMoveError::TooManyNamespaces { of: "topics", limit: NAMESPACES_MAX });
        }
        let mut page = self.removal(namespace);
        General::of(&from.rows)?.join(&General::of(&self.rows)?).write(&mut page);
        self.append(&page, renew)?;
        let mut page = TopicRows::default();
        for (key, value) in from.rows_of(namespace) {
            match rows::decode_row(key, value)? {
                TopicRow::Subscription(_, mut row) if row.events_from.is_some() => {
                    // Numbers of events belong to a group. One before the first makes a gap, which says so.
                    row.events_from = Some(first_event.saturating_sub(1).max(1));
                    let (key, value) = Namespace(namespace).subscription(&row);
                    page.put(&key, &value);
                }
                _ => page.put(key, value),
            }
            if page.bytes() >= FRAME_BYTES {
                self.append(&std::mem::take(&mut page), renew)?;
            }
        }
        let mut failed = None;
        from.messages_of(namespace, |at, key, value| {
            page.message(at, key, value);
            if page.bytes() >= FRAME_BYTES && failed.is_none() {
                failed = self.append(&std::mem::take(&mut page), renew).err();
            }
        })?;
        if let Some(failed) = failed {
            return Err(failed);
        }
        self.append(&page, renew)
    }

    /// Rows that remove everything which the log has of a namespace up to here.
    fn removal(&self, namespace: &str) -> TopicRows {
        let mut page = TopicRows::default();
        for (key, _) in self.rows_of(namespace) {
            page.delete(key);
        }
        let (key, value) = Namespace(namespace).start(self.log.position());
        page.put(&key, &value);
        page
    }

    fn rows_of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
        self.rows.iter().filter(move |(key, _)| Namespace(namespace).has_key(key))
    }

    fn messages_of(
        &self,
        namespace: &str,
        mut see: impl FnMut(tenure_engine::Timestamp, &[u8], &[u8]),
    ) -> Result<(), StoreError> {
        let (key, _) = Namespace(namespace).start(0);
        let start = match self.rows.get(&key) {
            Some(value) => match rows::decode_row(&key, value)? {
                TopicRow::Start(_, start) => start,
                _ => 0,
            },
            None => 0,
        };
        self.log.messages_with_position(|position, at, key, value| {
            if position >= start && Namespace(namespace).has_message(key) {
                see(at, key, value);
            }
        })
    }

    /// Returns when the rows are committed.
    fn append(&mut self, page: &TopicRows, renew: Renew<'_>) -> Result<(), LogMoveError> {
        if page.is_empty() {
            return Ok(());
        }
        self.log.append(page)?;
        commit(|| self.log.sync(), renew)
    }
}

/// The rows of a log that are about all of its namespaces.
#[derive(Debug, Default)]
struct General {
    is_new: bool,
    is_clean: bool,
    floor: u64,
    allowance: u64,
    exact: Vec<String>,
}

impl General {
    fn of(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<General, StoreError> {
        let mut found = General { is_new: rows.is_empty(), is_clean: rows.is_empty(), ..General::default() };
        let mut allowance = None;
        for (key, value) in rows {
            match rows::decode_row(key, value)? {
                TopicRow::GlobalFloor(floor) => found.floor = floor,
                TopicRow::Allowance(messages) => allowance = Some(messages),
                TopicRow::Exact(filters) => found.exact = filters,
                TopicRow::Clean => found.is_clean = true,
                TopicRow::Topic(..)
                | TopicRow::Number(..)
                | TopicRow::Subscription(..)
                | TopicRow::Floor(..)
                | TopicRow::Start(..) => {}
            }
        }
        found.allowance = allowance.unwrap_or(SEQUENCE_BLOCK);
        Ok(found)
    }

    /// The general row of a log that gets a namespace of this one.
    fn join(self, other: &General) -> General {
        // Topics that this log does not know may have had numbers up to its floor.
        let has_floor = self.floor > 0 || !self.is_clean;
        let exact = match (other.is_new, has_floor) {
            (true, _) => self.exact,
            (false, true) => self.exact.into_iter().filter(|filter| other.exact.contains(filter)).collect(),
            (false, false) => other.exact.clone(),
        };
        General {
            is_new: false,
            is_clean: self.is_clean && other.is_clean,
            floor: self.floor.max(other.floor),
            allowance: self.allowance.max(if other.is_new { 0 } else { other.allowance }),
            exact,
        }
    }

    fn write(&self, page: &mut TopicRows) {
        let texts: Vec<&str> = self.exact.iter().map(String::as_str).collect();
        for (key, value) in
            [rows::global_floor(self.floor), rows::allowance(self.allowance), rows::exact_texts(&texts)]
        {
            page.put(&key, &value);
        }
        rows::not_clean(page);
        if self.is_clean {
            let (key, value) = rows::clean();
            page.put(&key, &value);
        }
    }
}
