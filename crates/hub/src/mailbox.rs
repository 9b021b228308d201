//! A session's mailbox. The hub puts deliveries in and never waits; the door takes them in portions.
//!
//! Every delivery counts in bytes from `put` to `take`, for its session and for all sessions together.
//! Watches and queries of a session stop at its limit; when all sessions together are over theirs, the hub
//! ends the session with the most unread bytes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{MutexGuard as Turn, Notify};

use crate::limits::{MAILBOX_EVENT_BYTES_MAX, MAILBOX_EVENTS_MAX, TAKE_BYTES_MAX};
use crate::request::Delivery;

/// The messages that a session has been sent and has not read yet.
#[derive(Debug, Default)]
pub struct Mailbox {
    content: Mutex<Content>,
    arrived: Notify,
    closed: AtomicBool,
    /// Shared by all mailboxes of the hub.
    unread: Arc<UnreadBytes>,
    /// Held by the watch that reads the log for this session. Two at once would both count the same free
    /// room.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Content {
    deliveries: Vec<Delivery>,
    bytes: usize,
}

/// The unread bytes of all mailboxes.
#[derive(Debug, Default)]
pub struct UnreadBytes(AtomicUsize);

impl UnreadBytes {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Mailbox {
    /// An empty mailbox.
    pub fn new(unread: Arc<UnreadBytes>) -> Mailbox {
        Mailbox {
            content: Mutex::default(),
            arrived: Notify::default(),
            closed: AtomicBool::default(),
            unread,
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// Appends what has arrived to `into`: everything, or up to a limit of bytes. Returns whether `into`
    /// holds anything afterwards.
    pub fn take(&self, into: &mut Vec<Delivery>) -> bool {
        let mut content = self.lock();
        let bytes = if content.bytes <= TAKE_BYTES_MAX {
            let Content { deliveries, bytes } = &mut *content;
            if into.is_empty() {
                std::mem::swap(into, deliveries);
            } else {
                into.append(deliveries);
            }
            std::mem::take(bytes)
        } else {
            let mut taken = 0;
            let fits = |delivery: &&Delivery| {
                let has_room = taken < TAKE_BYTES_MAX;
                taken += if has_room { delivery.bytes() } else { 0 };
                has_room
            };
            let count = content.deliveries.iter().take_while(fits).count();
            into.extend(content.deliveries.drain(..count));
            content.bytes -= taken;
            taken
        };
        drop(content);
        self.unread.0.fetch_sub(bytes, Ordering::Relaxed);
        !into.is_empty()
    }

    /// Waits until a delivery arrives or the hub closes the mailbox. Returns at once if there is one. Several
    /// tasks may wait; a delivery wakes one of them.
    pub async fn arrived(&self) {
        loop {
            let arrived = self.arrived.notified();
            if !self.lock().deliveries.is_empty() || self.is_ended() {
                return;
            }
            arrived.await;
        }
    }

    /// The hub has stopped or dropped the session: the mailbox is empty, and nothing more will arrive.
    pub fn is_closed(&self) -> bool {
        self.is_ended() && self.lock().deliveries.is_empty()
    }

    /// The approximate number of bytes that wait here.
    pub fn unread_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// How many deliveries wait.
    pub fn waiting(&self) -> usize {
        self.lock().deliveries.len()
    }

    /// Adds a delivery. Returns its size.
    pub(crate) fn put(&self, delivery: Delivery) -> usize {
        let bytes = delivery.bytes();
        let was_empty = {
            let mut content = self.lock();
            if self.is_ended() {
                return bytes;
            }
            // Count it before a door can take it.
            self.unread.0.fetch_add(bytes, Ordering::Relaxed);
            content.bytes += bytes;
            content.deliveries.push(delivery);
            content.deliveries.len() == 1
        };
        if was_empty {
            self.arrived.notify_one();
        }
        bytes
    }

    /// Adds events as long as they fit, with one lock and one wake-up for all of them. Leaves those that do not fit,
    /// which have to be read from the log later.
    pub(crate) fn put_events(&self, events: &mut Vec<Delivery>) {
        let is_first = {
            let mut content = self.lock();
            if self.is_ended() {
                return events.clear();
            }
            let (waiting, bytes_before) = (content.deliveries.len(), content.bytes);
            let mut count = 0;
            while count < events.len()
                && waiting + count < MAILBOX_EVENTS_MAX
                && content.bytes < MAILBOX_EVENT_BYTES_MAX
            {
                content.bytes += events[count].bytes();
                count += 1;
            }
            // Count them before a door can take them.
            self.unread.0.fetch_add(content.bytes - bytes_before, Ordering::Relaxed);
            if waiting == 0 && count == events.len() {
                std::mem::swap(&mut content.deliveries, events);
            } else {
                content.deliveries.extend(events.drain(..count));
            }
            waiting == 0 && count > 0
        };
        if is_first {
            self.arrived.notify_one();
        }
    }

    /// Whether one more event fits, or has to be read from the log later.
    pub(crate) fn has_room_for_events(&self) -> bool {
        let content = self.lock();
        content.deliveries.len() < MAILBOX_EVENTS_MAX && content.bytes < MAILBOX_EVENT_BYTES_MAX
    }

    /// Waits until no other watch of this session reads the log.
    pub(crate) async fn read_turn(&self) -> Turn<'_, ()> {
        self.reading.lock().await
    }

    /// Closes the mailbox. Whether the hub has stopped or dropped the session, the door can still take what
    /// is here.
    pub(crate) fn close(&self) {
        {
            let _content = self.lock();
            self.closed.store(true, Ordering::Release);
        }
        // A task that starts waiting later checks `is_closed` first.
        self.arrived.notify_waiters();
    }

    /// Drops the content, adds a last delivery, and closes. Returns the number of dropped bytes.
    pub(crate) fn close_with(&self, last: Delivery) -> usize {
        let thrown_away = std::mem::take(&mut *self.lock());
        self.unread.0.fetch_sub(thrown_away.bytes, Ordering::Relaxed);
        self.put(last);
        self.close();
        thrown_away.bytes
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        // A panic elsewhere leaves the list consistent: pushing and swapping cannot stop half-way.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let bytes = self.lock().bytes;
        self.unread.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenure_engine::event::{EventData, EventSubject};
    use tenure_engine::{Event, Timestamp};

    use super::*;
    use crate::request::CallAnswer;

    fn large(bytes: usize) -> Delivery {
        Delivery::CallAnswered { token: 0, answer: CallAnswer::Result(Bytes::from(vec![0; bytes])) }
    }

    #[test]
    fn bytes_are_counted_from_put_to_take_and_a_large_mailbox_is_taken_in_portions() {
        let unread = Arc::new(UnreadBytes::default());
        let [one, two] = [(); 2].map(|()| Mailbox::new(Arc::clone(&unread)));
        let put = two.put(Delivery::Goodbye);
        let each = one.put(large(TAKE_BYTES_MAX / 2));
        assert!(each > TAKE_BYTES_MAX / 2);
        for _ in 0..3 {
            one.put(large(TAKE_BYTES_MAX / 2));
        }
        assert_eq!(one.unread_bytes(), 4 * each);
        assert_eq!(unread.get(), 4 * each + put);
        let mut taken = Vec::new();
        assert!(one.take(&mut taken));
        assert_eq!(taken.len(), 2, "the rest waits");
        assert_eq!(unread.get(), 2 * each + put);
        one.close();
        assert!(!one.is_closed(), "something is left");
        one.take(&mut taken);
        assert_eq!(taken.len(), 4);
        assert!(one.is_closed());
        drop(two);
        assert_eq!(unread.get(), 0);
    }

    #[test]
    fn a_mailbox_that_is_thrown_away_holds_the_last_alone() {
        let unread = Arc::new(UnreadBytes::default());
        let mailbox = Mailbox::new(Arc::clone(&unread));
        let bytes = mailbox.put(large(1_000));
        assert_eq!(mailbox.close_with(Delivery::Goodbye), bytes);
        mailbox.put(large(1_000));
        assert!(unread.get() < 1_000, "nothing is added after the end");
        let mut taken = Vec::new();
        mailbox.take(&mut taken);
        assert!(matches!(taken[..], [Delivery::Goodbye]));
        assert!(mailbox.is_closed());
    }

    fn event(seq: u64) -> Delivery {
        let about = EventSubject::Queue { namespace: "default".into(), queue: "q".into() };
        let event = Event { seq, at: Timestamp(0), about, kind: EventData::QueuePaused };
        Delivery::Event { watch: 1, event: Arc::new(event) }
    }

    #[test]
    fn events_that_do_not_fit_are_left_and_the_others_are_counted() {
        let unread = Arc::new(UnreadBytes::default());
        let mailbox = Mailbox::new(Arc::clone(&unread));
        let each = event(1).bytes();
        let mut events: Vec<Delivery> = (1..=3).map(event).collect();
        mailbox.put_events(&mut events);
        assert!(events.is_empty());
        events.extend((4..=MAILBOX_EVENTS_MAX as u64 + 2).map(event));
        mailbox.put_events(&mut events);
        assert_eq!(mailbox.waiting(), MAILBOX_EVENTS_MAX);
        assert_eq!(unread.get(), MAILBOX_EVENTS_MAX * each);
        let left = |delivery: &Delivery| match delivery {
            Delivery::Event { event, .. } => event.seq,
            other => panic!("{other:?}"),
        };
        let first_left = MAILBOX_EVENTS_MAX as u64 + 1;
        assert_eq!(events.iter().map(left).collect::<Vec<_>>(), [first_left, first_left + 1]);
        let mut taken = Vec::new();
        while mailbox.waiting() > 0 {
            mailbox.take(&mut taken);
        }
        assert!(taken.iter().map(left).eq(1..first_left), "in order");
        assert_eq!(unread.get(), 0);
        mailbox.close();
        mailbox.put_events(&mut events);
        assert!(events.is_empty() && unread.get() == 0, "nothing is added after the end");
    }
}
