//! The event loop of a leader: its lease, and its end when another broker leads.

use super::EventLoop;
use crate::clock::monotonic_clock;

/// Why a hub has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubEnd {
    /// A handle stopped it.
    Stopped,
    /// Another broker leads the group.
    Deposed { holder: String, epoch: u64 },
}

impl EventLoop {
    /// Another broker leads. What is decided and not committed is forgotten here: it never happened.
    pub(super) fn step_down(&mut self, end: HubEnd) -> HubEnd {
        let _ = self.stopping.send(true);
        self.permits.close();
        self.core.deposed();
        end
    }

    /// Replies that need no record leave only while no other broker can lead.
    pub(super) fn check_lease(&mut self) {
        if let Some(lease) = &self.lease {
            self.core.set_lease(lease.holds(monotonic_clock()));
        }
    }
}
