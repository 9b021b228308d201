//! Decide, journal, then speak: nothing is heard before its records are on disk. On the core alone, step by step.

mod support;

use std::time::Duration;

use bytes::Bytes;
use tenure_hub::words::{Answer, Command, EventFilter, NewTask, Peer, Query, SessionId, TaskId, WorkerSpec};
use tenure_hub::{Delivery, HubRefusal, Mailbox, Request, Response, Submission, Watch};

use support::bench::Bench;

fn submission(id: u128) -> Request {
    let task = NewTask::new(TaskId::from_u128(id), "q");
    Request::Submit(vec![Submission::new(task, Bytes::from_static(b"body"))])
}

fn heard(mailbox: &Mailbox) -> Vec<String> {
    let mut deliveries = Vec::new();
    mailbox.take(&mut deliveries);
    let name = |delivery: &Delivery| match delivery {
        Delivery::Reply { token, reply } => {
            format!("reply {token} {}", if reply.is_ok() { "yes" } else { "no" })
        }
        Delivery::Notice(_) => "notice".to_owned(),
        Delivery::Event { event, .. } => format!("event {} {}", event.seq, event.kind.as_str()),
        Delivery::Live { .. } => "live".to_owned(),
        other => format!("{other:?}"),
    };
    deliveries.iter().map(name).collect()
}

#[test]
fn a_submission_is_acknowledged_only_when_it_is_on_disk() {
    let mut bench = Bench::new();
    let client = bench.session(1);
    bench.ask(1, 7, submission(1));
    let frame = bench.seal().expect("there is something to write");
    assert_eq!(heard(&client), Vec::<String>::new());
    bench.sync(frame);
    assert_eq!(heard(&client), ["reply 7 yes"]);
}

#[test]
fn work_is_handed_out_only_when_the_assignment_is_on_disk() {
    let mut bench = Bench::new();
    let worker = bench.session(2);
    let spec = WorkerSpec::new("w", vec!["q".into()], 1);
    bench.ask(2, 1, Request::Command(Command::Register(Box::new(spec))));
    let registered = bench.seal().expect("a registration is an event");
    bench.sync(registered);
    assert_eq!(heard(&worker), ["reply 1 yes"]);
    bench.session(1);
    bench.ask(1, 1, submission(1));
    let frame = bench.seal().expect("there is something to write");
    assert_eq!(heard(&worker), Vec::<String>::new());
    bench.sync(frame);
    assert_eq!(heard(&worker), ["notice"]);
}

#[test]
fn a_question_is_answered_after_everything_that_was_decided_before_it() {
    let mut bench = Bench::new();
    let client = bench.session(1);
    bench.ask(1, 1, submission(1));
    let frame = bench.seal().expect("there is something to write");
    bench.ask(1, 2, Request::Query(Query::Show { task: TaskId::from_u128(1) }));
    assert!(bench.seal().is_none(), "a question is not written");
    assert_eq!(heard(&client), Vec::<String>::new());
    bench.sync(frame);
    assert_eq!(heard(&client), ["reply 1 yes", "reply 2 yes"]);
    // With nothing under way it is answered at once.
    bench.ask(1, 3, Request::Query(Query::Counts));
    assert!(bench.seal().is_none());
    assert_eq!(heard(&client), ["reply 3 yes"]);
}

#[test]
fn replies_and_events_of_one_session_keep_the_order_of_the_decisions() {
    let mut bench = Bench::new();
    let client = bench.session(1);
    bench.ask(1, 1, Request::Watch(Watch { watch: 1, filter: EventFilter::default(), from: None }));
    bench.commit();
    for (watch, from) in bench.core.take_to_read() {
        assert_eq!(bench.core.has_read(watch, from), None);
    }
    assert_eq!(heard(&client), ["reply 1 yes", "live"]);
    bench.ask(1, 2, submission(1));
    bench.ask(1, 3, Request::Submit(vec![]));
    bench.ask(1, 4, submission(2));
    bench.ask(1, 5, submission(3));
    bench.commit();
    let expected = [
        "reply 2 yes",
        "event 1 submitted",
        "reply 3 yes",
        "reply 4 yes",
        "event 2 submitted",
        "reply 5 yes",
        "event 3 submitted",
    ];
    assert_eq!(heard(&client), expected);
}

#[test]
fn while_the_disk_is_full_new_work_is_refused_and_questions_are_answered() {
    let mut bench = Bench::new();
    let client = bench.session(1);
    bench.core.set_disk_full(true);
    bench.ask(1, 1, submission(1));
    bench.ask(1, 2, Request::Query(Query::Counts));
    assert!(bench.seal().is_none(), "a refusal changes nothing");
    let mut deliveries = Vec::new();
    client.take(&mut deliveries);
    assert!(matches!(&deliveries[0], Delivery::Reply { reply: Err(HubRefusal::DiskFull), .. }));
    assert!(matches!(&deliveries[1], Delivery::Reply { reply: Ok(Response::Answer(Answer::Counts(_))), .. }));
    bench.core.set_disk_full(false);
    bench.ask(1, 3, submission(1));
    let frame = bench.seal().expect("there is room again");
    bench.sync(frame);
    assert_eq!(heard(&client), ["reply 3 yes"]);
}

fn worker(name: &str) -> Request {
    let spec = WorkerSpec::new(name, vec!["q".into()], 1);
    Request::Command(Command::Register(Box::new(spec)))
}

fn live_workers(bench: &Bench) -> u64 {
    let peer = Peer { session: SessionId(0), namespace: "default".into(), identity: "someone".into() };
    match bench.core.engine().ask(&peer, &Query::Counts) {
        Ok(Answer::Counts(counts)) => counts.live_workers,
        other => panic!("{other:?}"),
    }
}

/// Lets time pass in small turns, with a batch on its way to the disk.
fn turns(bench: &mut Bench, span: Duration) {
    let end = bench.now + span;
    while bench.now < end {
        bench.now = bench.now + Duration::from_millis(100);
        bench.core.tick(bench.now);
        bench.core.flush_outbox();
    }
}

#[test]
fn a_slow_disk_hands_a_task_to_one_worker_only() {
    let mut bench = Bench::new();
    let mailboxes = [1, 2].map(|number| bench.session(number));
    bench.ask(1, 1, worker("a"));
    bench.ask(2, 1, worker("b"));
    let frame = bench.seal().expect("two workers");
    bench.sync(frame);
    bench.session(3);
    bench.ask(3, 1, submission(1));
    bench.core.tick(bench.now);
    let frame = bench.seal().expect("a task and its assignment");
    turns(&mut bench, Duration::from_millis(2_500));
    bench.sync(frame);
    turns(&mut bench, Duration::from_millis(1_500));
    assert!(bench.seal().is_none(), "nothing was decided meanwhile");
    let notices = mailboxes.iter().flat_map(|mailbox| heard(mailbox)).filter(|word| word == "notice");
    assert_eq!(notices.count(), 1);
}

#[test]
fn no_worker_is_lost_because_the_disk_delays_every_reply() {
    let mut bench = Bench::new();
    let mailbox = bench.session(1);
    bench.ask(1, 1, worker("a"));
    bench.core.tick(bench.now);
    let frame = bench.seal().expect("a worker");
    // It waits for its answer before it says anything else.
    turns(&mut bench, Duration::from_secs(60));
    assert_eq!((live_workers(&bench), bench.core.next_deadline()), (1, None));
    bench.sync(frame);
    assert_eq!(heard(&mailbox), ["reply 1 yes"]);
    turns(&mut bench, Duration::from_secs(14));
    assert_eq!(live_workers(&bench), 1);
    turns(&mut bench, Duration::from_secs(1));
    assert_eq!(live_workers(&bench), 0, "it had its whole time to be heard, and used none of it");
}
