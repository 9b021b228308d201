//! The reaper: takes out what expired, a slice at a time.

use std::sync::Weak;
use std::time::Duration;

use super::{Shared, Topics, now};

/// The pause between two rounds is never shorter, whatever the setting says.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

impl Topics {
    /// Starts the task that reaps until the broker stops.
    pub(crate) fn start_reaper(&self) {
        let interval = self.shared.settings.topics.reap_interval.max(INTERVAL_MIN);
        tokio::spawn(reap_for_ever(std::sync::Arc::downgrade(&self.shared), interval));
    }
}

async fn reap_for_ever(topics: Weak<Shared>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let Some(shared) = topics.upgrade() else { return };
        let topics = Topics { shared };
        if topics.is_stopping() {
            return;
        }
        for space in topics.spaces() {
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
        while topics.requests().expire(now()) {
            tokio::task::yield_now().await;
        }
        topics.refresh_figures();
    }
}
