//! Submit an array: one command creates all of its elements, or none.

use crate::array::{ArrayAccepted, ArrayRecord, ArrayTerms, ForgottenElements, NewArray};
use crate::blob::Blob;
use crate::command::{NewTask, Peer, Reply};
use crate::dependency::Dependency;
use crate::edges::{Awaited, EDGES_MAX};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::limits::{ARRAY_SIZE_MAX, ARRAYS_MAX};
use crate::name;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::time::Timestamp;

use super::submit::{Fnv, extras_of, fingerprint, terms_of};

impl Engine {
    pub(crate) fn submit_array(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        new: NewArray,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        if let Some(known) = self.known_array(peer, &new)? {
            return Ok(Reply::ArraySubmitted(Box::new(known)));
        }
        let (parent, after) = self.check_array(now, peer, &new)?;
        let NewArray { task, size, first, step, limit, bodies } = new;
        let array = ArrayTerms { id: task.id, first, step };
        let priority = self.priority_of(&task, parent);
        let state = Engine::first_state(now, &task, &after);
        let (shared_body, name, expires_at) = (task.body, task.name.clone(), task.expires_at);
        let fingerprint = name.as_ref().map_or(0, |_| array_fingerprint(&task, size, first, step));
        // The name is the array's, not that of each element.
        let extras = extras_of(&NewTask { name: None, ..task.clone() }, 0);
        let mut terms = terms_of(peer, &task);
        terms.array = Some(array);
        terms.check()?;
        self.check_queue_room(&terms.namespace, std::slice::from_ref(&terms.queue))?;
        self.check_demand_room(&terms.namespace, &terms.demand)?;

        let record = ArrayRecord {
            id: array.id,
            namespace: terms.namespace.clone(),
            queue: terms.queue.clone(),
            submitter: terms.submitter.clone(),
            name,
            fingerprint,
            first,
            step,
            size,
            limit,
            body: if bodies.is_empty() { shared_body } else { Blob::EMPTY },
            age: self.next_event,
            submitted_at: now,
            end: None,
            forgotten: ForgottenElements::default(),
        };
        let key = self.arrays.insert(record);
        self.emit_array_record(now, key, EventData::ArraySubmitted { size }, out);
        let terms = self.terms_key(terms);
        self.limit_elements(key);
        let (mut served, mut unserved) = (None, None);
        for place in 0..size {
            let body = bodies.get(place as usize).copied().unwrap_or(Blob::EMPTY);
            let id = array.element_id(place);
            let new = self.new_task(now, id, terms, priority, body, state.clone(), extras.clone());
            let why = self.add_task(now, new, parent, &after, expires_at, &mut served, out);
            unserved = unserved.or(why);
        }
        let state = self.arrays.at(key).state();
        // An element may end at once, because a dependency had ended otherwise than it should.
        self.retire_ended(now, out);
        Ok(Reply::ArraySubmitted(Box::new(ArrayAccepted {
            array: array.id,
            size,
            known: false,
            state,
            unserved,
        })))
    }

    /// Everything that can be refused before anything is built.
    #[expect(clippy::type_complexity, reason = "the parent, and what the elements wait for")]
    fn check_array(
        &self,
        now: Timestamp,
        peer: &Peer,
        new: &NewArray,
    ) -> Result<(Option<Slot>, Vec<(Awaited, Dependency)>), Refusal> {
        let size = new.size as usize;
        if size == 0 {
            return Err(Refusal::BadValue { what: "array", why: "has no elements" });
        }
        if size > ARRAY_SIZE_MAX {
            return Err(Refusal::TooMany { what: "elements of an array", limit: ARRAY_SIZE_MAX });
        }
        if new.step == 0 {
            return Err(Refusal::BadValue {
                what: "array step",
                why: "is zero: all indexes would be the same",
            });
        }
        if u64::from(new.first) + (u64::from(new.size) - 1) * u64::from(new.step) > u64::from(u32::MAX) {
            return Err(Refusal::BadValue { what: "array index", why: "exceeds 4294967295" });
        }
        if !new.bodies.is_empty() && new.bodies.len() != size {
            return Err(Refusal::BadValue { what: "bodies", why: "must have one entry for each element" });
        }
        if self.arrays.len() >= ARRAYS_MAX {
            return Err(Refusal::Full { what: "arrays", limit: ARRAYS_MAX as u64 });
        }
        self.check_array_ids(new)?;
        let parent = self.parent_of(peer, &new.task)?;
        self.check_new(now, &new.task)?;
        if self.tasks.len() + size > self.settings.tasks_max {
            return Err(Refusal::Full { what: "tasks", limit: self.settings.tasks_max as u64 });
        }
        let after = self.dependencies_of(peer, &new.task, &[])?;
        if self.edges.len() + after.len() * size > EDGES_MAX {
            return Err(Refusal::Full { what: "dependencies", limit: EDGES_MAX as u64 });
        }
        Ok((parent, after))
    }

    /// The elements take the ids that follow the id of the array.
    fn check_array_ids(&self, new: &NewArray) -> Result<(), Refusal> {
        let array = ArrayTerms { id: new.task.id, first: 0, step: 1 };
        let last = array.element_id(new.size - 1);
        if last < array.id {
            return Err(Refusal::BadValue {
                what: "array id",
                why: "leaves no room for those of its elements",
            });
        }
        let mut ids = std::iter::once(array.id).chain((0..new.size).map(|place| array.element_id(place)));
        let taken = ids.find(|id| self.tasks.find(id).is_some());
        let owner = || self.arrays.owner(&array.id).map(|_| array.id);
        match taken.or_else(owner).or_else(|| self.arrays.find_between(array.id..=last)) {
            Some(task) => Err(Refusal::IdTaken { task }),
            None => Ok(()),
        }
    }

    /// The array that was submitted under this name before, if the request was the same.
    fn known_array(&self, peer: &Peer, new: &NewArray) -> Result<Option<ArrayAccepted>, Refusal> {
        let Some(name) = &new.task.name else { return Ok(None) };
        name::check("array", name)?;
        let taken = |task: TaskId| Refusal::NameTaken { name: name.clone(), task };
        if let Some(slot) = self.tasks.find_name(&self.terms, &peer.namespace, name) {
            return Err(taken(self.tasks.at(slot).id));
        }
        let Some(key) = self.arrays.find_name(&peer.namespace, name) else { return Ok(None) };
        let array = self.arrays.at(key);
        if array.record.fingerprint != array_fingerprint(&new.task, new.size, new.first, new.step) {
            return Err(taken(array.record.id));
        }
        Ok(Some(ArrayAccepted {
            array: array.record.id,
            size: array.record.size,
            known: true,
            state: array.state(),
            unserved: None,
        }))
    }
}

/// Identifies a named array, as [`fingerprint`] does a named task. The limit may change, so it is left out.
fn array_fingerprint(task: &NewTask, size: u32, first: u32, step: u32) -> u64 {
    let mut hash = Fnv(fingerprint(task));
    for number in [size, first, step] {
        hash.number(u64::from(number));
    }
    hash.0
}
