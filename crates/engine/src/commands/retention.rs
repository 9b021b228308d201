//! Retention: ended tasks are kept by count and by age, then forgotten. This needs no record, because the
//! same rule gives the same result after a restart.

use crate::blob::Which;
use crate::engine::Engine;
use crate::id::Slot;
use crate::record::Output;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn retire_ended(&mut self, now: Timestamp, out: &mut dyn Output) {
        while let Some(slot) = self.state_index.oldest_ended(&self.tasks) {
            let end = self.tasks.at(slot).state.end().expect("it has ended");
            let too_many = self.state_index.ended_count() > self.settings.ended_kept;
            if !too_many && end.at + self.settings.ended_kept_for > now {
                return;
            }
            self.forget(slot, out);
        }
    }

    pub(crate) fn next_retirement(&self) -> Option<Timestamp> {
        let slot = self.state_index.oldest_ended(&self.tasks)?;
        let end = self.tasks.at(slot).state.end().expect("it has ended");
        Some(end.at + self.settings.ended_kept_for)
    }

    fn forget(&mut self, slot: Slot, out: &mut dyn Output) {
        self.leave_state(slot);
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
    }
}
