//! Replies while the disk is full.
//!
//! Memory is then ahead of the disk until an operator frees space. The hub refuses new tasks and checkpoints.
//! It also refuses queries, because an answer might include changes that a crash undoes. Peers get the
//! refusal at once instead of waiting behind records that cannot be written.

use tenure_engine::{SessionId, Timestamp};

use super::Core;
use crate::outbox::OutboxItem;
use crate::refusal::HubRefusal;
use crate::request::{Ask, Delivery, Request, Response};

impl Core {
    /// Refuses while the broker stops or its disk is full.
    pub(super) fn accepts_tasks(&self) -> Result<(), HubRefusal> {
        if self.draining {
            return Err(HubRefusal::Draining);
        }
        if self.disk_full { Err(HubRefusal::DiskFull) } else { Ok(()) }
    }

    /// The disk is full from now on. Earlier requests that need not wait get their replies as well.
    pub fn disk_became_full(&mut self) {
        // First send what is on disk.
        self.flush_outbox();
        let is_free = |reply: &Result<Response, HubRefusal>| {
            matches!(reply, Ok(Response::Answer(_) | Response::Stats(_)) | Err(HubRefusal::DiskFull))
        };
        for mut out in self.outbox.take_free(is_free) {
            if let OutboxItem::Reply { session, reply: reply @ Ok(Response::Answer(_)), .. } = &mut out {
                let (session, answer) = (*session, std::mem::replace(reply, Err(HubRefusal::DiskFull)));
                self.subtract_reply(session, &answer);
                self.stats.refusals_total += 1;
            }
            self.push_outbox(out);
        }
    }

    /// Answers a request that needs no new record. Returns any other request: its reply has to wait for the
    /// disk.
    pub fn answer_with_disk_full(&mut self, now: Timestamp, session: SessionId, ask: Ask) -> Option<Ask> {
        // A session gets its replies in the order of its requests.
        if self.outbox.owes(session) {
            return Some(ask);
        }
        let reply = match &ask.request {
            request if let Err(refusal) = self.check(session, request) => Err(refusal),
            Request::Submit(_) | Request::SubmitArray(_) | Request::Checkpoint { .. } | Request::Query(_) => {
                Err(HubRefusal::DiskFull)
            }
            Request::Stats => Ok(Response::Stats(Box::new(self.stats_for(now, session)))),
            _ => return Some(ask),
        };
        self.stats.requests_total += 1;
        self.stats.refusals_total += u64::from(reply.is_err());
        self.audit_immediate_reply(session, &ask.request, &reply);
        self.put(session, Delivery::Reply { token: ask.token, reply });
        None
    }
}
