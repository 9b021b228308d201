//! The local copy of a replicated journal, as a standby writes it: segment files that begin where the segments
//! of the database begin, with the same frames at the same positions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::place::portable_of;
use super::{Place, Stream};
use crate::disk::Disk;
use crate::error::{IoContext, StoreError};
use crate::files;
use crate::frame::FrameHeader;
use crate::header::Header;
use crate::random::Random;
use crate::scan::{Found, Scan};
use crate::segment::{Segment, SegmentRest};

#[derive(Debug)]
pub(crate) struct LocalJournal {
    disk: Arc<dyn Disk>,
    stream: Stream,
    segments: BTreeMap<u64, Arc<Segment>>,
    end: Place,
    /// The chain at each boundary of a frame since the last segment that the database knew, so that the copy can
    /// be compared with any chunk of the database.
    chains: BTreeMap<u64, u32>,
    salts: Random,
}

impl LocalJournal {
    /// Keeps the local segments that continue each other from the oldest segment of the database on, and cuts
    /// what is torn. Local segments after the newest one of the database stay: the database may have lost them.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        stream: Stream,
        of_engine: &[Place],
        seed: u64,
    ) -> Result<LocalJournal, StoreError> {
        let oldest = of_engine.first().copied().unwrap_or_default();
        let newest = of_engine.last().copied().unwrap_or_default();
        let mut segments = open_segments(&*disk, stream)?;
        let missing = of_engine.iter().find(|place| !segments.contains_key(&place.position));
        let is_known = |start: u64| of_engine.iter().any(|place| place.position == start);
        let is_kept = |start: u64| match missing {
            Some(missing) => start < missing.position && is_known(start),
            None => start > newest.position || is_known(start),
        };
        let doomed: Vec<u64> = segments.keys().copied().filter(|start| !is_kept(*start)).collect();
        remove_segments(&*disk, &mut segments, &doomed)?;
        let base = of_engine.iter().rfind(|place| segments.contains_key(&place.position)).copied();
        let mut local = LocalJournal {
            disk,
            stream,
            segments,
            end: oldest,
            chains: BTreeMap::from([(oldest.position, oldest.chain)]),
            salts: Random::new(seed),
        };
        if let Some(base) = base {
            local.scan_from(base)?;
        }
        Ok(local)
    }

    pub(crate) fn end(&self) -> Place {
        self.end
    }

    /// The chain at a boundary of the copy, if it is one.
    pub(crate) fn chain_at(&self, position: u64) -> Option<u32> {
        self.chains.get(&position).copied()
    }

    pub(crate) fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.values().cloned().collect()
    }

    /// Removes segments that the database has dropped.
    pub(crate) fn keep_segments(&mut self, of_engine: &[Place]) -> Result<(), StoreError> {
        let newest = of_engine.last().map_or(0, |place| place.position);
        let is_kept = |start: u64| start > newest || of_engine.iter().any(|place| place.position == start);
        let doomed: Vec<u64> = self.segments.keys().copied().filter(|start| !is_kept(*start)).collect();
        remove_segments(&*self.disk, &mut self.segments, &doomed)
    }

    /// Writes frames behind the end. They are not synced: the database has them.
    pub(crate) fn append(
        &mut self,
        segment: u64,
        frames: &[(FrameHeader, Vec<u8>)],
    ) -> Result<(), StoreError> {
        if frames.is_empty() {
            return Ok(());
        }
        let segment = match self.segments.get(&segment) {
            Some(segment) => Arc::clone(segment),
            None => self.begin(segment)?,
        };
        let (at, mut bytes) = (segment.offset(self.end.position), Vec::new());
        for (header, portable) in frames {
            assert_eq!(header.position, self.end.position, "frames are copied in order");
            bytes.extend_from_slice(&super::place::localized(*header, portable, segment.salt));
            self.end = self.end.after(portable);
            self.chains.insert(self.end.position, self.end.chain);
        }
        segment.file.write_at(&bytes, at).doing("writing", &segment.name)
    }

    /// Continues at the start of a later segment.
    pub(crate) fn jump(&mut self, to: Place) {
        self.end = to;
        self.chains.insert(to.position, to.chain);
    }

    /// Only the newest boundary is compared from now on: everything before it is equal.
    pub(crate) fn is_equal_up_to_end(&mut self) {
        self.chains = BTreeMap::from([(self.end.position, self.end.chain)]);
    }

    /// Begins the database's newest segment here as well, if it has no frames yet.
    pub(crate) fn follow_segment(&mut self, start: u64) -> Result<(), StoreError> {
        if start == self.end.position && !self.segments.contains_key(&start) {
            self.begin(start)?;
        }
        Ok(())
    }

    /// Removes everything after this position.
    pub(crate) fn cut(&mut self, end: Place) -> Result<(), StoreError> {
        let after: Vec<u64> = self.segments.range(end.position..).map(|(start, _)| *start).collect();
        let doomed: Vec<u64> = after.into_iter().filter(|start| *start > end.position).collect();
        remove_segments(&*self.disk, &mut self.segments, &doomed)?;
        if let Some(last) = self.segments.values().next_back() {
            last.file.set_len(last.offset(end.position)).doing("cutting", &last.name)?;
        }
        self.end = end;
        self.is_equal_up_to_end();
        Ok(())
    }

    /// Syncs the copy, so that a store can be opened from it.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        match self.segments.values().next_back() {
            Some(last) => last.file.sync().syncing(&last.name),
            None => Ok(()),
        }
    }

    /// A segment is synced before the next one begins, so only the newest can be torn.
    fn begin(&mut self, start: u64) -> Result<Arc<Segment>, StoreError> {
        if start != self.end.position {
            // The database has a segment again that was removed here. All of it is copied again.
            return Err(StoreError::Diverged { position: start });
        }
        self.sync()?;
        let begun = Arc::new(create_segment(&*self.disk, self.stream, start, self.salts.next() as u32)?);
        self.segments.insert(start, Arc::clone(&begun));
        Ok(begun)
    }

    /// Reads the copy from the start of a segment on, and cuts it after the last frame that is whole.
    fn scan_from(&mut self, base: Place) -> Result<(), StoreError> {
        let mut chains = BTreeMap::from([(base.position, base.chain)]);
        let end = walk(&self.segments(), base, u64::MAX, &mut |walked| {
            chains.insert(walked.end.position, walked.end.chain);
            true
        })?;
        self.cut(end)?;
        self.chains = chains;
        Ok(())
    }
}

/// One frame of local files, as it is in the database.
pub(crate) struct LocalFrame<'a> {
    pub(crate) segment: u64,
    pub(crate) end: Place,
    pub(crate) portable: &'a [u8],
}

/// Visits the frames of local segments from the start of one of them up to a position, until `see` asks to
/// stop. Returns the place after the last whole frame.
pub(crate) fn walk(
    segments: &[Arc<Segment>],
    base: Place,
    upto: u64,
    see: &mut dyn FnMut(LocalFrame<'_>) -> bool,
) -> Result<Place, StoreError> {
    let mut place = base;
    let after: Vec<&Arc<Segment>> =
        segments.iter().filter(|segment| segment.start >= base.position).collect();
    for (index, segment) in after.iter().enumerate() {
        if segment.start != place.position {
            break;
        }
        let next = after.get(index + 1).map_or(upto, |next| next.start.min(upto));
        let mut scan = Scan::new(segment, segment.start, next)?;
        while let Found::Frame(header, payload) = scan.next()? {
            let portable = portable_of(header, payload);
            place = place.after(&portable);
            if !see(LocalFrame { segment: segment.start, end: place, portable: &portable }) {
                return Ok(place);
            }
        }
    }
    Ok(place)
}

/// Creates the file of a segment. It gets its name when its header is synced.
pub(crate) fn create_segment(
    disk: &dyn Disk,
    stream: Stream,
    start: u64,
    salt: u32,
) -> Result<Segment, StoreError> {
    let name = stream.file_name(start);
    let unfinished = files::unfinished(&name);
    let file = disk.create(&unfinished).doing("creating", &unfinished)?;
    let header = Header { magic: stream.magic(), salt, numbers: [0; 2] };
    file.write_at(&header.encode(), 0).doing("writing", &unfinished)?;
    file.sync().syncing(&unfinished)?;
    disk.rename(&unfinished, &name).doing("renaming", &unfinished)?;
    disk.sync_dir().syncing("the directory")?;
    Ok(Segment::named(name, start, salt, SegmentRest::Fresh, file))
}

/// The segments whose files can be opened. The others are removed: the database has what they held.
fn open_segments(disk: &dyn Disk, stream: Stream) -> Result<BTreeMap<u64, Arc<Segment>>, StoreError> {
    let mut segments = BTreeMap::new();
    let names = disk.list().doing("listing", "the directory")?;
    for (start, name) in names.into_iter().filter_map(|name| Some((stream.start_of(&name)?, name))) {
        match Segment::open_named(disk, name.clone(), start, stream.magic()) {
            Ok(segment) => {
                segments.insert(start, Arc::new(segment));
            }
            Err(StoreError::Damaged(_)) => disk.remove(&name).doing("removing", &name)?,
            Err(other) => return Err(other),
        }
    }
    Ok(segments)
}

fn remove_segments(
    disk: &dyn Disk,
    segments: &mut BTreeMap<u64, Arc<Segment>>,
    starts: &[u64],
) -> Result<(), StoreError> {
    for start in starts {
        if let Some(segment) = segments.remove(start) {
            disk.remove(&segment.name).doing("removing", &segment.name)?;
        }
    }
    if starts.is_empty() { Ok(()) } else { disk.sync_dir().syncing("the directory") }
}
