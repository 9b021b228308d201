//! Mending a damaged store, as far as it can be mended, and saying exactly what is lost. What is removed or overwritten
//! is kept in files named `removed-…`, for somebody who can make more of it.

use std::sync::Arc;

use crc32c::crc32c;

use crate::block::{Block, BlockHeader, BlockKind};
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, Doing, StoreError};
use crate::events::{EventDecoder, EventFile};
use crate::files;
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::header::HEADER_BYTES;
use crate::recover::Inventory;
use crate::scan::{Found, Scan, next_frame_behind};
use crate::segment::{Past, Segment, write_header};
use crate::snapshot::{SnapshotReader, SnapshotWriter, Sum};
use crate::topic_log::{check_file, good_part};

/// What to do about a damaged frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Everything from the damage on goes: the store is as it was at that moment.
    Cut,
    /// Only the damaged frames go. What came later stays, though it may rest on what is lost.
    Skip,
}

/// What was done, one sentence each. Empty: there was nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    pub done: Vec<String>,
    /// Where the journal ends now.
    pub position: u64,
    pub next_event: u64,
}

/// Mends a store that no process has open. Afterwards it can be opened.
pub fn repair(disk: &dyn Disk, how: Repair) -> Result<Repaired, StoreError> {
    let _lock = disk.lock()?;
    let inventory = Inventory::take(disk)?;
    let mut work = Work { disk, how, repaired: Repaired::default(), removed: 0 };
    let snapshot = work.snapshot(&inventory)?;
    work.old_segments(&inventory, snapshot)?;
    work.journal(&inventory, snapshot)?;
    work.fit_snapshot(snapshot)?;
    work.events(&inventory)?;
    work.topics(&inventory)?;
    disk.sync_dir().syncing("the directory")?;
    Ok(work.repaired)
}

struct Work<'a> {
    disk: &'a dyn Disk,
    how: Repair,
    repaired: Repaired,
    removed: u64,
}

/// The snapshot to start from.
#[derive(Clone, Copy)]
struct Base {
    start: u64,
    first_event: u64,
    sum: Sum,
}

impl Work<'_> {
    fn say(&mut self, sentence: String) {
        self.repaired.done.push(sentence);
    }

    /// Makes the newest snapshot whole by leaving out the blocks that are not.
    fn snapshot(&mut self, inventory: &Inventory) -> Result<Option<Base>, StoreError> {
        let Some(start) = inventory.snapshots.last().copied() else { return Ok(None) };
        let name = files::snapshot(start);
        let why = match read_whole(self.disk, start) {
            Ok(base) => return Ok(Some(base)),
            Err(StoreError::Damaged(damage)) => damage,
            Err(other) => return Err(other),
        };
        let first_event = match SnapshotReader::open(self.disk, start) {
            Ok(snapshot) => snapshot.first_event,
            Err(_) => self.first_event_at(inventory, start)?,
        };
        let file = self.disk.open(&name).doing("opening", &name)?;
        let blocks = good_blocks(&*file, &name)?;
        self.keep_whole(&name, &*file)?;
        let mut writer = SnapshotWriter::create(self.disk, start, first_event)?;
        let mut tasks = 0;
        for block in &blocks {
            tasks += if block.kind == BlockKind::Tasks { u64::from(block.count) } else { 0 };
            writer.add(block)?;
        }
        writer.finish(self.disk, start, tenure_engine::Timestamp::ZERO)?;
        self.say(format!("{why}. It was written anew with the {tasks} tasks that could still be read; others in it are lost"));
        read_whole(self.disk, start).map(Some)
    }

    /// The number of the first event at a position, if the header of the snapshot cannot say it.
    fn first_event_at(&self, inventory: &Inventory, position: u64) -> Result<u64, StoreError> {
        for start in inventory.segments.iter().rev().filter(|start| **start <= position).take(1) {
            let segment = Segment::open(self.disk, *start)?;
            if let Found::Frame(header, _) = Scan::new(&segment, position, u64::MAX)?.next()? {
                return Ok(header.first_event);
            }
        }
        let last = inventory.events.last().map(|first| EventFile::open(self.disk, *first)).transpose()?;
        Ok(last.map_or(1, |last| last.end))
    }

    /// Segments from before the snapshot are there for the bodies and results in them, which have their own checksums. A
    /// frame that is bad is only passed over.
    fn old_segments(&mut self, inventory: &Inventory, snapshot: Option<Base>) -> Result<(), StoreError> {
        let start = snapshot.map_or(0, |snapshot| snapshot.start);
        for pair in inventory.segments.windows(2).filter(|pair| pair[1] <= start) {
            let segment = match Segment::open(self.disk, pair[0]) {
                Ok(segment) => segment,
                Err(StoreError::Damaged(damage)) => self.renew_header(pair[0], &damage)?,
                Err(other) => return Err(other),
            };
            let end = segment.file_end()?.min(pair[1]);
            let mut position = segment.start;
            let mut scan = Scan::new(&segment, position, end)?;
            while position < end {
                let stopped = match scan.next()? {
                    Found::Frame(header, _) => {
                        position = header.end();
                        continue;
                    }
                    Found::End => "frames are missing",
                    Found::Bad(why) => why,
                };
                let behind = next_frame_behind(&segment, position)?;
                let resume = behind.map_or(end, |header| header.position);
                if resume - position < FRAME_HEADER_BYTES as u64 {
                    break;
                }
                self.fill(&segment, position, resume, 0, 0)?;
                let offset = segment.offset(position);
                self.say(format!(
                    "{} at byte {offset}: {stopped}. It was passed over; bodies in it have their own checksums",
                    segment.name
                ));
                position = resume;
                scan = Scan::new(&segment, position, end)?;
            }
        }
        Ok(())
    }

    /// The number of the first event in a segment, if its first frame can be read.
    fn first_event_in(&self, start: u64) -> Option<u64> {
        let segment = Segment::open(self.disk, start).ok()?;
        match Scan::new(&segment, start, u64::MAX).ok()?.next().ok()? {
            Found::Frame(header, _) => Some(header.first_event),
            Found::End | Found::Bad(_) => None,
        }
    }

    /// Walks over the journal that a start needs and mends every gap.
    fn journal(&mut self, inventory: &Inventory, snapshot: Option<Base>) -> Result<(), StoreError> {
        let (mut position, mut next_event) =
            snapshot.map_or((0, 1), |snapshot| (snapshot.start, snapshot.first_event));
        let first = inventory.segments.partition_point(|start| *start <= position).saturating_sub(1);
        let needed = inventory.segments.get(first..).unwrap_or_default();
        let mut at = 0;
        while let Some(start) = needed.get(at).copied() {
            let next = needed.get(at + 1).copied();
            if start > position {
                let lost = start - position;
                if self.how == Repair::Cut {
                    self.say(format!(
                        "{lost} bytes of the journal before {} are missing",
                        files::journal(start)
                    ));
                    self.set_aside(&needed[at..])?;
                    break;
                }
                let resume_event = self.first_event_in(start).unwrap_or(next_event).max(next_event);
                self.bridge_missing(position, start, next_event, resume_event)?;
                (position, next_event) = (start, resume_event);
            }
            let segment = match Segment::open(self.disk, start) {
                Ok(segment) => segment,
                Err(StoreError::Damaged(damage)) => {
                    let segment = self.renew_header(start, &damage)?;
                    if position > start {
                        self.fill(&segment, start, position, 0, 0)?;
                    }
                    segment
                }
                Err(other) => return Err(other),
            };
            let went_on = self.segment(&segment, next, &mut position, &mut next_event)?;
            if !went_on {
                self.set_aside(&needed[at + 1..])?;
                break;
            }
            at += 1;
        }
        (self.repaired.position, self.repaired.next_event) = (position, next_event);
        Ok(())
    }

    /// Mends one segment. `false`: the journal ends in it now.
    fn segment(
        &mut self,
        segment: &Segment,
        next: Option<u64>,
        position: &mut u64,
        next_event: &mut u64,
    ) -> Result<bool, StoreError> {
        let limit = next.unwrap_or(u64::MAX).min(segment.file_end()?.max(next.unwrap_or(0)));
        let mut scan = Scan::new(segment, *position, limit)?;
        loop {
            let stopped = match scan.next()? {
                Found::Frame(header, _) if header.first_event != *next_event => {
                    "its events are not the next ones"
                }
                Found::Frame(header, _) => {
                    *position = header.end();
                    *next_event = header.next_event();
                    continue;
                }
                Found::End => "frames are missing",
                Found::Bad(why) => why,
            };
            if next == Some(*position) {
                return Ok(true);
            }
            let offset = segment.offset(*position);
            let behind =
                next_frame_behind(segment, *position)?.filter(|header| header.first_event >= *next_event);
            let Some(resume) = behind.map(|header| header.position).or(next) else {
                return self.cut_tail(segment, *position, stopped);
            };
            if self.how == Repair::Cut {
                self.say(format!("{} at byte {offset}: {stopped}. The journal was cut there", segment.name));
                self.cut(segment, *position)?;
                return Ok(false);
            }
            let resume_event =
                behind.map_or_else(|| self.first_event_in(resume), |header| Some(header.first_event));
            let resume_event = resume_event.unwrap_or(*next_event).max(*next_event);
            self.fill(segment, *position, resume, *next_event, resume_event)?;
            self.say(format!(
                "{} at byte {offset}: {stopped}. {} bytes with {} events from {next_event} on were skipped",
                segment.name,
                resume - *position,
                resume_event - *next_event,
            ));
            (*position, *next_event) = (resume, resume_event);
            if next == Some(resume) {
                return Ok(true);
            }
            scan = Scan::new(segment, resume, limit)?;
        }
    }

    /// The last frame is torn or the file just ends: nothing that was acknowledged is known to be lost.
    fn cut_tail(&mut self, segment: &Segment, position: u64, why: &str) -> Result<bool, StoreError> {
        if segment.file_end()? > position && segment.past == Past::Fresh && why != "frames are missing" {
            let offset = segment.offset(position);
            self.say(format!(
                "{} at byte {offset}: {why}, and nothing follows. The tail was cut off",
                segment.name
            ));
            self.cut(segment, position)?;
        }
        Ok(false)
    }

    /// Puts a frame without records over bytes that are no frame, so that positions go on and bodies among those bytes
    /// can still be read.
    fn fill(
        &mut self,
        segment: &Segment,
        from: u64,
        to: u64,
        event: u64,
        next_event: u64,
    ) -> Result<(), StoreError> {
        self.keep_range(segment, from, to)?;
        let (offset, bytes) = (segment.offset(from), (to - from) as usize);
        let mut frame = vec![0; bytes];
        segment.file.read_at(&mut frame, offset).doing("reading", &segment.name)?;
        let header = FrameHeader {
            blob_bytes: (bytes - FRAME_HEADER_BYTES) as u32,
            page_bytes: 0,
            events: (next_event - event) as u32,
            position: from,
            first_event: event,
            certain: from,
            payload_crc: crc32c(&frame[FRAME_HEADER_BYTES..]),
        };
        frame[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode(segment.salt));
        segment.file.write_at(&frame, offset).doing("writing", &segment.name)?;
        segment.file.sync().syncing(&segment.name)
    }

    /// A missing segment is replaced by one that holds nothing.
    fn bridge_missing(&mut self, from: u64, to: u64, event: u64, next_event: u64) -> Result<(), StoreError> {
        let name = files::journal(from);
        let file = self.disk.create(&name).doing("creating", &name)?;
        write_header(&*file, 1, Past::Fresh).doing("writing", &name)?;
        let segment = Segment::new(from, 1, Past::Fresh, file);
        self.fill(&segment, from, to, event, next_event)?;
        self.say(format!(
            "{} bytes of the journal from position {from} on are missing; {name} stands in for them",
            to - from
        ));
        Ok(())
    }

    /// Without its header no frame of a segment can be told from rubbish; bodies can, they have their own checksums.
    fn renew_header(&mut self, start: u64, damage: &Damage) -> Result<Segment, StoreError> {
        let name = files::journal(start);
        let file = self.disk.open(&name).doing("opening", &name)?;
        self.keep_whole(&name, &*file)?;
        write_header(&*file, 1, Past::Fresh).doing("writing", &name)?;
        file.sync().syncing(&name)?;
        self.say(format!("{damage}. All records in it are lost; bodies in it have their own checksums"));
        Ok(Segment::new(start, 1, Past::Fresh, file))
    }

    fn cut(&mut self, segment: &Segment, position: u64) -> Result<(), StoreError> {
        self.keep_range(segment, position, segment.file_end()?)?;
        segment.file.set_len(segment.offset(position)).doing("cutting", &segment.name)?;
        segment.file.sync().syncing(&segment.name)
    }

    /// A snapshot may have seen more than the journal holds now: then it says so no longer.
    fn fit_snapshot(&mut self, snapshot: Option<Base>) -> Result<(), StoreError> {
        let Some(base) = snapshot.filter(|base| base.sum.end > self.repaired.position) else { return Ok(()) };
        let mut reader = SnapshotReader::open(self.disk, base.start)?;
        let mut writer = SnapshotWriter::create(self.disk, base.start, base.first_event)?;
        while let Some((header, page, _)) = reader.next()? {
            writer.add(&Block { kind: header.kind, count: header.count, base: header.base, page })?;
        }
        writer.finish(self.disk, self.repaired.position, base.sum.taken_at)?;
        self.say(format!(
            "{} has seen the journal up to position {}, which is cut now: some tasks in it may be ahead of their events",
            files::snapshot(base.start),
            base.sum.end,
        ));
        Ok(())
    }

    /// Files of events that cannot be read, or that know more events than the journal, go.
    fn events(&mut self, inventory: &Inventory) -> Result<(), StoreError> {
        for first in &inventory.events {
            let name = files::events(*first);
            let why = match EventFile::open(self.disk, *first).and_then(|file| {
                file.read(&mut EventDecoder::default(), *first, &mut |_| true).map(|()| file.end)
            }) {
                Ok(end) if end <= self.repaired.next_event => continue,
                Ok(_) => format!("{name} holds events that the journal does not"),
                Err(StoreError::Damaged(damage)) => damage.to_string(),
                Err(other) => return Err(other),
            };
            self.say(format!("{why}. It was set aside: its events are a gap in the history"));
            let aside = self.aside(&name);
            self.disk.rename(&name, &aside).doing("renaming", &name)?;
        }
        Ok(())
    }

    /// A file of the log of topics in the middle takes those before it along; the last one is cut.
    fn topics(&mut self, inventory: &Inventory) -> Result<(), StoreError> {
        let starts = &inventory.topics;
        let mut damages = Vec::new();
        for (index, start) in starts.iter().enumerate() {
            match check_file(self.disk, *start, starts.get(index + 1).copied()) {
                Ok(_) => {}
                Err(StoreError::Damaged(damage)) => damages.push((index, damage)),
                Err(other) => return Err(other),
            }
        }
        let last = starts.len().saturating_sub(1);
        if let Some((index, damage)) = damages.iter().rfind(|(index, _)| *index < last) {
            self.say(format!("{damage}. Messages of durable topics up to there are lost"));
            for start in &starts[..=*index] {
                self.set_topics_aside(*start)?;
            }
        }
        if let Some((_, damage)) = damages.iter().find(|(index, _)| *index == last) {
            match good_part(self.disk, starts[last])? {
                Some((segment, end)) => {
                    self.keep_range(&segment, end, segment.file_end()?)?;
                    segment.settle(end, end)?;
                    self.say(format!("{damage}. It was cut there: what topics changed later is lost"));
                }
                None => {
                    self.say(format!(
                        "{damage}. Topics are as they were in the file before it; if there is none, they begin anew"
                    ));
                    self.set_topics_aside(starts[last])?;
                }
            }
        }
        Ok(())
    }

    fn set_topics_aside(&mut self, start: u64) -> Result<(), StoreError> {
        let name = files::topics(start);
        let aside = self.aside(&name);
        self.disk.rename(&name, &aside).doing("renaming", &name)?;
        self.say(format!("{name} was set aside as {aside}"));
        Ok(())
    }

    fn set_aside(&mut self, segments: &[u64]) -> Result<(), StoreError> {
        for start in segments {
            let name = files::journal(*start);
            let aside = self.aside(&name);
            self.disk.rename(&name, &aside).doing("renaming", &name)?;
            self.say(format!("{name} was set aside as {aside}"));
        }
        Ok(())
    }

    fn keep_range(&mut self, segment: &Segment, from: u64, to: u64) -> Result<(), StoreError> {
        let mut bytes = vec![0; (to - from) as usize];
        let count = segment.file.read_at(&mut bytes, segment.offset(from)).doing("reading", &segment.name)?;
        self.keep(&segment.name, &bytes[..count])
    }

    fn keep_whole(&mut self, name: &str, file: &dyn DiskFile) -> Result<(), StoreError> {
        let mut bytes = vec![0; file.len().doing("measuring", name)? as usize];
        file.read_at(&mut bytes, 0).doing("reading", name)?;
        self.keep(name, &bytes)
    }

    fn keep(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let aside = self.aside(name);
        let copy: Arc<dyn DiskFile> = self.disk.create(&aside).doing("creating", &aside)?;
        copy.write_at(bytes, 0).doing("writing", &aside)?;
        copy.sync().syncing(&aside)?;
        self.disk.sync_dir().syncing("the directory")
    }

    /// A name that is not taken.
    fn aside(&mut self, name: &str) -> String {
        loop {
            self.removed += 1;
            let aside = format!("removed-{}-{name}", self.removed);
            if self.disk.open(&aside).is_err() {
                return aside;
            }
        }
    }
}

fn read_whole(disk: &dyn Disk, start: u64) -> Result<Base, StoreError> {
    let mut snapshot = SnapshotReader::open(disk, start)?;
    while snapshot.next()?.is_some() {}
    let sum = snapshot.sum.expect("the last block was read");
    Ok(Base { start, first_event: snapshot.first_event, sum })
}

/// All blocks of tasks and settings that are whole, wherever they begin.
fn good_blocks(file: &dyn DiskFile, name: &str) -> Result<Vec<Block>, StoreError> {
    let len = file.len().doing("measuring", name)?;
    let mut bytes = vec![0; len as usize];
    let count = file.read_at(&mut bytes, 0).doing("reading", name)?;
    bytes.truncate(count);
    let (mut blocks, mut offset) = (Vec::new(), HEADER_BYTES.min(count));
    while offset < bytes.len() {
        let header = BlockHeader::decode(&bytes[offset..], offset as u64);
        let page = header.and_then(|header| {
            let end = header.end(offset as u64) as usize;
            let start = end - header.page_bytes as usize;
            Some((header, bytes.get(start..end)?, end)).filter(|(header, page, _)| header.is_of(page))
        });
        match page {
            Some((header, page, end)) => {
                if matches!(header.kind, BlockKind::Tasks | BlockKind::Settings) {
                    let BlockHeader { kind, count, base, .. } = header;
                    blocks.push(Block { kind, count, base, page: page.to_vec() });
                }
                offset = end;
            }
            None => offset += 1,
        }
    }
    Ok(blocks)
}
