//! Begins new files and deletes old ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_engine::Timestamp;

use super::open::{read_file, replay};
use super::rows::{BASE, BASE_END};
use super::write::frame;
use super::{LogFamily, Messages, TopicFile, TopicLog, TopicRows};
use crate::disk::DiskFile;
use crate::error::{IoContext, StoreError, is_full};
use crate::header::{HEADER_BYTES, Header};
use crate::segment::{Segment, SegmentRest};
use crate::shared::Shared;

/// How much of the base goes into one frame.
pub(super) const BASE_FRAME_BYTES: usize = 1 << 20;

impl TopicLog {
    /// Begins a new file if the current one is long, and deletes files that need not be kept. It reads the
    /// rows back from the file, so it involves no other thread.
    pub fn rotate_if_due(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if self.is_committing() {
            return Ok(());
        }
        let base = self.base_end - self.segment.start;
        if self.position - self.segment.start > self.settings.segment_bytes + 2 * base {
            let mut all: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            self.sync_now()?;
            read_file(&self.segment, Some(self.position), |_, row| replay(row, &mut all))?;
            self.begin(all.into_iter())?;
        }
        self.delete_unused_files(now)
    }

    /// Begins a new file with exactly these rows. On a full disk it returns `false` and continues with the
    /// old file. The leader of a group begins the file when it commits.
    pub fn begin(&mut self, rows: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<bool, StoreError> {
        if self.committing.is_some() {
            self.begin_committing(rows);
            return Ok(true);
        }
        self.sync_now()?;
        let begun = match begin(&self.shared, self.family, self.position, rows) {
            Ok(begun) => begun,
            Err(StoreError::Io { source, .. }) if is_full(&source) => return Ok(false),
            Err(error) => {
                self.failed = true;
                return Err(error);
            }
        };
        self.segment = begun.segment;
        (self.position, self.synced, self.base_end) = (begun.end, begun.end, begun.end);
        self.messages = Messages::default();
        Ok(true)
    }

    /// Deletes the files before a position. A backup in progress keeps all of them: then it returns `false`.
    pub(crate) fn delete_files_before(&mut self, position: u64) -> Result<bool, StoreError> {
        if self.is_committing() {
            return Ok(false);
        }
        loop {
            if self.shared.files.read().expect("no holder of the lock panics").pins > 0 {
                return Ok(false);
            }
            let mut files = self.family.files(&self.shared).lock().expect("no holder of the lock panics");
            if files.first().is_none_or(|first| first.segment.start >= position) {
                drop(files);
                return Ok(self.drop_segments());
            }
            let Segment { name, start, .. } = &*files.remove(0).segment;
            drop(files);
            self.drop_later(*start);
            self.shared.disk.remove(name).doing("removing", name)?;
            self.shared.disk.sync_dir().syncing("the directory")?;
        }
    }

    /// Deletes the oldest files whose messages exceed the limits of age or size. A backup in progress keeps
    /// all of them.
    fn delete_unused_files(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if self.shared.files.read().expect("no holder of the lock panics").pins > 0 {
            return Ok(());
        }
        loop {
            let mut files = self.family.files(&self.shared).lock().expect("no holder of the lock panics");
            let later: u64 = files.iter().skip(1).map(|file| file.messages.bytes).sum();
            let Some(first) = files.first().filter(|_| files.len() > 1) else { break };
            let kept = first.messages.bytes > 0
                && later < self.settings.kept_bytes
                && now.since(first.messages.newest) < self.settings.kept_for;
            if kept {
                break;
            }
            let Segment { name, start, .. } = &*files.remove(0).segment;
            drop(files);
            self.drop_later(*start);
            self.shared.disk.remove(name).doing("removing", name)?;
            // Sync each deletion: a file in the middle must not disappear before those in front of it.
            self.shared.disk.sync_dir().syncing("the directory")?;
        }
        self.drop_segments();
        Ok(())
    }
}

pub(super) struct Begun {
    pub(super) segment: Arc<Segment>,
    pub(super) end: u64,
}

/// Writes a file with its base, syncs it, and only then gives it its final name.
pub(super) fn begin(
    shared: &Shared,
    family: LogFamily,
    start: u64,
    rows: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
) -> Result<Begun, StoreError> {
    let (disk, name) = (&*shared.disk, family.unfinished());
    let file = disk.create(name).doing("creating", name)?;
    let salt = shared.new_salt(0);
    let end = write_base(&*file, family, salt, start, rows).inspect_err(|_| {
        // This file may be what fills the disk. Its deletion must be durable before the next one gets its
        // name.
        let _ = disk.remove(name).and_then(|()| disk.sync_dir());
    })?;
    file.sync().syncing(name)?;
    let segment = Arc::new(Segment::named(family.file_name(start), start, salt, SegmentRest::Fresh, file));
    disk.rename(name, &segment.name).doing("renaming", name)?;
    disk.sync_dir().syncing("the directory")?;
    let file = TopicFile { segment: Arc::clone(&segment), end, messages: Messages::default() };
    family.files(shared).lock().expect("no holder of the lock panics").push(file);
    Ok(Begun { segment, end })
}

fn write_base(
    file: &dyn DiskFile,
    family: LogFamily,
    salt: u32,
    start: u64,
    rows: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
) -> Result<u64, StoreError> {
    let (mut at, name) = (start, family.unfinished());
    let mut write = |kind, rows: &TopicRows| {
        let bytes = frame(kind, &rows.bytes, rows.count, at, start, salt);
        let written = file.write_at(&bytes, at - start + HEADER_BYTES as u64);
        at += bytes.len() as u64;
        written.doing("writing", name)
    };
    let header = Header { magic: family.magic(), salt, numbers: [0; 2] };
    file.write_at(&header.encode(), 0).doing("writing", name)?;
    let mut page = TopicRows::default();
    for (key, value) in rows {
        page.put(&key, &value);
        if page.bytes() >= BASE_FRAME_BYTES {
            write(BASE, &std::mem::take(&mut page))?;
        }
    }
    if !page.is_empty() {
        write(BASE, &page)?;
    }
    write(BASE_END, &TopicRows::default())?;
    Ok(at)
}
