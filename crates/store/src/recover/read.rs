//! Scans the files and classifies what it finds. Only this code decides what is a torn tail, which is cut,
//! and what is damage, which stops the start.

use std::sync::Arc;

use crate::error::{Damage, IoContext, StoreError};
use crate::files;
use crate::frame::FRAME_HEADER_BYTES;
use crate::high_water::HighWater;
use crate::recover::Cut;
use crate::recover::decode::{Decoder, Piece};
use crate::scan::{Found, Scan, synced_frame_behind};
use crate::segment::{Segment, SegmentRest};
use crate::shared::SnapshotFile;
use crate::snapshot::{SnapshotReader, Sum};

/// Where the journal ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalEnd {
    pub(crate) position: u64,
    /// The start of the segment that holds the end.
    pub(crate) segment: u64,
    pub(crate) next_event: u64,
    /// Everything before this position was synced, as later frames confirm.
    pub(crate) synced: u64,
    pub(crate) cut: Option<Cut>,
}

/// Reads the snapshot, then the journal after it, and passes on what it finds, piece by piece.
pub(crate) fn read_all(
    snapshot: Option<SnapshotReader>,
    segments: &[Arc<Segment>],
    mark: Option<HighWater>,
    to: &mut dyn FnMut(Piece),
) -> Result<JournalEnd, StoreError> {
    let mut decoder = Decoder::default();
    let file = snapshot.as_ref().map(SnapshotReader::file);
    let sum = match snapshot {
        Some(snapshot) => Some(read_snapshot(snapshot, &mut decoder, to)?),
        None => None,
    };
    if let Some(damage) = missing_segments(sum.as_ref(), segments)?.into_iter().next() {
        return Err(damage.into());
    }
    let end = read_journal(segments, file, sum.as_ref(), &mut decoder, to)?;
    check_end(&end, segments, file, sum.as_ref(), mark)?;
    to(decoder.take());
    Ok(end)
}

/// The segments from before the snapshot that it needs and that are missing or too short.
pub(crate) fn missing_segments(
    sum: Option<&Sum>,
    segments: &[Arc<Segment>],
) -> Result<Vec<Damage>, StoreError> {
    let mut missing = Vec::new();
    for needed in sum.and_then(|sum| sum.segments.as_ref()).into_iter().flatten() {
        let name = files::journal(needed.start);
        match segments.iter().find(|segment| segment.start == needed.start) {
            None => {
                missing.push(Damage::missing(&name, "bodies and results that tasks still need are in it"));
            }
            Some(segment) if segment.file_end()? < needed.start + needed.bytes => {
                let end = segment.file_end()?;
                let why =
                    format!("the file ends here; {} bytes are missing", needed.start + needed.bytes - end);
                missing.push(Damage::new(&name, segment.offset(end), why));
            }
            Some(_) => {}
        }
    }
    Ok(missing)
}

/// The journal must reach the end that the snapshot has seen, and the position that the high-water mark knows
/// to be synced.
fn check_end(
    end: &JournalEnd,
    segments: &[Arc<Segment>],
    snapshot: Option<SnapshotFile>,
    sum: Option<&Sum>,
    mark: Option<HighWater>,
) -> Result<(), StoreError> {
    let snapshot_start = snapshot.map_or(0, |snapshot| snapshot.start);
    // A snapshot that begins after the segment may have let it be deleted.
    let last = mark.and_then(|mark| mark.segment).filter(|start| *start >= snapshot_start);
    if let Some(start) = last.filter(|start| segments.iter().all(|segment| segment.start != *start)) {
        let why =
            format!("it was the last segment of the journal, which ends at position {} now", end.position);
        return Err(Damage::missing(&files::journal(start), why).into());
    }
    let by_snapshot = sum.map(|sum| (sum.end, "the snapshot was taken at"));
    let by_mark = mark.map(|mark| (mark.position, "it was synced up to"));
    for (position, known) in by_snapshot.into_iter().chain(by_mark) {
        if position <= end.position {
            continue;
        }
        let last = segments.iter().rfind(|segment| segment.start <= end.position);
        let file = last.map_or("the journal", |segment| &segment.name);
        let offset = last.map_or(0, |segment| segment.offset(end.position));
        let stopped = end.cut.as_ref().map(|cut| format!("{}; ", cut.why)).unwrap_or_default();
        let why = format!("{stopped}the journal ends at position {}, but {known} {position}", end.position);
        return Err(Damage::new(file, offset, why).into());
    }
    Ok(())
}

fn read_snapshot(
    mut snapshot: SnapshotReader,
    decoder: &mut Decoder,
    to: &mut dyn FnMut(Piece),
) -> Result<Sum, StoreError> {
    while let Some((header, page, offset)) = snapshot.next()? {
        decoder
            .block(&header, &page)
            .map_err(|why| snapshot.damage(offset, format!("a block is malformed: {why}")))?;
        if let Some(piece) = decoder.take_full() {
            to(piece);
        }
    }
    Ok(snapshot.sum.expect("the last block was read"))
}

/// Reads the journal from the snapshot's start, or from its own beginning.
fn read_journal(
    segments: &[Arc<Segment>],
    snapshot: Option<SnapshotFile>,
    sum: Option<&Sum>,
    decoder: &mut Decoder,
    to: &mut dyn FnMut(Piece),
) -> Result<JournalEnd, StoreError> {
    let (start, next_event) = snapshot.map_or((0, 1), |snapshot| (snapshot.start, snapshot.first_event));
    let mut end = JournalEnd { position: start, segment: start, next_event, synced: start, cut: None };
    let first = segments.partition_point(|segment| segment.start <= start).saturating_sub(1);
    let mut needed = &segments[first.min(segments.len())..];
    if let Some(before) = needed.first().filter(|first| first.start <= start)
        && before.file_end()? < start
    {
        // The segment that ended at the snapshot may have been deleted while an older one is kept for its
        // bodies. Only a snapshot that lists its segments can distinguish that from a truncated file.
        if sum.is_none_or(|sum| sum.segments.is_none()) {
            let offset = before.offset(before.file_end()?);
            let why = format!("it ends before position {start}, where the snapshot begins");
            return Err(Damage::new(&before.name, offset, why).into());
        }
        needed = &needed[1..];
    }
    for (index, segment) in needed.iter().enumerate() {
        if segment.start > end.position {
            return Err(missing(segment, end.position).into());
        }
        let next = needed.get(index + 1).map(|next| next.start);
        read_segment(segment, next, &mut end, decoder, to)?;
    }
    Ok(end)
}

fn missing(segment: &Segment, position: u64) -> Damage {
    let why = format!("the journal goes on in {}, but position {position} is needed before", segment.name);
    Damage::missing(&files::journal(position), why)
}

/// Reads one segment. `next` is the start of the following one: then this one must be complete up to there,
/// because a segment is synced before the next one begins.
fn read_segment(
    segment: &Arc<Segment>,
    next: Option<u64>,
    end: &mut JournalEnd,
    decoder: &mut Decoder,
    to: &mut dyn FnMut(Piece),
) -> Result<(), StoreError> {
    let mut scan = Scan::new(segment, end.position, next.unwrap_or(u64::MAX))?;
    end.segment = segment.start;
    let stopped = loop {
        let position = scan.position();
        match scan.next()? {
            Found::Frame(header, payload) => {
                let offset = segment.offset(position);
                if header.first_event != end.next_event {
                    let why = format!(
                        "its events begin with {}, expected was {}",
                        header.first_event, end.next_event
                    );
                    return Err(Damage::new(&segment.name, offset, why).into());
                }
                segment.mark(header.first_event, position);
                decoder.frame(&header, payload).map_err(|why| {
                    Damage::new(&segment.name, offset, format!("a frame is malformed: {why}"))
                })?;
                end.position = header.end();
                end.next_event = header.next_event();
                end.synced = end.synced.max(header.synced);
                if let Some(piece) = decoder.take_full() {
                    to(piece);
                }
            }
            Found::End => break None,
            Found::Bad(why) => break Some(why),
        }
    };
    let offset = segment.offset(end.position);
    if let Some(next) = next.filter(|next| *next != end.position) {
        if stopped.is_none() && end.position == segment.file_end()? {
            let why =
                format!("{} ends at its beginning, and {} follows it", segment.name, files::journal(next));
            return Err(Damage::missing(&files::journal(end.position), why).into());
        }
        let why = stopped.unwrap_or("frames are missing here");
        return Err(Damage::new(
            &segment.name,
            offset,
            format!("{why}, and the journal goes on in the next file"),
        )
        .into());
    }
    if next.is_none() {
        if synced_frame_behind(segment, end.position)? {
            let why = stopped.unwrap_or("a frame is missing here");
            return Err(Damage::new(
                &segment.name,
                offset,
                format!("{why}, and frames written later follow it"),
            )
            .into());
        }
        if let Some(why) = stopped
            && (segment.rest == SegmentRest::Fresh || was_written_here(segment, end)?)
        {
            end.cut = Some(Cut { file: segment.name.clone(), offset, why: why.to_owned() });
        }
    }
    Ok(())
}

/// In a reused file, the bytes after the last frame may be from its earlier use. A frame written for this
/// place has this position or the number of the next event; an older one has neither.
fn was_written_here(segment: &Segment, end: &JournalEnd) -> Result<bool, StoreError> {
    let mut header = [0; FRAME_HEADER_BYTES];
    segment.file.read_at(&mut header, segment.offset(end.position)).doing("reading", &segment.name)?;
    Ok(header[16..24] == end.position.to_le_bytes() || header[24..32] == end.next_event.to_le_bytes())
}
