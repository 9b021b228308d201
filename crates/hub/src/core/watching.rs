//! Watches in the core: they begin, receive events while the mailbox has room, and otherwise read the log.

use std::sync::Arc;

use tenure_engine::{Event, Name, Peer, Refusal, SessionId};
use tenure_store::{Events, Reader};

use super::Core;
use crate::mailbox::Mailbox;
use crate::outbox::OutboxItem;
use crate::refusal::HubRefusal;
use crate::request::{Delivery, Response, Watch};
use crate::watches::{SAME_WATCHES_MAX, WATCHES_MAX, WatchCatchUp, WatchInterest, WatchKey};

/// How many events may be gathered for all sessions together before they are moved into the mailboxes.
const GATHERED_MAX: usize = 65_536;
/// For how many gathered events a session keeps memory.
const GATHERED_SPARE_MAX: usize = 1_024;

/// The events that are on disk and not in the mailboxes yet. There is none between two turns.
#[derive(Debug, Default)]
pub(super) struct GatheredEvents {
    /// The sessions for which there are any.
    sessions: Vec<SessionId>,
    events: usize,
}

impl Core {
    /// The watches that have just begun or fallen behind, with the first event each needs.
    pub fn take_to_read(&mut self) -> Vec<(WatchKey, u64)> {
        std::mem::take(&mut self.to_read)
    }

    /// The mailbox and the interest of a watch, for a follower that reads the log for it.
    pub(crate) fn reading(&self, key: WatchKey) -> Option<(Arc<Mailbox>, WatchInterest)> {
        let wanted = self.watches.wanted(key)?;
        Some((Arc::clone(&self.sessions.get(&key.0)?.mailbox), wanted))
    }

    /// Where the events of a watch go, and the namespace that they are about.
    pub(crate) fn begins(&self, key: WatchKey) -> Option<(Arc<Mailbox>, Name)> {
        let entry = self.sessions.get(&key.0)?;
        Some((Arc::clone(&entry.mailbox), entry.peer.namespace.clone()))
    }

    /// A watch has read the log up to `next`. Returns `None` if it is live now or has ended, else the range
    /// of events that it still has to read once its mailbox has room.
    pub fn has_read(&mut self, key: WatchKey, next: u64) -> Option<(u64, u64)> {
        let entry = self.sessions.get(&key.0)?;
        let mailbox = Arc::clone(&entry.mailbox);
        let caught = self.watches.catch_up(key, next, |missed| mailbox.put_events(missed));
        match caught {
            WatchCatchUp::Live => {
                mailbox.put(Delivery::Live { watch: key.1, next: self.watches.next() });
                None
            }
            WatchCatchUp::Read { from, until } => Some((from, until)),
            WatchCatchUp::Gone => None,
        }
    }

    /// Reads the log for a watch synchronously, for callers without a separate task. The runtime uses
    /// `follow.rs`.
    pub fn read_log(&mut self, watch: WatchKey, mut from: u64, reader: &Reader) {
        while let Some((begin, until)) = self.has_read(watch, from) {
            from = begin;
            let Some((mailbox, wanted)) = self.reading(watch) else { return };
            match reader.events(from, (until - from) as usize) {
                Ok(Events::Some { events, next }) if next > from => {
                    for event in events.into_iter().filter(|event| wanted.matches(event)) {
                        mailbox.put(Delivery::Event { watch: watch.1, event: Arc::new(event) });
                    }
                    from = next;
                }
                Ok(Events::Gap { oldest }) => {
                    mailbox.put(Delivery::Gap { watch: watch.1, from, oldest });
                    from = oldest;
                }
                // Not on disk yet, or not readable: try again after the next events are sent.
                Ok(Events::Some { .. }) | Err(_) => return self.to_read.push((watch, from)),
            }
        }
    }

    pub(super) fn watch(&mut self, peer: &Peer, token: u64, watch: Watch) {
        let key = (peer.session, watch.watch);
        let Some(entry) = self.sessions.get_mut(&peer.session) else { return };
        if entry.watches.len() >= WATCHES_MAX {
            return self.reply(
                peer.session,
                token,
                Err(Refusal::TooMany { what: "watches", limit: WATCHES_MAX }.into()),
            );
        }
        if self.watches.same(peer.session, &peer.namespace, &watch.filter) >= SAME_WATCHES_MAX {
            let no = Refusal::TooMany { what: "watches that follow the same", limit: SAME_WATCHES_MAX };
            return self.reply(peer.session, token, Err(no.into()));
        }
        entry.watches.insert(watch.watch);
        let next = self.engine.last_event() + 1;
        let wanted = watch.from.unwrap_or(next);
        // A client may know a later log than this one, which comes from an older backup.
        let from = wanted.min(next);
        self.watches.add(key, peer.namespace.clone(), watch.filter, from, self.engine.last_event());
        self.reply(peer.session, token, Ok(Response::Done));
        if from < wanted {
            let delivery = Delivery::Gap { watch: watch.watch, from: wanted, oldest: from };
            self.outbox.push(OutboxItem::Other { session: peer.session, delivery });
        }
        self.outbox.push(OutboxItem::Begin { watch: key, from });
    }

    pub(super) fn unwatch(&mut self, session: SessionId, watch: u64) -> Result<Response, HubRefusal> {
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.watches.remove(&watch);
        }
        self.watches.remove((session, watch));
        Ok(Response::Done)
    }

    /// Gathers an event for the sessions that watch it. A mailbox gets the events of a turn at once, because a lock and
    /// a wake-up for each of them would cost more than deciding it.
    pub(super) fn publish(&mut self, event: &Arc<Event>) {
        let Core { watches, sessions, gathered, .. } = self;
        watches.publish(event, |(session, watch)| {
            let Some(entry) = sessions.get_mut(&session) else { return };
            if entry.gathered.is_empty() {
                gathered.sessions.push(session);
            }
            entry.gathered.push(Delivery::Event { watch, event: Arc::clone(event) });
            gathered.events += 1;
        });
        if self.gathered.events >= GATHERED_MAX {
            self.put_gathered();
        }
    }

    /// Moves all gathered events into the mailboxes.
    pub(super) fn put_gathered(&mut self) {
        let mut sessions = std::mem::take(&mut self.gathered.sessions);
        for session in sessions.drain(..) {
            self.put_gathered_of(session);
        }
        self.gathered = GatheredEvents { sessions, events: 0 };
    }

    /// Moves the gathered events of one session into its mailbox, before something else goes there. A watch whose events
    /// find no room reads the log later.
    pub(super) fn put_gathered_of(&mut self, session: SessionId) {
        let Core { watches, sessions, to_read, stats, .. } = self;
        let Some(entry) = sessions.get_mut(&session) else { return };
        if entry.gathered.is_empty() {
            return;
        }
        entry.mailbox.put_events(&mut entry.gathered);
        for left in entry.gathered.drain(..) {
            if let Delivery::Event { watch, event } = left
                && watches.fall_behind((session, watch))
            {
                stats.watches_lagged_total += 1;
                to_read.push(((session, watch), event.seq));
            }
        }
        entry.gathered.shrink_to(GATHERED_SPARE_MAX);
    }
}
