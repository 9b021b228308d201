//! Finds bodies and results that are in no segment.

use std::sync::Arc;

use tenure_engine::{ArrayRecord, Blob, Task, TaskId};

use super::Recovered;
use crate::error::{Damage, IoContext, StoreError};
use crate::frame::{BLOB_CRC_BYTES, checked_blob};
use crate::segment::Segment;

/// Blobs that tasks need and no file holds.
#[derive(Debug, Default)]
pub(crate) struct LostBlobs {
    pub(crate) blobs: Vec<(TaskId, Blob)>,
}

impl LostBlobs {
    pub(crate) fn add(&mut self, task: TaskId, blob: Blob) {
        self.blobs.push((task, blob));
    }

    /// The position of the first lost blob. If the snapshot lists its segments, an earlier check already
    /// names the missing file.
    pub(crate) fn damage(&self, segments: &[Arc<Segment>]) -> Option<Damage> {
        let (task, first) = self.blobs.iter().min_by_key(|(_, blob)| blob.at())?;
        let mut tasks: Vec<TaskId> = self.blobs.iter().map(|(task, _)| *task).collect();
        tasks.sort_unstable();
        tasks.dedup();
        let why = format!(
            "position {} of the journal is in no file; {} tasks, {task} among them, have their body or result there",
            first.at(),
            tasks.len()
        );
        let after = segments.iter().find(|segment| segment.start > first.at());
        let before = segments.iter().rfind(|segment| segment.start <= first.at());
        let file = match (before, after) {
            (_, Some(after)) => format!("a segment before {}", after.name),
            (Some(before), None) => format!("a segment after {}", before.name),
            (None, None) => "the journal".to_owned(),
        };
        Some(Damage::missing(&file, why))
    }
}

impl Recovered {
    /// The segment that contains the whole blob.
    pub(crate) fn segment_of(&self, blob: Blob) -> Result<Option<&Segment>, StoreError> {
        let after = self.segments.partition_point(|segment| segment.start <= blob.at());
        let Some(segment) = after.checked_sub(1).map(|index| &self.segments[index]) else { return Ok(None) };
        let next = self.segments.get(after).map_or(u64::MAX, |next| next.start);
        Ok((end_of(blob) <= segment.file_end()?.min(next)).then_some(segment))
    }

    /// Whether the bytes of a task may be missing without damage: a task that was forgotten is restored if the
    /// retention limit is higher now, and its segment may be gone.
    ///
    /// The journal does not say which tasks were forgotten, so this is true for every task that ended since
    /// the snapshot. A missing segment is noticed all the same: the snapshot lists the segments from before
    /// it that it needs, and the journal after it has no hole.
    pub(crate) fn may_be_gone(&self, task: &Task) -> bool {
        let first_event = self.snapshot.map_or(u64::MAX, |snapshot| snapshot.first_event);
        task.state.end().is_some_and(|end| end.event >= first_event)
    }

    /// The same for the body of an array, which goes with its last element.
    pub(crate) fn array_may_be_gone(&self, array: &ArrayRecord) -> bool {
        let first_event = self.snapshot.map_or(u64::MAX, |snapshot| snapshot.first_event);
        array.end.is_some_and(|end| end.event >= first_event)
    }
}

/// The end of a blob, including its checksum.
pub(crate) fn end_of(blob: Blob) -> u64 {
    blob.at() + u64::from(blob.bytes()) + BLOB_CRC_BYTES as u64
}

/// Whether the bytes match their checksum.
pub(crate) fn is_whole(segment: &Segment, blob: Blob) -> Result<bool, StoreError> {
    let mut bytes = vec![0; blob.bytes() as usize + BLOB_CRC_BYTES];
    let count =
        segment.file.read_at(&mut bytes, segment.offset(blob.at())).doing("reading", &segment.name)?;
    Ok(count == bytes.len() && checked_blob(blob, bytes.into()).is_some())
}
