//! Unread bytes: the hub refuses queries of a session over its limit. When all sessions together are over
//! theirs, the hub ends the session with the most unread bytes.

use std::sync::Arc;

use tenure_engine::{Refusal, SessionId, Timestamp};

use super::Core;
use crate::mailbox::UnreadBytes;
use crate::refusal::HubRefusal;
use crate::request::{Delivery, Response};
use crate::settings::UnreadLimits;

impl Core {
    /// Sets the limits, and the counter that the mailboxes share.
    pub fn bound_unread(&mut self, limits: UnreadLimits, unread: Arc<UnreadBytes>) {
        self.unread_limits = limits;
        self.unread = unread;
    }

    /// Answers a query, unless the session already has too much unread. A refusal is small and is always
    /// sent.
    pub(super) fn answer(
        &mut self,
        session: SessionId,
        ask: impl FnOnce(&mut Core) -> Result<Response, HubRefusal>,
    ) -> Result<Response, HubRefusal> {
        let UnreadLimits { session: limit, total } = self.unread_limits;
        let Some(entry) = self.sessions.get(&session) else { return ask(self) };
        if entry.unsent_reply_bytes + entry.mailbox.unread_bytes() > limit {
            return Err(Refusal::TooMany { what: "bytes of answers that were not read", limit }.into());
        }
        if self.unsent_reply_bytes + self.unread.get() > total {
            let limit = total as u64;
            return Err(Refusal::Full { what: "bytes of answers that were not read", limit }.into());
        }
        let reply = ask(self);
        let bytes = answer_bytes(&reply);
        self.unsent_reply_bytes += bytes;
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.unsent_reply_bytes += bytes;
        }
        reply
    }

    pub(super) fn push_reply(&mut self, session: SessionId, token: u64, reply: Result<Response, HubRefusal>) {
        self.subtract_reply(session, &reply);
        self.put(session, Delivery::Reply { token, reply });
    }

    /// Subtracts a reply that leaves the outbox.
    pub(super) fn subtract_reply(&mut self, session: SessionId, reply: &Result<Response, HubRefusal>) {
        let bytes = answer_bytes(reply);
        if bytes > 0 {
            self.unsent_reply_bytes -= bytes;
            if let Some(entry) = self.sessions.get_mut(&session) {
                entry.unsent_reply_bytes -= bytes;
            }
        }
    }

    /// Ends the sessions with the most unread bytes until the total is within its limit.
    pub fn end_largest_holders(&mut self, now: Timestamp) {
        let limit = self.unread_limits.total;
        while self.unread.get() > limit {
            let of = |(session, entry): (&SessionId, &super::SessionEntry)| {
                (entry.mailbox.unread_bytes(), *session)
            };
            let Some((bytes, session)) = self.sessions.iter().map(of).max() else { return };
            if bytes == 0 {
                return;
            }
            let why = Refusal::TooMany { what: "bytes that were not read", limit };
            self.end(now, session, why.into(), "the peer does not read its replies");
        }
    }
}

/// Only answers to queries are counted before they are sent: other replies are no larger than their requests.
fn answer_bytes(reply: &Result<Response, HubRefusal>) -> usize {
    match reply {
        Ok(
            response @ (Response::Answer(_)
            | Response::Stats(_)
            | Response::Logs(_)
            | Response::Hooks(_)
            | Response::Undelivered(_)),
        ) => response.bytes(),
        Ok(
            Response::Command(_)
            | Response::Done
            | Response::Heard(_)
            | Response::BackedUp { .. }
            | Response::Redelivered(_)
            | Response::Reconciled(_),
        )
        | Err(_) => 0,
    }
}
