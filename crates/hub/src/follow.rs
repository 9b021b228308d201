//! Follow: a watch that reads the log, outside the hub's turn, until it has caught up with the present.

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::SessionId;
use tenure_store::Events;

use crate::core::Core;
use crate::handle::{HubHandle, Inbound};
use crate::mailbox::Mailbox;
use crate::request::Delivery;
use crate::watches::{MAILBOX_EVENTS_MAX, Wanted};

/// How many events are read at a time.
const READ_MAX: usize = 1_024;
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
    wanted: Wanted,
}

impl Follower {
    async fn read(self, mut from: u64, until: u64) {
        while from < until {
            if !self.has_room().await {
                return;
            }
            let reader = self.handle.reader().clone();
            let read = tokio::task::spawn_blocking(move || reader.events(from, READ_MAX)).await;
            match read {
                Ok(Ok(Events::Some { events, next })) => {
                    for event in events.into_iter().filter(|event| event.seq < until) {
                        if self.wanted.life.is_over() {
                            return;
                        }
                        if self.wanted.matches(&event) {
                            self.mailbox.put(Delivery::Event { watch: self.watch.1, event: Arc::new(event) });
                        }
                    }
                    if next == from {
                        // Decided but not on disk yet.
                        tokio::time::sleep(ROOM_INTERVAL).await;
                    }
                    from = next;
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

    /// Waits until the peer has taken enough of what is there. Says whether it still wants the rest.
    async fn has_room(&self) -> bool {
        let is_over = || self.mailbox.is_closed() || self.wanted.life.is_over();
        while self.mailbox.len() >= MAILBOX_EVENTS_MAX && !is_over() {
            tokio::time::sleep(ROOM_INTERVAL).await;
        }
        !is_over()
    }
}
