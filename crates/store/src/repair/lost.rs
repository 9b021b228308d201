//! Finds the tasks that have lost their body or result.

use std::time::Duration;

use tenure_engine::{Blob, Settings, StateName, Timestamp, Which};

use super::Work;
use super::fill::{FILLER_BYTES_MIN, Lost};
use crate::error::StoreError;
use crate::recover::{Inventory, Recovered, end_of, is_whole, recover};

/// Lost bytes this close to each other were in the same segment.
const SAME_SEGMENT_BYTES: u64 = 64 << 20;

impl Work<'_> {
    /// Recovers in memory, as the broker would, and reads every body and result. Positions without a file get
    /// a file of zeros, so that a start does not stop at a known loss.
    pub(super) fn lost_bytes(&mut self) -> Result<(), StoreError> {
        let keep_all =
            Settings { ended_kept: usize::MAX, ended_kept_for: Duration::MAX, ..Settings::default() };
        let recovered = recover(self.disk, &Inventory::take(self.disk)?, keep_all, Timestamp::ZERO)?;
        let mut wanted = Vec::new();
        recovered.engine.scan_tasks(None, usize::MAX, &mut |task, _, _| {
            let blobs = Which::ALL.map(|which| which.of(task)).into_iter().filter(|blob| !blob.is_empty());
            let may_be_gone = recovered.may_be_gone(task);
            wanted.extend(blobs.map(|blob| (blob, task.id, task.state.name(), may_be_gone)));
        });
        for array in recovered.engine.arrays().filter(|array| !array.body.is_empty()) {
            let state = array.end.map_or(StateName::Ready, |end| end.state);
            wanted.push((array.body, array.id, state, recovered.array_may_be_gone(array)));
        }
        wanted.sort_unstable_by_key(|(blob, ..)| blob.at());
        let mut nowhere = Vec::new();
        for (blob, task, state, may_be_gone) in wanted {
            let segment = recovered.segment_of(blob)?;
            let is_there = match segment {
                Some(segment) => is_whole(segment, blob)?,
                None => false,
            };
            if is_there || (segment.is_none() && may_be_gone) {
                continue;
            }
            if segment.is_none() {
                nowhere.push(blob);
            }
            if self.repaired.unreadable.last() != Some(&(task, state)) {
                self.repaired.unreadable.push((task, state));
            }
        }
        self.stand_in_for(&recovered, &nowhere)
    }

    fn stand_in_for(&mut self, recovered: &Recovered, blobs: &[Blob]) -> Result<(), StoreError> {
        let mut left = blobs;
        while let Some(first) = left.first() {
            let next =
                recovered.segments.iter().map(|segment| segment.start).find(|start| *start > first.at());
            let (mut to, mut count) = (end_of(*first), 0);
            for blob in left {
                if count > 0
                    && (next.is_some_and(|next| blob.at() >= next) || blob.at() > to + SAME_SEGMENT_BYTES)
                {
                    break;
                }
                (to, count) = (to.max(end_of(*blob)), count + 1);
            }
            // If a file ends within a body, extend it; if there is no file, create one.
            let cut = recovered.segments.iter().rfind(|segment| segment.start <= first.at());
            let cut = cut.map(|segment| segment.file_end().map(|end| (segment, end))).transpose()?;
            let cut = cut.filter(|(_, end)| *end > first.at());
            let from = cut.map_or(first.at(), |(_, end)| end);
            let lost = Lost::bytes(from, to.max(from + FILLER_BYTES_MIN).min(next.unwrap_or(u64::MAX)));
            let name = match cut {
                Some((segment, _)) => {
                    self.lengthen(segment, lost)?;
                    segment.name.clone()
                }
                None => self.stand_in(lost)?.name,
            };
            self.report(format!(
                "position {from} of the journal is in no file. Zeros in {name} stand in for what is missing; {count} bodies or \
                 results are lost"
            ));
            left = &left[count..];
        }
        Ok(())
    }
}
