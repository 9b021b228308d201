//! Checks every byte of a store that no process has open, and reports all damage instead of the first.

use std::sync::Arc;

use tenure_engine::{Settings, StateName, TermsKey, Timestamp, Which};

use crate::codec::{Base, ByteCursor, Malformed, Names, RecordPage, decode_terms, event, next_record};
use crate::disk::Disk;
use crate::error::{Damage, StoreError};
use crate::events::{EventDecoder, EventFile};
use crate::files;
use crate::frame::FrameHeader;
use crate::high_water::HighWater;
use crate::key_log;
use crate::recover::{Cut, Inventory, LostBlobs, is_whole, missing_segments, recover};
use crate::scan::{Found, Scan, next_frame_behind, synced_frame_behind};
use crate::segment::Segment;
use crate::snapshot::SnapshotReader;
use crate::topic_log::{LogFamily, check_file};

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Segments of the journal.
    pub segments: u64,
    /// Frames in these segments.
    pub frames: u64,
    /// Records in these frames.
    pub records: u64,
    /// Blocks of the snapshot.
    pub snapshot_blocks: u64,
    /// Events in event files.
    pub events: u64,
    /// Frames in the topic log.
    pub topic_frames: u64,
    /// Frames in the key log.
    pub key_frames: u64,
    /// Tasks that a start would restore.
    pub tasks: u64,
    /// All damage. Empty means that the store can be started and every body is readable.
    pub damages: Vec<Damage>,
    /// The last frame is incomplete or damaged, and there is no evidence that it was ever synced: the next
    /// start cuts it off.
    pub torn: Option<Cut>,
    /// Where the journal ends.
    pub position: u64,
    /// The high-water mark: how far the journal is known to have been synced. Without a mark, a missing end
    /// cannot be detected.
    pub high_water: Option<u64>,
    /// The same in the topic log.
    pub torn_topics: Option<Cut>,
    /// The same in the key log.
    pub torn_keys: Option<Cut>,
}

/// Checks a store that no process has open; changes nothing. `settings` determine which ended tasks are kept.
pub fn verify(disk: &dyn Disk, settings: Settings, now: Timestamp) -> Result<Verification, StoreError> {
    let _lock = disk.lock()?;
    let inventory = Inventory::take(disk)?;
    let mut found = Verification::default();
    for start in &inventory.segments {
        found.segments += 1;
        match Segment::open(disk, *start) {
            Ok(segment) => found.segment(&segment, inventory.segments.last() == Some(start))?,
            Err(error) => found.damage(error)?,
        }
    }
    for start in &inventory.snapshots {
        found.snapshot(disk, *start)?;
    }
    for first in &inventory.events {
        found.events(disk, *first)?;
    }
    for (index, start) in inventory.topics.iter().enumerate() {
        found.topics(disk, *start, inventory.topics.get(index + 1).copied())?;
    }
    for (index, start) in inventory.keys.iter().enumerate() {
        found.keys(disk, *start, inventory.keys.get(index + 1).copied())?;
    }
    if let Err(error) = key_log::read(disk) {
        found.damage(error)?;
    }
    found.high_water = HighWater::read(disk)?.map(|mark| mark.position);
    found.needed_segments(disk, &inventory)?;
    found.start(disk, &inventory, settings, now)?;
    Ok(found)
}

impl Verification {
    /// Whether there is no damage.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }

    /// Adds damage to the report; any other error ends the verification.
    fn damage(&mut self, error: StoreError) -> Result<(), StoreError> {
        match error {
            StoreError::Damaged(damage) => {
                if !self.damages.contains(&damage) {
                    self.damages.push(damage);
                }
                Ok(())
            }
            other => Err(other),
        }
    }

    /// Scans all frames; after a bad one it continues with the next valid one.
    fn segment(&mut self, segment: &Segment, is_last: bool) -> Result<(), StoreError> {
        let end = segment.file_end()?;
        let mut scan = Scan::new(segment, segment.start, u64::MAX)?;
        let mut names = Names::default();
        loop {
            let position = scan.position();
            let stopped = match scan.next()? {
                Found::Frame(header, payload) => {
                    self.frames += 1;
                    match check_frame(&header, payload, &mut names) {
                        Ok(records) => self.records += records,
                        Err(why) => {
                            self.damages.push(Damage::new(
                                &segment.name,
                                segment.offset(position),
                                why.to_string(),
                            ));
                        }
                    }
                    continue;
                }
                Found::End => "frames are missing here",
                Found::Bad(why) => why,
            };
            // Only the last segment may have a tail that is not a frame. Recovery decides whether that tail
            // is torn.
            if position == end || (is_last && !synced_frame_behind(segment, position)?) {
                return Ok(());
            }
            self.damages.push(Damage::new(&segment.name, segment.offset(position), stopped));
            match next_frame_behind(segment, position)? {
                Some(next) => scan.skip_to(next.position),
                None => return Ok(()),
            }
        }
    }

    fn snapshot(&mut self, disk: &dyn Disk, start: u64) -> Result<(), StoreError> {
        let mut snapshot = match SnapshotReader::open(disk, start) {
            Ok(snapshot) => snapshot,
            Err(error) => return self.damage(error),
        };
        loop {
            match snapshot.next() {
                Ok(Some(_)) => self.snapshot_blocks += 1,
                Ok(None) => return Ok(()),
                Err(error) => return self.damage(error),
            }
        }
    }

    fn events(&mut self, disk: &dyn Disk, first: u64) -> Result<(), StoreError> {
        let file = match EventFile::open(disk, first) {
            Ok(file) => file,
            Err(error) => return self.damage(error),
        };
        let mut count = 0;
        let read = file.read(&mut EventDecoder::default(), first, &mut |_| {
            count += 1;
            true
        });
        self.events += count;
        match read {
            Ok(()) => Ok(()),
            Err(error) => self.damage(error),
        }
    }

    fn topics(&mut self, disk: &dyn Disk, start: u64, next: Option<u64>) -> Result<(), StoreError> {
        match check_file(disk, LogFamily::Topics, start, next) {
            Ok((frames, cut)) => {
                self.topic_frames += frames;
                self.torn_topics = cut;
                Ok(())
            }
            Err(error) => self.damage(error),
        }
    }

    fn keys(&mut self, disk: &dyn Disk, start: u64, next: Option<u64>) -> Result<(), StoreError> {
        match check_file(disk, LogFamily::Keys, start, next) {
            Ok((frames, cut)) => {
                self.key_frames += frames;
                self.torn_keys = cut;
                Ok(())
            }
            Err(error) => self.damage(error),
        }
    }

    /// Reports all missing segments from before the snapshot, not only the first.
    fn needed_segments(&mut self, disk: &dyn Disk, inventory: &Inventory) -> Result<(), StoreError> {
        let segments: Vec<Arc<Segment>> = inventory
            .segments
            .iter()
            .filter_map(|start| Segment::open(disk, *start).ok())
            .map(Arc::new)
            .collect();
        let is_damaged = |damage: &Damage| {
            inventory.segments.iter().any(|start| files::journal(*start) == damage.file) && damage.is_missing
        };
        let Ok(Some(mut snapshot)) = inventory.newest_snapshot(disk) else { return Ok(()) };
        while let Ok(Some(_)) = snapshot.next() {}
        let missing = missing_segments(snapshot.sum.as_ref(), &segments)?;
        self.damages.extend(missing.into_iter().filter(|damage| !is_damaged(damage)));
        Ok(())
    }

    /// Recovers in memory, as the broker would, and reads every live body and result.
    fn start(
        &mut self,
        disk: &dyn Disk,
        inventory: &Inventory,
        settings: Settings,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let recovered = match recover(disk, inventory, settings, now) {
            Ok(recovered) => recovered,
            Err(error) => return self.damage(error),
        };
        self.tasks = recovered.engine.task_count() as u64;
        self.torn.clone_from(&recovered.end.cut);
        self.position = recovered.end.position;
        let mut wanted = Vec::new();
        recovered.engine.scan_tasks(None, usize::MAX, &mut |task, _, _| {
            let may_be_gone = recovered.may_be_gone(task);
            for which in Which::ALL {
                wanted.push((task.id, task.state.name(), which.of(task), may_be_gone));
            }
        });
        for array in recovered.engine.arrays() {
            let state = array.end.map_or(StateName::Ready, |end| end.state);
            wanted.push((array.id, state, array.body, recovered.array_may_be_gone(array)));
        }
        wanted.retain(|(_, _, blob, _)| !blob.is_empty());
        wanted.sort_unstable_by_key(|(_, _, blob, _)| blob.at());
        let mut lost = LostBlobs::default();
        for (task, state, blob, may_be_gone) in wanted {
            match recovered.segment_of(blob)? {
                Some(segment) if !is_whole(segment, blob)? => {
                    let offset = segment.offset(blob.at());
                    self.damages.push(missing_bytes(&segment.name, offset, task, state));
                }
                None if !may_be_gone => lost.add(task, blob),
                Some(_) | None => {}
            }
        }
        self.damages.extend(lost.damage(&recovered.segments));
        Ok(())
    }
}

fn missing_bytes(file: &str, offset: u64, task: tenure_engine::TaskId, state: StateName) -> Damage {
    Damage::new(file, offset, format!("the body or result of task {task}, which is {state}, cannot be read"))
}

/// Decodes everything in a frame. Returns the number of records.
pub(crate) fn check_frame(header: &FrameHeader, payload: &[u8], names: &mut Names) -> Result<u64, Malformed> {
    if header.page_bytes == 0 {
        return Ok(0);
    }
    let mut take = ByteCursor::new(&payload[header.blob_bytes as usize..]);
    let time = Timestamp(take.varint()?);
    let base = Base { time, event: header.first_event, place: header.position };
    let page = RecordPage::open(base, &mut take, names)?;
    let mut keys = Vec::new();
    let mut terms = Vec::new();
    for (index, bytes) in page.terms.iter().enumerate() {
        terms.push(Arc::new(decode_terms(bytes)?));
        keys.push(TermsKey::from_index(index as u32));
    }
    let (mut records, mut events) = (0, 0);
    while !take.is_empty() {
        let record = next_record(&mut take)?;
        record.change(&page, &keys)?;
        if record.has_event() {
            event(&record, header.first_event + u64::from(events), &page, &terms)?;
            events += 1;
        }
        records += 1;
    }
    if events != header.events {
        return Err(Malformed("a frame has not as many events as its header says"));
    }
    Ok(records)
}
