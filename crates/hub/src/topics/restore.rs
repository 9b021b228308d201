//! Restores topics and paused subscriptions from the rows and messages of the log.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tenure_engine::Name;
use tenure_store::{AppendError, Reader, ReplicationError, StoreError, TopicLog, TopicRows, TopicsOpened};
use tenure_topics::{
    SEQUENCE_BLOCK, SavedMessage, Sequence, ShutdownKind, Snapshot, Timestamp, TopicFilter, TopicRefusal,
};

use super::allowance::Allowance;
use super::clock::TopicClock;
use super::namespace::{Durable, TopicsState};
use super::rows::{self, TopicRow};
use super::saver::{Saver, SaverChannels};
use super::{TopicSettings, Topics};

/// How long a start waits for the replicated journal, and how soon it asks again.
const AWAY_MAX: Duration = Duration::from_secs(10);
const AWAY_RETRY: Duration = Duration::from_millis(20);

impl Topics {
    /// Opens the log beside the journal, restores everything, and returns the saver.
    pub(crate) fn open(reader: &Reader, settings: TopicSettings) -> Result<(Topics, Saver), StoreError> {
        Topics::open_with(reader, settings, TopicClock::default())
    }

    pub(super) fn open_with(
        reader: &Reader,
        settings: TopicSettings,
        clock: TopicClock,
    ) -> Result<(Topics, Saver), StoreError> {
        let TopicsOpened { mut log, rows, cut } = reader.open_topics(settings.log.clone())?;
        if let Some(cut) = cut {
            tracing::warn!(
                file = cut.file,
                offset = cut.offset,
                why = cut.why,
                "the topic log ended in an incomplete frame; it was cut off"
            );
        }
        let (line, notes) = SaverChannels::new(Allowance::new(settings.topics.sequence_block), clock);
        let topics = Topics::new(settings, line);
        let mut known = Vec::with_capacity(rows.len());
        for (key, value) in rows {
            known.push(rows::decode_row(&key, &value)?);
        }
        topics.restore(&mut log, known)?;
        let saver = Saver::new(&topics, log, notes);
        Ok((topics, saver))
    }

    fn restore(&self, log: &mut TopicLog, rows: Vec<TopicRow>) -> Result<(), StoreError> {
        let is_new = rows.is_empty();
        let clean = rows.iter().any(|row| matches!(row, TopicRow::Clean));
        let stop = if clean || is_new { ShutdownKind::Clean } else { ShutdownKind::Unclean };
        let allowance = self.allowance_of(&rows);
        let floor = floor_of(&rows, stop, allowance);
        // A log is restored once.
        let _ = self.shared.exact.set(exact(&self.shared.settings.durable, &rows, floor));
        let _ = self.shared.starts.set(starts(&rows, log.start()));
        // Known topics have their own numbers. Only what is restored after them begins above the floor,
        // including a topic that only a subscription refers to.
        let (topics, others): (Vec<TopicRow>, Vec<TopicRow>) =
            rows.into_iter().partition(|row| matches!(row, TopicRow::Topic(..) | TopicRow::Number(..)));
        for row in topics {
            self.restore_row(row, stop, allowance);
        }
        self.shared.floor.store(floor, Ordering::Release);
        for space in self.namespaces() {
            space.with(|state, _| state.shard.raise_restart_floor(Sequence(floor), self.exact()));
        }
        for row in others {
            self.restore_row(row, stop, allowance);
        }
        self.restore_messages(log)?;
        for space in self.namespaces() {
            space.with(|state, _| state.durable.saved_at.clear());
        }
        if stop == ShutdownKind::Unclean {
            // The skipped numbers must stay skipped even if the next stop is unclean as well.
            return if self.write_all(log, None)? { self.wait_for_sync(log) } else { Err(full_disk()) };
        }
        let mut first = TopicRows::default();
        rows::not_clean(&mut first);
        // Always write these, so that a used log is not taken for a new one.
        for (key, value) in self.general_rows() {
            first.put(&key, &value);
        }
        log.append(&first).map_err(|error| match error {
            tenure_store::WriteError::Fatal(error) => error,
            tenure_store::WriteError::Full { .. } => full_disk(),
        })?;
        self.wait_for_sync(log)
    }

    /// Numbers must not be used before the log says which ones are skipped. A leader waits for the replicated
    /// journal.
    fn wait_for_sync(&self, log: &mut TopicLog) -> Result<(), StoreError> {
        let since = Instant::now();
        loop {
            let why = match log.sync() {
                Ok(()) => return Ok(()),
                Err(AppendError::Fatal(error)) => return Err(error),
                Err(AppendError::Full { .. }) => return Err(full_disk()),
                Err(AppendError::Deposed { holder, epoch }) => {
                    return Err(ReplicationError::Fenced { holder, epoch }.into());
                }
                Err(AppendError::Away { why }) => why,
            };
            if since.elapsed() > AWAY_MAX || !self.shared.saver.clock.is_real() {
                return Err(ReplicationError::Away(why).into());
            }
            std::thread::sleep(AWAY_RETRY);
        }
    }

    /// How many messages may have been published without a trace on disk. Earlier versions did not write
    /// this.
    fn allowance_of(&self, rows: &[TopicRow]) -> u64 {
        let saved = rows.iter().find_map(|row| match row {
            TopicRow::Allowance(messages) => Some(*messages),
            _ => None,
        });
        saved.unwrap_or(SEQUENCE_BLOCK)
    }

    fn restore_row(&self, row: TopicRow, stop: ShutdownKind, allowance: u64) {
        let mut stop = stop;
        let mut subscription = None;
        let is_topic = matches!(row, TopicRow::Topic(..));
        let (namespace, snapshot) = match row {
            TopicRow::Topic(namespace, mut topic) | TopicRow::Number(namespace, mut topic) => {
                // The topic was not durable when this was written: its numbers are reserved in advance.
                let is_reserved = is_topic && topic.sequence > Sequence::ZERO;
                if self.shared.settings.is_durable(&topic.name) && !is_reserved {
                    // The numbers of a durable topic are saved one by one.
                    stop = ShutdownKind::Clean;
                } else if stop == ShutdownKind::Unclean && topic.sequence > Sequence::ZERO {
                    // The topic may have assigned numbers that were not saved before the stop.
                    topic.sequence.0 += allowance;
                }
                (namespace, Snapshot { topics: vec![topic], ..Snapshot::default() })
            }
            TopicRow::Floor(namespace, floor) => {
                (namespace, Snapshot { floors: vec![floor], ..Snapshot::default() })
            }
            TopicRow::Subscription(namespace, row) => {
                subscription = Some((row.saved.id.clone(), row.shown, row.events_from));
                (namespace, Snapshot { subscriptions: vec![row.saved], ..Snapshot::default() })
            }
            TopicRow::Start(..)
            | TopicRow::GlobalFloor(_)
            | TopicRow::Allowance(_)
            | TopicRow::Exact(_)
            | TopicRow::Clean => return,
        };
        let restored = self.space(&namespace).and_then(|space| {
            space.with(|state, now| {
                state.shard.restore(snapshot, stop, now)?;
                if let Some((id, shown, events_from)) = subscription {
                    state.events_from.extend(events_from.map(|from| (id.clone(), from)));
                    state.durable.saved_at.insert(id, shown);
                    state.durable.was_at(shown);
                }
                Ok(())
            })
        });
        self.log_refusal(&restored);
    }

    fn restore_messages(&self, log: &TopicLog) -> Result<(), StoreError> {
        let oldest = self
            .shared
            .saver
            .clock
            .wall()
            .0
            .saturating_sub(self.shared.settings.log.kept_for.as_millis() as u64);
        let mut failed = None;
        log.messages_with_position(|position, at, key, value| {
            if at.millis() < oldest || failed.is_some() {
                return;
            }
            match rows::decode_message(key, value) {
                Ok((namespace, ..))
                    if self.starts().get(&namespace).is_some_and(|start| position < *start) => {}
                Ok((namespace, topic, message)) => {
                    let restored = self.space(&namespace).and_then(|space| {
                        space.with(|state, now| restore_message(state, &topic, message, now))
                    });
                    self.log_refusal(&restored);
                }
                Err(error) => failed = Some(error),
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Logs a refusal: after a limit was lowered, something may be left out. The rest is restored.
    fn log_refusal(&self, restored: &Result<(), TopicRefusal>) {
        if let Err(refusal) = restored {
            tracing::warn!(why = %refusal, "saved topic state exceeds a limit and was not restored");
        }
    }
}

/// Restores a durable message. Subscriptions that were saved before it was published have missed it, or may
/// have.
fn restore_message(
    state: &mut TopicsState,
    topic: &str,
    message: SavedMessage,
    now: Timestamp,
) -> Result<(), TopicRefusal> {
    let SavedMessage { sequence, place, .. } = message;
    state.shard.restore_message(topic, message, now)?;
    let Durable { saved_at, .. } = &state.durable;
    state.shard.missed(topic, sequence, |id| saved_at.get(id).is_some_and(|saved| *saved < place));
    state.durable.was_at(place);
    Ok(())
}

fn full_disk() -> StoreError {
    let source = std::io::ErrorKind::StorageFull.into();
    StoreError::Io { doing: "writing", file: "the topic log".to_owned(), source }
}

/// After an unclean stop, a topic may have been created and numbered without being saved. Unknown topics
/// begin above every number that such a topic can have used.
fn floor_of(rows: &[TopicRow], stop: ShutdownKind, allowance: u64) -> u64 {
    let mut floor = 0;
    let mut highest = 0;
    for row in rows {
        match row {
            TopicRow::GlobalFloor(saved) => floor = *saved,
            TopicRow::Floor(_, saved) => highest = highest.max(saved.sequence.0),
            TopicRow::Topic(..)
            | TopicRow::Number(..)
            | TopicRow::Subscription(..)
            | TopicRow::Start(..)
            | TopicRow::Allowance(_)
            | TopicRow::Exact(_)
            | TopicRow::Clean => {}
        }
    }
    match stop {
        ShutdownKind::Clean => floor,
        ShutdownKind::Unclean => floor.max(highest) + allowance,
    }
}

/// Where namespaces begin in the log, as long as it has anything from before that.
fn starts(rows: &[TopicRow], log_start: u64) -> BTreeMap<Name, u64> {
    let start_of = |row: &TopicRow| match row {
        TopicRow::Start(namespace, position) if *position > log_start => {
            Some((Name::clone(namespace), *position))
        }
        _ => None,
    };
    rows.iter().filter_map(start_of).collect()
}

/// The durable topics whose numbers are all on disk, so that an unknown one begins at 1.
///
/// A topic that was not durable at a crash may have assigned numbers that are not on disk. It begins above
/// the floor as long as the log exists, even if it has become durable since then.
fn exact(durable: &[TopicFilter], rows: &[TopicRow], floor: u64) -> Vec<TopicFilter> {
    if floor == 0 {
        return durable.to_vec();
    }
    let saved = rows.iter().find_map(|row| match row {
        TopicRow::Exact(filters) => Some(filters.as_slice()),
        _ => None,
    });
    // Earlier versions did not write them.
    let saved = saved.unwrap_or_default();
    durable.iter().filter(|filter| saved.iter().any(|one| one == filter.as_str())).cloned().collect()
}
