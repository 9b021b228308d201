//! Changes of an array as a whole: its end, its limit, and the verbs that apply to all of its elements.

use crate::array::{ArrayEnd, ArrayRecord};
use crate::arrays::ArrayKey;
use crate::blob::{Blob, Which};
use crate::command::{Command, Peer, Reply};
use crate::edges::Awaited;
use crate::engine::Engine;
use crate::event::{Event, EventData, EventSubject};
use crate::id::TaskId;
use crate::record::{Change, Output};
use crate::refusal::Refusal;
use crate::state::StateName;
use crate::time::Timestamp;

impl Engine {
    /// All arrays, so that the store knows which of their bodies to keep.
    pub fn arrays(&self) -> impl Iterator<Item = &ArrayRecord> {
        self.arrays.iter().map(|(_, array)| &array.record)
    }

    /// Updates the address of the body that the elements share, unless the array no longer uses it.
    pub(crate) fn relocate_body(
        &mut self,
        key: ArrayKey,
        which: Which,
        from: Blob,
        to: Blob,
    ) -> Option<Change<'_>> {
        let record = &mut self.arrays.at_mut(key).record;
        if which != Which::Body || record.body != from {
            return None;
        }
        record.body = to;
        Some(Change::Array(record))
    }

    /// An element has changed its state: the array may have ended, or be open again.
    pub(crate) fn follow_element(&mut self, now: Timestamp, key: ArrayKey, out: &mut dyn Output) {
        let array = self.arrays.at_mut(key);
        let has_ended = array.has_ended();
        if has_ended == array.record.end.is_some() {
            return;
        }
        if !has_ended {
            // An element was retried. Its record says so, and recovery comes to the same conclusion.
            array.record.end = None;
            return;
        }
        array.record.end = Some(ArrayEnd { at: now, event: self.next_event, state: array.outcome() });
        let totals = array.totals();
        let of = |state: StateName| totals[state as usize] as u32;
        let kind = EventData::ArrayEnded {
            completed: of(StateName::Completed),
            failed: of(StateName::Failed),
            cancelled: of(StateName::Cancelled),
        };
        self.emit_array_record(now, key, kind, out);
        self.resolve_awaited(now, Awaited::Array(key), out);
    }

    pub(crate) fn emit_array_record(
        &mut self,
        now: Timestamp,
        key: ArrayKey,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let seq = self.take_event();
        let record = &self.arrays.at(key).record;
        let about = EventSubject::Array {
            id: record.id,
            namespace: record.namespace.clone(),
            queue: record.queue.clone(),
            submitter: record.submitter.clone(),
            name: record.name.clone(),
        };
        out.record(Event { seq, at: now, about, kind }, Change::Array(record));
    }

    /// Puts the limit of the array in force.
    pub(crate) fn limit_elements(&mut self, key: ArrayKey) {
        let record = &self.arrays.at(key).record;
        if let Some(tag) = self.tags.find_array(&record.namespace, record.id) {
            self.tags.at_mut(tag).limit = record.limit;
            self.dirty.tags.push(tag);
            self.dirty.reservations = true;
        }
    }

    /// Lowering the limit stops no running element.
    pub(crate) fn limit_array(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        array: TaskId,
        limit: Option<u32>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let key = self.array_of(peer, array).ok_or(Refusal::UnknownTask { task: array })?;
        self.arrays.at_mut(key).record.limit = limit;
        self.emit_array_record(now, key, EventData::ArrayLimitSet { limit }, out);
        self.limit_elements(key);
        Ok(Reply::Done)
    }

    /// An array in the peer's namespace.
    pub(crate) fn array_of(&self, peer: &Peer, id: TaskId) -> Option<ArrayKey> {
        let key = self.arrays.find(&id)?;
        (self.arrays.at(key).record.namespace == peer.namespace).then_some(key)
    }

    /// The array that a command names in the place of a task.
    pub(crate) fn array_in(&self, peer: &Peer, command: &Command) -> Option<ArrayKey> {
        if self.arrays.is_empty() {
            return None;
        }
        self.array_of(peer, array_verb(command)?.0)
    }

    /// Applies a command to all elements to which it can be applied.
    pub(crate) fn apply_to_elements(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        key: ArrayKey,
        command: &Command,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let array = self.arrays.at(key);
        let (terms, size, state) = (array.record.terms(), array.record.size, array.state());
        let mut applied = false;
        for place in 0..size {
            let id = terms.element_id(place);
            // Retention may have removed it.
            let Some(slot) = self.tasks.find(&id) else { continue };
            if !may_apply(command, self.state_name(slot)) {
                continue;
            }
            match self.dispatch(now, peer, with_task(command, id), out) {
                Ok(_) => applied = true,
                Err(Refusal::WrongState { .. }) => {}
                // Whatever else is refused is refused for all of them, so nothing has changed.
                Err(refusal) => return Err(refusal),
            }
        }
        match array_verb(command) {
            Some((task, verb)) if !applied => Err(Refusal::WrongState { task, state, verb }),
            _ => Ok(Reply::Done),
        }
    }
}

/// The task that a command names, and its verb, if the command can be applied to an array.
fn array_verb(command: &Command) -> Option<(TaskId, &'static str)> {
    match command {
        Command::Release { task } => Some((*task, "release")),
        Command::Cancel { task, .. } => Some((*task, "cancel")),
        Command::Pause { task, .. } => Some((*task, "pause")),
        Command::Resume { task } => Some((*task, "resume")),
        Command::Retry { task } => Some((*task, "retry")),
        Command::Move { task, .. } => Some((*task, "move")),
        _ => None,
    }
}

fn with_task(command: &Command, id: TaskId) -> Command {
    let mut command = command.clone();
    match &mut command {
        Command::Release { task }
        | Command::Cancel { task, .. }
        | Command::Pause { task, .. }
        | Command::Resume { task }
        | Command::Retry { task }
        | Command::Move { task, .. } => *task = id,
        _ => {}
    }
    command
}

/// Whether the command makes sense for an element in this state. A retry of an array repeats what did not
/// complete.
fn may_apply(command: &Command, state: StateName) -> bool {
    match command {
        Command::Retry { .. } => matches!(state, StateName::Failed | StateName::Cancelled),
        Command::Move { .. } => !state.has_ended() && !state.is_held(),
        _ => !state.has_ended(),
    }
}
