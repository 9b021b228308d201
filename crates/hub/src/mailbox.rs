//! A session's mailbox. The hub puts deliveries in and never waits; the door takes all of them at once.
//!
//! It is bounded by what the session has asked for: one reply per request (doors limit how many are under way), one
//! assignment per slot, and a window of events per watch. A stuck peer therefore costs its own window and nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::request::Delivery;

#[derive(Debug, Default)]
pub struct Mailbox {
    content: Mutex<Vec<Delivery>>,
    arrived: Notify,
    closed: AtomicBool,
}

impl Mailbox {
    /// Moves everything that has arrived to the end of `into`. Says whether there was anything.
    pub fn take(&self, into: &mut Vec<Delivery>) -> bool {
        let mut content = self.lock();
        if into.is_empty() {
            std::mem::swap(into, &mut content);
        } else {
            into.append(&mut content);
        }
        !into.is_empty()
    }

    /// Waits until something has arrived or the hub has closed the mailbox. Returns at once if something is there.
    /// Several may wait; one of them is told that something has arrived.
    pub async fn arrived(&self) {
        loop {
            let arrived = self.arrived.notified();
            if !self.lock().is_empty() || self.is_closed() {
                return;
            }
            arrived.await;
        }
    }

    /// The hub is gone or has dropped the session: nothing will arrive any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn put(&self, delivery: Delivery) {
        let was_empty = {
            let mut content = self.lock();
            content.push(delivery);
            content.len() == 1
        };
        if was_empty {
            self.arrived.notify_one();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Whoever comes later sees that it is closed before it waits.
        self.arrived.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Delivery>> {
        // A panic elsewhere leaves a list that is whole: pushing and swapping cannot stop half-way.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
