//! The replicated journal does not answer. On the core alone, step by step.

mod support;

use std::time::Duration;

use bytes::Bytes;
use tenure_hub::words::{Answer, Command, NewTask, Query, TaskId, WorkerSpec};
use tenure_hub::{Delivery, HubRefusal, Mailbox, Request, Response, Submission};

use support::bench::Bench;

fn submission(id: u128) -> Request {
    submission_of(id, 4)
}

fn submission_of(id: u128, bytes: usize) -> Request {
    let task = NewTask::new(TaskId::from_u128(id), "q");
    Request::Submit(vec![Submission::new(task, Bytes::from(vec![b'x'; bytes]))])
}

fn explain(id: u128) -> Request {
    Request::Query(Query::Explain { task: TaskId::from_u128(id) })
}

fn heard(mailbox: &Mailbox) -> Vec<(u64, String)> {
    let mut deliveries = Vec::new();
    mailbox.take(&mut deliveries);
    let told = |delivery: Delivery| match delivery {
        Delivery::Reply { token, reply: Ok(Response::Answer(Answer::Why { why, .. })) } => {
            (token, why.code().to_owned())
        }
        Delivery::Reply { token, reply: Ok(_) } => (token, "yes".to_owned()),
        Delivery::Reply { token, reply: Err(no) } => (token, no.code().to_owned()),
        other => (0, format!("{other:?}")),
    };
    deliveries.into_iter().map(told).collect()
}

fn said(token: u64, what: &str) -> (u64, String) {
    (token, what.to_owned())
}

const PATIENCE: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_submission_waits_and_is_taken_when_the_journal_is_back() {
    let mut bench = Bench::new();
    let client = bench.session(1);
    bench.core.journal_is_away(bench.now);
    bench.ask(1, 1, submission(1));
    bench.pass(PATIENCE - SECOND);
    assert!(bench.seal().is_none(), "it is not decided");
    assert!(heard(&client).is_empty());
    bench.core.journal_is_back(bench.now);
    bench.commit();
    assert_eq!(heard(&client), [said(1, "yes")]);
    assert_eq!(bench.core.engine().task_count(), 1);
}

#[test]
fn a_submission_is_refused_when_the_journal_stays_away_and_the_next_at_once() {
    let mut bench = Bench::new();
    let (first, second) = (bench.session(1), bench.session(2));
    bench.core.journal_is_away(bench.now);
    // Nothing that is said here needs a lease: it is true even if another broker leads.
    bench.core.set_lease(false);
    bench.ask(1, 1, submission(1));
    let deadline = bench.core.next_deadline().expect("the wait has an end");
    assert_eq!(deadline, bench.now + PATIENCE);
    bench.pass(PATIENCE);
    assert_eq!(heard(&first), [said(1, "journal-away")]);
    bench.ask(2, 1, submission(2));
    assert_eq!(heard(&second), [said(1, "journal-away")]);
    bench.core.journal_is_back(bench.now);
    bench.core.set_lease(true);
    assert!(bench.seal().is_none(), "a refused submission is never taken");
    bench.ask(2, 2, submission(2));
    bench.commit();
    assert_eq!(heard(&second), [said(2, "yes")], "the same task is welcome later");
}

#[test]
fn a_submission_that_was_decided_before_is_answered_by_the_commit_alone() {
    let mut bench = Bench::new();
    let client = bench.session(1);
    bench.ask(1, 1, submission(1));
    let frame = bench.seal().expect("it is decided");
    bench.core.journal_is_away(bench.now);
    bench.ask(1, 2, submission(2));
    bench.pass(PATIENCE * 2);
    assert!(heard(&client).is_empty(), "replies keep their order, and the first is in doubt");
    bench.sync(frame);
    bench.core.journal_is_back(bench.now);
    bench.commit();
    assert_eq!(heard(&client), [said(1, "yes"), said(2, "journal-away")]);
}

#[test]
fn what_follows_a_waiting_submission_of_the_same_session_waits_and_others_do_not() {
    let mut bench = Bench::new();
    let (client, other) = (bench.session(1), bench.session(2));
    bench.core.journal_is_away(bench.now);
    bench.ask(1, 1, submission(1));
    bench.ask(1, 2, Request::Query(Query::Counts));
    bench.ask(2, 1, Request::Query(Query::Counts));
    bench.commit();
    assert!(heard(&client).is_empty());
    assert_eq!(heard(&other), [said(1, "yes")], "the lease still holds");
    bench.pass(PATIENCE);
    bench.commit();
    assert_eq!(heard(&client), [said(1, "journal-away"), said(2, "yes")]);
}

#[test]
fn large_submissions_do_not_gather() {
    let mut bench = Bench::new();
    let (one, other) = (bench.session(1), bench.session(2));
    bench.core.journal_is_away(bench.now);
    bench.ask(1, 1, submission_of(1, 3 << 20));
    bench.ask(2, 1, submission_of(2, 2 << 20));
    assert!(heard(&one).is_empty(), "there is room for the first");
    assert_eq!(heard(&other), [said(1, "journal-away")]);
}

#[test]
fn explain_says_that_a_task_waits_for_the_journal_without_a_lease() {
    let mut bench = Bench::new();
    let client = bench.session(1);
    bench.ask(1, 1, submission(1));
    let held = NewTask { hold: true, ..NewTask::new(TaskId::from_u128(2), "q") };
    bench.ask(1, 2, Request::Submit(vec![Submission::new(held, Bytes::new())]));
    bench.commit();
    heard(&client);
    bench.core.journal_is_away(bench.now);
    bench.core.set_lease(false);
    bench.ask(1, 3, explain(1));
    assert_eq!(heard(&client), [said(3, "awaiting-journal")]);
    bench.ask(1, 4, explain(2));
    bench.commit();
    assert!(heard(&client).is_empty(), "what else there is to say needs the lease");
    bench.core.journal_is_back(bench.now);
    bench.core.set_lease(true);
    bench.core.flush_outbox();
    assert_eq!(heard(&client), [said(4, "held")]);
    bench.ask(1, 5, explain(1));
    bench.commit();
    assert_eq!(heard(&client), [said(5, "no-worker-ever")]);
}

#[test]
fn no_worker_is_lost_while_its_fate_cannot_be_written() {
    let mut bench = Bench::new();
    let (worker, client) = (bench.session(1), bench.session(2));
    let spec = WorkerSpec::new("w", vec!["q".into()], 1);
    bench.ask(1, 1, Request::Command(Command::Register(Box::new(spec))));
    bench.commit();
    heard(&worker);
    bench.ask(2, 1, submission(1));
    let frame = bench.seal().expect("the assignment has a record");
    bench.core.journal_is_away(bench.now);
    let before = bench.core.engine().last_event();
    // Far longer than its lease, and nothing is heard of it: the broker cannot hear either.
    for _ in 0..600 {
        bench.pass(SECOND);
    }
    assert_eq!(bench.core.engine().last_event(), before, "nothing is decided by a timer");
    bench.sync(frame);
    bench.core.journal_is_back(bench.now);
    bench.pass(SECOND);
    assert_eq!(bench.core.engine().last_event(), before, "it has the time again that it had");
    assert_eq!(heard(&client), [said(1, "yes")]);
    assert_eq!(heard(&worker).len(), 1, "it gets its task");
}

#[test]
fn a_deposed_leader_names_the_next_one_as_its_last_word() {
    let mut bench = Bench::new();
    let client = bench.session(1);
    bench.ask(1, 1, submission(1));
    bench.core.deposed("b2");
    let mut deliveries = Vec::new();
    client.take(&mut deliveries);
    let [Delivery::Ended(HubRefusal::Deposed { holder })] = &deliveries[..] else { panic!("{deliveries:?}") };
    assert_eq!((&**holder, client.is_closed()), ("b2", true));
}
