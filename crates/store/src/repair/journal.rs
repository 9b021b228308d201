//! Repairs the segments: what a start reads is repaired or cut; segments kept only for their bodies are
//! skipped where they are damaged.

use super::fill::{FILLER_BYTES_MIN, Lost};
use super::snapshot::Base;
use super::{Repair, Work};
use crate::codec::Names;
use crate::error::{IoContext, StoreError};
use crate::files;
use crate::frame::FrameHeader;
use crate::recover::Inventory;
use crate::scan::{Found, Scan, frame_behind, synced_frame_behind};
use crate::segment::{Segment, SegmentRest};
use crate::verify::check_frame;

/// How far the journal is valid.
#[derive(Clone, Copy, Debug)]
struct At {
    position: u64,
    next_event: u64,
}

impl Work<'_> {
    /// Segments from before the snapshot exist for the bodies and results in them, which have their own
    /// checksums. A bad frame is skipped, and a missing segment is replaced by one of zeros.
    pub(super) fn old_segments(&mut self, snapshot: Option<&Base>) -> Result<(), StoreError> {
        let Some(base) = snapshot else { return Ok(()) };
        let mut found = Inventory::take(self.disk)?.segments;
        let listed = base.sum.segments.clone().unwrap_or_default();
        let is_within = |start: u64| {
            listed.iter().any(|needed| needed.start < start && start < needed.start + needed.bytes)
        };
        for start in found.extract_if(.., |start| is_within(*start)) {
            let name = files::journal(start);
            let aside = self.set_aside(&name)?;
            self.report(format!(
                "{name} is not a segment that {} knows. It was renamed to {aside}",
                files::snapshot(base.start)
            ));
        }
        for needed in &listed {
            if !found.contains(&needed.start) {
                let name = files::journal(needed.start);
                self.stand_in(Lost::bytes(needed.start, needed.start + needed.bytes))?;
                self.report(format!(
                    "{name} is missing. A file of zeros stands in for it; bodies and results that were in it are lost"
                ));
                found.push(needed.start);
            }
        }
        found.sort_unstable();
        for (index, start) in found.iter().enumerate().filter(|(_, start)| **start < base.start) {
            let segment = self.open_or_renew(*start)?;
            let next = found.get(index + 1).copied().unwrap_or(u64::MAX).min(base.start);
            let needed = listed.iter().find(|needed| needed.start == *start);
            let end = needed.map_or(segment.file_end()?, |needed| needed.start + needed.bytes).min(next);
            self.pass_over(&segment, end)?;
        }
        Ok(())
    }

    fn pass_over(&mut self, segment: &Segment, end: u64) -> Result<(), StoreError> {
        let mut position = segment.start;
        let mut scan = Scan::new(segment, position, end)?;
        while position < end {
            let stopped = match scan.next()? {
                Found::Frame(header, _) => {
                    position = header.end();
                    continue;
                }
                Found::End => "frames are missing",
                Found::Bad(why) => why,
            };
            let fits = |header: &FrameHeader| {
                header.end() <= end && Lost::bytes(position, header.position).can_be_filled()
            };
            let resume = frame_behind(segment, position, fits)?.map_or(end, |header| header.position);
            let lost = Lost::bytes(position, resume);
            if !lost.can_be_filled() {
                return Ok(());
            }
            let offset = segment.offset(position);
            self.fill(segment, lost)?;
            self.report(format!(
                "{} at byte {offset}: {stopped}. It was skipped; bodies in it have their own checksums",
                segment.name
            ));
            position = resume;
            scan = Scan::new(segment, position, end)?;
        }
        Ok(())
    }

    /// Scans the journal that a start needs and repairs every gap, or cuts it at the first.
    pub(super) fn journal(
        &mut self,
        inventory: &Inventory,
        snapshot: Option<&Base>,
    ) -> Result<(), StoreError> {
        let (start, first_event) = snapshot.map_or((0, 1), |base| (base.start, base.first_event));
        let mut at = At { position: start, next_event: first_event };
        let needed = self.needed(inventory, start)?;
        let mut last = None;
        for (index, start) in needed.iter().copied().enumerate() {
            if start > at.position {
                let next_event = self.first_event_in(start).unwrap_or(at.next_event).max(at.next_event);
                let lost = Lost { from: at.position, to: start, first_event: at.next_event, next_event };
                let missing = format!(
                    "{} bytes of the journal before {} are missing",
                    start - at.position,
                    files::journal(start)
                );
                if self.how == Repair::Cut || !lost.can_be_filled() {
                    self.report(missing);
                    self.set_segments_aside(&needed[index..])?;
                    break;
                }
                self.stand_in(lost)?;
                self.report(format!("{missing}; {} stands in for them", files::journal(at.position)));
                at = At { position: start, next_event };
            }
            let segment = self.open_or_renew(start)?;
            let went_on = self.walk(&segment, needed.get(index + 1).copied(), &mut at)?;
            last = Some(segment);
            if !went_on {
                self.set_segments_aside(&needed[index + 1..])?;
                break;
            }
        }
        self.reach_snapshot(inventory, snapshot, last.as_ref(), &mut at)?;
        (self.repaired.position, self.repaired.next_event) = (at.position, at.next_event);
        Ok(())
    }

    /// The segments from the one that contains the position on.
    fn needed(&self, inventory: &Inventory, position: u64) -> Result<Vec<u64>, StoreError> {
        let after = inventory.segments.partition_point(|start| *start < position);
        let mut needed = inventory.segments[after..].to_vec();
        if needed.first() != Some(&position)
            && let Some(before) = inventory.segments[..after].last()
        {
            let name = files::journal(*before);
            let file = self.disk.open(&name).doing("opening", &name)?;
            let end = Segment::new(*before, 0, SegmentRest::Fresh, file).file_end()?;
            if end >= position {
                needed.insert(0, *before);
            }
        }
        Ok(needed)
    }

    /// Repairs one segment. `false`: the journal now ends in it.
    fn walk(&mut self, segment: &Segment, next: Option<u64>, at: &mut At) -> Result<bool, StoreError> {
        let limit = next.unwrap_or(u64::MAX);
        let mut scan = Scan::new(segment, at.position, limit)?;
        let mut names = Names::default();
        loop {
            let stopped = match scan.next()? {
                Found::Frame(header, _) if header.first_event != at.next_event => {
                    "its events are not the next ones"
                }
                Found::Frame(header, payload) if check_frame(&header, payload, &mut names).is_err() => {
                    "a frame is malformed"
                }
                Found::Frame(header, _) => {
                    *at = At { position: header.end(), next_event: header.next_event() };
                    continue;
                }
                Found::End => "frames are missing",
                Found::Bad(why) => why,
            };
            if next == Some(at.position) {
                return Ok(true);
            }
            let offset = segment.offset(at.position);
            let behind = frame_behind(segment, at.position, |header| {
                header.end() <= limit && gap(*at, header.position, header.first_event).can_be_filled()
            })?;
            let Some(resume) = behind.map(|header| header.position).or(next) else {
                self.cut_tail(segment, at.position, stopped)?;
                return Ok(false);
            };
            let resume_event = behind.map_or_else(
                || self.first_event_in(resume).unwrap_or(at.next_event).max(at.next_event),
                |header| header.first_event,
            );
            let lost = gap(*at, resume, resume_event);
            if self.how == Repair::Cut || !lost.can_be_filled() {
                self.report(format!(
                    "{} at byte {offset}: {stopped}. The journal was cut there",
                    segment.name
                ));
                self.cut(segment, at.position)?;
                return Ok(false);
            }
            self.fill(segment, lost)?;
            self.report(format!(
                "{} at byte {offset}: {stopped}. {} bytes with {} events from {} on were skipped",
                segment.name,
                resume - at.position,
                resume_event - at.next_event,
                at.next_event,
            ));
            *at = At { position: resume, next_event: resume_event };
            if next == Some(resume) {
                return Ok(true);
            }
            scan = Scan::new(segment, resume, limit)?;
        }
    }

    /// Cuts a tail after which nothing is readable. It may be a frame that was never finished, or one that
    /// was acknowledged and damaged later.
    fn cut_tail(&mut self, segment: &Segment, position: u64, why: &str) -> Result<(), StoreError> {
        let is_bad = segment.rest == SegmentRest::Fresh && why != "frames are missing";
        if segment.file_end()? > position && (is_bad || synced_frame_behind(segment, position)?) {
            let offset = segment.offset(position);
            self.report(format!(
                "{} at byte {offset}: {why}, and nothing that can be read follows. The end was cut off",
                segment.name
            ));
            self.cut(segment, position)?;
        }
        Ok(())
    }

    fn cut(&mut self, segment: &Segment, position: u64) -> Result<(), StoreError> {
        if segment.file_end()? <= position {
            return Ok(());
        }
        self.keep_range(segment, position, segment.file_end()?)?;
        segment.file.set_len(segment.offset(position)).doing("cutting", &segment.name)?;
        segment.file.sync().syncing(&segment.name)
    }

    /// Tasks in the snapshot may have bodies in the part of the journal that the snapshot has seen. Where
    /// that part is lost, a filler frame covers it, so that no other body ever gets such a position.
    fn reach_snapshot(
        &mut self,
        inventory: &Inventory,
        snapshot: Option<&Base>,
        last: Option<&Segment>,
        at: &mut At,
    ) -> Result<(), StoreError> {
        let Some(base) = snapshot else { return Ok(()) };
        let has_older = inventory.segments.first().is_some_and(|start| *start < base.start);
        // Without a list of segments a start cannot know that the snapshot has no journal after it.
        let must_begin = last.is_none() && has_older && base.sum.segments.is_none();
        if base.sum.end <= at.position && !must_begin {
            return Ok(());
        }
        let to = base.sum.end.max(at.position + FILLER_BYTES_MIN);
        let lost = Lost { from: at.position, to, first_event: at.next_event, next_event: at.next_event };
        match last {
            Some(segment) => self.fill(segment, lost)?,
            None => drop(self.stand_in(lost)?),
        }
        self.report(format!(
            "{} has seen the journal up to position {}, but what is left ends at {}: some tasks in it may be ahead of their \
             events",
            files::snapshot(base.start),
            base.sum.end,
            at.position,
        ));
        at.position = to;
        Ok(())
    }

    /// The number of the first event in a segment, if one of its frames is readable.
    fn first_event_in(&self, start: u64) -> Option<u64> {
        let segment = Segment::open(self.disk, start).ok()?;
        match Scan::new(&segment, start, u64::MAX).ok()?.next().ok()? {
            Found::Frame(header, _) => Some(header.first_event),
            Found::End | Found::Bad(_) => None,
        }
    }

    fn set_segments_aside(&mut self, segments: &[u64]) -> Result<(), StoreError> {
        for start in segments {
            let name = files::journal(*start);
            let aside = self.set_aside(&name)?;
            self.report(format!("{name} was renamed to {aside}"));
        }
        Ok(())
    }
}

fn gap(at: At, to: u64, next_event: u64) -> Lost {
    Lost { from: at.position, to, first_event: at.next_event, next_event }
}
