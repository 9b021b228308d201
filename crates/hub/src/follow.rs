//! Follow: reads the log for a watch, outside the hub's turn, until the watch has caught up.

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::{Event, SessionId};
use tenure_store::{Events, ReadError, Reader};

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
    let follower = Follower { handle: handle.clone(), mailbox, watch, wanted: Arc::new(wanted) };
    tokio::spawn(follower.read(from, until));
}

struct Follower {
    handle: HubHandle,
    mailbox: Arc<Mailbox>,
    watch: (SessionId, u64),
    wanted: Arc<WatchInterest>,
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
            let place = self.handle.log_read().await;
            let range = self.range(from, count, until);
            let read = tokio::task::spawn_blocking(move || range.deliver()).await;
            drop(place);
            match read {
                Ok(Ok(Delivered::Over)) => return,
                Ok(Ok(Delivered::Until { next, next_count })) => {
                    if next == from {
                        // The events are decided but not on disk yet.
                        tokio::time::sleep(ROOM_INTERVAL).await;
                    }
                    (from, count) = (next, next_count);
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, from, "the event log cannot be read; stop the broker and run `tenure journal verify`");
                    self.mailbox.close();
                    return;
                }
                Err(_) => return,
            }
        }
        let life = self.wanted.life.clone();
        self.handle.send(Inbound::HasRead { watch: self.watch, life, next: from.min(until) });
    }

    fn range(&self, from: u64, count: usize, until: u64) -> EventRange {
        EventRange {
            reader: self.handle.reader().clone(),
            mailbox: Arc::clone(&self.mailbox),
            watch: self.watch.1,
            wanted: Arc::clone(&self.wanted),
            from,
            count,
            until,
        }
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

/// A part of the log for one watch. Reading and decoding it and comparing its events with the filter takes no time of the
/// hub's thread.
struct EventRange {
    reader: Reader,
    mailbox: Arc<Mailbox>,
    watch: u64,
    wanted: Arc<WatchInterest>,
    from: u64,
    count: usize,
    until: u64,
}

enum Delivered {
    /// Continue with this event, and read as many.
    Until { next: u64, next_count: usize },
    /// The watch has ended.
    Over,
}

impl EventRange {
    /// Adds the events that the watch wants while the mailbox has room.
    fn deliver(self) -> Result<Delivered, ReadError> {
        let (events, next) = match self.reader.events(self.from, self.count)? {
            Events::Some { events, next } => (events, next),
            Events::Gap { oldest } => {
                self.mailbox.put(Delivery::Gap { watch: self.watch, from: self.from, oldest });
                return Ok(Delivered::Until { next: oldest, next_count: self.count });
            }
        };
        let next_count = next_count(&events);
        let wanted = events.into_iter().filter(|event| event.seq < self.until && self.wanted.matches(event));
        let delivery = |event| Delivery::Event { watch: self.watch, event: Arc::new(event) };
        let mut wanted: Vec<Delivery> = wanted.map(delivery).collect();
        if self.wanted.life.is_over() {
            return Ok(Delivered::Over);
        }
        self.mailbox.put_events(&mut wanted);
        let next = match wanted.first() {
            Some(Delivery::Event { event, .. }) => event.seq,
            _ => next,
        };
        Ok(Delivered::Until { next, next_count })
    }
}

/// How many events to read next, assuming they are as large as these.
fn next_count(events: &[Event]) -> usize {
    let bytes: usize = events.iter().map(Event::size).sum();
    (READ_BYTES * events.len().max(1) / bytes.max(1)).clamp(1, READ_MAX)
}
