//! Blocked publishers: who may go on, and what happens when their timeout ends.

use super::Shard;
use crate::queue::Ticket;
use crate::time::Timestamp;

impl Shard {
    /// The publishes nobody blocks any more, since the last call. To be asked for after every take,
    /// publish, pause, unsubscribe, reap and give-up while a subscriber blocks. It may name tickets that
    /// nobody waits for any more.
    pub fn released(&mut self) -> Vec<Ticket> {
        self.tickets.drain_released()
    }

    /// Ends the wait of a publisher by dropping the oldest messages of those who block it. Returns
    /// how many messages were dropped. A ticket that is released already drops nothing.
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
