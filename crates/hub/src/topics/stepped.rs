//! Topics whose thread and clock are under the simulator's control.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_store::{Reader, StoreError};
use tenure_topics::Timestamp;

use super::clock::TopicClock;
use super::saver::Saver;
use super::{TopicSettings, Topics};

#[derive(Debug)]
pub struct SteppedTopics {
    topics: Topics,
    saver: Saver,
    clock: Arc<AtomicU64>,
}

impl SteppedTopics {
    /// Opens the log and restores everything, at this time.
    pub fn open(
        reader: &Reader,
        settings: TopicSettings,
        now: Timestamp,
    ) -> Result<SteppedTopics, StoreError> {
        let clock = Arc::new(AtomicU64::new(now.0));
        let (topics, saver) = Topics::open_with(reader, settings, TopicClock::Set(Arc::clone(&clock)))?;
        Ok(SteppedTopics { topics, saver, clock })
    }

    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    pub fn set_time(&self, now: Timestamp) {
        self.clock.store(now.0, Ordering::Relaxed);
    }

    /// Runs the saver once. Publishers of durable messages get their results, and subscribers their messages.
    pub fn save(&mut self) -> Result<(), StoreError> {
        self.saver.step()
    }

    /// Saves the positions of the streams and reaps, as the background tasks do periodically.
    pub fn tick(&self) {
        for space in self.topics.spaces() {
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
