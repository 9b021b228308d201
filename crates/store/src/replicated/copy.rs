//! Copies committed chunks into the local journal, and sends back to the database what it lost.

use super::local::{LocalJournal, walk};
use super::place::next_portable;
use super::{FrameGroup, Leadership, Place, ReplicatedSession, ReplicationError, StoredGroup, Stream, Tail};
use crate::error::{Damage, StoreError};
use crate::segment::Segment;
use std::sync::Arc;

/// About how many bytes one call reads or sends.
pub(crate) const GROUP_BYTES_MAX: usize = 1 << 20;

/// Copies everything up to a position. Returns how many bytes are new. If the copy reaches further than the
/// database, nothing is changed.
pub(crate) fn copy(
    local: &mut LocalJournal,
    session: &mut dyn ReplicatedSession,
    stream: Stream,
    upto: u64,
) -> Result<u64, StoreError> {
    let begun_at = local.end().position;
    while local.end().position < upto {
        let groups = session.read(stream, local.end().position, GROUP_BYTES_MAX)?;
        let before = local.end().position;
        copy_groups(local, &groups, upto)?;
        if local.end().position == before {
            break;
        }
    }
    Ok(local.end().position - begun_at)
}

/// Every boundary that both have must have the same chain.
fn copy_groups(local: &mut LocalJournal, groups: &[StoredGroup], upto: u64) -> Result<(), StoreError> {
    let Some((anchor, groups)) = groups.split_first() else { return Ok(()) };
    let mut place = anchor.end;
    check(local, place)?;
    for group in groups {
        if group.end.position > upto {
            break;
        }
        if group.bytes.is_empty() {
            // Between two segments that are kept for their bodies, others may have been dropped.
            if group.start > local.end().position {
                local.jump(group.end);
            }
            place = group.end;
            check(local, place)?;
            continue;
        }
        let (mut new, mut left) = (Vec::new(), &group.bytes[..]);
        let mut end = local.end().position;
        while !left.is_empty() {
            let Some((header, portable)) = next_portable(left) else {
                let why = "the replicated journal holds bytes that are no frame";
                return Err(Damage::new("the replicated journal", place.position, why).into());
            };
            place = place.after(portable);
            left = &left[portable.len()..];
            if place.position <= local.end().position {
                check(local, place)?;
            } else if header.position != end {
                return Err(StoreError::Diverged { position: end });
            } else {
                new.push((header, portable.to_vec()));
                end = place.position;
            }
        }
        if place != group.end {
            return Err(StoreError::Diverged { position: group.start });
        }
        local.append(group.segment, &new)?;
    }
    if place.position == local.end().position {
        local.is_equal_up_to_end();
    }
    Ok(())
}

fn check(local: &LocalJournal, place: Place) -> Result<(), StoreError> {
    if local.chain_at(place.position) == Some(place.chain) {
        return Ok(());
    }
    Err(StoreError::Diverged { position: place.position })
}

/// Restores what the database lost: sends the local frames after its end again. `base` is the start of the
/// database's newest segment, and `end` its end.
pub(crate) fn refill(
    session: &mut dyn ReplicatedSession,
    leadership: &Leadership,
    stream: Stream,
    segments: &[Arc<Segment>],
    base: Place,
    upto: u64,
) -> Result<Tail, StoreError> {
    let end = leadership.tails[stream].end;
    let mut filling = Refilling {
        session,
        leadership,
        stream,
        segment: base.position,
        is_met: base == end,
        group: FrameGroup::new(end),
        failed: None,
    };
    walk(segments, base, upto, &mut |walked| {
        if walked.end.position <= end.position {
            filling.is_met |= walked.end == end;
            return true;
        }
        filling.is_met && filling.add(walked.segment, walked.portable)
    })?;
    if !filling.is_met {
        return Err(StoreError::Diverged { position: end.position });
    }
    filling.flush();
    match filling.failed {
        Some(error) => Err(error.into()),
        None => Ok(Tail { end: filling.group.start, segment: filling.segment }),
    }
}

struct Refilling<'a> {
    session: &'a mut dyn ReplicatedSession,
    leadership: &'a Leadership,
    stream: Stream,
    segment: u64,
    /// The copy holds the end of the database.
    is_met: bool,
    group: FrameGroup,
    failed: Option<ReplicationError>,
}

impl Refilling<'_> {
    fn add(&mut self, segment: u64, portable: &[u8]) -> bool {
        if segment != self.segment {
            self.flush();
            let begun = match self.failed {
                Some(_) => return false,
                None => self.session.begin_segment(self.leadership, self.stream, self.group.start),
            };
            self.failed = begun.err();
            self.segment = segment;
        }
        self.group.add(portable);
        if self.group.bytes.len() >= GROUP_BYTES_MAX {
            self.flush();
        }
        self.failed.is_none()
    }

    fn flush(&mut self) {
        if self.failed.is_some() || self.group.is_empty() {
            return;
        }
        match self.session.append(self.leadership, self.stream, &self.group) {
            Ok(()) => self.group = FrameGroup::new(self.group.end),
            Err(error) => self.failed = Some(error),
        }
    }
}
