//! Walking over the files and judging what is found. Only the reading of this walk decides what is a torn tail, which
//! is cut, and what is damage, which stops the start.

use std::sync::Arc;

use crate::error::{Damage, Doing, StoreError};
use crate::frame::FRAME_HEADER_BYTES;
use crate::recover::Cut;
use crate::recover::decode::{Decoder, Piece};
use crate::scan::{Found, Scan, certain_frame_behind};
use crate::segment::{Past, Segment};
use crate::shared::SnapshotFile;
use crate::snapshot::{SnapshotReader, Sum};

/// Where the journal ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalEnd {
    pub(crate) position: u64,
    /// The start of the segment that holds the end.
    pub(crate) segment: u64,
    pub(crate) next_event: u64,
    /// Everything before it was synced, as later frames testify.
    pub(crate) certain: u64,
    pub(crate) cut: Option<Cut>,
}

/// Reads the snapshot, then the journal behind it, and hands over what is found, piece by piece.
pub(crate) fn read_all(
    snapshot: Option<SnapshotReader>,
    segments: &[Arc<Segment>],
    to: &mut dyn FnMut(Piece),
) -> Result<JournalEnd, StoreError> {
    let mut decoder = Decoder::default();
    let file = snapshot.as_ref().map(SnapshotReader::file);
    let at_least = match snapshot {
        Some(snapshot) => Some(read_snapshot(snapshot, &mut decoder, to)?.end),
        None => None,
    };
    let end = read_journal(segments, file, at_least, &mut decoder, to)?;
    to(decoder.take());
    Ok(end)
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

/// Reads the journal from where the snapshot began, or from its own beginning. It must reach `at_least`.
fn read_journal(
    segments: &[Arc<Segment>],
    snapshot: Option<SnapshotFile>,
    at_least: Option<u64>,
    decoder: &mut Decoder,
    to: &mut dyn FnMut(Piece),
) -> Result<JournalEnd, StoreError> {
    let (start, next_event) = snapshot.map_or((0, 1), |snapshot| (snapshot.start, snapshot.first_event));
    let mut end = JournalEnd { position: start, segment: start, next_event, certain: start, cut: None };
    let first = segments.partition_point(|segment| segment.start <= start).saturating_sub(1);
    let needed = &segments[first.min(segments.len())..];
    for (index, segment) in needed.iter().enumerate() {
        if segment.start > end.position {
            return Err(missing(segment, end.position).into());
        }
        if segment.file_end()? < end.position {
            let offset = segment.offset(segment.file_end()?);
            let why = format!("it ends before position {}, where the snapshot begins", end.position);
            return Err(Damage::new(&segment.name, offset, why).into());
        }
        let next = needed.get(index + 1).map(|next| next.start);
        read_segment(segment, next, &mut end, decoder, to)?;
    }
    if let Some(at_least) = at_least.filter(|at_least| *at_least > end.position) {
        let file = segments.last().map_or("the journal", |segment| &segment.name);
        let offset = segments.last().map_or(0, |segment| segment.offset(end.position.max(segment.start)));
        let why = format!(
            "the journal ends at position {}, but the snapshot was taken at {at_least}",
            end.position
        );
        return Err(Damage::new(file, offset, why).into());
    }
    Ok(end)
}

fn missing(segment: &Segment, position: u64) -> Damage {
    let why =
        format!("the journal before it is missing: it begins at {}, but {position} is needed", segment.start);
    Damage::new(&segment.name, 0, why)
}

/// Reads one segment. `next` is where the following one starts: then this one must be complete up to there, because a
/// segment is made certain before the next one begins.
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
                end.certain = end.certain.max(header.certain);
                if let Some(piece) = decoder.take_full() {
                    to(piece);
                }
            }
            Found::End => break None,
            Found::Bad(why) => break Some(why),
        }
    };
    let offset = segment.offset(end.position);
    if next.is_some_and(|next| next != end.position) {
        let why = stopped.unwrap_or("frames are missing here");
        return Err(Damage::new(
            &segment.name,
            offset,
            format!("{why}, and the journal goes on in the next file"),
        )
        .into());
    }
    if next.is_none() {
        if certain_frame_behind(segment, end.position)? {
            let why = stopped.unwrap_or("a frame is missing here");
            return Err(Damage::new(
                &segment.name,
                offset,
                format!("{why}, and frames written later follow it"),
            )
            .into());
        }
        if let Some(why) = stopped
            && (segment.past == Past::Fresh || was_written_here(segment, end)?)
        {
            end.cut = Some(Cut { file: segment.name.clone(), offset, why: why.to_owned() });
        }
    }
    Ok(())
}

/// In a file that was used before, whatever is behind the last frame may be from then. A frame that was meant to stand here
/// bears this position, or the number of the next event; an older one bears neither.
fn was_written_here(segment: &Segment, end: &JournalEnd) -> Result<bool, StoreError> {
    let mut header = [0; FRAME_HEADER_BYTES];
    segment.file.read_at(&mut header, segment.offset(end.position)).doing("reading", &segment.name)?;
    Ok(header[16..24] == end.position.to_le_bytes() || header[24..32] == end.next_event.to_le_bytes())
}
