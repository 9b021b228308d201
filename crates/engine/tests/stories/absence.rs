//! Absence: the broker was stopped, its machine slept, or its clock was set. No worker is believed dead for that.

use tenure_engine::command::PresenceName;
use tenure_engine::{NewTask, StateName, Timestamp, WorkerSpec};

use crate::broker::{Broker, SECOND, spec};

const HOUR_MILLIS: u64 = 3_600_000;

/// The clock of the story is set, and the broker was not there meanwhile.
fn set_clock(broker: &mut Broker, to: Timestamp) {
    broker.engine.was_away(broker.now, to);
    broker.now = to;
}

fn an_hour_on(broker: &Broker) -> Timestamp {
    Timestamp(broker.now.millis() + HOUR_MILLIS)
}

#[test]
fn the_time_in_which_nobody_listened_counts_against_no_worker() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.wait(SECOND * 10);
    broker.hush();
    let later = an_hour_on(&broker);
    set_clock(&mut broker, later);
    // Ten seconds of silence before and four after: that is not too long.
    broker.wait(SECOND * 4);
    broker.hears_nothing();
    broker.heartbeat(&worker);
    broker.wait(SECOND * 14);
    broker.hears_nothing();
    assert_eq!(broker.state(task), StateName::Running);
    broker.wait(SECOND);
    broker.hears(&[
        "w lost, heartbeat-missed",
        "queue q unserved",
        "#1/1 holder w lost, heartbeat-missed, believed until 4644000",
    ]);
}

#[test]
fn a_lost_worker_has_as_much_time_to_come_back_as_it_had() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.disconnect(&worker);
    broker.wait(SECOND * 20);
    broker.hush();
    let later = an_hour_on(&broker);
    set_clock(&mut broker, later);
    broker.wait(SECOND * 9);
    broker.hears_nothing();
    broker.wait(SECOND);
    broker.hears(&["#1/1 crashed on w, connection-closed: requeued, 2 left", "w left"]);
    let last_seen = broker.worker_info("w").last_seen;
    let later = an_hour_on(&broker);
    set_clock(&mut broker, later);
    assert_eq!(broker.worker_info("w").last_seen, last_seen, "nothing waits for it any more");
}

#[test]
fn a_clock_that_is_set_back_keeps_no_dead_worker_alive() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.now = an_hour_on(&broker);
    let silent =
        WorkerSpec { heartbeat: SECOND, lost_after: SECOND * 3, lease: SECOND * 5, ..spec("w", &["q"], 1) };
    let worker = broker.worker_with(silent);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    let earlier = Timestamp(broker.now.millis() - HOUR_MILLIS / 2);
    set_clock(&mut broker, earlier);
    broker.wait(SECOND * 3);
    assert_eq!(broker.worker_info("w").presence, PresenceName::Lost);
    broker.wait(SECOND * 2);
    assert_eq!(broker.state(task), StateName::Ready);
    broker.hush();
}

#[test]
fn what_is_due_at_a_time_of_day_is_due_then() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let due = Some(Timestamp(broker.now.millis() + HOUR_MILLIS / 2));
    let task = NewTask { not_before: due, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    assert_eq!(broker.state(task), StateName::Delayed);
    let later = an_hour_on(&broker);
    set_clock(&mut broker, later);
    broker.wait(SECOND);
    broker.hears(&["#1 submitted", "#1 due"]);
    assert_eq!(broker.state(task), StateName::Ready);
}
