//! Arrays: many tasks that are submitted, shown and limited as one.

use bytes::{Bytes, BytesMut};

use crate::Name;
use crate::error::Problem;
use crate::field::Field;
use crate::id::TaskId;
use crate::limits::ARRAY_ENTRIES_MAX;
use crate::pack;
use crate::queue::StateCounts;
use crate::reader::Reader;
use crate::schema::message;
use crate::task::{After, Terms};
use crate::time::Timestamp;
use crate::why::Why;
use crate::words::StateName;

message! {
    /// An array to submit. Fields that a task has as well apply to every element.
    pub struct SubmitArray {
        /// The client chooses it, or else the broker. The elements have the ids that follow it.
        id: Option<TaskId>,
        size: u32,
        /// The index of the first element, and the distance to the next one.
        first: u32,
        step: u32 = 1,
        /// How many elements may be held at once. Absent: no limit.
        limit: Option<u32>,
        terms: Terms,
        /// The body that all elements share.
        body: Bytes,
        /// One body for each element, instead of `body`.
        bodies: Bodies,
        priority: Option<i32>,
        hold: bool,
        /// The idempotency key of the whole submission.
        name: Option<Name>,
        parent: Option<TaskId>,
        not_before: Option<Timestamp>,
        expires_at: Option<Timestamp>,
        /// The tasks that have to end before the elements may run.
        after: Vec<After>,
        /// The trace that the elements belong to, as the W3C recommendation writes it.
        traceparent: Option<Box<str>>,
        tracestate: Option<Box<str>>,
    }
}

impl SubmitArray {
    /// An array of this size with default options.
    pub fn new(size: u32, terms: Terms) -> SubmitArray {
        SubmitArray {
            id: None,
            size,
            first: 0,
            step: 1,
            limit: None,
            terms,
            body: Bytes::new(),
            bodies: Bodies::default(),
            priority: None,
            hold: false,
            name: None,
            parent: None,
            not_before: None,
            expires_at: None,
            after: Vec::new(),
            traceparent: None,
            tracestate: None,
        }
    }
}

/// The bodies of the elements of an array. Such a list may be longer than others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bodies(pub Vec<Bytes>);

impl Field for Bodies {
    fn absent() -> Option<Bodies> {
        Some(Bodies::default())
    }

    fn is_absent(&self) -> bool {
        self.0.is_empty()
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::array(out, self.0.len());
        for body in &self.0 {
            body.pack(out);
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Result<Bodies, Problem> {
        let length = from.array_up_to(ARRAY_ENTRIES_MAX)?;
        let mut bodies = Vec::with_capacity(length);
        for index in 0..length {
            bodies.push(Bytes::unpack(from).map_err(|problem| problem.in_entry(index))?);
        }
        Ok(Bodies(bodies))
    }
}

impl serde::Serialize for Bodies {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

message! {
    /// Sets how many elements of an array run at once.
    pub struct LimitArray {
        array: TaskId,
        /// Absent: removes the limit.
        limit: Option<u32>,
    }
}

message! {
    /// A request that names one array.
    pub struct OneArray {
        array: TaskId,
    }
}

message! {
    /// Which arrays to list, newest first.
    pub struct ArraysQuery {
        /// From the previous page, unchanged.
        cursor: Option<Box<str>>,
        limit: u32 = 100,
    }
}

message! {
    /// An array was accepted.
    pub struct ArrayAccepted {
        array: TaskId,
        size: u32,
        state: StateName,
        /// An array of this name existed already.
        known: bool,
        /// Why no live worker can take its elements, if that is so.
        unserved: Option<Why>,
    }
}

message! {
    /// An array as shown to people.
    pub struct ArrayInfo {
        id: TaskId,
        /// How it ended, else the state of its most advanced element.
        state: StateName,
        name: Option<Name>,
        queue: Name,
        submitter: Option<Name>,
        size: u32,
        first: u32,
        step: u32 = 1,
        limit: Option<u32>,
        submitted_at: Timestamp,
        ended_at: Option<Timestamp>,
        /// All elements, including those that retention has removed.
        counts: StateCounts,
    }
}

message! {
    /// A page of the list of arrays.
    #[derive(Default)]
    pub struct Arrays {
        arrays: Vec<ArrayInfo>,
        /// The cursor for the next page; absent at the end.
        next: Option<Box<str>>,
    }
}

impl ArrayInfo {
    /// The id of the element with this index.
    pub fn element(&self, index: u32) -> Option<TaskId> {
        let distance = index.checked_sub(self.first)?;
        let place = if distance.is_multiple_of(self.step.max(1)) {
            distance / self.step.max(1)
        } else {
            return None;
        };
        (place < self.size).then(|| self.id.plus(u128::from(place) + 1))
    }
}
