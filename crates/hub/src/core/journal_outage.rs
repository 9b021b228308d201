//! While the replicated journal is away: submissions wait for it, and are refused when it stays away.
//!
//! A submission that waits is not decided, so its refusal is true even if another broker leads. One that was decided
//! before is answered when its records are committed, or never. Everything else goes on: workers are heard,
//! their reports are decided, and their replies wait for the commit. The engine's timers stand still while
//! records wait (`stall`), so no worker is lost because the broker could not hear it.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use tenure_engine::{Answer, Command, Peer, Query, SessionId, Timestamp, Why};

use super::Core;
use crate::refusal::HubRefusal;
use crate::request::{Ask, Delivery, Request, Response};

/// How long a submission waits for the journal.
const JOURNAL_WITHIN: Duration = Duration::from_secs(5);
/// How many bytes of bodies may wait. A submission beyond is refused at once.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// The same for requests, whatever their size.
const WAITING_REQUESTS_MAX: usize = 10_000;

/// Requests that wait for the replicated journal.
#[derive(Debug, Default)]
pub(super) struct JournalOutage {
    since: Option<Timestamp>,
    waiting: VecDeque<(SessionId, Ask)>,
    /// Whose requests wait.
    sessions: HashSet<SessionId>,
    waiting_bytes: usize,
}

impl JournalOutage {
    /// When what waits is refused.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.since.filter(|_| !self.waiting.is_empty()).map(|since| since + JOURNAL_WITHIN)
    }

    fn put(&mut self, session: SessionId, ask: Ask) {
        self.waiting_bytes += body_bytes(&ask.request);
        self.sessions.insert(session);
        self.waiting.push_back((session, ask));
    }

    fn take_all(&mut self) -> VecDeque<(SessionId, Ask)> {
        self.waiting_bytes = 0;
        self.sessions.clear();
        std::mem::take(&mut self.waiting)
    }

    fn is_over_at(&self, now: Timestamp) -> bool {
        self.since.is_some_and(|since| now >= since + JOURNAL_WITHIN)
    }
}

impl Core {
    /// The replicated journal does not answer.
    pub fn journal_is_away(&mut self, now: Timestamp) {
        self.outage.since.get_or_insert(now);
        self.stats.journal_away = true;
    }

    /// It answers again: what waits for it is decided now, in order.
    pub fn journal_is_back(&mut self, now: Timestamp) {
        if self.outage.since.take().is_none() {
            return;
        }
        self.stats.journal_away = false;
        for (session, ask) in self.outage.take_all() {
            self.take(now, session, ask);
        }
    }

    /// Whether requests may have to wait.
    fn is_journal_away(&self) -> bool {
        self.outage.since.is_some()
    }

    /// Keeps a submission, and every request behind it of the same session, until the journal answers. Returns a
    /// request that need not wait.
    pub(super) fn wait_for_journal(&mut self, now: Timestamp, session: SessionId, ask: Ask) -> Option<Ask> {
        if !self.is_journal_away() {
            return Some(ask);
        }
        let waits = self.outage.sessions.contains(&session);
        let submits = submits(&ask.request);
        if !waits && !submits {
            return Some(ask);
        }
        let bytes = body_bytes(&ask.request);
        let is_full = self.outage.waiting_bytes + bytes > WAITING_BYTES_MAX
            || self.outage.waiting.len() >= WAITING_REQUESTS_MAX;
        if submits && !waits && (is_full || self.outage.is_over_at(now)) {
            self.refuse_without_journal(session, &ask);
            return None;
        }
        self.outage.put(session, ask);
        None
    }

    /// Refuses the submissions that have waited long enough.
    pub(super) fn end_wait_for_journal(&mut self, now: Timestamp) {
        if !self.outage.is_over_at(now) || self.outage.waiting.is_empty() {
            return;
        }
        for (session, ask) in self.outage.take_all() {
            if submits(&ask.request) {
                self.refuse_without_journal(session, &ask);
            } else {
                self.take(now, session, ask);
            }
        }
    }

    /// The refusal leaves at once, unless the session is owed an earlier reply.
    fn refuse_without_journal(&mut self, session: SessionId, ask: &Ask) {
        if !self.sessions.contains_key(&session) {
            return;
        }
        let allowed = self.check(session, &ask.request);
        let reply = Err(allowed.err().unwrap_or(HubRefusal::JournalAway));
        self.stats.requests_total += 1;
        self.audit_immediate_reply(session, &ask.request, &reply);
        if self.outbox.owes(session) {
            self.reply(session, ask.token, reply);
        } else {
            self.stats.refusals_total += 1;
            self.put(session, Delivery::Reply { token: ask.token, reply });
        }
    }

    /// Sends an explanation at once if it says nothing but that the journal is away: it needs no lease.
    pub(super) fn explain_outage(
        &mut self,
        session: SessionId,
        token: u64,
        reply: Result<Response, HubRefusal>,
    ) -> Option<Result<Response, HubRefusal>> {
        let says_so = matches!(&reply, Ok(Response::Answer(Answer::Why { why: Why::AwaitingJournal, .. })));
        if !says_so || self.outbox.owes(session) {
            return Some(reply);
        }
        self.push_reply(session, token, reply);
        None
    }

    pub(super) fn query(&mut self, peer: &Peer, query: &Query) -> Result<Response, HubRefusal> {
        let mut answer = self.engine.ask(peer, query)?;
        // The assignment may exist in memory while its record is still on its way to the disk.
        if let Answer::Why { why: why @ Why::AwaitingAcceptance { .. }, .. } = &mut answer
            && !self.batches.is_empty()
        {
            *why = Why::AwaitingDisk;
        }
        if let Answer::Why { why, .. } = &mut answer {
            self.name_journal_outage(why);
        }
        Ok(Response::Answer(answer))
    }

    /// Gives the outage of the journal as the reason, unless the task waits for something else.
    fn name_journal_outage(&self, why: &mut Why) {
        let waits_for_itself = matches!(
            why,
            Why::NotWaiting { .. }
                | Why::Held
                | Why::Paused
                | Why::QueuePaused { .. }
                | Why::Dependencies { .. }
                | Why::Suspended { .. }
                | Why::NotBefore { .. }
        );
        if self.is_journal_away() && !waits_for_itself {
            *why = Why::AwaitingJournal;
        }
    }
}

fn submits(request: &Request) -> bool {
    match request {
        Request::Submit(_) | Request::SubmitArray(_) => true,
        Request::Command(command) => {
            matches!(command, Command::SetSchedule(_) | Command::RunSchedule { .. })
        }
        _ => false,
    }
}

fn body_bytes(request: &Request) -> usize {
    match request {
        Request::Submit(submissions) => submissions.iter().map(|one| one.body.len()).sum(),
        Request::SubmitArray(array) => array.body.len() + array.bodies.iter().map(Bytes::len).sum::<usize>(),
        Request::Complete(done) => done.iter().map(|one| one.result.len()).sum(),
        Request::Fail { result, .. } | Request::Confirm { result, .. } => result.len(),
        Request::Checkpoint { checkpoint, .. } => checkpoint.len(),
        _ => 0,
    }
}
