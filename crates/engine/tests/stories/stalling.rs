//! Stalling: the disk keeps what was decided back. A peer that has not heard of it yet has all its time left.

use tenure_engine::command::PresenceName;
use tenure_engine::terms::OnLost;
use tenure_engine::{NewTask, StateName, Timestamp, WorkerSpec};

use crate::broker::{Broker, SECOND, spec};

#[test]
fn a_task_is_not_taken_back_before_its_worker_could_hear_of_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let first = broker.worker("first", &["q"], 1);
    broker.worker("second", &["q"], 2);
    broker.disk_stops();
    let task = broker.submit(&ann, "q");
    broker.hush();
    broker.wait(SECOND * 4);
    broker.hears_nothing();
    broker.disk_goes_on();
    broker.wait(SECOND);
    broker.hears_nothing();
    broker.start(&first, task);
    broker.hears(&["#1/1 started by first"]);
}

#[test]
fn its_time_to_confirm_counts_from_the_moment_it_got_the_task() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("only", &["q"], 1);
    broker.disk_stops();
    let task = NewTask { accept_timeout: Some(SECOND * 5), ..broker.new_task("q") };
    broker.submit_task(&ann, task);
    broker.wait(SECOND * 8);
    broker.hush();
    broker.disk_goes_on();
    broker.wait(SECOND * 4);
    broker.hears_nothing();
    broker.wait(SECOND);
    broker.hears(&[
        "#1/1 taken back from only",
        "-> only: stop #1/1, taken-back",
        "#1/2 assigned to only",
        "-> only: run #1/2",
    ]);
}

#[test]
fn the_run_limit_of_an_unconfirmed_start_counts_from_its_notice() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec { starts_on_assign: true, ..spec("w", &["q"], 1) });
    broker.disk_stops();
    let task = NewTask { on_lost: OnLost::Pause, run_limit: Some(SECOND * 3), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.wait(SECOND * 2);
    broker.hush();
    broker.disk_goes_on();
    broker.wait(SECOND * 2);
    broker.hears_nothing();
    assert_eq!(broker.state(task), StateName::Running);
    broker.complete(&worker, task);
    broker.hears(&["#1/1 completed by w"]);
}

#[test]
fn the_time_in_which_nothing_could_be_said_counts_neither_as_silence_nor_against_acceptance() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 1);
    let heard = broker.worker("heard", &["other"], 1);
    broker.submit(&ann, "q");
    broker.wait(SECOND);
    broker.hush();
    let from = broker.now;
    broker.now = from + SECOND * 60;
    // Some could be heard all the while: they were not heard of later than now.
    broker.heartbeat(&heard);
    broker.engine.broker_stalled(from, broker.now);
    assert_eq!(broker.worker_info("heard").last_seen, broker.now);
    assert_eq!(broker.worker_info("w").presence, PresenceName::Live);
    broker.wait(SECOND * 13);
    broker.hears_nothing();
    broker.wait(SECOND);
    broker.hears(&[
        "w lost, heartbeat-missed",
        "queue q unserved",
        "#1/1 holder w lost, heartbeat-missed, believed until 1090000",
    ]);
    assert_eq!(broker.now, Timestamp(1_075_000));
}
