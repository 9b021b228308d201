//! Publishes that wait for blocking subscribers.

use std::collections::BTreeMap;

use crate::queue::Ticket;
use crate::subscriptions::SubscriptionIndex;

#[derive(Debug, Default)]
pub(crate) struct Tickets {
    open: BTreeMap<Ticket, Vec<SubscriptionIndex>>,
    released: Vec<Ticket>,
}

impl Tickets {
    pub(crate) fn block(&mut self, ticket: Ticket, on: SubscriptionIndex) {
        self.open.entry(ticket).or_default().push(on);
    }

    /// The subscriber has room for the message, or will never take it.
    pub(crate) fn release(&mut self, ticket: Ticket, from: SubscriptionIndex) {
        let Some(waiting_for) = self.open.get_mut(&ticket) else { return };
        if let Some(position) = waiting_for.iter().position(|&other| other == from) {
            waiting_for.swap_remove(position);
        }
        if waiting_for.is_empty() {
            self.open.remove(&ticket);
            self.released.push(ticket);
        }
    }

    pub(crate) fn waiting_for(&self, ticket: Ticket) -> Vec<SubscriptionIndex> {
        self.open.get(&ticket).cloned().unwrap_or_default()
    }

    pub(crate) fn drain_released(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.released)
    }
}
