//! The log of a leader: frames wait in memory until they are committed to the replicated journal, and are written to
//! the local file afterwards, without a sync. So the local files are always a prefix of what is committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::rotate::BASE_FRAME_BYTES;
use super::rows::{BASE, BASE_END};
use super::write::frame;
use super::{Messages, TopicFile, TopicLog, TopicRows};
use crate::error::{AppendError, IoContext, StoreError, is_full};
use crate::frame::FrameHeader;
use crate::replicated::{LeaderState, PendingFrame, Stream, StreamWriter, create_segment, localized};

/// Frames are committed together up to this many bytes.
const COMMIT_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Committing {
    writer: StreamWriter,
    stream: Stream,
    /// The segment of the next frame.
    segment: u64,
    /// Frames that are not in the local files, and their messages.
    pending: Vec<PendingFrame>,
    messages: Vec<Messages>,
    /// Segments whose local files are gone, and which the database still has.
    dropped: Vec<u64>,
}

impl Committing {
    pub(super) fn new(leader: Arc<LeaderState>, stream: Stream) -> Committing {
        let writer = StreamWriter::new(leader, stream);
        Committing {
            writer,
            stream,
            segment: 0,
            pending: Vec::new(),
            messages: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// How many frames are committed next: those of one segment, up to a size.
    fn count(&self) -> usize {
        let Some(first) = self.pending.first() else { return 0 };
        let mut bytes = 0;
        let fits = |frame: &&PendingFrame| {
            bytes += frame.portable.len();
            frame.segment == first.segment && bytes <= COMMIT_BYTES_MAX
        };
        self.pending.iter().take_while(fits).count().max(1)
    }
}

impl TopicLog {
    /// Whether something was appended that is not committed yet.
    pub(crate) fn is_committing(&self) -> bool {
        self.committing.as_ref().is_some_and(|committing| !committing.pending.is_empty())
    }

    /// The copy must end where the replicated log ends.
    pub(super) fn check_end(&mut self) -> Result<(), StoreError> {
        let Some(committing) = &mut self.committing else { return Ok(()) };
        committing.segment = self.segment.start;
        let position = committing.writer.position();
        if position == self.position { Ok(()) } else { Err(StoreError::Diverged { position }) }
    }

    /// Appends a frame in memory.
    pub(super) fn queue(&mut self, kind: u8, rows: &TopicRows) {
        let Some(committing) = &mut self.committing else { return };
        let portable = frame(kind, &rows.bytes, rows.count, self.position, 0, 0);
        self.position += portable.len() as u64;
        self.synced = self.position;
        self.messages.join(rows.messages);
        committing.pending.push(PendingFrame { segment: committing.segment, portable });
        committing.messages.push(rows.messages);
    }

    /// Begins a file in memory.
    pub(super) fn begin_committing(&mut self, rows: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) {
        if let Some(committing) = &mut self.committing {
            committing.segment = self.position;
        }
        self.messages = Messages::default();
        self.queue_base(TopicRows::default(), rows);
    }

    /// Completes the rows of a file that an earlier leader has begun.
    pub(super) fn finish_base(&mut self, obsolete: &BTreeSet<Vec<u8>>, rows: &BTreeMap<Vec<u8>, Vec<u8>>) {
        let mut page = TopicRows::default();
        obsolete.iter().for_each(|key| page.delete(key));
        self.queue_base(page, rows.iter().map(|(key, value)| (key.clone(), value.clone())));
    }

    fn queue_base(&mut self, mut page: TopicRows, rows: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) {
        for (key, value) in rows {
            page.put(&key, &value);
            if page.bytes() >= BASE_FRAME_BYTES {
                self.queue(BASE, &std::mem::take(&mut page));
            }
        }
        if !page.is_empty() {
            self.queue(BASE, &page);
        }
        self.queue(BASE_END, &TopicRows::default());
        self.base_end = self.position;
    }

    /// Commits everything, and writes it to the local files.
    pub(super) fn commit(&mut self) -> Result<(), AppendError> {
        if self.failed {
            return Err(StoreError::Failed.into());
        }
        let result = self.commit_groups();
        self.failed = matches!(result, Err(AppendError::Fatal(_)));
        result
    }

    fn commit_groups(&mut self) -> Result<(), AppendError> {
        while let Some(committing) = &mut self.committing {
            let count = committing.count();
            if count == 0 {
                return Ok(());
            }
            committing.writer.commit(&committing.pending, count, &self.shared)?;
            let segment = committing.pending[0].segment;
            if self.segment.start != segment {
                self.begin_local(segment)?;
            }
            self.write_local(count)?;
        }
        Ok(())
    }

    /// A file is synced before the next one begins, so only the last can be torn.
    fn begin_local(&mut self, start: u64) -> Result<(), AppendError> {
        let Some(committing) = &self.committing else { return Ok(()) };
        self.segment.file.sync().syncing(&self.segment.name)?;
        let salt = self.shared.new_salt(0);
        let created = create_segment(&*self.shared.disk, committing.stream, start, salt);
        let segment = Arc::new(created.map_err(|error| match error {
            StoreError::Io { source, .. } if is_full(&source) => AppendError::Full { needed: 1 },
            other => AppendError::Fatal(other),
        })?);
        self.segment = Arc::clone(&segment);
        let file = TopicFile { segment, end: start, messages: Messages::default() };
        self.family.files(&self.shared).lock().expect("no holder of the lock panics").push(file);
        Ok(())
    }

    /// Writes committed frames, all of them or, on a full disk, nothing.
    fn write_local(&mut self, count: usize) -> Result<(), AppendError> {
        let Some(committing) = &mut self.committing else { return Ok(()) };
        let (mut bytes, mut position) = (Vec::new(), 0);
        for (index, frame) in committing.pending[..count].iter().enumerate() {
            let header = FrameHeader::decode(&frame.portable, 0).expect("this log has encoded it");
            if index == 0 {
                position = header.position;
            }
            bytes.extend_from_slice(&localized(header, &frame.portable, self.segment.salt));
        }
        let segment = &self.segment;
        if let Err(source) = segment.file.write_at(&bytes, segment.offset(position)) {
            if !is_full(&source) {
                return Err(source).doing("writing", &segment.name).map_err(AppendError::Fatal);
            }
            segment.file.set_len(segment.offset(position)).doing("cutting back", &segment.name)?;
            return Err(AppendError::Full { needed: bytes.len() as u64 });
        }
        committing.writer.written(&committing.pending[..count]);
        committing.pending.drain(..count);
        let mut files = self.family.files(&self.shared).lock().expect("no holder of the lock panics");
        if let Some(last) = files.last_mut() {
            last.end = position + bytes.len() as u64;
            committing.messages.drain(..count).for_each(|messages| last.messages.join(messages));
        }
        Ok(())
    }

    /// The local file of this segment is about to go: the database drops it later.
    pub(super) fn drop_later(&mut self, start: u64) {
        if let Some(committing) = &mut self.committing {
            committing.dropped.push(start);
        }
    }

    /// Drops in the database what has no local file any more. Returns whether nothing is left to drop.
    pub(super) fn drop_segments(&mut self) -> bool {
        let Some(committing) = &mut self.committing else { return true };
        if !committing.dropped.is_empty() && committing.writer.drop_segments(&committing.dropped) {
            committing.dropped.clear();
        }
        committing.dropped.is_empty()
    }
}
