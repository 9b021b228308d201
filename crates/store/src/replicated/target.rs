//! The writer's end of a replicated journal: commits the frames of tasks, resolves doubts, renews the lease.

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::Timestamp;

use super::leader::LeaderState;
use super::{LeaderLease, Place, ReplicationMutation, Stream};
use crate::error::AppendError;
use crate::frame::JournalFrame;
use crate::shared::Shared;

/// The lease is renewed this often within its length.
const RENEWALS_PER_LEASE: u32 = 3;

#[derive(Debug)]
pub(crate) struct ReplicatedTarget {
    pub(super) leader: Arc<LeaderState>,
    /// Everything before it is committed.
    pub(super) end: Place,
    /// The database's newest segment.
    pub(super) segment: u64,
    /// Of the ends that `end` was compared with.
    pub(super) generation: u64,
    renew_at: Timestamp,
}

impl ReplicatedTarget {
    pub(crate) fn new(leader: Arc<LeaderState>, requested_at: Timestamp) -> ReplicatedTarget {
        let (tail, generation, lease) = {
            let connection = leader.connection();
            (connection.leadership.tails.tasks, connection.generation, connection.leadership.lease)
        };
        leader.lease.confirm(requested_at, lease);
        let renew_at = requested_at + lease / RENEWALS_PER_LEASE;
        ReplicatedTarget { leader, end: tail.end, segment: tail.segment, generation, renew_at }
    }

    pub(crate) fn leader(&self) -> Arc<LeaderState> {
        Arc::clone(&self.leader)
    }

    pub(crate) fn lease(&self) -> LeaderLease {
        self.leader.lease()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.leader.connection().leadership.epoch
    }

    /// Where the journal of tasks ends.
    pub(crate) fn position(&self) -> u64 {
        self.end.position
    }

    pub(crate) fn has_mutation(&self, mistake: ReplicationMutation) -> bool {
        self.leader.has_mutation(mistake)
    }

    pub(crate) fn refilled_bytes(&self) -> u64 {
        self.leader.refilled_bytes()
    }

    /// Records that everything committed up to this position is in the local files now.
    pub(crate) fn written(&mut self, position: u64) {
        if position == self.end.position {
            self.leader.set_written(Stream::Tasks, self.end);
        }
    }

    /// The database has confirmed the lease that was requested at this moment.
    pub(super) fn confirmed(&mut self, requested_at: Timestamp) {
        let lease = self.leader.member.lease;
        self.leader.lease.confirm(requested_at, lease);
        self.renew_at = requested_at + lease / RENEWALS_PER_LEASE;
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
        self.leader.lease.end();
        let mut connection = self.leader.connection();
        let leadership = connection.leadership.clone();
        connection.is_released = true;
        if let Some(mut session) = connection.session.take() {
            let _ = session.release(&leadership);
        }
    }
}
