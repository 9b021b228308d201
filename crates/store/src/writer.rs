//! The writer: appends sealed batches and syncs them, with one sync for all pending batches. It runs on its
//! own thread; the simulator calls it directly.
//!
//! The leader of a group appends to the replicated journal first, and then writes its local file without a
//! sync: the file is always a prefix of what is committed.

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::Timestamp;

use crate::error::{AppendError, IoContext, StoreError, is_full};
use crate::frame::JournalFrame;
use crate::high_water::HighWater;
use crate::replicated::{LeaderLease, ReplicatedTarget, ReplicationMutation};
use crate::segment::Segment;
use crate::settings::Sync;
use crate::shared::Shared;

/// Appends frames to the journal and syncs it; runs on a thread of its own.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    segment: Option<Arc<Segment>>,
    /// The position that the next frame must have.
    position: u64,
    next_event: u64,
    last_sync: Timestamp,
    /// Small frames that are written together.
    gathered: Vec<u8>,
    failed: bool,
    /// The journal is closed, and the lease released: nothing may renew it.
    closed: bool,
    target: WriteTarget,
}

/// Where frames must be before they are acknowledged.
#[derive(Debug)]
pub(crate) enum WriteTarget {
    /// On the local disk.
    Local,
    /// In a replicated journal.
    Replicated(Box<ReplicatedTarget>),
}

/// Frames are copied together up to this many bytes, because a separate write for each costs more than the
/// copy.
const GATHERED_BYTES_MAX: usize = 64 << 10;
/// Frames are committed together up to this many bytes.
const COMMIT_BYTES_MAX: usize = 1 << 20;
/// How soon a writer with unsynced bytes checks whether a snapshot waits for it.
const LOOK_FOR_SNAPSHOT: Duration = Duration::from_millis(50);

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        segment: Option<Arc<Segment>>,
        position: u64,
        next_event: u64,
        target: WriteTarget,
    ) -> Writer {
        Writer {
            shared,
            segment,
            position,
            next_event,
            last_sync: Timestamp::ZERO,
            gathered: Vec::new(),
            failed: false,
            closed: false,
            target,
        }
    }

    /// Appends the frames in order and removes the finished ones from the list. Returns the position up to
    /// which everything may be acknowledged.
    ///
    /// On a full disk, the frames that did not fit stay in the list, to be tried again. After any other error
    /// the writer accepts nothing more: the content of the disk is unknown, and the process must end.
    pub fn append(&mut self, frames: &mut Vec<JournalFrame>, now: Timestamp) -> Result<u64, AppendError> {
        if self.failed || self.closed {
            return Err(StoreError::Failed.into());
        }
        let result = match self.target {
            WriteTarget::Local => self.append_groups(frames, now),
            WriteTarget::Replicated(_) => self.append_replicated(frames, now),
        };
        self.failed = matches!(result, Err(AppendError::Fatal(_) | AppendError::Deposed { .. }));
        result.map(|()| self.position)
    }

    /// Syncs pending bytes if the sync interval has passed or a snapshot asks for it. The caller calls it
    /// when there is nothing to append. Returns after how long to call again. A leader renews its lease here.
    pub fn tick(&mut self, now: Timestamp) -> Result<Option<Duration>, AppendError> {
        if self.failed {
            return Err(StoreError::Failed.into());
        }
        if self.closed {
            return Ok(None);
        }
        if let WriteTarget::Replicated(target) = &mut self.target {
            let result = target.renew_if_due(&mut [], now, &self.shared);
            self.failed = matches!(result, Err(AppendError::Fatal(_) | AppendError::Deposed { .. }));
            return result.map(Some);
        }
        if self.shared.progress.synced() == self.position {
            return Ok(None);
        }
        let due = match self.shared.settings.sync {
            Sync::Always => return Ok(None),
            Sync::Interval(interval) => (self.last_sync + interval).since(now),
            Sync::Os => Duration::MAX,
        };
        if due.is_zero() || self.shared.progress.is_wanted() {
            self.sync(now).inspect_err(|_| self.failed = true)?;
            return Ok(None);
        }
        Ok(Some(due.min(LOOK_FOR_SNAPSHOT)))
    }

    /// Closes the journal cleanly, after which it accepts nothing more: syncs pending bytes and stores how far the journal reaches. If part of it
    /// is missing later, the disk lost it, not a crash.
    pub fn close(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Failed);
        }
        self.sync(now).inspect_err(|_| self.failed = true)?;
        self.closed = true;
        if let WriteTarget::Replicated(target) = &mut self.target {
            target.release();
        }
        let segment = self.segment.as_ref().map(|segment| segment.start);
        self.shared.raise_high_water(HighWater { position: self.position, segment })
    }

    /// Whether every append is synced before it returns.
    pub fn syncs_always(&self) -> bool {
        self.shared.settings.sync == Sync::Always
    }

    /// The lease of a leader. Without a replicated journal there is none.
    pub fn lease(&self) -> Option<LeaderLease> {
        match &self.target {
            WriteTarget::Local => None,
            WriteTarget::Replicated(target) => Some(target.lease()),
        }
    }

    /// The epoch with which a leader writes. A new connection may have begun another one.
    pub fn epoch(&self) -> Option<u64> {
        match &self.target {
            WriteTarget::Local => None,
            WriteTarget::Replicated(target) => Some(target.epoch()),
        }
    }

    /// How many acknowledged bytes the replicated journal has lost and got back.
    pub fn refilled_bytes(&self) -> u64 {
        match &self.target {
            WriteTarget::Local => 0,
            WriteTarget::Replicated(target) => target.refilled_bytes(),
        }
    }

    /// The position up to which everything may be acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.shared.progress.acknowledged()
    }

    /// The frames of one segment form a group: written one after the other, synced together. A segment is
    /// synced before the next one begins, so only the last can have a torn tail.
    fn append_groups(&mut self, frames: &mut Vec<JournalFrame>, now: Timestamp) -> Result<(), AppendError> {
        while let Some(first) = frames.first() {
            let start = first.segment;
            let count = frames.iter().take_while(|frame| frame.segment == start).count();
            if self.segment.as_ref().is_none_or(|segment| segment.start != start) {
                self.begin_segment(start, now)?;
            }
            self.write_group(&mut frames[..count])?;
            match self.shared.settings.sync {
                Sync::Always => self.sync(now)?,
                Sync::Interval(interval) if now.since(self.last_sync) >= interval => self.sync(now)?,
                Sync::Interval(_) | Sync::Os if self.shared.progress.is_wanted() => self.sync(now)?,
                Sync::Interval(_) | Sync::Os => {}
            }
            self.publish(frames.drain(..count));
        }
        Ok(())
    }

    /// Commits the frames of one segment, then writes them to the local file. On a full disk they are committed
    /// already, and only the file is missing.
    fn append_replicated(
        &mut self,
        frames: &mut Vec<JournalFrame>,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        while let Some(first) = frames.first() {
            let start = first.segment;
            let count = frames.iter().take_while(|frame| frame.segment == start).count();
            let count = count.min(gathered_up_to(frames, COMMIT_BYTES_MAX));
            let WriteTarget::Replicated(target) = &mut self.target else { unreachable!("it is replicated") };
            if target.has_mutation(ReplicationMutation::WriteLocalFirst) {
                return self.append_locally_first(frames, count, now);
            }
            target.renew_if_due(frames, now, &self.shared)?;
            target.commit(frames, count, now, &self.shared)?;
            self.write_committed(frames, count, now)?;
        }
        Ok(())
    }

    fn write_committed(
        &mut self,
        frames: &mut Vec<JournalFrame>,
        count: usize,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        let start = frames[0].segment;
        if self.segment.as_ref().is_none_or(|segment| segment.start != start) {
            // A segment is synced before the next one begins, so only the last can be torn.
            if let Some(segment) = &self.segment {
                segment.file.sync().syncing(&segment.name)?;
            }
            self.begin_segment(start, now)?;
        }
        self.write_group(&mut frames[..count])?;
        let WriteTarget::Replicated(target) = &mut self.target else { unreachable!("it is replicated") };
        target.written(self.position);
        self.shared.progress.set_synced(self.position);
        self.publish(frames.drain(..count));
        Ok(())
    }

    /// A mistake, for the simulator.
    fn append_locally_first(
        &mut self,
        frames: &mut Vec<JournalFrame>,
        count: usize,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        let before = (self.position, self.next_event);
        let start = frames[0].segment;
        if self.segment.as_ref().is_none_or(|segment| segment.start != start) {
            self.begin_segment(start, now)?;
        }
        self.write_group(&mut frames[..count])?;
        let WriteTarget::Replicated(target) = &mut self.target else { unreachable!("it is replicated") };
        if let Err(error) = target.commit(frames, count, now, &self.shared) {
            (self.position, self.next_event) = before;
            return Err(error);
        }
        target.written(self.position);
        self.shared.progress.set_synced(self.position);
        self.publish(frames.drain(..count));
        Ok(())
    }

    fn begin_segment(&mut self, start: u64, now: Timestamp) -> Result<(), AppendError> {
        assert_eq!(start, self.position, "a segment begins where the journal ends");
        self.sync(now)?;
        self.cut_segment()?;
        let spare = match self.shared.take_spare() {
            Some(spare) => spare,
            None => self.shared.create_spare().map_err(|error| full_or_fatal(error, 1))?,
        };
        self.segment = Some(self.shared.place_spare(spare, start)?);
        Ok(self.shared.raise_high_water(HighWater { position: start, segment: Some(start) })?)
    }

    /// A prepared or reused file may be longer than its content: truncates it, so that the end of the file is
    /// the end of the segment.
    fn cut_segment(&mut self) -> Result<(), StoreError> {
        let Some(segment) = &self.segment else { return Ok(()) };
        let end = segment.offset(self.position);
        if segment.file.len().doing("measuring", &segment.name)? > end {
            segment.file.set_len(end).doing("cutting", &segment.name)?;
            segment.file.sync().syncing(&segment.name)?;
        }
        Ok(())
    }

    /// Writes a whole group or, on a full disk, nothing.
    fn write_group(&mut self, frames: &mut [JournalFrame]) -> Result<(), AppendError> {
        let segment = self.segment.clone().expect("a segment was begun");
        let (start, first_event) = (self.position, self.next_event);
        let synced = match self.target {
            WriteTarget::Local => self.shared.progress.synced(),
            // The local file is synced when the operating system decides.
            WriteTarget::Replicated(_) => 0,
        };
        for frame in frames.iter_mut() {
            assert_eq!(
                (frame.position, frame.first_event),
                (self.position, self.next_event),
                "frames come in order"
            );
            frame.finish(segment.salt, synced);
            self.position = frame.end();
            self.next_event = frame.next_event();
        }
        let mut left = &*frames;
        while let Some(frame) = left.first() {
            let count = gathered(left);
            let bytes = if count == 1 { &frame.bytes[..] } else { self.gather(&left[..count]) };
            if let Err(source) = segment.file.write_at(bytes, segment.offset(frame.position)) {
                if !is_full(&source) {
                    return Err(source).doing("writing", &segment.name).map_err(AppendError::Fatal);
                }
                let needed = bytes.len() as u64;
                segment.file.set_len(segment.offset(start)).doing("cutting back", &segment.name)?;
                (self.position, self.next_event) = (start, first_event);
                return Err(AppendError::Full { needed });
            }
            left = &left[count..];
        }
        Ok(())
    }

    /// Copies frames one after the other, as they are in the file.
    fn gather(&mut self, frames: &[JournalFrame]) -> &[u8] {
        self.gathered.clear();
        frames.iter().for_each(|frame| self.gathered.extend_from_slice(&frame.bytes));
        &self.gathered
    }

    /// If a sync fails, the content of the disk is unknown, and a second sync could wrongly succeed. So a
    /// failed sync is never repeated.
    fn sync(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if let Some(segment) = &self.segment
            && self.shared.progress.synced() < self.position
        {
            segment.file.sync().syncing(&segment.name)?;
            self.shared.progress.set_synced(self.position);
            self.last_sync = now;
        }
        Ok(())
    }

    /// Makes the frames visible: readers find their bodies and events.
    fn publish(&mut self, frames: impl Iterator<Item = JournalFrame>) {
        let segment = self.segment.as_ref().expect("a segment was begun");
        for frame in frames {
            segment.mark(frame.first_event, frame.position);
            if let Some(buffer) = self.shared.tail.push(frame.position, frame.bytes.freeze()) {
                self.shared.keep_buffer(buffer);
            }
        }
        self.shared.progress.acknowledge(self.position, self.next_event);
    }
}

/// No room for a new segment means a full disk; anything else is fatal.
fn full_or_fatal(error: StoreError, needed: u64) -> AppendError {
    match error {
        StoreError::Io { source, .. } if is_full(&source) => AppendError::Full { needed },
        other => AppendError::Fatal(other),
    }
}

/// How many of the frames are written together.
fn gathered(frames: &[JournalFrame]) -> usize {
    gathered_up_to(frames, GATHERED_BYTES_MAX)
}

fn gathered_up_to(frames: &[JournalFrame], bytes_max: usize) -> usize {
    let ends = frames.iter().scan(0, |bytes, frame| {
        *bytes += frame.bytes.len();
        Some(*bytes)
    });
    ends.take_while(|end| *end <= bytes_max).count().max(1)
}
