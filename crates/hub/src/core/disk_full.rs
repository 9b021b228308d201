//! What is answered while the disk has no room for what has been decided.
//!
//! Memory is ahead of the disk then, for as long as it takes somebody to make room. Whoever asks for something new is
//! refused, and so is whoever asks about tasks: the answer might tell what a crash takes back. Both hear it at once,
//! instead of waiting behind records that cannot be written.

use tenure_engine::{Refusal, SessionId, Timestamp};

use super::Core;
use crate::outbox::OutboxItem;
use crate::request::{Ask, Delivery, Request, Response};

impl Core {
    /// The disk has no room from now on. Who has asked already need not wait either.
    pub fn disk_became_full(&mut self) {
        // What is on disk is said as it is, and first.
        self.speak();
        let is_free = |reply: &Result<Response, Refusal>| {
            matches!(reply, Ok(Response::Answer(_) | Response::Stats(_)) | Err(Refusal::DiskFull))
        };
        for mut out in self.outbox.take_free(is_free) {
            if let OutboxItem::Reply { session, reply: reply @ Ok(Response::Answer(_)), .. } = &mut out {
                let (session, answer) = (*session, std::mem::replace(reply, Err(Refusal::DiskFull)));
                self.forget_unsaid(session, &answer);
                self.stats.refusals_total += 1;
            }
            self.say(out);
        }
    }

    /// Answers a request that needs no new record. Any other comes back: its answer waits for the disk.
    pub fn answer_with_disk_full(&mut self, now: Timestamp, session: SessionId, ask: Ask) -> Option<Ask> {
        // A session hears its answers in the order of its requests.
        if self.outbox.owes(session) {
            return Some(ask);
        }
        let reply = match &ask.request {
            request if let Err(refusal) = self.check(session, request) => Err(refusal),
            Request::Submit(_) | Request::Checkpoint { .. } | Request::Query(_) => Err(Refusal::DiskFull),
            Request::Stats => Ok(Response::Stats(Box::new(self.stats_for(now, session)))),
            _ => return Some(ask),
        };
        self.stats.requests_total += 1;
        self.stats.refusals_total += u64::from(reply.is_err());
        self.note_at_once(session, &ask.request, &reply);
        self.put(session, Delivery::Reply { token: ask.token, reply });
        None
    }
}
