//! The encoding of a record: subject, event, new state. Event and state have length prefixes, so recovery
//! skips the events and a reader of events skips the states.

use tenure_engine::event::{Event, EventSubject};
use tenure_engine::{Change, TermsKey};

use super::Base;
use super::array;
use super::dictionary::Dictionary;
use super::event::encode_event;
use super::page::RecordPage;
use super::put;
use super::schedule;
use super::settings::{self, Setting, take_setting};
use super::take::{ByteCursor, Malformed};
use super::task::{TaskIdentity, TaskRecord, encode_task, take_task};

/// A record in its page; event and state are decoded on demand.
#[derive(Clone, Debug)]
pub(crate) struct RecordView<'a> {
    pub(crate) about: AboutView,
    pub(crate) event: &'a [u8],
    change_code: u8,
    change: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AboutView {
    /// The record has no event: the store moved bytes, and the task did not change.
    Nothing,
    Task(TaskIdentity),
    Worker,
    Queue,
    Tag,
    Schedule,
    Array,
}

/// The content of a record without its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangeView {
    Task(TaskRecord),
    Setting(Setting),
    Nothing,
}

const ABOUT_BITS: u8 = 0x07;
const CHANGE_SHIFT: u32 = 3;

const NOTHING: u8 = 0;
/// The new state belongs to the task that the event is about.
const SAME_TASK: u8 = 1;
const OTHER_TASK: u8 = 2;

pub(crate) fn encode_record(
    out: &mut Vec<u8>,
    book: &mut Dictionary,
    base: &Base,
    event: Option<&Event>,
    change: Change<'_>,
) {
    let head = out.len();
    out.push(0);
    let mut subject = None;
    if let Some(event) = event {
        if let EventSubject::Task { id, attempt, terms } = &event.about {
            let identity = TaskIdentity { id: *id, attempt: *attempt, terms: book.terms(terms) };
            identity.encode(out);
            subject = Some(identity);
        }
        put::measured(out, |out| encode_event(out, book, base, event));
    }
    let code = match change {
        Change::Nothing => NOTHING,
        Change::Task { task, terms, after } => {
            let identity =
                TaskIdentity { id: task.id, attempt: task.attempt, terms: book.terms_by_value(terms) };
            let same = subject == Some(identity);
            put::measured(out, |out| {
                if !same {
                    identity.encode(out);
                }
                encode_task(out, book, base, task, after);
            });
            if same { SAME_TASK } else { OTHER_TASK }
        }
        Change::Worker(worker) => {
            put::measured(out, |out| settings::encode_worker(out, book, base, worker));
            settings::worker_code(worker)
        }
        Change::Queue(queue) => {
            put::measured(out, |out| settings::encode_queue(out, book, base, queue));
            settings::queue_code(queue)
        }
        Change::Limit(limit) => {
            put::measured(out, |out| settings::encode_limit(out, book, limit));
            settings::limit_code(limit)
        }
        Change::Share(share) => {
            put::measured(out, |out| settings::encode_share(out, book, share));
            settings::SHARE
        }
        Change::Schedule { schedule, progress } => {
            put::measured(out, |out| schedule::encode_schedule(out, book, base, schedule, progress));
            schedule::SCHEDULE
        }
        Change::ScheduleProgress(progress) => {
            put::measured(out, |out| schedule::encode_progress(out, book, base, progress));
            schedule::SCHEDULE_PROGRESS
        }
        Change::NamespaceLeft(namespace) => {
            put::measured(out, |out| put::varint(out, u64::from(book.name(namespace))));
            settings::NAMESPACE_LEFT
        }
        Change::Array(array) => {
            put::measured(out, |out| array::encode_array(out, book, base, array));
            settings::ARRAY
        }
    };
    out[head] = about_code(event) | code << CHANGE_SHIFT;
}

pub(crate) fn next_record<'a>(take: &mut ByteCursor<'a>) -> Result<RecordView<'a>, Malformed> {
    let head = take.byte()?;
    let about = match head & ABOUT_BITS {
        0 => AboutView::Nothing,
        1 => AboutView::Task(TaskIdentity::take(take)?),
        2 => AboutView::Worker,
        3 => AboutView::Queue,
        4 => AboutView::Tag,
        6 => AboutView::Schedule,
        5 => AboutView::Array,
        _ => return Err(Malformed("a record is about something unknown")),
    };
    let event = if about == AboutView::Nothing { &[][..] } else { take.measured()? };
    let change_code = head >> CHANGE_SHIFT;
    let change = if change_code == NOTHING { &[][..] } else { take.measured()? };
    Ok(RecordView { about, event, change_code, change })
}

impl RecordView<'_> {
    pub(crate) fn has_event(&self) -> bool {
        self.about != AboutView::Nothing
    }

    /// Decodes the new state. `keys` are the engine's keys for the page's terms.
    pub(crate) fn change(&self, page: &RecordPage<'_>, keys: &[TermsKey]) -> Result<ChangeView, Malformed> {
        let mut take = ByteCursor::new(self.change);
        let change = match (self.change_code, self.about) {
            (NOTHING, _) => ChangeView::Nothing,
            (SAME_TASK, AboutView::Task(identity)) => {
                ChangeView::Task(task(&mut take, page, identity, keys)?)
            }
            (OTHER_TASK, _) => {
                let identity = TaskIdentity::take(&mut take)?;
                ChangeView::Task(task(&mut take, page, identity, keys)?)
            }
            (code, _) => ChangeView::Setting(take_setting(&mut take, page, code)?),
        };
        if !take.is_empty() {
            return Err(Malformed("a state is longer than it should be"));
        }
        Ok(change)
    }
}

fn task(
    take: &mut ByteCursor<'_>,
    page: &RecordPage<'_>,
    identity: TaskIdentity,
    keys: &[TermsKey],
) -> Result<TaskRecord, Malformed> {
    let key = keys.get(identity.terms as usize).ok_or(Malformed("a task's terms are not in its page"))?;
    take_task(take, page, identity, *key)
}

fn about_code(event: Option<&Event>) -> u8 {
    match event.map(|event| &event.about) {
        None => 0,
        Some(EventSubject::Task { .. }) => 1,
        Some(EventSubject::Worker { .. }) => 2,
        Some(EventSubject::Queue { .. }) => 3,
        Some(EventSubject::Array { .. }) => 5,
        Some(EventSubject::Schedule { .. }) => 6,
        // The kind of the event tells the two apart.
        Some(EventSubject::Tag { .. } | EventSubject::Share { .. }) => 4,
    }
}
