//! Copies the events of the journal into event files before their segments are deleted.

use std::sync::Arc;

use tenure_engine::Event;

use super::decode::EventDecoder;
use super::file::{EventFile, EventWriter};
use crate::disk::Disk;
use crate::error::{Damage, StoreError};
use crate::scan::{Found, Scan};
use crate::segment::Segment;

/// The most events in one file.
const FILE_EVENTS_MAX: u64 = 200_000;
/// Old events are dropped by whole files, so the kept events fill at least this many files.
const FILES_KEPT_MIN: u64 = 8;
/// A smaller file is merged with the next events, so that many short runs of the broker do not leave many
/// files.
const JOINED_BELOW_BYTES: u64 = 1 << 20;

/// Copies the events of `segments` from number `from` on, between the positions `begin` and `end`, which are
/// both frame boundaries. `last` is the newest existing file. Returns the new files; the first may replace
/// `last`.
pub(crate) fn copy_events(
    disk: &dyn Disk,
    events_kept: u64,
    last: Option<&Arc<EventFile>>,
    segments: &[Arc<Segment>],
    begin: u64,
    from: u64,
    end: u64,
) -> Result<Vec<EventFile>, StoreError> {
    let file_events = (events_kept / FILES_KEPT_MIN).clamp(1, FILE_EVENTS_MAX);
    let mut copy = Copy { disk, file_events, writer: None, done: Vec::new(), failed: None };
    let mut decoder = EventDecoder::default();
    if let Some(last) = last
        && last.end == from
        && last.bytes < JOINED_BELOW_BYTES
        && last.end - last.first < file_events
    {
        last.read(&mut decoder, last.first, &mut |event| copy.add(&event))?;
    }
    for (index, segment) in segments.iter().enumerate() {
        let end = segments.get(index + 1).map_or(end, |next| next.start);
        let start = segment.mark_before(from).map_or(segment.start.max(begin), |mark| mark.position);
        let mut scan = Scan::new(segment, start, end)?;
        loop {
            let at = scan.position();
            match scan.next()? {
                Found::Frame(header, payload) if header.next_event() > from => {
                    decoder
                        .frame(&header, payload, from, &mut |event| copy.add(&event))
                        .map_err(|why| Damage::new(&segment.name, segment.offset(at), why.to_string()))?;
                }
                Found::Frame(..) => {}
                Found::End => break,
                Found::Bad(why) => return Err(Damage::new(&segment.name, segment.offset(at), why).into()),
            }
        }
    }
    copy.finish()
}

struct Copy<'a> {
    disk: &'a dyn Disk,
    file_events: u64,
    writer: Option<EventWriter<'a>>,
    done: Vec<EventFile>,
    failed: Option<StoreError>,
}

impl Copy<'_> {
    fn add(&mut self, event: &Event) -> bool {
        match self.try_add(event) {
            Ok(()) => true,
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }

    fn try_add(&mut self, event: &Event) -> Result<(), StoreError> {
        // After a hole left by a repair, a new file begins.
        let hole = self.writer.as_ref().is_some_and(|writer| writer.next() != event.seq);
        if hole || self.writer.as_ref().is_some_and(|writer| writer.count() >= self.file_events) {
            self.close()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(EventWriter::create(self.disk, event.seq)?),
        };
        writer.add(event)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if let Some(writer) = self.writer.take() {
            self.done.push(writer.finish()?);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<EventFile>, StoreError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.close()?;
        Ok(self.done)
    }
}
