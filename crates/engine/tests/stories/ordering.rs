//! Who goes first: the higher priority, then the older; with aging, waiting makes up for priority.

use std::time::Duration;

use tenure_engine::command::Move;
use tenure_engine::{Command, NewTask, Settings, TaskId};

use crate::broker::{Broker, SECOND};

/// Lets one worker work off everything and says in which order.
fn order_of_work(broker: &mut Broker, queue: &str) -> Vec<TaskId> {
    let worker = broker.worker("w", &[queue], 1);
    let mut order = Vec::new();
    loop {
        let Some(task) = broker.assigned().pop() else { return order };
        order.push(task);
        broker.complete(&worker, task);
    }
}

#[test]
fn higher_priorities_go_first_and_among_equals_the_older() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let mut with = |priority| {
        let task = NewTask { priority: Some(priority), ..broker.new_task("q") };
        broker.submit_task(&ann, task)
    };
    let (low, first, second, urgent, lowest) = (with(-1), with(0), with(0), with(7), with(i32::MIN));
    let highest = with(i32::MAX);
    assert_eq!(order_of_work(&mut broker, "q"), [highest, urgent, first, second, low, lowest]);
}

#[test]
fn the_order_holds_between_different_needs_and_tags_too() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let plain = broker.submit(&ann, "q");
    let tagged = NewTask { tags: vec!["t".into()], priority: Some(1), ..broker.new_task("q") };
    let tagged = broker.submit_task(&ann, tagged);
    let later = broker.submit(&ann, "q");
    let tagged_later = NewTask { tags: vec!["t".into()], ..broker.new_task("q") };
    let tagged_later = broker.submit_task(&ann, tagged_later);
    assert_eq!(order_of_work(&mut broker, "q"), [tagged, plain, later, tagged_later]);
}

#[test]
fn a_batch_is_seen_as_a_whole_before_anything_is_handed_out() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q", "r"], 1);
    broker.hush();
    let (low, high) = (broker.new_task("q"), NewTask { priority: Some(9), ..broker.new_task("r") });
    broker.submit_many(&ann, vec![low, high]);
    broker.hears(&["#1 submitted", "#2 submitted", "#2/1 assigned to w", "-> w: run #2/1"]);
}

#[test]
fn a_task_that_comes_back_takes_its_old_place() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("first", &["q"], 1);
    let old = broker.submit(&ann, "q");
    broker.start(&worker, old);
    let young = broker.submit(&ann, "q");
    broker.does(&worker, Command::Leave);
    broker.hush();
    assert_eq!(order_of_work(&mut broker, "q"), [old, young]);
}

#[test]
fn a_waiting_task_can_be_made_more_urgent() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let first = broker.submit(&ann, "q");
    let second = broker.submit(&ann, "q");
    broker.hush();
    broker.reprioritise(&ann, second, 3);
    broker.hears(&["#2 moved"]);
    assert_eq!(order_of_work(&mut broker, "q"), [second, first]);
}

#[test]
fn with_aging_a_low_priority_does_not_starve() {
    let mut broker = Broker::with(Settings { aging: Some(SECOND * 10), ..Settings::default() });
    let ann = broker.client("ann");
    let patient = broker.submit(&ann, "q");
    broker.wait(SECOND * 15);
    let urgent = NewTask { priority: Some(1), ..broker.new_task("q") };
    let urgent = broker.submit_task(&ann, urgent);
    let very_urgent = NewTask { priority: Some(2), ..broker.new_task("q") };
    let very_urgent = broker.submit_task(&ann, very_urgent);
    // Fifteen seconds are worth one and a half steps.
    assert_eq!(order_of_work(&mut broker, "q"), [very_urgent, patient, urgent]);
}

#[test]
fn without_aging_priorities_are_strict() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let patient = broker.submit(&ann, "q");
    broker.wait(Duration::from_secs(100_000));
    let urgent = NewTask { priority: Some(1), ..broker.new_task("q") };
    let urgent = broker.submit_task(&ann, urgent);
    assert_eq!(order_of_work(&mut broker, "q"), [urgent, patient]);
}

#[test]
fn aging_copes_with_any_priority_and_any_step() {
    let mut broker = Broker::with(Settings { aging: Some(Duration::MAX), ..Settings::default() });
    let ann = broker.client("ann");
    let lowest = NewTask { priority: Some(i32::MIN), ..broker.new_task("q") };
    let lowest = broker.submit_task(&ann, lowest);
    let highest = NewTask { priority: Some(i32::MAX), ..broker.new_task("q") };
    let highest = broker.submit_task(&ann, highest);
    assert_eq!(order_of_work(&mut broker, "q"), [highest, lowest]);
}

#[test]
fn a_moved_task_waits_in_its_new_queue_with_its_old_age() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let old = broker.submit(&ann, "slow");
    let young = broker.submit(&ann, "fast");
    let to = Move { queue: Some("fast".into()), ..Move::default() };
    broker.does(&ann, Command::Move { task: old, to });
    broker.hush();
    assert_eq!(order_of_work(&mut broker, "fast"), [old, young]);
}
