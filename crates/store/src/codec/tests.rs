//! Everything encoded decodes to the same value, and arbitrary bytes are refused without a panic.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use tenure_engine::event::EventSubject;
use tenure_engine::{
    Change, Condition, Dependency, DependencyProgress, EdgeList, Event, Restore, Settings, Task, Terms,
};

use super::samples;
use super::settings::Setting;
use super::*;

/// One record of a test: a task comes with its terms.
#[derive(Clone, Debug)]
enum Fact {
    Task(Box<Task>, Arc<Terms>, Vec<Dependency>),
    Setting(Setting),
    Nothing,
}

impl Fact {
    fn change(&self) -> Change<'_> {
        match self {
            Fact::Task(task, terms, after) => Change::Task { task, terms, after },
            Fact::Setting(Setting::Worker(worker)) => Change::Worker(worker),
            Fact::Setting(Setting::Queue(queue)) => Change::Queue(queue),
            Fact::Setting(Setting::Limit(limit)) => Change::Limit(limit),
            Fact::Setting(Setting::Schedule(schedule, progress)) => Change::Schedule { schedule, progress },
            Fact::Setting(Setting::ScheduleProgress(progress)) => Change::ScheduleProgress(progress),
            Fact::Setting(Setting::Array(array)) => Change::Array(array),
            Fact::Setting(Setting::Share(share)) => Change::Share(share),
            Fact::Setting(Setting::NamespaceLeft(namespace)) => Change::NamespaceLeft(namespace),
            Fact::Nothing => Change::Nothing,
        }
    }
}

fn fact() -> impl Strategy<Value = (Option<Event>, Fact)> {
    let key = Restore::new(Settings::default()).terms(Terms::new("n".into(), "q".into(), "s".into()));
    let own_task = (samples::event(), samples::task(key), samples::terms(), samples::after()).prop_map(
        |(mut event, mut task, terms, after)| {
            let terms = Arc::new(terms);
            if let EventSubject::Task { id, attempt, terms: shared } = &mut event.about {
                (task.id, task.attempt) = (*id, *attempt);
                *shared = terms.clone();
            }
            (Some(event), Fact::Task(Box::new(task), terms, after))
        },
    );
    let moved = (samples::task(key), samples::terms(), samples::after())
        .prop_map(|(task, terms, after)| (None, Fact::Task(Box::new(task), Arc::new(terms), after)));
    let settings = (samples::event(), samples::setting())
        .prop_map(|(event, setting)| (Some(event), Fact::Setting(setting)));
    let nothing = samples::event().prop_map(|event| (Some(event), Fact::Nothing));
    prop_oneof![3 => own_task, 1 => moved, 1 => settings, 1 => nothing]
}

fn encode(facts: &[(Option<Event>, Fact)], base: &Base) -> Vec<u8> {
    let (mut book, mut entries, mut out) = (Dictionary::default(), Vec::new(), Vec::new());
    for (event, fact) in facts {
        encode_record(&mut entries, &mut book, base, event.as_ref(), fact.change());
    }
    book.write(&mut out);
    out.extend_from_slice(&entries);
    out
}

/// A decoded record: its event, its state, and the terms if it is a task.
type Read = (Option<Event>, ChangeView, Option<Terms>);

/// Decodes a whole page, as recovery and the readers of events do.
fn decode(bytes: &[u8], base: Base) -> Result<Vec<Read>, Malformed> {
    let mut restore = Restore::new(Settings::default());
    let mut take = ByteCursor::new(bytes);
    let page = RecordPage::open(base, &mut take, &mut Names::default())?;
    let mut keys = Vec::new();
    let mut terms = Vec::new();
    for bytes in &page.terms {
        let decoded = decode_terms(bytes)?;
        terms.push(Arc::new(decoded.clone()));
        keys.push(restore.terms(decoded));
    }
    let mut found = Vec::new();
    while !take.is_empty() {
        let record = next_record(&mut take)?;
        let event = if record.has_event() { Some(event(&record, 0, &page, &terms)?) } else { None };
        let change = record.change(&page, &keys)?;
        let of_task = match &change {
            ChangeView::Task(TaskRecord { task, .. }) => {
                let index =
                    keys.iter().position(|key| *key == task.terms).expect("its terms are in the page");
                Some((*terms[index]).clone())
            }
            ChangeView::Setting(_) | ChangeView::Nothing => None,
        };
        found.push((event, change, of_task));
    }
    Ok(found)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_page_of_records_reads_back_as_it_was_written(facts in vec(fact(), 0..12), place: u64, number: u64) {
        let base = Base { time: Timestamp(1_700_000_000_000), event: number, place };
        let found = decode(&encode(&facts, &base), base).expect("it was just encoded");
        prop_assert_eq!(found.len(), facts.len());
        for ((event, fact), (event_found, change_found, terms_found)) in facts.into_iter().zip(found) {
            prop_assert_eq!(event, event_found);
            match (fact, change_found) {
                (Fact::Task(mut task, terms, after), ChangeView::Task(found)) => {
                    task.terms = found.task.terms;
                    prop_assert_eq!(*task, found.task);
                    prop_assert_eq!(after, found.after);
                    prop_assert_eq!(Some((*terms).clone()), terms_found);
                }
                (Fact::Setting(setting), ChangeView::Setting(found)) => prop_assert_eq!(setting, found),
                (Fact::Nothing, ChangeView::Nothing) => {}
                (written, found) => prop_assert!(false, "{written:?} came back as {found:?}"),
            }
        }
    }

    #[test]
    fn a_cut_or_changed_page_never_panics(facts in vec(fact(), 1..4), cut: prop::sample::Index, flip: prop::sample::Index, mask in 1..=255_u8) {
        let base = Base::default();
        let mut bytes = encode(&facts, &base);
        let _ = decode(&bytes[..cut.index(bytes.len())], base);
        let at = flip.index(bytes.len());
        bytes[at] ^= mask;
        let _ = decode(&bytes, base);
    }

    #[test]
    fn strange_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes, Base::default());
    }
}

#[test]
fn a_submitted_task_is_small() {
    let terms = Arc::new(Terms::new("default".into(), "images".into(), "lab".into()));
    let key = Restore::new(Settings::default()).terms((*terms).clone());
    let time = Timestamp(1_700_000_000_000);
    let base = Base { time, event: 1_000_000, place: 40_000_000 };
    let task = Task {
        id: tenure_engine::TaskId::from_u128(7),
        body: tenure_engine::Blob::new(base.place + 300, 256),
        terms: key,
        priority: 0,
        attempt: 0,
        crashes: 0,
        failures: 0,
        edges: EdgeList::EMPTY,
        age: base.event + 5,
        submitted_at: time,
        state: tenure_engine::TaskState::Ready { since: time },
        extras: None,
    };
    let about = EventSubject::Task { id: task.id, attempt: 0, terms: terms.clone() };
    let kind = tenure_engine::event::EventData::Submitted { unserved: None, reconciliation: None };
    let event = Event { seq: base.event + 5, at: time, about, kind };
    let (mut book, mut out) = (Dictionary::default(), Vec::new());
    encode_record(
        &mut out,
        &mut book,
        &base,
        Some(&event),
        Change::Task { task: &task, terms: &terms, after: &[] },
    );
    assert!(out.len() <= 35, "{} bytes", out.len());
}

/// A page as written by a version without thresholds: a queue that was served, and a ready task of priority 0
/// without a body, submitted at 7 as event 5.
const OLD_PAGE: &[u8] =
    b"\x01\x1a\x07default\x01q\x03ann\x00\x00\x00\x03\x00\x01\x00\xac\x02\x00\x00\x00\x02\x07default\x01q\
\x20\x04\x00\x01\x02\x00\
\x10\x15\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\x00\x00\x02\x0a\x0e";

#[test]
fn a_page_from_before_thresholds_reads_and_is_written_as_ever() {
    let found = decode(OLD_PAGE, Base::default()).expect("it was written by an older build");
    let [
        (None, ChangeView::Setting(queue), None),
        (None, ChangeView::Task(TaskRecord { task, after }), Some(terms)),
    ] = &found[..]
    else {
        panic!("{found:?}")
    };
    let Setting::Queue(setting) = queue else { panic!("{queue:?}") };
    assert_eq!((&*setting.queue, setting.ever_served, setting.thresholds), ("q", true, None));
    assert!(!setting.passed.any());
    assert_eq!(task.state, tenure_engine::TaskState::Ready { since: Timestamp(7) });
    let facts = [
        (None, Fact::Setting(queue.clone())),
        (None, Fact::Task(Box::new(task.clone()), Arc::new(terms.clone()), after.clone())),
    ];
    assert_eq!(encode(&facts, &Base::default()), OLD_PAGE);
}

#[test]
fn a_task_that_is_ready_later_than_it_was_submitted_says_so() {
    let mut found = decode(OLD_PAGE, Base::default()).expect("it was written by an older build");
    let Some((None, ChangeView::Task(TaskRecord { mut task, after }), Some(terms))) = found.pop() else {
        panic!("{found:?}")
    };
    task.state = tenure_engine::TaskState::Ready { since: Timestamp(9) };
    let facts = [(None, Fact::Task(Box::new(task.clone()), Arc::new(terms.clone()), after))];
    let again = decode(&encode(&facts, &Base::default()), Base::default()).expect("it was just encoded");
    let [(None, ChangeView::Task(again), Some(_))] = &again[..] else { panic!("{again:?}") };
    assert_eq!(again.task.state, task.state);
}

/// A page with one task that waits: it has a name, a broken dependency and an open one that may end in any way.
const WAITING_PAGE: &[u8] =
    b"\x01\x1a\x07default\x01q\x03ann\x00\x00\x00\x03\x00\x01\x00\xac\x02\x00\x00\x00\x00\
\x10\x3d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\x00\x00\x8a\x0a\x0e\x21\x01a\x00\x00\x02\
\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x06";

#[test]
fn dependencies_have_their_place_in_a_page() {
    let found = decode(WAITING_PAGE, Base::default()).expect("a page of this version");
    let [(None, ChangeView::Task(TaskRecord { task, after }), Some(terms))] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(task.state, tenure_engine::TaskState::Waiting { open: 0 });
    assert_eq!(task.name().map(|name| &**name), Some("a"));
    let dependency = |number, condition, progress| Dependency {
        task: tenure_engine::TaskId::from_u128(number),
        condition,
        progress,
    };
    let expected = [
        dependency(5, Condition::Completed, DependencyProgress::Broken),
        dependency(6, Condition::Ended, DependencyProgress::Open),
    ];
    assert_eq!(after[..], expected);
    let facts = [(None, Fact::Task(Box::new(task.clone()), Arc::new(terms.clone()), after.clone()))];
    assert_eq!(encode(&facts, &Base::default()), WAITING_PAGE);
}

/// A page with one ready task that is named `job/1` and was submitted at 7 as event 5 by a reconciliation of `job/`.
const RECONCILED_PAGE: &[u8] =
    b"\x01\x1a\x07default\x01q\x03ann\x00\x00\x00\x03\x00\x01\x00\xac\x02\x00\x00\x00\x00\
\x10\x22\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\x00\x00\x82\x0a\x0e\x81\x05job/1\x00\x00\x03\x09\x01\x04";

#[test]
fn the_mark_of_a_reconciliation_is_three_bytes_behind_the_extras() {
    let found = decode(RECONCILED_PAGE, Base::default()).expect("a page of this version");
    let [(None, ChangeView::Task(TaskRecord { task, after }), Some(terms))] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((task.name().map(|name| &**name), task.reconciliation()), (Some("job/1"), Some("job/")));
    let fact = |task: &Task| Fact::Task(Box::new(task.clone()), Arc::new(terms.clone()), after.clone());
    assert_eq!(encode(&[(None, fact(task))], &Base::default()), RECONCILED_PAGE);
    let mut plain = task.clone();
    plain.extras.as_mut().expect("it has a name").reconciled_prefix = None;
    let without = encode(&[(None, fact(&plain))], &Base::default());
    assert_eq!(without.len() + 4, RECONCILED_PAGE.len(), "nothing is written for a task without the mark");
}
