//! Limits: how many tasks of a tag are held at once, set and changed while everything runs.

use tenure_engine::command::{LimitInfo, Move};
use tenure_engine::{Answer, Command, NewTask, Peer, Query, TaskId, Why};

use crate::broker::{Broker, SECOND, names};

fn submit_tagged(broker: &mut Broker, peer: &Peer, queue: &str, tags: &[&str], priority: i32) -> TaskId {
    let task = NewTask { tags: names(tags), priority: Some(priority), ..broker.new_task(queue) };
    broker.submit_task(peer, task)
}

#[test]
fn a_tag_lets_as_many_tasks_through_as_its_limit_says() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "licence", Some(2));
    broker.hears(&["tag licence limited to 2"]);
    let worker = broker.worker("w", &["q"], 10);
    broker.hush();
    let tasks: Vec<TaskId> = (0..4).map(|_| submit_tagged(&mut broker, &ann, "q", &["licence"], 0)).collect();
    assert_eq!(broker.assigned(), tasks[..2]);
    assert_eq!(broker.explain(tasks[3]), Why::TagLimit { tag: "licence".into(), limit: 2, in_use: 2 });
    broker.complete(&worker, tasks[0]);
    broker.hears(&["#1/1 completed by w", "#3/1 assigned to w", "-> w: run #3/1"]);
}

#[test]
fn a_blocked_tag_does_not_block_the_others() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "licence", Some(0));
    broker.worker("w", &["q"], 10);
    broker.hush();
    let blocked = submit_tagged(&mut broker, &ann, "q", &["licence"], 9);
    let free = submit_tagged(&mut broker, &ann, "q", &["other"], 0);
    let plain = broker.submit(&ann, "q");
    assert_eq!(broker.assigned(), [free, plain]);
    assert_eq!(broker.explain(blocked).code(), "tag-limit");
}

#[test]
fn several_ready_queues_under_one_tag_share_it_and_the_most_urgent_goes_first() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "cluster", Some(1));
    let worker = broker.worker("w", &["q", "r"], 10);
    let running = submit_tagged(&mut broker, &ann, "q", &["cluster"], 0);
    let low = submit_tagged(&mut broker, &ann, "q", &["cluster", "x"], 1);
    let high = submit_tagged(&mut broker, &ann, "r", &["cluster"], 3);
    let middle = submit_tagged(&mut broker, &ann, "r", &["cluster", "y"], 2);
    let mut order = vec![running];
    broker.hush();
    for _ in 0..4 {
        broker.complete(&worker, *order.last().expect("one runs"));
        order.extend(broker.assigned());
    }
    assert_eq!(order, [running, high, middle, low]);
}

#[test]
fn a_task_with_two_tags_needs_room_under_both() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "a", Some(1));
    broker.limit(&ann, "b", Some(1));
    let worker = broker.worker("w", &["q"], 10);
    let of_a = submit_tagged(&mut broker, &ann, "q", &["a"], 0);
    let of_b = submit_tagged(&mut broker, &ann, "q", &["b"], 0);
    let of_both = submit_tagged(&mut broker, &ann, "q", &["a", "b"], 9);
    let of_a_again = submit_tagged(&mut broker, &ann, "q", &["a"], 0);
    broker.hush();
    // Room under a: the task of both still waits for b and lets the other pass.
    broker.complete(&worker, of_a);
    assert_eq!(broker.assigned(), [of_a_again]);
    assert_eq!(broker.explain(of_both).code(), "tag-limit");
    broker.complete(&worker, of_b);
    assert_eq!(broker.assigned(), []);
    broker.complete(&worker, of_a_again);
    assert_eq!(broker.assigned(), [of_both]);
}

#[test]
fn a_limit_is_raised_lowered_and_lifted_at_run_time() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 10);
    let tasks: Vec<TaskId> = (0..6).map(|_| submit_tagged(&mut broker, &ann, "q", &["t"], 0)).collect();
    assert_eq!(broker.assigned().len(), 6, "without a limit all run");
    for task in &tasks {
        broker.cancel(&ann, *task);
    }
    broker.limit(&ann, "t", Some(1));
    let tasks: Vec<TaskId> = (0..6).map(|_| submit_tagged(&mut broker, &ann, "q", &["t"], 0)).collect();
    assert_eq!(broker.assigned(), tasks[..1]);
    broker.limit(&ann, "t", Some(3));
    assert_eq!(broker.assigned(), tasks[1..3]);
    // Lowering stops nothing that runs.
    broker.limit(&ann, "t", Some(1));
    assert_eq!(broker.assigned(), []);
    let Ok(Answer::Limits(limits)) = broker.ask(&Query::Limits) else { panic!("no limits") };
    assert_eq!(limits, [LimitInfo { tag: "t".into(), limit: Some(1), in_use: 3, rate: None }]);
    broker.limit(&ann, "t", None);
    assert_eq!(broker.assigned(), tasks[3..]);
    assert_eq!(broker.refuses(&ann, Command::SetLimit { tag: "".into(), limit: Some(1) }).code(), "bad-name");
}

#[test]
fn a_tag_that_is_freed_together_with_a_task_goes_to_the_more_urgent() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "t", Some(1));
    let worker = broker.worker("w", &["q", "r"], 2);
    let first = submit_tagged(&mut broker, &ann, "q", &["t"], 0);
    let urgent = submit_tagged(&mut broker, &ann, "r", &["t"], 9);
    broker.hush();
    // The task that comes back would fit as well, but the other is more urgent.
    broker.give_back(&worker, first);
    assert_eq!(broker.assigned(), [urgent]);
}

#[test]
fn a_ready_queue_behind_a_blocked_one_is_not_overtaken() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "t", Some(0));
    broker.limit(&ann, "u", Some(0));
    let _worker = broker.worker("w", &["q", "r"], 10);
    let blocked = submit_tagged(&mut broker, &ann, "q", &["t", "u"], 9);
    let next = submit_tagged(&mut broker, &ann, "q", &["t"], 5);
    let last = submit_tagged(&mut broker, &ann, "r", &["t"], 1);
    broker.hush();
    // The first of those that wait for t is blocked by u; the one room there is goes to the next.
    broker.limit(&ann, "t", Some(1));
    assert_eq!(broker.assigned(), [next]);
    assert_eq!(broker.explain(blocked).code(), "tag-limit");
    assert_eq!(broker.explain(last).code(), "tag-limit");
}

#[test]
fn a_waiting_task_can_be_moved_from_under_a_full_tag() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "t", Some(0));
    broker.worker("w", &["q"], 1);
    let task = submit_tagged(&mut broker, &ann, "q", &["t"], 0);
    broker.hush();
    broker.does(&ann, Command::Move { task, to: Move { tags: Some(vec![]), ..Move::default() } });
    broker.hears(&["#1 moved", "#1/1 assigned to w", "-> w: run #1/1"]);
}

#[test]
fn a_crash_gives_the_tag_back() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "t", Some(1));
    let lost = broker.worker("lost", &["q"], 1);
    let task = submit_tagged(&mut broker, &ann, "q", &["t"], 0);
    broker.start(&lost, task);
    let other = broker.worker("other", &["q"], 1);
    let waiting = submit_tagged(&mut broker, &ann, "q", &["t"], 1);
    broker.disconnect(&lost);
    broker.hush();
    broker.wait(SECOND * 14);
    broker.heartbeat(&other);
    broker.wait(SECOND * 14);
    broker.heartbeat(&other);
    assert_eq!(broker.assigned(), [], "the lost worker may still be at it");
    broker.wait(SECOND * 2);
    assert_eq!(broker.assigned(), [waiting]);
}
