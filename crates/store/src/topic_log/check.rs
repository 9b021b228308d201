//! Looking at every byte of a file of the log.

use super::open::{open_segment, read_file};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::recover::Cut;

/// Reads one file. `next` is where the following one starts. Says how many frames it has, and whether its tail is torn.
pub(crate) fn check_file(
    disk: &dyn Disk,
    start: u64,
    next: Option<u64>,
) -> Result<(u64, Option<Cut>), StoreError> {
    let segment = open_segment(disk, start)?;
    let read = read_file(&segment, next, |_| ())?;
    Ok((read.frames, read.cut))
}
