//! The outbox: what has been decided but must not be sent yet, because its records are not on disk.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tenure_engine::{Event, Notice, SessionId};

use crate::audit::AuditLine;
use crate::refusal::HubRefusal;
use crate::request::{Delivery, Response};
use crate::spans::SpanRecord;
use crate::watches::WatchKey;

/// Something to send once the records before it are on disk.
#[derive(Debug)]
pub(crate) enum OutboxItem {
    Reply {
        session: SessionId,
        token: u64,
        reply: Result<Response, HubRefusal>,
    },
    Notice {
        session: SessionId,
        notice: Notice,
    },
    Event(Arc<Event>),
    /// No watch wanted the events up to this one when they were decided.
    Passed {
        seq: u64,
    },
    /// A watch begins: everything before it has been sent.
    Begin {
        watch: WatchKey,
        from: u64,
    },
    /// Any other delivery for one session, in order.
    Other {
        session: SessionId,
        delivery: Delivery,
    },
    /// A span to export.
    Span(Box<SpanRecord>),
    /// A line for the audit log.
    Audit(Box<AuditLine>),
}

/// Items that become sendable together.
#[derive(Debug)]
pub(crate) struct Bundle {
    position: u64,
    /// It has no records, so no commit proves that this broker still leads.
    is_unwritten: bool,
    /// The last event that was decided before the bundle was sealed.
    pub(crate) last_event: u64,
    pub(crate) outs: Vec<OutboxItem>,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Items of the open batch.
    open: Vec<OutboxItem>,
    /// Bundles that wait for a sync, by the position that must be reached.
    waiting: VecDeque<Bundle>,
    synced: u64,
    spare: Vec<Vec<OutboxItem>>,
}

impl Outbox {
    pub(crate) fn new(synced: u64) -> Outbox {
        Outbox { synced, ..Outbox::default() }
    }

    pub(crate) fn push(&mut self, out: OutboxItem) {
        self.open.push(out);
    }

    /// The position of the next command's items.
    pub(crate) fn mark(&self) -> usize {
        self.open.len()
    }

    /// Inserts a reply before the notices of its command: a worker must learn its terms before its first
    /// assignment.
    pub(crate) fn insert(&mut self, mark: usize, out: OutboxItem) {
        self.open.insert(mark, out);
    }

    /// Events that no watch wants and that follow each other cost one entry.
    pub(crate) fn pass(&mut self, passed: u64) {
        match self.open.last_mut() {
            Some(OutboxItem::Passed { seq }) => *seq = passed,
            _ => self.open.push(OutboxItem::Passed { seq: passed }),
        }
    }

    /// The open batch was sealed and ends at `position`.
    pub(crate) fn seal(&mut self, position: u64, last_event: u64) {
        let fresh = self.spare.pop().unwrap_or_default();
        let outs = std::mem::replace(&mut self.open, fresh);
        self.waiting.push_back(Bundle { position, is_unwritten: false, last_event, outs });
    }

    /// The open batch has no records: its items may be sent as soon as everything before it is on disk.
    pub(crate) fn seal_unwritten(&mut self, last_event: u64) {
        if self.open.is_empty() {
            return;
        }
        match self.waiting.back_mut() {
            Some(bundle) => bundle.outs.append(&mut self.open),
            None => {
                self.seal(self.synced, last_event);
                if let Some(bundle) = self.waiting.back_mut() {
                    bundle.is_unwritten = true;
                }
            }
        }
    }

    /// Whether a sealed bundle waits for the disk.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.waiting.back().is_some_and(|bundle| bundle.position > self.synced)
    }

    pub(crate) fn synced(&mut self, position: u64) {
        self.synced = self.synced.max(position);
    }

    /// The next bundle that may be sent. Without a lease, only a commit shows that no other broker leads.
    pub(crate) fn pop(&mut self, has_lease: bool) -> Option<Bundle> {
        self.waiting
            .pop_front_if(|bundle| bundle.position <= self.synced && (has_lease || !bundle.is_unwritten))
    }

    /// Whether the next bundle waits for nothing but the lease.
    pub(crate) fn waits_for_lease(&self) -> bool {
        self.waiting.front().is_some_and(|bundle| bundle.position <= self.synced && bundle.is_unwritten)
    }

    /// Returns an emptied bundle for its capacity.
    pub(crate) fn recycle(&mut self, mut outs: Vec<OutboxItem>) {
        outs.clear();
        if self.spare.len() < 4 {
            self.spare.push(outs);
        }
    }

    /// Whether a reply for this session waits for the disk.
    pub(crate) fn owes(&self, session: SessionId) -> bool {
        let all = self.waiting.iter().flat_map(|bundle| &bundle.outs).chain(&self.open);
        all.into_iter()
            .any(|out| matches!(out, OutboxItem::Reply { session: whose, .. } if *whose == session))
    }

    /// Removes the replies that need not wait for the disk, of sessions for which nothing else is queued
    /// before them.
    pub(crate) fn take_free(
        &mut self,
        is_free: impl Fn(&Result<Response, HubRefusal>) -> bool,
    ) -> Vec<OutboxItem> {
        let mut waiting = HashSet::new();
        let mut free = Vec::new();
        for outs in self.waiting.iter_mut().map(|bundle| &mut bundle.outs).chain([&mut self.open]) {
            free.extend(outs.extract_if(.., |out| match out {
                OutboxItem::Reply { session, reply, .. } => {
                    let goes = is_free(reply) && !waiting.contains(session);
                    if !goes {
                        waiting.insert(*session);
                    }
                    goes
                }
                _ => false,
            }));
        }
        free
    }

    /// Whether anything waits for the disk.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_lease_only_a_commit_lets_something_leave() {
        let mut outbox = Outbox::new(100);
        outbox.pass(1);
        outbox.seal_unwritten(1);
        assert!(outbox.waits_for_lease());
        assert!(outbox.pop(false).is_none(), "another broker may lead and know more");
        assert!(outbox.pop(true).is_some());
        outbox.pass(2);
        outbox.seal(150, 2);
        outbox.pass(2);
        outbox.seal_unwritten(2);
        assert!(outbox.pop(true).is_none(), "a lease replaces no commit");
        outbox.synced(150);
        assert!(outbox.pop(false).is_some(), "the commit shows that this broker led");
        assert!(outbox.is_idle(), "what was sealed without records left with it");
    }
}
