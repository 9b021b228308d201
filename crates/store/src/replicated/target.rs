//! The leader's end of a replicated journal: commits frames, resolves doubts, renews the lease.
//!
//! Every connection gets an epoch of its own. So when a connection breaks, whatever it still has under way is
//! fenced before the leader looks at what was committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_engine::Timestamp;

use super::mutation::mistaken;
use super::{
    LeaderLease, Leadership, Member, Place, ReplicatedJournal, ReplicatedSession, ReplicationMutation,
};
use crate::error::AppendError;
use crate::frame::JournalFrame;
use crate::shared::Shared;

/// The lease is renewed this often within its length.
const RENEWALS_PER_LEASE: u32 = 3;

#[derive(Debug)]
pub(crate) struct ReplicatedTarget {
    pub(super) journal: Arc<dyn ReplicatedJournal>,
    /// `None` after a doubt: the next connection begins a new epoch.
    pub(super) session: Option<Box<dyn ReplicatedSession>>,
    pub(super) member: Member,
    pub(super) leadership: Leadership,
    /// Everything before it is committed.
    pub(super) end: Place,
    /// Everything before it is in the local files as well.
    pub(super) written: Place,
    /// The engine's newest segment.
    pub(super) segment: u64,
    /// The current epoch, for the maintenance thread.
    pub(super) epoch: Arc<AtomicU64>,
    pub(super) lease: LeaderLease,
    renew_at: Timestamp,
    pub(super) mutation: Option<ReplicationMutation>,
    /// How many bytes the engine lost and got back.
    pub(super) refilled_bytes: u64,
}

impl ReplicatedTarget {
    pub(crate) fn new(
        journal: Arc<dyn ReplicatedJournal>,
        session: Box<dyn ReplicatedSession>,
        member: Member,
        leadership: Leadership,
        mutation: Option<ReplicationMutation>,
        requested_at: Timestamp,
    ) -> ReplicatedTarget {
        let lease = LeaderLease::default();
        lease.confirm(requested_at, leadership.lease);
        ReplicatedTarget {
            journal,
            session: Some(session),
            member,
            end: leadership.end,
            written: leadership.end,
            segment: leadership.segment,
            epoch: Arc::new(AtomicU64::new(leadership.epoch)),
            lease,
            renew_at: requested_at + leadership.lease / RENEWALS_PER_LEASE,
            mutation,
            refilled_bytes: 0,
            leadership,
        }
    }

    pub(crate) fn lease(&self) -> LeaderLease {
        self.lease.clone()
    }

    pub(crate) fn epoch(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.epoch)
    }

    pub(crate) fn journal(&self) -> Arc<dyn ReplicatedJournal> {
        Arc::clone(&self.journal)
    }

    pub(crate) fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    pub(crate) fn is_mistaken(&self, mistake: ReplicationMutation) -> bool {
        mistaken(self.mutation, mistake)
    }

    pub(crate) fn refilled_bytes(&self) -> u64 {
        self.refilled_bytes
    }

    /// What is committed is in the local files now, up to this position.
    pub(crate) fn written(&mut self, position: u64) {
        if position == self.end.position {
            self.written = self.end;
        }
    }

    pub(super) fn set_epoch(&mut self, epoch: u64) {
        self.leadership.epoch = epoch;
        self.epoch.store(epoch, Ordering::Release);
    }

    /// The engine has confirmed the lease that was requested at this moment.
    pub(super) fn confirmed(&mut self, requested_at: Timestamp) {
        self.lease.confirm(requested_at, self.leadership.lease);
        self.renew_at = requested_at + self.leadership.lease / RENEWALS_PER_LEASE;
    }

    /// Renews the lease if that is due. Returns after how long to call again.
    pub(crate) fn renew_if_due(
        &mut self,
        frames: &mut [JournalFrame],
        now: Timestamp,
        shared: &Shared,
    ) -> Result<Duration, AppendError> {
        if now < self.renew_at {
            return Ok(self.renew_at.since(now));
        }
        self.renew(frames, now, shared)?;
        Ok(self.renew_at.since(now))
    }

    /// Lets another member lead at once. If that fails, the lease ends by itself.
    pub(crate) fn release(&mut self) {
        self.lease.end();
        if let Some(session) = &mut self.session {
            let _ = session.release(&self.leadership);
        }
    }
}
