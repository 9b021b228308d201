//! Committing: an append that the engine has answered is settled. Anything else is a doubt, and a doubt is
//! resolved by a change under a new epoch, never by a read alone: what a read shows may vanish, and what it
//! does not show may still arrive.

use tenure_engine::Timestamp;

use super::copy::refill;
use super::target::ReplicatedTarget;
use super::{FrameGroup, LeaderClaim, Leadership, ReplicatedSession, ReplicationError, ReplicationMutation};
use crate::error::{AppendError, StoreError};
use crate::frame::JournalFrame;
use crate::shared::Shared;

/// How often one call connects again before it returns [`AppendError::Away`].
const TRIES: usize = 3;

impl ReplicatedTarget {
    /// Commits the first `count` frames, which belong to one segment. Those that are committed already are
    /// skipped.
    pub(crate) fn commit(
        &mut self,
        frames: &mut [JournalFrame],
        count: usize,
        now: Timestamp,
        shared: &Shared,
    ) -> Result<(), AppendError> {
        self.with_session(frames, now, shared, |target, frames| target.try_commit(&mut frames[..count]))
    }

    /// The frames are those that wait: one of them may be in doubt.
    pub(super) fn renew(
        &mut self,
        frames: &mut [JournalFrame],
        now: Timestamp,
        shared: &Shared,
    ) -> Result<(), AppendError> {
        self.with_session(frames, now, shared, |target, _| {
            let settled = target.end.position;
            let session = target.session.as_mut().expect("there is a session");
            Ok(session.renew(&target.leadership, settled)?)
        })?;
        self.confirmed(now);
        Ok(())
    }

    /// Does something with a connection on which nothing is in doubt.
    fn with_session(
        &mut self,
        frames: &mut [JournalFrame],
        now: Timestamp,
        shared: &Shared,
        work: impl Fn(&mut ReplicatedTarget, &mut [JournalFrame]) -> Result<(), StoreError>,
    ) -> Result<(), AppendError> {
        let mut last = String::new();
        for _ in 0..TRIES {
            let done = match self.session {
                Some(_) => Ok(()),
                None => self.resolve(frames, now, shared),
            };
            match done.and_then(|()| work(self, frames)) {
                Ok(()) => return Ok(()),
                Err(StoreError::Replication(ReplicationError::Fenced { holder, epoch })) => {
                    self.session = None;
                    self.lease.end();
                    return Err(AppendError::Deposed { holder, epoch });
                }
                Err(StoreError::Replication(
                    error @ (ReplicationError::Doubt
                    | ReplicationError::Away(_)
                    | ReplicationError::NotAtEnd { .. }),
                )) => {
                    self.session = None;
                    last = error.to_string();
                }
                Err(other) => return Err(AppendError::Fatal(other)),
            }
        }
        Err(AppendError::Away { why: last })
    }

    fn try_commit(&mut self, frames: &mut [JournalFrame]) -> Result<(), StoreError> {
        let session = self.session.as_mut().expect("there is a session");
        let mut group = FrameGroup::new(self.end);
        let mut segment = self.segment;
        for frame in frames.iter_mut().filter(|frame| frame.end() > self.end.position) {
            segment = frame.segment;
            group.add(frame.portable());
        }
        if group.is_empty() {
            return Ok(());
        }
        if segment != self.segment {
            if segment != self.end.position {
                return Err(StoreError::Diverged { position: segment });
            }
            session.begin_segment(&self.leadership, self.end)?;
            self.segment = segment;
        }
        session.append(&self.leadership, &group)?;
        self.end = group.end;
        Ok(())
    }

    /// Connects again, fences everything that is under way, and finds out what was committed.
    fn resolve(
        &mut self,
        frames: &mut [JournalFrame],
        now: Timestamp,
        shared: &Shared,
    ) -> Result<(), StoreError> {
        let mut session = self.journal.connect()?;
        let leadership = if self.is_mistaken(ReplicationMutation::ResolveByReading) {
            self.read_only(&mut *session)?
        } else {
            self.begin_epoch(&mut *session)?
        };
        self.set_epoch(leadership.epoch);
        self.segment = leadership.segment;
        self.leadership = leadership;
        self.confirmed(now);
        // Frames that are not in a local file are still with the caller.
        self.end = self.written;
        if self.leadership.end.position < self.end.position {
            self.refill(&mut *session, shared)?;
        } else {
            self.adopt(frames)?;
        }
        self.session = Some(session);
        Ok(())
    }

    /// If the answer to an earlier attempt was lost, the epoch is higher than the one this leader knows, and
    /// still its own. A new one is begun all the same: what a read shows may vanish.
    fn begin_epoch(&mut self, session: &mut dyn ReplicatedSession) -> Result<Leadership, StoreError> {
        let epoch = self.leadership.epoch;
        if let Some(leadership) = session.lead(&self.member, LeaderClaim::Own { epoch })? {
            return Ok(leadership);
        }
        let state = session.look()?;
        let fenced =
            ReplicationError::Fenced { holder: state.holder.unwrap_or_default(), epoch: state.epoch };
        if state.instance != self.member.instance || state.epoch <= epoch {
            return Err(fenced.into());
        }
        self.set_epoch(state.epoch);
        let again = session.lead(&self.member, LeaderClaim::Own { epoch: state.epoch })?;
        again.ok_or_else(|| fenced.into())
    }

    /// A mistake, for the simulator.
    fn read_only(&self, session: &mut dyn ReplicatedSession) -> Result<Leadership, StoreError> {
        let state = session.look()?;
        if state.epoch != self.leadership.epoch {
            let holder = state.holder.unwrap_or_default();
            return Err(ReplicationError::Fenced { holder, epoch: state.epoch }.into());
        }
        let segment = state.segments.last().map_or(0, |place| place.position);
        Ok(Leadership { end: state.end, segment, ..self.leadership.clone() })
    }

    /// The journal ends at or after what is known to be committed: whatever follows must be what was sent.
    fn adopt(&mut self, frames: &mut [JournalFrame]) -> Result<(), StoreError> {
        let end = self.leadership.end;
        let mut place = self.end;
        let from = self.end.position;
        for frame in frames.iter_mut().filter(|frame| frame.end() > from) {
            if place.position >= end.position {
                break;
            }
            place = place.after(frame.portable());
        }
        if place != end {
            return Err(StoreError::Diverged { position: end.position.min(place.position) });
        }
        self.end = place;
        Ok(())
    }

    /// The journal ends before what was committed: the engine lost it. The local files have all of it.
    fn refill(&mut self, session: &mut dyn ReplicatedSession, shared: &Shared) -> Result<(), StoreError> {
        if self.is_mistaken(ReplicationMutation::NoRefill) {
            let (holder, epoch) = (self.member.name.clone(), self.leadership.epoch);
            return Err(ReplicationError::Fenced { holder, epoch }.into());
        }
        let state = session.look()?;
        let base = state.segments.last().copied().unwrap_or_default();
        let segments: Vec<_> = {
            let files = shared.files.read().expect("no holder of the lock panics");
            files.segments.values().cloned().collect()
        };
        let lost = self.end.position - self.leadership.end.position;
        let filled = refill(session, &self.leadership, &segments, base, self.end.position)?;
        if filled.end != self.end {
            return Err(StoreError::Diverged { position: filled.end.position });
        }
        self.refilled_bytes += lost;
        self.segment = filled.segment;
        Ok(())
    }
}
