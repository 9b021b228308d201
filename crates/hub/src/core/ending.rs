//! Sessions that the hub itself ends: their keys were revoked, or they leave too much unread.

use std::collections::HashSet;
use std::sync::Arc;

use tenure_engine::{Refusal, SessionId, Timestamp};

use super::Core;
use crate::keys::{KeyId, REVOKED};
use crate::refusal::HubRefusal;
use crate::request::Delivery;

impl Core {
    /// Ends every session of these keys.
    pub fn revoke(&mut self, now: Timestamp, keys: &HashSet<KeyId>) {
        let is_revoked =
            |(_, entry): &(&SessionId, &super::SessionEntry)| keys.contains(&entry.principal.grant.key);
        let mut sessions: Vec<SessionId> =
            self.sessions.iter().filter(is_revoked).map(|(session, _)| *session).collect();
        sessions.sort_unstable();
        self.queues_of_keys.forget(keys);
        for session in sessions {
            self.end(
                now,
                session,
                Refusal::NotAllowed { what: REVOKED }.into(),
                "its key was revoked or changed",
            );
        }
    }

    /// Ends a session from the hub's side. Its door receives the reason and closes the connection.
    pub(super) fn end(&mut self, now: Timestamp, session: SessionId, why: HubRefusal, reason: &'static str) {
        self.note_end(session, &why);
        let Some(entry) = self.sessions.get(&session) else { return };
        let mailbox = Arc::clone(&entry.mailbox);
        let unread_bytes = mailbox.close_with(Delivery::Ended(why));
        tracing::warn!(
            reason,
            door = entry.principal.door,
            address = entry.principal.address.map(tracing::field::display),
            key = %entry.principal.grant.name,
            identity = %entry.peer.identity,
            unread_bytes,
            "session ended by the broker"
        );
        self.close(now, session);
    }
}
