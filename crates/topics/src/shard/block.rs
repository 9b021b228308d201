//! Blocked publishers: which may continue, and what happens after their timeout.

use super::Shard;
use crate::queue::Ticket;
use crate::time::Timestamp;

impl Shard {
    /// The publishes that are no longer blocked, since the last call. While a subscriber blocks, call this
    /// after every take, publish, pause, unsubscribe, reap and give-up. It may return tickets that no
    /// publisher waits for any more.
    pub fn released(&mut self) -> Vec<Ticket> {
        self.tickets.drain_released()
    }

    /// Ends the wait of a publisher by dropping the oldest messages of the subscribers that block it. Returns
    /// how many messages were dropped. A ticket that is already released drops nothing.
    pub fn give_up(&mut self, ticket: Ticket, now: Timestamp) -> u64 {
        let mut dropped = 0;
        for index in self.tickets.waiting_for(ticket) {
            let (count, released) = self.subscriptions[index].queue.force(ticket, now);
            dropped += count;
            for ticket in released {
                self.tickets.release(ticket, index);
            }
        }
        dropped
    }
}
