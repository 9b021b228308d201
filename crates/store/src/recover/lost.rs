//! Bodies and results that lie in no segment.

use std::sync::Arc;

use tenure_engine::{Blob, Task, TaskId};

use super::Recovered;
use crate::error::{Damage, Doing, StoreError};
use crate::frame::{BLOB_CRC_BYTES, checked_blob};
use crate::segment::Segment;

/// What tasks need and no file holds.
#[derive(Debug, Default)]
pub(crate) struct LostBlobs {
    pub(crate) blobs: Vec<(TaskId, Blob)>,
}

impl LostBlobs {
    pub(crate) fn add(&mut self, task: TaskId, blob: Blob) {
        self.blobs.push((task, blob));
    }

    /// Names the place of the first. A snapshot that lists its segments names the file before it comes to this.
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
    /// The segment that holds all of a blob.
    pub(crate) fn segment_of(&self, blob: Blob) -> Result<Option<&Segment>, StoreError> {
        let after = self.segments.partition_point(|segment| segment.start <= blob.at());
        let Some(segment) = after.checked_sub(1).map(|index| &self.segments[index]) else { return Ok(None) };
        let next = self.segments.get(after).map_or(u64::MAX, |next| next.start);
        Ok((end_of(blob) <= segment.file_end()?.min(next)).then_some(segment))
    }

    /// The bytes of a task that ended in the very batch with which the snapshot began may be gone: it was forgotten, and is
    /// only remembered again because more ended tasks are kept than then.
    pub(crate) fn may_be_gone(&self, task: &Task) -> bool {
        let first_event = self.snapshot.map_or(u64::MAX, |snapshot| snapshot.first_event);
        task.state.end().is_some_and(|end| end.event >= first_event)
    }
}

/// Where a blob ends, with its checksum.
pub(crate) fn end_of(blob: Blob) -> u64 {
    blob.at() + u64::from(blob.bytes()) + BLOB_CRC_BYTES as u64
}

/// Whether its bytes are those that were written.
pub(crate) fn is_whole(segment: &Segment, blob: Blob) -> Result<bool, StoreError> {
    let mut bytes = vec![0; blob.bytes() as usize + BLOB_CRC_BYTES];
    let count =
        segment.file.read_at(&mut bytes, segment.offset(blob.at())).doing("reading", &segment.name)?;
    Ok(count == bytes.len() && checked_blob(blob, bytes.into()).is_some())
}
