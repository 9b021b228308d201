//! Follow: reads the log for a watch, outside the hub's turn, until the watch has caught up.

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::{Event, SessionId};
use tenure_store::Events;

use crate::core::Core;
use crate::handle::{HubHandle, Inbound};
use crate::mailbox::Mailbox;
use crate::request::Delivery;
use crate::watches::WatchInterest;

/// How many events the first read takes, the maximum per read, and how many bytes later reads aim for.
const READ_FIRST: usize = 64;
const READ_MAX: usize = 1_024;
const READ_BYTES: usize = 1024 * 1024;
/// How often a follower checks whether the mailbox has room.
const ROOM_INTERVAL: Duration = Duration::from_millis(5);

/// Reads the log for a watch, from `from` up to `until`, and reports back to the hub.
pub(crate) fn follow(handle: &HubHandle, core: &mut Core, watch: (SessionId, u64), from: u64, until: u64) {
    let Some((mailbox, wanted)) = core.reading(watch) else { return };
    let follower = Follower { handle: handle.clone(), mailbox, watch, wanted };
    tokio::spawn(follower.read(from, until));
}

struct Follower {
    handle: HubHandle,
    mailbox: Arc<Mailbox>,
    watch: (SessionId, u64),
    wanted: WatchInterest,
}

impl Follower {
    /// The watches of one session read one at a time, so that each sees what the previous one added to the
    /// mailbox.
    async fn read(self, mut from: u64, until: u64) {
        let mut count = READ_FIRST;
        loop {
            let _turn = self.mailbox.read_turn().await;
            if !self.has_room().await {
                return;
            }
            if from >= until {
                break;
            }
            let reader = self.handle.reader().clone();
            let place = self.handle.log_read().await;
            let read = tokio::task::spawn_blocking(move || reader.events(from, count)).await;
            drop(place);
            match read {
                Ok(Ok(Events::Some { events, next })) => {
                    if next == from {
                        // The events are decided but not on disk yet.
                        tokio::time::sleep(ROOM_INTERVAL).await;
                    }
                    count = next_count(&events);
                    from = match self.put(events, until) {
                        PushResult::All => next,
                        PushResult::Until(seq) => seq,
                        PushResult::Over => return,
                    };
                }
                Ok(Ok(Events::Gap { oldest })) => {
                    self.mailbox.put(Delivery::Gap { watch: self.watch.1, from, oldest });
                    from = oldest;
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, from, "the event log cannot be read; stop the broker and run `tenure journal verify`");
                    self.mailbox.close();
                    return;
                }
                Err(_) => return,
            }
        }
        let life = self.wanted.life;
        self.handle.send(Inbound::HasRead { watch: self.watch, life, next: from.min(until) });
    }

    /// Adds events while the mailbox has room.
    fn put(&self, events: Vec<Event>, until: u64) -> PushResult {
        for event in events.into_iter().filter(|event| event.seq < until) {
            if self.wanted.life.is_over() {
                return PushResult::Over;
            }
            if self.wanted.matches(&event) {
                if !self.mailbox.has_room_for_events() {
                    return PushResult::Until(event.seq);
                }
                self.mailbox.put(Delivery::Event { watch: self.watch.1, event: Arc::new(event) });
            }
        }
        PushResult::All
    }

    /// Waits until the mailbox has room. Returns whether the watch still exists.
    async fn has_room(&self) -> bool {
        let is_over = || self.mailbox.is_ended() || self.wanted.life.is_over();
        while !self.mailbox.has_room_for_events() && !is_over() {
            tokio::time::sleep(ROOM_INTERVAL).await;
        }
        !is_over()
    }
}

enum PushResult {
    All,
    /// The mailbox is full: continue with this event.
    Until(u64),
    /// The watch has ended.
    Over,
}

/// How many events to read next, assuming they are as large as these.
fn next_count(events: &[Event]) -> usize {
    let bytes: usize = events.iter().map(Event::size).sum();
    (READ_BYTES * events.len().max(1) / bytes.max(1)).clamp(1, READ_MAX)
}
