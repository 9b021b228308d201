//! The mark of a task that a reconciliation submitted: the prefix that its name begins with.

use tenure_engine::event::EventData;
use tenure_engine::{Answer, Event, NewTask, Query, TaskId, Why};

use crate::broker::{Broker, SECOND, Said};

/// A task of this name as a reconciliation of `job/` submits it.
fn reconciled(broker: &mut Broker, name: &str) -> NewTask {
    NewTask { name: Some(name.into()), reconciled_prefix: Some(4), ..broker.new_task("q") }
}

fn shown(broker: &Broker, task: TaskId) -> Option<String> {
    broker.show(task).reconciliation.as_deref().map(str::to_owned)
}

#[test]
fn a_task_keeps_the_mark_over_attempts_restarts_and_its_end() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = NewTask { retries: 1, ..reconciled(&mut broker, "job/1") };
    let task = broker.submit_task(&ann, task);
    assert_eq!(shown(&broker, task).as_deref(), Some("job/"));
    let worker = broker.worker("w", &["q"], 1);
    broker.fail(&worker, task);
    broker.restart_after(SECOND);
    assert_eq!(shown(&broker, task).as_deref(), Some("job/"));
    broker.hush();
}

#[test]
fn the_event_and_the_explanation_name_the_reconciliation() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = reconciled(&mut broker, "job/1");
    let task = broker.submit_task(&ann, task);
    let prefixes: Vec<_> = broker
        .take_raw()
        .into_iter()
        .filter_map(|(said, _)| match said {
            Said::Event(Event { kind: EventData::Submitted { reconciliation, .. }, .. }) => reconciliation,
            _ => None,
        })
        .collect();
    assert_eq!(prefixes, ["job/".into()]);
    let Ok(Answer::Why { why, reconciliation }) = broker.ask(&Query::Explain { task }) else {
        panic!("it exists")
    };
    assert_eq!((why, reconciliation.as_deref()), (Why::NoWorkerEver { queue: "q".into() }, Some("job/")));
    broker.hush();
}

#[test]
fn a_task_that_existed_stays_without_the_mark() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let first = NewTask { name: Some("job/1".into()), ..broker.new_task("q") };
    let first = broker.submit_and_see(&ann, first);
    let again = reconciled(&mut broker, "job/1");
    let again = broker.submit_and_see(&ann, again);
    assert!(again.known && again.task == first.task);
    assert_eq!(shown(&broker, first.task), None);
    broker.hush();
}

#[test]
fn a_mark_that_does_not_fit_the_name_shows_nothing() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let long = NewTask { reconciled_prefix: Some(255), ..reconciled(&mut broker, "job/1") };
    let long = broker.submit_task(&ann, long);
    let within_a_letter = NewTask { reconciled_prefix: Some(1), ..reconciled(&mut broker, "ä") };
    let within_a_letter = broker.submit_task(&ann, within_a_letter);
    assert_eq!((shown(&broker, long), shown(&broker, within_a_letter)), (None, None));
    broker.hush();
}
