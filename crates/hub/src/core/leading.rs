//! The hub of a leader: what it may say without a record, and how it ends when another broker leads.

use super::Core;
use crate::refusal::HubRefusal;
use crate::request::Delivery;

impl Core {
    /// Sets whether the lease of this broker holds. If it does not, replies that need no record wait: another
    /// broker may lead, and know more.
    pub fn set_lease(&mut self, holds: bool) {
        self.has_lease = holds;
    }

    /// Whether replies wait for the lease alone.
    pub fn waits_for_lease(&self) -> bool {
        !self.has_lease && self.outbox.waits_for_lease()
    }

    /// Another broker leads. All sessions end, with a goodbye that names it and no word that is not committed.
    pub fn deposed(&mut self, holder: &str) {
        for entry in self.sessions.values() {
            entry.mailbox.put(Delivery::Ended(HubRefusal::Deposed { holder: holder.into() }));
            entry.mailbox.close();
        }
    }
}
