//! The reaper: removes what has expired, a slice at a time.

use std::sync::Weak;
use std::time::Duration;

use super::{Shared, Topics};

/// The minimum pause between two rounds, whatever the setting says.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The longest time until the position of a stream in durable topics and events is saved.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

impl Topics {
    /// Starts the tasks that reap and save positions until the broker stops.
    pub(crate) fn start_reaper(&self) {
        let interval = self.shared.settings.topics.reap_interval.max(INTERVAL_MIN);
        let shared = std::sync::Arc::downgrade(&self.shared);
        tokio::spawn(run_reaper(Weak::clone(&shared), interval));
        tokio::spawn(run_position_saver(shared));
    }
}

/// Saves the positions of the streams, however few messages they took.
async fn run_position_saver(topics: Weak<Shared>) {
    loop {
        tokio::time::sleep(NOTE_INTERVAL).await;
        let Some(shared) = topics.upgrade() else { return };
        let topics = Topics { shared };
        if topics.is_stopping() {
            return;
        }
        for space in topics.namespaces() {
            space.with(|state, _| state.note_all());
        }
    }
}

async fn run_reaper(topics: Weak<Shared>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let Some(shared) = topics.upgrade() else { return };
        let topics = Topics { shared };
        if topics.is_stopping() {
            return;
        }
        for space in topics.namespaces() {
            while space.with(|state, now| {
                let reaped = state.shard.reap(now, &mut state.wake);
                for id in &reaped.ended {
                    state.events_from.remove(id);
                }
                reaped.more
            }) {
                tokio::task::yield_now().await;
            }
        }
        while topics.requests().expire(topics.now()) {
            tokio::task::yield_now().await;
        }
        topics.refresh_figures();
    }
}
