//! Arrays: many tasks that are submitted, limited, waited for and cancelled as one thing.
//!
//! An element of an array is a task like any other. What it shares with the others is in its terms, and its
//! place follows from its id, so an element takes no more memory than a plain task.

use crate::blob::Blob;
use crate::command::NewTask;
use crate::id::TaskId;
use crate::name::Name;
use crate::state::StateName;
use crate::time::Timestamp;
use crate::why::Why;

/// The part of an element's terms that says which array it belongs to.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayTerms {
    pub id: TaskId,
    /// The index of the first element, and the distance to the next.
    pub first: u32,
    pub step: u32,
}

impl ArrayTerms {
    /// The id of the element with this place, counted from 0.
    pub fn element_id(&self, place: u32) -> TaskId {
        let array = u128::from_be_bytes(self.id.0);
        TaskId::from_u128(array.wrapping_add(u128::from(place) + 1))
    }

    /// The index of the element with this id.
    pub fn index(&self, element: TaskId) -> u32 {
        let distance = u128::from_be_bytes(element.0).wrapping_sub(u128::from_be_bytes(self.id.0));
        self.index_at((distance as u32).wrapping_sub(1))
    }

    pub(crate) fn index_at(&self, place: u32) -> u32 {
        self.first.wrapping_add(place.wrapping_mul(self.step))
    }
}

/// A task's place in its array.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub array: TaskId,
    pub index: u32,
}

/// An array to submit.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq)]
pub struct NewArray {
    /// The properties that all elements share. Its id and its name are those of the array.
    pub task: NewTask,
    pub size: u32,
    pub first: u32,
    pub step: u32,
    /// How many elements may be held at once.
    pub limit: Option<u32>,
    /// One body for each element. Without any, all elements share the body of `task`.
    pub bodies: Vec<Blob>,
}

/// The answer to the submission of an array.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayAccepted {
    pub array: TaskId,
    pub size: u32,
    /// An array with this name and the same request already existed.
    pub known: bool,
    pub state: StateName,
    /// The reason, if no live worker can take the elements.
    pub unserved: Option<Why>,
}

/// An array as the store keeps it. The counts by state follow from the elements, except for those that
/// retention has removed.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayRecord {
    pub id: TaskId,
    pub namespace: Name,
    pub queue: Name,
    pub submitter: Name,
    pub name: Option<Name>,
    /// A hash of the named request, to recognise a repeated submission.
    pub fingerprint: u64,
    pub first: u32,
    pub step: u32,
    pub size: u32,
    pub limit: Option<u32>,
    /// The body that all elements share.
    pub body: Blob,
    /// The event number of the submission.
    pub age: u64,
    pub submitted_at: Timestamp,
    /// How and when the last element ended.
    pub end: Option<ArrayEnd>,
    pub forgotten: ForgottenElements,
}

/// How an array ended.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayEnd {
    pub at: Timestamp,
    /// The event of the end.
    pub event: u64,
    /// Completed if all elements are, failed if one is, else cancelled.
    pub state: StateName,
}

/// The elements that retention has removed. It removes ended tasks in the order of their ends, so these are
/// exactly the elements that ended up to one event.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForgottenElements {
    /// The event of the last of these ends.
    pub through: u64,
    pub completed: u32,
    pub failed: u32,
    pub cancelled: u32,
}

impl ForgottenElements {
    pub(crate) fn add(&mut self, state: StateName, event: u64) {
        self.through = event;
        match state {
            StateName::Completed => self.completed += 1,
            StateName::Failed => self.failed += 1,
            _ => self.cancelled += 1,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.completed + self.failed + self.cancelled
    }
}

impl ArrayRecord {
    /// The terms that its elements share.
    pub fn terms(&self) -> ArrayTerms {
        ArrayTerms { id: self.id, first: self.first, step: self.step }
    }
}

/// An array as people and doors see it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayInfo {
    pub id: TaskId,
    pub name: Option<Name>,
    pub queue: Name,
    pub submitter: Name,
    pub first: u32,
    pub step: u32,
    pub size: u32,
    pub limit: Option<u32>,
    pub submitted_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub state: StateName,
    /// All elements, including those that retention has removed. Indexed by `StateName`.
    pub counts: [u64; StateName::COUNT],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_finds_its_index_from_its_id() {
        let array = ArrayTerms { id: TaskId([0xff; 16]), first: 10, step: 5 };
        for (place, index) in [(0, 10), (1, 15), (999_999, 5_000_005)] {
            assert_eq!(array.index(array.element_id(place)), index);
        }
    }
}
