//! Arrays: one by id or by name, and pages of all.

use crate::arrays::ArrayKey;
use crate::command::{Answer, ArrayCursor, Peer};
use crate::engine::Engine;
use crate::id::TaskId;
use crate::limits::PAGE_MAX;
use crate::name::Name;
use crate::refusal::Refusal;
use crate::state::StateName;
use crate::why::Why;

/// How many elements an explanation looks at to find one that waits, and how many arrays a page looks at.
const LOOKS_MAX: u32 = 10_000;

impl Engine {
    pub(crate) fn show_array(&self, peer: &Peer, array: TaskId) -> Result<Answer, Refusal> {
        let key = self.array_of(peer, array).ok_or(Refusal::UnknownTask { task: array })?;
        Ok(Answer::Array(Box::new(self.arrays.at(key).info())))
    }

    pub(crate) fn find_array(&self, peer: &Peer, name: &Name) -> Result<Answer, Refusal> {
        let key = self.arrays.find_name(&peer.namespace, name);
        let key = key.ok_or_else(|| Refusal::UnknownName { name: name.clone() })?;
        Ok(Answer::Array(Box::new(self.arrays.at(key).info())))
    }

    pub(crate) fn list_arrays(
        &self,
        peer: &Peer,
        cursor: Option<ArrayCursor>,
        limit: usize,
    ) -> Result<Answer, Refusal> {
        if limit == 0 || limit > PAGE_MAX {
            return Err(Refusal::BadValue { what: "page limit", why: "is not between 1 and 1000" });
        }
        let before = cursor.map(|cursor| (cursor.age, cursor.id));
        let mut arrays = Vec::new();
        let mut next = None;
        for (looks, ((age, id), array)) in self.arrays.iter_before(before).enumerate() {
            if arrays.len() == limit || looks == LOOKS_MAX as usize {
                return Ok(Answer::Arrays { arrays, next });
            }
            next = Some(ArrayCursor { age, id });
            if array.record.namespace == peer.namespace {
                arrays.push(array.info());
            }
        }
        Ok(Answer::Arrays { arrays, next: None })
    }

    /// Why the first of its elements that waits does.
    pub(super) fn why_array(&self, key: ArrayKey) -> Why {
        let array = self.arrays.at(key);
        let (terms, size) = (array.record.terms(), array.record.size);
        let elements = (0..size.min(LOOKS_MAX)).filter_map(|place| self.tasks.find(&terms.element_id(place)));
        let waits = |state: StateName| !state.has_ended() && state != StateName::Running;
        match elements.into_iter().find(|slot| waits(self.state_name(*slot))) {
            Some(slot) => self.why_not_running(slot),
            None => Why::NotWaiting { state: array.state() },
        }
    }
}
