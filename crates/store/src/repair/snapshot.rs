//! Repairs the newest snapshot: keeps it, drops its damaged blocks, or drops all of it if the journal can
//! replace it.

use super::Work;
use crate::block::{BlockHeader, BlockKind, SnapshotBlock};
use crate::disk::{Disk, DiskFile};
use crate::error::{IoContext, StoreError};
use crate::events::EventFile;
use crate::files;
use crate::header::{HEADER_BYTES, Header, SNAPSHOT_MAGIC};
use crate::recover::{Decoder, Inventory};
use crate::scan::{Found, Scan, next_frame_behind};
use crate::segment::Segment;
use crate::snapshot::{SnapshotReader, SnapshotWriter, Sum};

/// The snapshot to start from.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) start: u64,
    pub(super) first_event: u64,
    pub(super) sum: Sum,
}

impl Work<'_> {
    /// Rewrites the newest snapshot without its damaged blocks.
    pub(super) fn snapshot(&mut self, inventory: &Inventory) -> Result<Option<Base>, StoreError> {
        let Some(start) = inventory.snapshots.last().copied() else { return Ok(None) };
        let name = files::snapshot(start);
        let why = match read_whole(self.disk, start) {
            Ok(base) => return Ok(Some(base)),
            Err(StoreError::Damaged(damage)) => damage,
            Err(other) => return Err(other),
        };
        if let Some(start) = self.misnamed(inventory, start)? {
            self.disk.rename(&name, &files::snapshot(start)).doing("renaming", &name)?;
            self.report(format!("{why}. It was renamed to {}", files::snapshot(start)));
            return self.snapshot(&Inventory::take(self.disk)?);
        }
        if self.journal_is_complete(inventory)? {
            let aside = self.set_aside(&name)?;
            self.report(format!(
                "{why}. It was renamed to {aside}: the journal holds everything that was in it"
            ));
            return self.snapshot(&Inventory::take(self.disk)?);
        }
        let first_event = match SnapshotReader::open(self.disk, start) {
            Ok(snapshot) => snapshot.first_event,
            Err(_) => self.first_event_at(inventory, start),
        };
        let file = self.disk.open(&name).doing("opening", &name)?;
        let (blocks, sum) = good_blocks(&*file, &name)?;
        self.keep_whole(&name, &*file)?;
        let mut writer = SnapshotWriter::create(self.disk, start, first_event)?;
        let mut tasks = 0;
        for block in &blocks {
            tasks += if block.kind == BlockKind::Tasks { u64::from(block.count) } else { 0 };
            writer.add(block)?;
        }
        let Sum { end, taken_at, segments, .. } = sum.unwrap_or(Sum { end: start, ..Sum::default() });
        writer.finish(self.disk, end.max(start), taken_at, segments)?;
        self.report(format!(
            "{why}. It was written again with the {tasks} tasks that could still be read; others in it are lost"
        ));
        read_whole(self.disk, start).map(Some)
    }

    /// The position at which a snapshot was taken, if its name has another one.
    fn misnamed(&self, inventory: &Inventory, start: u64) -> Result<Option<u64>, StoreError> {
        let name = files::snapshot(start);
        let file = self.disk.open(&name).doing("opening", &name)?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_at(&mut bytes, 0).doing("reading", &name)?;
        let stated = Header::decode(&bytes, SNAPSHOT_MAGIC).map(|header| header.numbers[0]);
        Ok(stated.filter(|stated| *stated != start && !inventory.snapshots.contains(stated)))
    }

    /// Whether every segment since the very first exists.
    fn journal_is_complete(&self, inventory: &Inventory) -> Result<bool, StoreError> {
        if inventory.segments.first() != Some(&0) {
            return Ok(false);
        }
        for pair in inventory.segments.windows(2) {
            match Segment::open(self.disk, pair[0]) {
                Ok(segment) if segment.file_end()? == pair[1] => {}
                Ok(_) | Err(StoreError::Damaged(_)) => return Ok(false),
                Err(other) => return Err(other),
            }
        }
        Ok(Segment::open(self.disk, 0).is_ok())
    }

    /// The number of the first event at a position, if the snapshot's header is unreadable.
    fn first_event_at(&self, inventory: &Inventory, position: u64) -> u64 {
        let containing = inventory.segments.iter().rfind(|start| **start <= position);
        let after = inventory.segments.iter().find(|start| **start > position);
        for start in containing.into_iter().chain(after) {
            let Ok(segment) = Segment::open(self.disk, *start) else { continue };
            let from = position.max(*start);
            let here = Scan::new(&segment, from, u64::MAX).and_then(|mut scan| match scan.next()? {
                Found::Frame(header, _) => Ok(Some(header)),
                Found::End | Found::Bad(_) => next_frame_behind(&segment, from),
            });
            if let Ok(Some(header)) = here {
                return header.first_event;
            }
        }
        let last = inventory.events.last().map(|first| EventFile::open(self.disk, *first));
        last.and_then(Result::ok).map_or(1, |last| last.end)
    }
}

fn read_whole(disk: &dyn Disk, start: u64) -> Result<Base, StoreError> {
    let mut snapshot = SnapshotReader::open(disk, start)?;
    let mut decoder = Decoder::default();
    while let Some((header, page, offset)) = snapshot.next()? {
        decoder
            .block(&header, &page)
            .map_err(|why| snapshot.damage(offset, format!("a block is malformed: {why}")))?;
        decoder.take();
    }
    let sum = snapshot.sum.expect("the last block was read");
    Ok(Base { start, first_event: snapshot.first_event, sum })
}

/// All valid blocks of tasks and settings, wherever they begin, and the sum if it is valid.
fn good_blocks(file: &dyn DiskFile, name: &str) -> Result<(Vec<SnapshotBlock>, Option<Sum>), StoreError> {
    let len = file.len().doing("measuring", name)?;
    let mut bytes = vec![0; len as usize];
    let count = file.read_at(&mut bytes, 0).doing("reading", name)?;
    bytes.truncate(count);
    let (mut blocks, mut sum, mut offset) = (Vec::new(), None, HEADER_BYTES.min(count));
    let mut decoder = Decoder::default();
    while offset < bytes.len() {
        let header = BlockHeader::decode(&bytes[offset..], offset as u64);
        let page = header.and_then(|header| {
            let end = header.end(offset as u64) as usize;
            let start = end - header.page_bytes as usize;
            Some((header, bytes.get(start..end)?, end)).filter(|(header, page, _)| header.is_of(page))
        });
        match page {
            Some((header, page, end)) => {
                if matches!(header.kind, BlockKind::Tasks | BlockKind::Settings)
                    && decoder.block(&header, page).is_ok()
                {
                    let BlockHeader { kind, count, base, .. } = header;
                    blocks.push(SnapshotBlock { kind, count, base, page: page.to_vec() });
                } else if header.kind == BlockKind::Sum {
                    sum = Sum::decode(page).ok();
                }
                decoder.take();
                offset = end;
            }
            None => offset += 1,
        }
    }
    Ok((blocks, sum))
}
