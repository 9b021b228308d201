//! References to the bytes of a body, a result or a checkpoint. The engine never holds the bytes themselves.

use crate::state::TaskState;
use crate::task::Task;

/// An address in the journal. The engine passes it on and never interprets it.
///
/// Three `u32` fields instead of a `u64` and a `u32`: twelve bytes per waiting task, not sixteen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Blob {
    at_high: u32,
    at_low: u32,
    bytes: u32,
}

impl Blob {
    /// No bytes.
    pub const EMPTY: Blob = Blob { at_high: 0, at_low: 0, bytes: 0 };

    /// Bytes at a position of the journal.
    pub fn new(at: u64, bytes: u32) -> Blob {
        if bytes == 0 {
            return Blob::EMPTY;
        }
        Blob { at_high: (at >> 32) as u32, at_low: at as u32, bytes }
    }

    /// The position in the journal.
    pub fn at(self) -> u64 {
        u64::from(self.at_high) << 32 | u64::from(self.at_low)
    }

    /// The length.
    pub fn bytes(self) -> u32 {
        self.bytes
    }

    /// Whether there are no bytes.
    pub fn is_empty(self) -> bool {
        self.bytes == 0
    }
}

/// Which of a task's blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// The body of the task.
    Body,
    /// The result of the task.
    Result,
    /// The last checkpoint of the task.
    Checkpoint,
}

impl Which {
    /// All three.
    pub const ALL: [Which; 3] = [Which::Body, Which::Result, Which::Checkpoint];

    /// Where that blob of a task lies.
    pub fn of(self, task: &Task) -> Blob {
        match self {
            Which::Body => task.body,
            Which::Result => task.state.end().map_or(Blob::EMPTY, |end| end.result),
            Which::Checkpoint => task.checkpoint().map_or(Blob::EMPTY, |checkpoint| checkpoint.blob),
        }
    }

    /// Says where that blob of a task lies, if the task has one.
    pub fn set(self, task: &mut Task, to: Blob) {
        match self {
            Which::Body => task.body = to,
            Which::Result => {
                if let TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end) =
                    &mut task.state
                {
                    end.result = to;
                }
            }
            Which::Checkpoint => {
                if let Some(checkpoint) = task.extras.as_mut().and_then(|extras| extras.checkpoint.as_mut()) {
                    checkpoint.blob = to;
                }
            }
        }
    }
}
