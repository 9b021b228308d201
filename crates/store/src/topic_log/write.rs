//! Appending, and syncing.

use crc32c::crc32c;

use super::rows::CHANGES;
use super::{TopicLog, TopicRows};
use crate::error::{AppendError, IoContext, StoreError, WriteError, is_full};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::segment::Segment;
use crate::settings::Sync;

impl TopicLog {
    /// Appends rows as one frame. They are durable after the next [`TopicLog::sync`].
    ///
    /// On a full disk nothing is written, and the caller tries again. After any other error the log accepts
    /// nothing more. The leader of a group writes nothing before it commits.
    pub fn append(&mut self, rows: &TopicRows) -> Result<(), WriteError> {
        if self.failed {
            return Err(StoreError::Failed.into());
        }
        if self.committing.is_some() {
            self.queue(CHANGES, rows);
            return Ok(());
        }
        let frame = frame(CHANGES, &rows.bytes, rows.count, self.position, self.synced, self.segment.salt);
        let segment = &self.segment;
        let written = segment.file.write_at(&frame, segment.offset(self.position));
        if let Err(source) = written {
            if !is_full(&source) {
                self.failed = true;
                return Err(source).doing("writing", &segment.name).map_err(WriteError::Fatal);
            }
            let cut =
                segment.file.set_len(segment.offset(self.position)).doing("cutting back", &segment.name);
            cut.inspect_err(|_| self.failed = true)?;
            return Err(WriteError::Full { needed: frame.len() as u64 });
        }
        self.position += frame.len() as u64;
        self.messages.join(rows.messages);
        Ok(())
    }

    /// Syncs everything, unless the settings leave that to the operating system.
    ///
    /// The leader of a group commits everything instead. If the replicated journal is away, or the local disk full,
    /// what was appended stays in memory: it may or may not be committed, so the caller must neither acknowledge nor
    /// refuse it, but call again.
    pub fn sync(&mut self) -> Result<(), AppendError> {
        if self.committing.is_some() {
            return self.commit();
        }
        Ok(self.sync_local()?)
    }

    fn sync_local(&mut self) -> Result<(), StoreError> {
        match self.shared.settings.sync {
            Sync::Always => self.sync_now(),
            Sync::Interval(_) | Sync::Os => Ok(()),
        }
    }

    pub(crate) fn sync_now(&mut self) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Failed);
        }
        if self.committing.is_some() {
            // The database has synced it, or will have when it is committed.
            return Ok(());
        }
        if self.synced < self.position {
            let synced = self.segment.file.sync().syncing(&self.segment.name);
            synced.inspect_err(|_| self.failed = true)?;
            self.synced = self.position;
        }
        self.publish_end();
        Ok(())
    }

    /// The position of the next frame.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Publishes the end of the current file for backups.
    pub(super) fn publish_end(&self) {
        let mut files = self.family.files(&self.shared).lock().expect("no holder of the lock panics");
        if let Some(last) = files.last_mut() {
            (last.end, last.messages) = (self.synced, self.messages);
        }
    }
}

/// Appends rows to a file that no process has open.
pub(crate) fn append_offline(segment: &Segment, end: u64, rows: &TopicRows) -> Result<(), StoreError> {
    let frame = frame(CHANGES, &rows.bytes, rows.count, end, end, segment.salt);
    segment.file.write_at(&frame, segment.offset(end)).doing("writing", &segment.name)?;
    segment.file.sync().syncing(&segment.name)
}

pub(super) fn frame(kind: u8, rows: &[u8], count: u32, position: u64, synced: u64, salt: u32) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_HEADER_BYTES];
    bytes.reserve(rows.len() + 1);
    bytes.push(kind);
    bytes.extend_from_slice(rows);
    let payload = &bytes[FRAME_HEADER_BYTES..];
    let header = FrameHeader {
        blob_bytes: 0,
        page_bytes: payload.len() as u32,
        events: count,
        position,
        first_event: 0,
        synced,
        payload_crc: crc32c(payload),
    };
    let header = header.encode(salt);
    bytes[..FRAME_HEADER_BYTES].copy_from_slice(&header);
    bytes
}
