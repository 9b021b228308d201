//! Absence: the broker was stopped, its machine slept, or its clock was set. No worker is believed dead for that.

use tenure_engine::command::{OnClose, PresenceName};
use tenure_engine::terms::{Backoff, OnLost};
use tenure_engine::{NewTask, Settings, StateName, Timestamp, WorkerSpec};

use crate::broker::{Broker, SECOND, spec};

const HOUR_MILLIS: u64 = 3_600_000;

/// The clock of the story is set, and the broker was not there meanwhile.
fn set_clock(broker: &mut Broker, to: Timestamp) {
    broker.engine.broker_stalled(broker.now, to);
    broker.now = to;
}

/// The clock of the story is set while the broker listens.
fn correct_clock(broker: &mut Broker, to: Timestamp) {
    broker.engine.clock_set(broker.now, to);
    broker.now = to;
    broker.engine.audit();
}

fn an_hour_back(broker: &Broker) -> Timestamp {
    Timestamp(broker.now.millis() - HOUR_MILLIS)
}

fn an_hour_on(broker: &Broker) -> Timestamp {
    Timestamp(broker.now.millis() + HOUR_MILLIS)
}

#[test]
fn the_time_in_which_the_broker_did_not_listen_counts_against_no_worker() {
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

/// Both ways in which a clock can be wrong.
fn corrections() -> [fn(&Broker) -> Timestamp; 2] {
    [an_hour_back, an_hour_on]
}

/// A story that begins late enough for its clock to be set back.
fn broker_by_day() -> Broker {
    let mut broker = Broker::new();
    broker.now = Timestamp(100 * HOUR_MILLIS);
    broker
}

#[test]
fn a_retry_waits_as_long_as_it_was_to_wait_however_the_clock_is_set() {
    for to in corrections() {
        let mut broker = broker_by_day();
        let ann = broker.client("ann");
        let worker = broker.worker("w", &["q"], 1);
        let backoff = Backoff { first: SECOND * 10, max: SECOND * 10 };
        let task = NewTask { retries: 1, backoff, ..broker.new_task("q") };
        let task = broker.submit_task(&ann, task);
        broker.start(&worker, task);
        broker.fail(&worker, task);
        broker.wait(SECOND * 5);
        broker.hush();
        let to = to(&broker);
        correct_clock(&mut broker, to);
        broker.wait(SECOND * 2);
        broker.hears_nothing();
        // Up to a fifth is taken off the delay.
        broker.wait(SECOND * 3);
        broker.hears(&["#1/1 due", "#1/2 assigned to w", "-> w: run #1/2"]);
    }
}

#[test]
fn what_is_promised_for_a_time_of_day_follows_the_clock() {
    let mut broker = broker_by_day();
    let ann = broker.client("ann");
    let at = broker.now + SECOND * 1800;
    let later = NewTask { not_before: Some(at), ..broker.new_task("q") };
    let expiring = NewTask { expires_at: Some(at + SECOND), ..broker.new_task("q") };
    let (later, expiring) = (broker.submit_task(&ann, later), broker.submit_task(&ann, expiring));
    let back = an_hour_back(&broker);
    correct_clock(&mut broker, back);
    broker.wait(SECOND * 3600);
    assert_eq!((broker.state(later), broker.state(expiring)), (StateName::Delayed, StateName::Ready));
    let on = an_hour_on(&broker);
    correct_clock(&mut broker, on);
    broker.wait(SECOND);
    assert_eq!((broker.state(later), broker.state(expiring)), (StateName::Ready, StateName::Failed));
    broker.hush();
}

#[test]
fn acceptance_run_limits_and_quarantines_are_as_long_as_they_were() {
    for to in corrections() {
        let settings = Settings { quarantine_crashes: 1, ..Settings::default() };
        let mut broker = Broker::with(settings);
        broker.now = Timestamp(100 * HOUR_MILLIS);
        let ann = broker.client("ann");
        let worker = broker.worker("w", &["q"], 2);
        let limited = NewTask { run_limit: Some(SECOND * 20), ..broker.new_task("q") };
        let limited = broker.submit_task(&ann, limited);
        broker.start(&worker, limited);
        let unconfirmed = broker.submit(&ann, "q");
        let fragile = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..spec("f", &["r"], 1) });
        let crashing = NewTask { on_lost: OnLost::Fail, ..broker.new_task("r") };
        let crashing = broker.submit_task(&ann, crashing);
        broker.start(&fragile, crashing);
        broker.disconnect(&fragile);
        broker.wait(SECOND * 10);
        broker.heartbeat(&worker);
        broker.hush();
        let to = to(&broker);
        correct_clock(&mut broker, to);
        broker.wait(SECOND * 9);
        broker.hears_nothing();
        broker.heartbeat(&worker);
        broker.wait(SECOND);
        broker.hears(&[
            "-> w: stop #1/1, run-limit",
            "#1/1 crashed on w, run-limit: requeued, 2 left",
            "#1/2 assigned to w",
            "-> w: run #1/2",
        ]);
        assert_eq!(broker.state(unconfirmed), StateName::Assigned);
        broker.heartbeat(&worker);
        broker.wait(SECOND * 10);
        assert_eq!(broker.show(unconfirmed).attempt, 2, "thirty seconds to confirm are over");
        assert_eq!(broker.worker_info("f").quarantined_until, Some(broker.now + SECOND * 570));
        broker.hush();
    }
}

#[test]
fn a_retry_does_not_wait_for_an_hour_because_the_clock_was_set_back_before_a_restart() {
    let mut broker = broker_by_day();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { retries: 1, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.start(&worker, task);
    broker.fail(&worker, task);
    broker.hush();
    broker.now = an_hour_back(&broker);
    broker.restart_after(SECOND);
    assert_eq!(broker.state(task), StateName::Delayed);
    broker.wait(Backoff::default().max);
    broker.hears(&["#1/1 due"]);
}
