//! Follow: a watch that reads the log, outside the hub's turn, until it has caught up with the present.

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::{Event, SessionId};
use tenure_store::Events;

use crate::core::Core;
use crate::handle::{HubHandle, Inbound};
use crate::mailbox::Mailbox;
use crate::request::Delivery;
use crate::watches::WatchInterest;

/// How many events are read at first, how many at most, and how many bytes of them at a time from then on.
const READ_FIRST: usize = 64;
const READ_MAX: usize = 1_024;
const READ_BYTES: usize = 1024 * 1024;
/// How often a follower looks whether its peer has made room.
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
    /// The watches of one session read one at a time: what each adds is seen by the next before it reads.
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
                        // Decided but not on disk yet.
                        tokio::time::sleep(ROOM_INTERVAL).await;
                    }
                    count = next_count(&events);
                    from = match self.put(events, until) {
                        Put::All => next,
                        Put::Until(seq) => seq,
                        Put::Over => return,
                    };
                }
                Ok(Ok(Events::Gap { oldest })) => {
                    self.mailbox.put(Delivery::Gap { watch: self.watch.1, from, oldest });
                    from = oldest;
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, from, "the event log cannot be read");
                    self.mailbox.close();
                    return;
                }
                Err(_) => return,
            }
        }
        let life = self.wanted.life;
        self.handle.send(Inbound::HasRead { watch: self.watch, life, next: from.min(until) });
    }

    /// Adds events as long as there is room.
    fn put(&self, events: Vec<Event>, until: u64) -> Put {
        for event in events.into_iter().filter(|event| event.seq < until) {
            if self.wanted.life.is_over() {
                return Put::Over;
            }
            if self.wanted.matches(&event) {
                if !self.mailbox.has_room_for_events() {
                    return Put::Until(event.seq);
                }
                self.mailbox.put(Delivery::Event { watch: self.watch.1, event: Arc::new(event) });
            }
        }
        Put::All
    }

    /// Waits until the peer has taken enough of what is there. Says whether it still wants the rest.
    async fn has_room(&self) -> bool {
        let is_over = || self.mailbox.is_ended() || self.wanted.life.is_over();
        while !self.mailbox.has_room_for_events() && !is_over() {
            tokio::time::sleep(ROOM_INTERVAL).await;
        }
        !is_over()
    }
}

enum Put {
    All,
    /// The mailbox is full: this event is the next one.
    Until(u64),
    /// Nobody wants them any more.
    Over,
}

/// How many events to read next, if they are as large as these.
fn next_count(events: &[Event]) -> usize {
    let bytes: usize = events.iter().map(Event::size).sum();
    (READ_BYTES * events.len().max(1) / bytes.max(1)).clamp(1, READ_MAX)
}
