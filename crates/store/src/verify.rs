//! Looking at every byte of a store that nobody uses, and telling everything that is wrong instead of the first thing.

use tenure_engine::{Settings, StateName, TermsKey, Timestamp, Which};

use crate::codec::{Base, Malformed, Names, Page, Take, decode_terms, event, next_record};
use crate::disk::Disk;
use crate::error::{Damage, Doing, StoreError};
use crate::events::{EventDecoder, EventFile};
use crate::frame::{BLOB_CRC_BYTES, FrameHeader, checked_blob};
use crate::recover::{Cut, Inventory, recover};
use crate::scan::{Found, Scan, certain_frame_behind, next_frame_behind};
use crate::segment::Segment;
use crate::snapshot::SnapshotReader;
use crate::topic_log::check_file;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    pub segments: u64,
    pub frames: u64,
    pub records: u64,
    pub snapshot_blocks: u64,
    pub events: u64,
    /// Frames in the log of topics.
    pub topic_frames: u64,
    /// Tasks that would be there after a start.
    pub tasks: u64,
    /// Everything that is wrong. Empty means that the store can be started and every body can be read.
    pub damages: Vec<Damage>,
    /// A torn tail, which the next start cuts off: not a damage.
    pub torn: Option<Cut>,
    /// The same in the log of topics.
    pub torn_topics: Option<Cut>,
}

/// Checks a store that no process has open; changes nothing. `settings` say which ended tasks are kept.
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
    found.start(disk, &inventory, settings, now)?;
    Ok(found)
}

impl Verification {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }

    /// Notes a damage; any other error ends the verification.
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

    /// Walks over all frames; behind a bad one it goes on with the next good one.
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
            // Only the last segment may have a tail that is no frame. Whether that is torn is found by starting.
            if position == end || (is_last && !certain_frame_behind(segment, position)?) {
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
        match check_file(disk, start, next) {
            Ok((frames, cut)) => {
                self.topic_frames += frames;
                self.torn_topics = cut;
                Ok(())
            }
            Err(error) => self.damage(error),
        }
    }

    /// Starts in memory, as the broker would, and reads every body and result that is needed.
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
        let mut wanted = Vec::new();
        recovered.engine.scan_tasks(None, usize::MAX, &mut |task, _| {
            for which in Which::ALL {
                wanted.push((task.id, task.state.name(), which.of(task)));
            }
        });
        wanted.retain(|(_, _, blob)| !blob.is_empty());
        wanted.sort_unstable_by_key(|(_, _, blob)| blob.at());
        for (task, state, blob) in wanted {
            let after = recovered.segments.partition_point(|segment| segment.start <= blob.at());
            let Some(segment) = after.checked_sub(1).map(|index| &recovered.segments[index]) else {
                if !state.has_ended() {
                    self.damages.push(missing_bytes("the journal", 0, task, state));
                }
                continue;
            };
            let mut bytes = vec![0; blob.bytes() as usize + BLOB_CRC_BYTES];
            let offset = segment.offset(blob.at());
            let count = segment.file.read_at(&mut bytes, offset).doing("reading", &segment.name)?;
            let whole = count == bytes.len() && checked_blob(blob, bytes.into()).is_some();
            // The bytes of an ended task may be gone if fewer ended ones were kept when the segment was deleted.
            if !whole && (!state.has_ended() || blob.at() < segment.file_end()?) {
                self.damages.push(missing_bytes(&segment.name, offset, task, state));
            }
        }
        Ok(())
    }
}

fn missing_bytes(file: &str, offset: u64, task: tenure_engine::TaskId, state: StateName) -> Damage {
    Damage::new(file, offset, format!("the body or result of task {task}, which is {state}, cannot be read"))
}

/// Decodes everything in a frame. Says how many records it has.
fn check_frame(header: &FrameHeader, payload: &[u8], names: &mut Names) -> Result<u64, Malformed> {
    if header.page_bytes == 0 {
        return Ok(0);
    }
    let mut take = Take::new(&payload[header.blob_bytes as usize..]);
    let time = Timestamp(take.varint()?);
    let base = Base { time, event: header.first_event, place: header.position };
    let page = Page::open(base, &mut take, names)?;
    let mut keys = Vec::new();
    let mut terms = Vec::new();
    for (index, bytes) in page.terms.iter().enumerate() {
        terms.push(std::sync::Arc::new(decode_terms(bytes)?));
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
