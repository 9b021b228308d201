//! Checks every byte of a file of the log.

use super::LogFamily;
use super::open::{open_segment, read_file, walk};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::recover::Cut;
use crate::segment::Segment;

/// Checks one file. `next` is the start of the following one. Returns the number of frames, and whether the
/// tail is torn.
pub(crate) fn check_file(
    disk: &dyn Disk,
    family: LogFamily,
    start: u64,
    next: Option<u64>,
) -> Result<(u64, Option<Cut>), StoreError> {
    let segment = open_segment(disk, family, start)?;
    let read = read_file(&segment, next, |_, _| ())?;
    Ok((read.frames, read.cut))
}

/// The file with the end of its valid part, if its rows are valid.
pub(crate) fn good_part(
    disk: &dyn Disk,
    family: LogFamily,
    start: u64,
) -> Result<Option<(Segment, u64)>, StoreError> {
    let segment = match open_segment(disk, family, start) {
        Ok(segment) => segment,
        Err(StoreError::Damaged(_)) => return Ok(None),
        Err(other) => return Err(other),
    };
    let (read, _) = walk(&segment, None, &mut |_, _| ())?;
    Ok((read.base_end > start).then_some((segment, read.end)))
}
