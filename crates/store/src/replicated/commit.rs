//! Committing: an append that the database has answered is settled. Anything else is a doubt, and a doubt is
//! resolved by a change under a new epoch, never by a read alone: what a read shows may vanish, and what it
//! does not show may still arrive.

use tenure_engine::Timestamp;

use super::leader::LeaderConnection;
use super::target::ReplicatedTarget;
use super::{FrameGroup, PerStream, ReplicationError, Stream};
use crate::error::{AppendError, StoreError};
use crate::frame::JournalFrame;
use crate::shared::Shared;

/// How often one call connects again before it returns [`AppendError::Away`].
pub(super) const TRIES: usize = 3;

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
        self.with_session(frames, now, shared, |target, connection, frames| {
            target.try_commit(connection, &mut frames[..count])
        })
    }

    /// The frames are those that wait: one of them may be in doubt.
    pub(super) fn renew(
        &mut self,
        frames: &mut [JournalFrame],
        now: Timestamp,
        shared: &Shared,
    ) -> Result<(), AppendError> {
        self.with_session(frames, now, shared, |target, connection, _| {
            let settled = PerStream::new(|stream| match stream {
                Stream::Tasks => target.end.position,
                other => target.leader.written(other).position,
            });
            let session = connection.session.as_mut().expect("there is a session");
            Ok(session.renew(&connection.leadership, settled)?)
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
        work: impl Fn(&mut ReplicatedTarget, &mut LeaderConnection, &mut [JournalFrame]) -> Result<(), StoreError>,
    ) -> Result<(), AppendError> {
        let leader = self.leader.clone();
        let mut connection = leader.connection();
        let mut last = String::new();
        for _ in 0..TRIES {
            let done = self.resolve(&mut connection, frames, now, shared);
            match done.and_then(|()| work(self, &mut connection, frames)) {
                Ok(()) => return Ok(()),
                Err(StoreError::Replication(ReplicationError::Fenced { holder, epoch })) => {
                    connection.session = None;
                    leader.lease.end();
                    return Err(AppendError::Deposed { holder, epoch });
                }
                Err(StoreError::Replication(
                    error @ (ReplicationError::Doubt
                    | ReplicationError::Away(_)
                    | ReplicationError::NotAtEnd { .. }),
                )) => {
                    connection.session = None;
                    last = error.to_string();
                }
                Err(other) => return Err(AppendError::Fatal(other)),
            }
        }
        Err(AppendError::Away { why: last })
    }

    fn try_commit(
        &mut self,
        connection: &mut LeaderConnection,
        frames: &mut [JournalFrame],
    ) -> Result<(), StoreError> {
        let LeaderConnection { session, leadership, .. } = connection;
        let session = session.as_mut().expect("there is a session");
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
            session.begin_segment(leadership, Stream::Tasks, self.end)?;
            self.segment = segment;
        }
        session.append(leadership, Stream::Tasks, &group)?;
        self.end = group.end;
        Ok(())
    }

    /// Begins a new epoch if there is no connection, and finds out what was committed if one has begun.
    fn resolve(
        &mut self,
        connection: &mut LeaderConnection,
        frames: &mut [JournalFrame],
        now: Timestamp,
        shared: &Shared,
    ) -> Result<(), StoreError> {
        if connection.session.is_none() {
            self.leader.clone().begin_epoch(connection, shared)?;
            self.confirmed(now);
        }
        if self.generation != connection.generation {
            self.adopt(connection, frames)?;
            self.generation = connection.generation;
        }
        Ok(())
    }

    /// The journal ends at or after what is in the local files. Frames that are not are still with the caller:
    /// whatever follows must be what was sent.
    fn adopt(
        &mut self,
        connection: &LeaderConnection,
        frames: &mut [JournalFrame],
    ) -> Result<(), StoreError> {
        let tail = connection.leadership.tails.tasks;
        let mut place = self.leader.written(Stream::Tasks);
        let from = place.position;
        for frame in frames.iter_mut().filter(|frame| frame.end() > from) {
            if place.position >= tail.end.position {
                break;
            }
            place = place.after(frame.portable());
        }
        if place != tail.end {
            return Err(StoreError::Diverged { position: tail.end.position.min(place.position) });
        }
        (self.end, self.segment) = (place, tail.segment);
        Ok(())
    }
}
