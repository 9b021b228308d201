//! One event file: a header with the first number and the one after the last, then blocks. It is written
//! under a temporary name and renamed when it is complete and synced, so a reader never sees a partial file.

use std::sync::Arc;

use tenure_engine::{Change, Event, Timestamp};

use crate::block::{BlockHeader, BlockKind, SnapshotBlock};
use crate::codec::{Base, Dictionary, encode_record};
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, IoContext, StoreError};
use crate::events::decode::EventDecoder;
use crate::files;
use crate::header::{EVENTS_MAGIC, HEADER_BYTES, Header};

/// The approximate size of a block: what a reader decodes to find one event.
const BLOCK_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct EventFile {
    pub(crate) name: String,
    pub(crate) first: u64,
    /// The number after the last.
    pub(crate) end: u64,
    /// The time of the last block's base.
    pub(crate) last_time: Timestamp,
    pub(crate) bytes: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    blocks: Vec<BlockPlace>,
}

#[derive(Clone, Copy, Debug)]
struct BlockPlace {
    first: u64,
    offset: u64,
}

impl EventFile {
    /// Opens a file and reads the headers of its blocks.
    pub(crate) fn open(disk: &dyn Disk, first: u64) -> Result<EventFile, StoreError> {
        let name = files::events(first);
        let file = disk.open(&name).doing("opening", &name)?;
        let [stated_first, end] = Header::read(&*file, &name, EVENTS_MAGIC)?.numbers;
        if stated_first != first {
            return Err(Damage::new(&name, 16, "its first event is not the one of its name").into());
        }
        let bytes = file.len().doing("measuring", &name)?;
        let mut found =
            EventFile { name, first, end, last_time: Timestamp::ZERO, bytes, file, blocks: Vec::new() };
        let (mut offset, mut number) = (HEADER_BYTES as u64, first);
        while offset < bytes {
            let header = BlockHeader::read(&*found.file, &found.name, offset)?;
            if header.kind != BlockKind::Events || header.base.event != number {
                return Err(Damage::new(&found.name, offset, "a block of events is not the next one").into());
            }
            found.blocks.push(BlockPlace { first: number, offset });
            found.last_time = header.base.time;
            number += u64::from(header.count);
            offset = header.end(offset);
        }
        if number != end || offset != bytes {
            return Err(
                Damage::new(&found.name, bytes, "its blocks do not add up to what its header says").into()
            );
        }
        Ok(found)
    }

    /// Visits its events from number `from` on, until `see` asks to stop.
    pub(crate) fn read(
        &self,
        decoder: &mut EventDecoder,
        from: u64,
        see: &mut dyn FnMut(Event) -> bool,
    ) -> Result<(), StoreError> {
        let index = self.blocks.partition_point(|block| block.first <= from).saturating_sub(1);
        let mut wanted = true;
        for block in &self.blocks[index..] {
            if !wanted {
                break;
            }
            let header = BlockHeader::read(&*self.file, &self.name, block.offset)?;
            let page = header.read_page(&*self.file, &self.name, block.offset)?;
            let mut look = |event| {
                wanted = see(event);
                wanted
            };
            decoder
                .block(&header, &page, from, &mut look)
                .map_err(|why| Damage::new(&self.name, block.offset, why.to_string()))?;
        }
        Ok(())
    }
}

/// Writes one event file.
#[derive(Debug)]
pub(crate) struct EventWriter<'a> {
    disk: &'a dyn Disk,
    name: String,
    file: Arc<dyn DiskFile>,
    first: u64,
    next: u64,
    offset: u64,
    entries: Vec<u8>,
    book: Dictionary,
    base: Base,
}

impl<'a> EventWriter<'a> {
    pub(crate) fn create(disk: &'a dyn Disk, first: u64) -> Result<EventWriter<'a>, StoreError> {
        let name = files::events(first);
        let unfinished = files::unfinished(&name);
        let file = disk.create(&unfinished).doing("creating", &unfinished)?;
        let (entries, book, base) = Default::default();
        Ok(EventWriter {
            disk,
            name,
            file,
            first,
            next: first,
            offset: HEADER_BYTES as u64,
            entries,
            book,
            base,
        })
    }

    pub(crate) fn count(&self) -> u64 {
        self.next - self.first
    }

    /// The number that the next event must have.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn add(&mut self, event: &Event) -> Result<(), StoreError> {
        assert_eq!(event.seq, self.next, "a file of events has no holes");
        if self.entries.is_empty() {
            self.base = Base { time: event.at, event: event.seq, place: 0 };
        }
        encode_record(&mut self.entries, &mut self.book, &self.base, Some(event), Change::Nothing);
        self.next += 1;
        if self.entries.len() + self.book.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Syncs the file and renames it to its final name.
    pub(crate) fn finish(mut self) -> Result<EventFile, StoreError> {
        self.flush()?;
        let unfinished = files::unfinished(&self.name);
        let header = Header { magic: EVENTS_MAGIC, salt: 0, numbers: [self.first, self.next] };
        self.file.write_at(&header.encode(), 0).doing("writing", &unfinished)?;
        self.file.sync().syncing(&unfinished)?;
        self.disk.rename(&unfinished, &self.name).doing("renaming", &unfinished)?;
        self.disk.sync_dir().syncing("the directory")?;
        EventFile::open(self.disk, self.first)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let mut page = Vec::with_capacity(self.book.len() + self.entries.len());
        self.book.write(&mut page);
        page.extend_from_slice(&self.entries);
        let count = (self.next - self.base.event) as u32;
        let block = SnapshotBlock { kind: BlockKind::Events, count, base: self.base, page };
        self.file.write_at(&block.encode(self.offset), self.offset).doing("writing", &self.name)?;
        self.offset += block.bytes();
        self.entries.clear();
        self.book.clear();
        Ok(())
    }
}
