//! Snapshots: every task and every setting, as seen by a walk over the engine while the engine keeps running.
//! That is safe because a record is a whole state and the last one wins: the journal from `start` on brings
//! every task up to date, and it is known to reach at least to `end`, where the walk ended.
//!
//! The file is written under a temporary name and renamed when it is complete and synced.

use std::sync::Arc;

use tenure_engine::{Change, Engine, Slot, Timestamp};

use crate::block::{BlockHeader, BlockKind, SnapshotBlock};
use crate::codec::{Base, ByteCursor, Dictionary, Malformed, encode_setting, encode_whole_task, put_varint};
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, IoContext, StoreError};
use crate::files;
use crate::header::{HEADER_BYTES, Header, SNAPSHOT_MAGIC};
use crate::shared::SnapshotFile;

/// The totals of a snapshot's blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) tasks: u64,
    pub(crate) settings: u64,
    pub(crate) blocks: u64,
    /// The journal reaches at least to here.
    pub(crate) end: u64,
    pub(crate) taken_at: Timestamp,
    /// The segments from before the snapshot that it needs, in order, with the minimum length of each. `None`
    /// if the snapshot was written before this list existed.
    pub(crate) segments: Option<Vec<NeededSegment>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeededSegment {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, kind: BlockKind, count: u32) {
        self.blocks += 1;
        match kind {
            BlockKind::Tasks => self.tasks += u64::from(count),
            BlockKind::Settings => self.settings += u64::from(count),
            BlockKind::Events | BlockKind::Sum => {}
        }
    }

    fn encode(&self) -> SnapshotBlock {
        let mut page = Vec::new();
        for number in [self.tasks, self.settings, self.blocks, self.end, self.taken_at.0] {
            put_varint(&mut page, number);
        }
        if let Some(segments) = &self.segments {
            put_varint(&mut page, segments.len() as u64);
            for segment in segments {
                put_varint(&mut page, segment.start);
                put_varint(&mut page, segment.bytes);
            }
        }
        SnapshotBlock { kind: BlockKind::Sum, count: 0, base: Base::default(), page }
    }

    pub(crate) fn decode(page: &[u8]) -> Result<Sum, Malformed> {
        let mut take = ByteCursor::new(page);
        let (tasks, settings, blocks) = (take.varint()?, take.varint()?, take.varint()?);
        let (end, taken_at) = (take.varint()?, Timestamp(take.varint()?));
        let mut sum = Sum { tasks, settings, blocks, end, taken_at, segments: None };
        if !take.is_empty() {
            let count = take.varint()?;
            let mut segments = Vec::new();
            for _ in 0..count {
                segments.push(NeededSegment { start: take.varint()?, bytes: take.varint()? });
            }
            sum.segments = Some(segments);
        }
        Ok(sum)
    }
}

/// Builds a block of the next `max` tasks. Returns where to continue.
pub(crate) fn task_block(
    engine: &Engine,
    from: Option<Slot>,
    max: usize,
) -> (Option<SnapshotBlock>, Option<Slot>) {
    let (mut book, mut entries, mut base, mut count) =
        (Dictionary::default(), Vec::new(), Base::default(), 0);
    let next = engine.scan_tasks(from, max, &mut |task, terms, after| {
        if count == 0 {
            base = Base { time: task.submitted_at, event: task.age, place: task.body.at() };
        }
        count += 1;
        encode_whole_task(&mut entries, &mut book, &base, task, terms, after);
    });
    (block(BlockKind::Tasks, count, base, &book, &entries), next)
}

pub(crate) fn settings_block(engine: &Engine, now: Timestamp) -> Option<SnapshotBlock> {
    let (mut book, mut entries, mut count) = (Dictionary::default(), Vec::new(), 0);
    let base = Base { time: now, ..Base::default() };
    engine.settings_records(&mut |change: Change<'_>| {
        count += u32::from(encode_setting(&mut entries, &mut book, &base, change));
    });
    block(BlockKind::Settings, count, base, &book, &entries)
}

fn block(
    kind: BlockKind,
    count: u32,
    base: Base,
    book: &Dictionary,
    entries: &[u8],
) -> Option<SnapshotBlock> {
    if count == 0 {
        return None;
    }
    let mut page = Vec::with_capacity(book.len() + entries.len());
    book.write(&mut page);
    page.extend_from_slice(entries);
    Some(SnapshotBlock { kind, count, base, page })
}

/// Writes one snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotWriter {
    name: String,
    file: Arc<dyn DiskFile>,
    start: u64,
    first_event: u64,
    offset: u64,
    sum: Sum,
}

impl SnapshotWriter {
    pub(crate) fn create(
        disk: &dyn Disk,
        start: u64,
        first_event: u64,
    ) -> Result<SnapshotWriter, StoreError> {
        let name = files::snapshot(start);
        let unfinished = files::unfinished(&name);
        let file = disk.create(&unfinished).doing("creating", &unfinished)?;
        let header = Header { magic: SNAPSHOT_MAGIC, salt: 0, numbers: [start, first_event] };
        file.write_at(&header.encode(), 0).doing("writing", &unfinished)?;
        let sum = Sum::default();
        Ok(SnapshotWriter { name, file, start, first_event, offset: HEADER_BYTES as u64, sum })
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn first_event(&self) -> u64 {
        self.first_event
    }

    pub(crate) fn add(&mut self, block: &SnapshotBlock) -> Result<(), StoreError> {
        self.sum.add(block.kind, block.count);
        self.put(block)
    }

    /// Syncs the file and renames it to its final name. The journal must be synced up to `end`.
    pub(crate) fn finish(
        mut self,
        disk: &dyn Disk,
        end: u64,
        now: Timestamp,
        segments: Option<Vec<NeededSegment>>,
    ) -> Result<SnapshotFile, StoreError> {
        self.sum.end = end;
        self.sum.taken_at = now;
        self.sum.segments = segments;
        self.put(&self.sum.encode())?;
        let unfinished = files::unfinished(&self.name);
        self.file.sync().syncing(&unfinished)?;
        disk.rename(&unfinished, &self.name).doing("renaming", &unfinished)?;
        disk.sync_dir().syncing("the directory")?;
        Ok(SnapshotFile { start: self.start, first_event: self.first_event, bytes: self.offset })
    }

    fn put(&mut self, block: &SnapshotBlock) -> Result<(), StoreError> {
        self.file.write_at(&block.encode(self.offset), self.offset).doing("writing", &self.name)?;
        self.offset += block.bytes();
        Ok(())
    }
}

/// Reads one snapshot, block by block, with large reads.
#[derive(Debug)]
pub(crate) struct SnapshotReader {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) first_event: u64,
    pub(crate) bytes: u64,
    file: Arc<dyn DiskFile>,
    offset: u64,
    found: Sum,
    pub(crate) sum: Option<Sum>,
}

impl SnapshotReader {
    pub(crate) fn open(disk: &dyn Disk, start: u64) -> Result<SnapshotReader, StoreError> {
        let name = files::snapshot(start);
        let file = disk.open(&name).doing("opening", &name)?;
        let [stated_start, first_event] = Header::read(&*file, &name, SNAPSHOT_MAGIC)?.numbers;
        if stated_start != start {
            return Err(Damage::new(&name, 16, "its position is not the one of its name").into());
        }
        let bytes = file.len().doing("measuring", &name)?;
        let (offset, found, sum) = (HEADER_BYTES as u64, Sum::default(), None);
        Ok(SnapshotReader { name, start, first_event, bytes, file, offset, found, sum })
    }

    /// The next block with its offset, `None` after the last. The last one holds the totals of all blocks,
    /// which are checked here.
    pub(crate) fn next(&mut self) -> Result<Option<(BlockHeader, Vec<u8>, u64)>, StoreError> {
        let offset = self.offset;
        if self.sum.is_some() {
            if offset != self.bytes {
                return Err(self.damage(offset, "something follows its last block").into());
            }
            return Ok(None);
        }
        let header = BlockHeader::read(&*self.file, &self.name, offset)?;
        let page = header.read_page(&*self.file, &self.name, offset)?;
        self.offset = header.end(offset);
        match header.kind {
            BlockKind::Tasks | BlockKind::Settings => {
                self.found.add(header.kind, header.count);
                Ok(Some((header, page, offset)))
            }
            BlockKind::Sum => {
                let sum = Sum::decode(&page).map_err(|why| self.damage(offset, why.to_string()))?;
                let Sum { tasks, settings, blocks, .. } = &self.found;
                if (*tasks, *settings, *blocks) != (sum.tasks, sum.settings, sum.blocks) {
                    return Err(self.damage(offset, "its blocks do not add up to what its end says").into());
                }
                self.sum = Some(sum);
                self.next()
            }
            BlockKind::Events => Err(self.damage(offset, "a block of events is in a snapshot").into()),
        }
    }

    pub(crate) fn damage(&self, offset: u64, why: impl Into<String>) -> Damage {
        Damage::new(&self.name, offset, why)
    }

    pub(crate) fn file(&self) -> SnapshotFile {
        SnapshotFile { start: self.start, first_event: self.first_event, bytes: self.bytes }
    }
}
