//! Requests in flight, each with the purpose of its reply.

use std::collections::HashMap;

use tenure_hub::{Ask, Request};

use super::PeerOutput;

#[derive(Debug)]
pub(super) struct RequestsInFlight<W> {
    next: u64,
    waiting: HashMap<u64, W>,
}

impl<W> Default for RequestsInFlight<W> {
    fn default() -> RequestsInFlight<W> {
        RequestsInFlight { next: 0, waiting: HashMap::new() }
    }
}

impl<W> RequestsInFlight<W> {
    pub(super) fn ask(&mut self, request: Request, then: W, out: &mut PeerOutput) {
        self.next += 1;
        self.waiting.insert(self.next, then);
        out.asks.push(Ask { token: self.next, request });
    }

    pub(super) fn answered(&mut self, token: u64) -> Option<W> {
        self.waiting.remove(&token)
    }

    /// What the answer with this token is for.
    pub(super) fn get(&self, token: u64) -> Option<&W> {
        self.waiting.get(&token)
    }

    /// What is not answered yet, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &W> {
        self.waiting.values()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
