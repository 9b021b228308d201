//! Retention: ended tasks are kept by count and by age, then forgotten. This needs no record, because the
//! same rule gives the same result after a restart.

use crate::arrays::ArrayKey;
use crate::blob::Which;
use crate::engine::Engine;
use crate::id::Slot;
use crate::record::Output;
use crate::task::Task;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn retire_ended(&mut self, now: Timestamp, out: &mut dyn Output) {
        while let Some(slot) = self.state_index.oldest_ended() {
            let end = self.tasks.at(slot).state.end().expect("it has ended");
            let too_many = self.state_index.ended_count() > self.settings.ended_kept;
            if !too_many && end.at + self.settings.ended_kept_for > now {
                return;
            }
            self.forget(slot, out);
        }
    }

    pub(crate) fn next_retirement(&self) -> Option<Timestamp> {
        let slot = self.state_index.oldest_ended()?;
        let end = self.tasks.at(slot).state.end().expect("it has ended");
        Some(end.at + self.settings.ended_kept_for)
    }

    fn forget(&mut self, slot: Slot, out: &mut dyn Output) {
        self.leave_state(slot);
        let array = self.terms.array(self.tasks.at(slot).terms);
        let age = self.tasks.at(slot).age;
        if let Some(parent) = self.tasks.at(slot).parent()
            && let Some(parent) = self.tasks.find(&parent)
            && let Some(extras) = &mut self.tasks.at_mut(parent).extras
        {
            extras.children.remove(&(age, slot));
        }
        let task = self.tasks.remove(&self.terms, slot);
        self.edges.remove(task.edges);
        for blob in Which::ALL.map(|which| which.of(&task)) {
            if !blob.is_empty() {
                out.freed(blob);
            }
        }
        self.release_terms(task.terms);
        if let Some(array) = array {
            self.forget_element(array, &task, out);
        }
    }

    /// An array is kept as long as one of its elements is, and counts the others.
    fn forget_element(&mut self, key: ArrayKey, element: &Task, out: &mut dyn Output) {
        let array = self.arrays.at_mut(key);
        let event = element.state.end().expect("it has ended").event;
        array.record.forgotten.add(element.state.name(), event);
        if array.kept() == 0 {
            self.remove_array(key, out);
        }
    }

    pub(crate) fn remove_array(&mut self, key: ArrayKey, out: &mut dyn Output) {
        let record = self.arrays.remove(key);
        if let Some(tag) = self.tags.find_array(&record.namespace, record.id) {
            self.tags.at_mut(tag).limit = None;
            self.tags.close_if_unused(tag);
        }
        if !record.body.is_empty() {
            out.freed(record.body);
        }
    }
}
