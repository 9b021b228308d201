//! Brings everything of a namespace from the journal of one group into that of another. Both are open, and no broker
//! serves them: one program leads both groups. The next leader of each finds the outcome in its journal.
//!
//! Ids, names, attempts, states and ages relative to each other are kept. Numbers of events belong to a journal, so those
//! that a task carries (its submission, its end) are replaced by the numbers of events that say that it has moved.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_engine::event::{Event, EventData, EventSubject};
use tenure_engine::{
    ArrayRecord, Blob, Change, Engine, Name, Task, TaskId, TaskState, Terms, TermsKey, Timestamp, Which,
};

use crate::batches::Batches;
use crate::error::{AppendError, ReadError, StoreError};
use crate::reader::Reader;
use crate::store::{Opened, Parts};
use crate::topic_log::LogFamily;
use crate::writer::Writer;

/// How long the database of a group may be away while a namespace is moved.
const AWAY_MAX: Duration = Duration::from_secs(30);
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// The bodies of a batch are committed before it has more bytes than this. One body may be longer.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Why a namespace was not moved.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error("the bytes of a task cannot be read: {0}")]
    Read(#[from] ReadError),
}

/// The contents of a journal for a namespace, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceContents {
    /// Tasks, with those that have ended.
    pub tasks: u64,
    /// Tasks that have not ended.
    pub open_tasks: u64,
    /// Settings of queues, tags, shares and workers, schedules and arrays.
    pub settings: u64,
}

/// An open journal that no hub serves.
#[derive(Debug)]
pub struct IdleJournal {
    engine: Engine,
    parts: Parts,
    /// The monotonic clock, by which leases are counted.
    clock: fn() -> Timestamp,
}

impl IdleJournal {
    /// A journal that was opened just now.
    pub fn new(opened: Opened, clock: fn() -> Timestamp) -> IdleJournal {
        IdleJournal { engine: opened.engine, parts: opened.store.split(), clock }
    }

    /// Reads what the journal refers to.
    pub fn reader(&self) -> &Reader {
        &self.parts.reader
    }

    /// The epoch with which a leader writes.
    pub fn epoch(&self) -> Option<u64> {
        self.parts.writer.epoch()
    }

    /// Renews the lease if it is time for it. The caller does this while it writes to the other logs.
    pub fn renew(&mut self) -> Result<(), AppendError> {
        match self.parts.writer.tick((self.clock)()) {
            Err(AppendError::Away { .. }) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Closes the journal. Another member may lead at once.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.parts.writer.close((self.clock)())
    }

    /// Counts what the journal holds of a namespace.
    pub fn contents_of(&self, namespace: &str) -> NamespaceContents {
        let mut found = NamespaceContents::default();
        self.engine.scan_tasks(None, usize::MAX, &mut |task, terms, _| {
            if *terms.namespace == *namespace {
                found.tasks += 1;
                found.open_tasks += u64::from(task.state.end().is_none());
            }
        });
        self.engine.settings_records(&mut |change| {
            found.settings += u64::from(namespace_of(change).is_some_and(|of| **of == *namespace));
        });
        found
    }

    /// The namespaces of which the journal holds anything.
    pub fn namespaces(&self) -> Vec<Name> {
        namespaces_in(&self.engine)
    }

    /// Removes a namespace from the journal. It shows when the journal is opened again.
    pub fn drop_namespace(&mut self, namespace: &Name) -> Result<(), MoveError> {
        let IdleJournal { parts: Parts { batches, writer, .. }, clock, .. } = self;
        let mut import = Import { batches, writer, clock: *clock, other: None };
        import.batches.restate(Change::NamespaceLeft(namespace));
        import.commit()
    }

    /// Adds a namespace of another journal, in place of what this one has of it. It shows when the journal is opened
    /// again. Returns the first event after that. The lease of the other journal is renewed meanwhile.
    pub fn add_namespace(
        &mut self,
        from: &mut IdleJournal,
        namespace: &Name,
        now: Timestamp,
    ) -> Result<u64, MoveError> {
        let IdleJournal { parts: Parts { batches, writer, .. }, clock, .. } = self;
        let IdleJournal { engine, parts: Parts { reader, writer: other, .. }, .. } = from;
        let import = Import { batches, writer, clock: *clock, other: Some(other) };
        import.namespace(namespace, (engine, reader), now)
    }
}

impl Opened {
    /// The namespaces of which the journal holds anything.
    pub fn namespaces(&self) -> Vec<Name> {
        namespaces_in(&self.engine)
    }

    /// The rows of the topic log, as long as it is not opened.
    pub fn topic_rows(&self, mut see: impl FnMut(&[u8], &[u8])) {
        if let Some(found) = &*self.store.reader().shared.found(LogFamily::Topics) {
            found.rows.iter().for_each(|(key, value)| see(key, value));
        }
    }

    /// The records of the key log, as long as it is not opened.
    pub fn key_records(&self, see: impl FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        match &*self.store.reader().shared.found(LogFamily::Keys) {
            Some(found) => found.messages(see),
            None => Ok(()),
        }
    }
}

fn namespaces_in(engine: &Engine) -> Vec<Name> {
    let mut found = BTreeSet::new();
    engine.scan_tasks(None, usize::MAX, &mut |_, terms, _| {
        if !found.contains(&terms.namespace) {
            found.insert(terms.namespace.clone());
        }
    });
    engine.settings_records(&mut |change| found.extend(namespace_of(change).cloned()));
    found.into_iter().collect()
}

/// A task or an array, and where it stands among the others.
struct MovedItem {
    order: u64,
    id: TaskId,
    is_array: bool,
}

/// Everything of a namespace by its submission, what has ended by its end, and an element of each array.
fn items_of(engine: &Engine, namespace: &Name) -> (Vec<MovedItem>, Vec<MovedItem>, HashMap<TaskId, TaskId>) {
    let (mut begun, mut ended, mut elements) = (Vec::new(), Vec::new(), HashMap::new());
    engine.scan_tasks(None, usize::MAX, &mut |task, terms, _| {
        if terms.namespace != *namespace {
            return;
        }
        begun.push(MovedItem { order: task.age, id: task.id, is_array: false });
        if let Some(end) = task.state.end() {
            ended.push(MovedItem { order: end.event, id: task.id, is_array: false });
        }
        if let Some(array) = &terms.array {
            elements.insert(array.id, task.id);
        }
    });
    for array in engine.arrays().filter(|array| array.namespace == *namespace) {
        begun.push(MovedItem { order: array.age, id: array.id, is_array: true });
        if let Some(end) = array.end {
            ended.push(MovedItem { order: end.event, id: array.id, is_array: true });
        }
    }
    (begun, ended, elements)
}

fn taken(engine: &mut Engine, id: TaskId) -> (Task, Terms, Vec<tenure_engine::Dependency>) {
    match engine.record_of(&id) {
        Some(Change::Task { task, terms, after }) => (task.clone(), terms.clone(), after.to_vec()),
        _ => unreachable!("it was seen just now, and nothing changes"),
    }
}

fn shared(known: &mut HashMap<TermsKey, Arc<Terms>>, task: &Task, terms: &Terms) -> Arc<Terms> {
    Arc::clone(known.entry(task.terms).or_insert_with(|| Arc::new(terms.clone())))
}

fn moved(seq: u64, at: Timestamp, task: &Task, terms: Arc<Terms>) -> Event {
    let about = EventSubject::Task { id: task.id, attempt: task.attempt, terms };
    Event { seq, at, about, kind: EventData::Moved }
}

fn namespace_of(change: Change<'_>) -> Option<&Name> {
    match change {
        Change::Task { terms, .. } => Some(&terms.namespace),
        Change::Worker(worker) => Some(&worker.namespace),
        Change::Queue(queue) => Some(&queue.namespace),
        Change::Limit(limit) => Some(&limit.namespace),
        Change::Schedule { schedule, .. } => Some(&schedule.namespace),
        Change::ScheduleProgress(progress) => Some(&progress.namespace),
        Change::Array(array) => Some(&array.namespace),
        Change::Share(share) => Some(&share.namespace),
        Change::NamespaceLeft(namespace) => Some(namespace),
        Change::Nothing => None,
    }
}

struct Import<'a> {
    batches: &'a mut Batches,
    writer: &'a mut Writer,
    /// The monotonic clock, by which the lease is counted.
    clock: fn() -> Timestamp,
    /// The writer of the group that the namespace leaves, whose lease must last as well.
    other: Option<&'a mut Writer>,
}

impl Import<'_> {
    fn namespace(
        mut self,
        namespace: &Name,
        (engine, reader): (&mut Engine, &Reader),
        now: Timestamp,
    ) -> Result<u64, MoveError> {
        self.batches.restate(Change::NamespaceLeft(namespace));
        let first = self.batches.next_event();
        let mut terms_of = HashMap::new();
        let arrays = engine.arrays().filter(|array| array.namespace == *namespace);
        let arrays: HashMap<TaskId, ArrayRecord> = arrays.map(|array| (array.id, array.clone())).collect();
        let (mut begun, mut ended, elements) = items_of(engine, namespace);
        engine.settings_records(&mut |change| {
            let is_of = namespace_of(change).is_some_and(|of| of == namespace);
            if is_of && !matches!(change, Change::Array(_)) {
                self.batches.restate(change);
            }
        });
        self.commit_if_full()?;
        begun.sort_unstable_by_key(|item| item.order);
        ended.sort_unstable_by_key(|item| item.order);
        // The new numbers of the submissions of what has ended: it is written when its end has a number as well.
        let mut ages = HashMap::new();
        for MovedItem { id, is_array, .. } in begun {
            let age = self.batches.next_event();
            let (task, terms, after) = taken(engine, if is_array { elements[&id] } else { id });
            let event = moved(age, now, &task, shared(&mut terms_of, &task, &terms));
            if is_array {
                let array = arrays[&id].clone();
                if array.end.is_some() {
                    self.batches.record(&event, Change::Nothing);
                    ages.insert(id, age);
                } else {
                    self.array(reader, &event, ArrayRecord { age, ..array }, first)?;
                }
            } else if task.state.end().is_some() {
                self.batches.record(&event, Change::Nothing);
                ages.insert(id, age);
            } else {
                self.task(reader, &event, Task { age, ..task }, &terms, &after)?;
            }
            self.commit_if_full()?;
        }
        for MovedItem { id, is_array, .. } in ended {
            let number = self.batches.next_event();
            let age = ages[&id];
            let (mut task, terms, after) = taken(engine, if is_array { elements[&id] } else { id });
            let event = moved(number, now, &task, shared(&mut terms_of, &task, &terms));
            if is_array {
                let mut array = ArrayRecord { age, ..arrays[&id].clone() };
                array.end.iter_mut().for_each(|end| end.event = number);
                self.array(reader, &event, array, first)?;
            } else {
                if let TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end) =
                    &mut task.state
                {
                    end.event = number;
                }
                let ended = Task { age, ..task };
                match self.task(reader, &event, ended, &terms, &after) {
                    // Retention had forgotten it, and a higher limit brought it back without its bytes.
                    Err(MoveError::Read(ReadError::Gone { .. })) => {
                        self.batches.record(&event, Change::Nothing);
                    }
                    other => other?,
                }
            }
            self.commit_if_full()?;
        }
        self.commit()?;
        Ok(self.batches.next_event())
    }

    fn task(
        &mut self,
        reader: &Reader,
        event: &Event,
        mut task: Task,
        terms: &Terms,
        after: &[tenure_engine::Dependency],
    ) -> Result<(), MoveError> {
        for which in Which::ALL {
            let blob = self.copy(reader, which.of(&task))?;
            which.set(&mut task, blob);
        }
        self.batches.record(event, Change::Task { task: &task, terms, after });
        Ok(())
    }

    fn array(
        &mut self,
        reader: &Reader,
        event: &Event,
        mut array: ArrayRecord,
        first: u64,
    ) -> Result<(), MoveError> {
        array.body = self.copy(reader, array.body)?;
        // The elements that are left have ended after those that retention has removed.
        array.forgotten.through = first - 1;
        self.batches.record(event, Change::Array(&array));
        Ok(())
    }

    fn copy(&mut self, reader: &Reader, blob: Blob) -> Result<Blob, MoveError> {
        if blob.is_empty() {
            return Ok(blob);
        }
        let bytes = reader.read(blob)?;
        if self.batches.len() + bytes.len() > BATCH_BYTES_MAX {
            self.commit()?;
        }
        Ok(self.batches.blob(&bytes))
    }

    fn commit_if_full(&mut self) -> Result<(), MoveError> {
        if self.batches.is_full() { self.commit() } else { Ok(()) }
    }

    /// Returns when everything is committed.
    fn commit(&mut self) -> Result<(), MoveError> {
        if let Some(other) = &mut self.other {
            other.tick((self.clock)())?;
        }
        let Some(frame) = self.batches.seal() else { return Ok(()) };
        let mut frames = vec![frame];
        let since = Instant::now();
        loop {
            match self.writer.append(&mut frames, (self.clock)()) {
                Ok(_) => return Ok(()),
                Err(AppendError::Away { .. }) if since.elapsed() < AWAY_MAX => {
                    std::thread::sleep(RETRY_AFTER);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
