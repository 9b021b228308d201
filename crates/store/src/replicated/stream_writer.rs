//! The leader's end of a stream beside the journal of tasks: the log of topics or of keys.
//!
//! It appends on a connection of its own, so that neither log waits for the other or for tasks. Epochs are begun
//! by [`LeaderState`], for all streams at once.

use std::sync::Arc;

use super::commit::TRIES;
use super::leader::LeaderState;
use super::{FrameGroup, Leadership, Place, ReplicatedSession, ReplicationError, Stream};
use crate::error::{AppendError, StoreError};
use crate::shared::Shared;

#[derive(Debug)]
pub(crate) struct StreamWriter {
    leader: Arc<LeaderState>,
    stream: Stream,
    session: Option<Box<dyn ReplicatedSession>>,
    /// Everything before it is committed.
    end: Place,
    /// The database's newest segment.
    segment: u64,
    /// Of the ends that `end` was compared with.
    generation: u64,
    /// The last append may or may not be committed.
    is_in_doubt: bool,
}

/// A frame that is not in the local files yet.
#[derive(Debug)]
pub(crate) struct PendingFrame {
    /// The start of its segment.
    pub(crate) segment: u64,
    pub(crate) portable: Vec<u8>,
}

impl StreamWriter {
    pub(crate) fn new(leader: Arc<LeaderState>, stream: Stream) -> StreamWriter {
        let (tail, generation) = {
            let connection = leader.connection();
            (connection.leadership.tails[stream], connection.generation)
        };
        StreamWriter {
            leader,
            stream,
            session: None,
            end: tail.end,
            segment: tail.segment,
            generation,
            is_in_doubt: false,
        }
    }

    /// Where the stream ends.
    pub(crate) fn position(&self) -> u64 {
        self.end.position
    }

    /// Commits the first `count` of the frames that are not in the local files, which belong to one segment.
    /// Those that are committed already are skipped.
    pub(crate) fn commit(
        &mut self,
        frames: &[PendingFrame],
        count: usize,
        shared: &Shared,
    ) -> Result<(), AppendError> {
        let mut last = String::new();
        for _ in 0..TRIES {
            if self.is_in_doubt {
                self.begin_epoch(shared)?;
            }
            match self.try_commit(frames, count) {
                Ok(()) => return Ok(()),
                // Nothing was sent.
                Err(StoreError::Replication(ReplicationError::Away(why))) => {
                    self.session = None;
                    return Err(AppendError::Away { why });
                }
                // Another stream may have begun a new epoch, and this one may be in doubt: the end of the
                // stream tells, after the next epoch has begun.
                Err(StoreError::Replication(
                    error @ (ReplicationError::Fenced { .. }
                    | ReplicationError::Doubt
                    | ReplicationError::NotAtEnd { .. }),
                )) => {
                    if !matches!(error, ReplicationError::Fenced { .. }) {
                        self.session = None;
                    }
                    last = error.to_string();
                    self.is_in_doubt = true;
                }
                Err(other) => return Err(AppendError::Fatal(other)),
            }
        }
        Err(AppendError::Away { why: last })
    }

    /// These frames, the next ones, are committed and in the local files now.
    pub(crate) fn written(&mut self, frames: &[PendingFrame]) {
        let written = self.leader.written(self.stream);
        let place = frames.iter().fold(written, |place, frame| place.after(&frame.portable));
        self.leader.set_written(self.stream, place);
    }

    /// Drops segments. This is tidiness: what fails is tried again by a later call.
    pub(crate) fn drop_segments(&mut self, starts: &[u64]) -> bool {
        let (leadership, _) = self.current();
        let dropped = self
            .session()
            .and_then(|(session, stream)| Ok(session.drop_segments(&leadership, stream, starts)?));
        if dropped.is_err() {
            self.session = None;
        }
        dropped.is_ok()
    }

    fn begin_epoch(&mut self, shared: &Shared) -> Result<(), AppendError> {
        match self.leader.begin_epoch_after(self.generation, shared) {
            Ok(()) => {
                self.is_in_doubt = false;
                Ok(())
            }
            Err(StoreError::Replication(ReplicationError::Fenced { holder, epoch })) => {
                self.leader.lease.end();
                Err(AppendError::Deposed { holder, epoch })
            }
            Err(StoreError::Replication(
                error @ (ReplicationError::Doubt
                | ReplicationError::Away(_)
                | ReplicationError::NotAtEnd { .. }),
            )) => Err(AppendError::Away { why: error.to_string() }),
            Err(other) => Err(AppendError::Fatal(other)),
        }
    }

    fn try_commit(&mut self, frames: &[PendingFrame], count: usize) -> Result<(), StoreError> {
        let (leadership, generation) = self.current();
        if self.generation != generation {
            self.adopt(&leadership, frames)?;
            self.generation = generation;
        }
        let mut place = self.leader.written(self.stream);
        let mut group = FrameGroup::new(self.end);
        let mut segment = self.segment;
        for frame in &frames[..count] {
            place.position += frame.portable.len() as u64;
            if place.position > self.end.position {
                segment = frame.segment;
                group.add(&frame.portable);
            }
        }
        if group.is_empty() {
            return Ok(());
        }
        let (known, end) = (self.segment, self.end);
        let (session, stream) = self.session()?;
        if segment != known {
            if segment != end.position {
                return Err(StoreError::Diverged { position: segment });
            }
            session.begin_segment(&leadership, stream, end)?;
        }
        session.append(&leadership, stream, &group)?;
        (self.end, self.segment) = (group.end, segment);
        Ok(())
    }

    /// The stream ends at or after what is in the local files: whatever follows must be what was sent.
    fn adopt(&mut self, leadership: &Leadership, frames: &[PendingFrame]) -> Result<(), StoreError> {
        let tail = leadership.tails[self.stream];
        let mut place = self.leader.written(self.stream);
        for frame in frames {
            if place.position >= tail.end.position {
                break;
            }
            place = place.after(&frame.portable);
        }
        if place != tail.end {
            return Err(StoreError::Diverged { position: tail.end.position.min(place.position) });
        }
        (self.end, self.segment) = (place, tail.segment);
        Ok(())
    }

    fn current(&self) -> (Leadership, u64) {
        let connection = self.leader.connection();
        (connection.leadership.clone(), connection.generation)
    }

    fn session(&mut self) -> Result<(&mut dyn ReplicatedSession, Stream), StoreError> {
        if self.session.is_none() {
            self.session = Some(self.leader.journal.connect()?);
        }
        Ok((&mut **self.session.as_mut().expect("there is a session"), self.stream))
    }
}
