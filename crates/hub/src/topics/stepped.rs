//! Topics whose thread and clock are under the simulator's control.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tenure_store::{Reader, StoreError};
use tenure_topics::Timestamp;

use super::clock::{SetClock, TopicClock};
use super::saver::Saver;
use super::{TopicSettings, Topics};

/// Topics whose clock and threads the caller steps.
#[derive(Debug)]
pub struct SteppedTopics {
    topics: Topics,
    saver: Saver,
    clock: Arc<SetClock>,
}

impl SteppedTopics {
    /// Opens the log and restores everything, at this time.
    pub fn open(
        reader: &Reader,
        settings: TopicSettings,
        now: Timestamp,
    ) -> Result<SteppedTopics, StoreError> {
        let clock = Arc::new(SetClock { millis: AtomicU64::new(now.0), wall_ahead: AtomicI64::new(0) });
        let (topics, saver) = Topics::open_with(reader, settings, TopicClock::Set(Arc::clone(&clock)))?;
        Ok(SteppedTopics { topics, saver, clock })
    }

    /// The topics.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Lets time pass until this moment.
    pub fn set_time(&self, now: Timestamp) {
        self.clock.millis.store(now.0, Ordering::Relaxed);
    }

    /// Sets the time of day: it is this many milliseconds ahead of the time that has passed.
    pub fn set_wall_ahead(&self, millis: i64) {
        self.clock.wall_ahead.store(millis, Ordering::Relaxed);
    }

    /// Runs the saver once. Publishers of durable messages get their results, and subscribers their messages.
    pub fn save(&mut self) -> Result<(), StoreError> {
        self.saver.step()
    }

    /// Saves the positions of the streams and reaps, as the background tasks do periodically.
    pub fn tick(&self) {
        for space in self.topics.namespaces() {
            space.with(|state, now| {
                state.note_all();
                while state.shard.reap(now, &mut state.wake).more {}
            });
        }
    }

    /// Stops cleanly: ends all streams and writes the final state.
    pub fn stop(mut self) -> Result<(), StoreError> {
        self.topics.end_streams();
        self.saver.step()?;
        self.saver.write_clean(&self.topics)
    }
}
