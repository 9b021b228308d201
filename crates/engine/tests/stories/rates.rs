//! Rates: how many tasks of a tag or queue are handed out in a period, set and changed while everything runs.

use std::time::Duration;

use tenure_engine::command::LimitInfo;
use tenure_engine::{Answer, Command, NewTask, Peer, Query, Rate, TaskId, Why};

use crate::broker::{Broker, SECOND, names};

fn rate(text: &str, burst: u32) -> Rate {
    Rate { burst, ..Rate::parse(text).expect("a rate") }
}

fn tag_rate(broker: &mut Broker, peer: &Peer, tag: &str, rate: Option<Rate>) {
    broker.does(peer, Command::SetTagRate { tag: tag.into(), rate });
}

fn queue_rate(broker: &mut Broker, peer: &Peer, queue: &str, rate: Option<Rate>) {
    broker.does(peer, Command::SetQueueRate { queue: queue.into(), rate });
}

fn submit_tagged(broker: &mut Broker, peer: &Peer, tags: &[&str]) -> TaskId {
    let task = NewTask { tags: names(tags), ..broker.new_task("q") };
    broker.submit_task(peer, task)
}

#[test]
fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    tag_rate(&mut broker, &ann, "licence", Some(rate("10/m", 2)));
    broker.hears(&["tag licence at a rate of 10/m, burst 2"]);
    let worker = broker.worker("w", &["q"], 10);
    broker.hush();
    let tasks: Vec<TaskId> = (0..4).map(|_| submit_tagged(&mut broker, &ann, &["licence"])).collect();
    assert_eq!(broker.assigned(), tasks[..2]);
    let next_at = broker.now + SECOND * 6;
    let why = broker.explain(tasks[2]);
    assert_eq!(why, Why::TagRate { tag: "licence".into(), rate: rate("10/m", 2), next_at });
    assert_eq!(why.code(), "tag-rate");
    assert_eq!(
        why.to_string(),
        "rate limit of tag licence (10/m, burst 2): next at 1970-01-01T00:16:46.000Z"
    );
    broker.wait(Duration::from_millis(5_999));
    assert_eq!(broker.assigned(), []);
    broker.wait(Duration::from_millis(1));
    assert_eq!(broker.assigned(), tasks[2..3]);
    broker.heartbeat(&worker);
    broker.wait(SECOND * 6);
    assert_eq!(broker.assigned(), tasks[3..]);
}

#[test]
fn an_unused_rate_gathers_no_more_than_its_burst() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    queue_rate(&mut broker, &ann, "q", Some(rate("1/s", 3)));
    broker.hears(&["queue q at a rate of 1/s, burst 3"]);
    broker.wait(SECOND * 3600);
    let _worker = broker.worker("w", &["q"], 10);
    let tasks: Vec<TaskId> = (0..5).map(|_| broker.submit(&ann, "q")).collect();
    assert_eq!(broker.assigned(), tasks[..3]);
    assert_eq!(broker.explain(tasks[4]).code(), "queue-rate");
    assert_eq!(broker.queue("q").rate, Some(rate("1/s", 3)));
}

#[test]
fn a_rate_does_not_block_other_tags_or_queues() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    tag_rate(&mut broker, &ann, "t", Some(rate("1/h", 1)));
    queue_rate(&mut broker, &ann, "r", Some(rate("1/h", 1)));
    let _worker = broker.worker("w", &["q", "r"], 10);
    broker.hush();
    let first = submit_tagged(&mut broker, &ann, &["t"]);
    let second = submit_tagged(&mut broker, &ann, &["t", "u"]);
    let of_r = broker.submit(&ann, "r");
    let also_of_r = broker.submit(&ann, "r");
    let plain = broker.submit(&ann, "q");
    assert_eq!(broker.assigned(), [first, of_r, plain]);
    assert_eq!(broker.explain(second).code(), "tag-rate");
    assert_eq!(broker.explain(also_of_r).code(), "queue-rate");
}

#[test]
fn a_task_takes_a_token_from_its_queue_and_from_each_tag() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    tag_rate(&mut broker, &ann, "t", Some(rate("1/10s", 1)));
    tag_rate(&mut broker, &ann, "u", Some(rate("1/20s", 1)));
    queue_rate(&mut broker, &ann, "q", Some(rate("1/5s", 1)));
    let worker = broker.worker("w", &["q"], 10);
    broker.hush();
    let both = submit_tagged(&mut broker, &ann, &["t", "u"]);
    let again = submit_tagged(&mut broker, &ann, &["t", "u"]);
    let of_t = submit_tagged(&mut broker, &ann, &["t"]);
    assert_eq!(broker.assigned(), [both]);
    broker.wait(SECOND * 10);
    broker.heartbeat(&worker);
    assert_eq!(broker.assigned(), [of_t], "the older one still waits for u");
    broker.wait(SECOND * 10);
    assert_eq!(broker.assigned(), [again]);
}

#[test]
fn a_task_that_comes_back_unstarted_returns_its_token() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    tag_rate(&mut broker, &ann, "t", Some(rate("1/h", 1)));
    let worker = broker.worker("w", &["q"], 1);
    broker.hush();
    let first = submit_tagged(&mut broker, &ann, &["t"]);
    assert_eq!(broker.assigned(), [first]);
    broker.give_back(&worker, first);
    assert_eq!(broker.assigned(), [first], "its token came back with it");
    broker.start(&worker, first);
    broker.give_back(&worker, first);
    assert_eq!(broker.assigned(), [], "a started task has used its token");
    assert_eq!(broker.explain(first).code(), "tag-rate");
}

#[test]
fn a_rate_is_changed_and_removed_while_tasks_wait() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    queue_rate(&mut broker, &ann, "q", Some(rate("1/h", 1)));
    let _worker = broker.worker("w", &["q"], 10);
    broker.hush();
    let tasks: Vec<TaskId> = (0..5).map(|_| broker.submit(&ann, "q")).collect();
    assert_eq!(broker.assigned(), tasks[..1]);
    // A larger burst is filled by time, not by the change.
    queue_rate(&mut broker, &ann, "q", Some(rate("1/s", 5)));
    assert_eq!(broker.assigned(), []);
    broker.wait(SECOND * 2);
    assert_eq!(broker.assigned(), tasks[1..3]);
    queue_rate(&mut broker, &ann, "q", None);
    assert_eq!(broker.assigned(), tasks[3..]);
    assert_eq!(broker.queue("q").rate, None);
    for bad in [Rate { count: 0, ..rate("1/s", 1) }, rate("1/s", 0)] {
        let refusal = broker.refuses(&ann, Command::SetQueueRate { queue: "q".into(), rate: Some(bad) });
        assert_eq!(refusal.code(), "bad-value");
        let refusal = broker.refuses(&ann, Command::SetTagRate { tag: "t".into(), rate: Some(bad) });
        assert_eq!(refusal.code(), "bad-value");
    }
    let refusal = broker.refuses(&ann, Command::SetTagRate { tag: "".into(), rate: None });
    assert_eq!(refusal.code(), "bad-name");
}

#[test]
fn a_rate_and_a_limit_of_one_tag_are_independent() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "t", Some(1));
    tag_rate(&mut broker, &ann, "t", Some(rate("1/s", 2)));
    let worker = broker.worker("w", &["q"], 10);
    broker.hush();
    let tasks: Vec<TaskId> = (0..4).map(|_| submit_tagged(&mut broker, &ann, &["t"])).collect();
    assert_eq!(broker.assigned(), tasks[..1]);
    assert_eq!(broker.explain(tasks[1]).code(), "tag-limit");
    broker.complete(&worker, tasks[0]);
    broker.complete(&worker, tasks[1]);
    assert_eq!(broker.assigned(), tasks[1..2], "the burst is used up");
    assert_eq!(broker.explain(tasks[2]).code(), "tag-rate");
    let Ok(Answer::Limits(limits)) = broker.ask(&Query::Limits) else { panic!("no limits") };
    let expected = LimitInfo { tag: "t".into(), limit: Some(1), in_use: 0, rate: Some(rate("1/s", 2)) };
    assert_eq!(limits, [expected]);
    broker.limit(&ann, "t", None);
    let Ok(Answer::Limits(limits)) = broker.ask(&Query::Limits) else { panic!("no limits") };
    assert_eq!(limits[0].rate, Some(rate("1/s", 2)), "the rate stays when the limit goes");
    broker.hush();
}

#[test]
fn a_rate_survives_a_restart_and_starts_empty() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    tag_rate(&mut broker, &ann, "t", Some(rate("1/10s", 3)));
    queue_rate(&mut broker, &ann, "r", Some(rate("1/10s", 3)));
    let tasks: Vec<TaskId> = (0..3).map(|_| submit_tagged(&mut broker, &ann, &["t"])).collect();
    broker.restart_after(SECOND);
    let worker = broker.worker("w", &["q"], 10);
    broker.hush();
    assert_eq!(broker.assigned(), [], "what was taken before the restart is not known");
    assert_eq!(broker.explain(tasks[0]).code(), "tag-rate");
    assert_eq!(broker.queue("r").rate, Some(rate("1/10s", 3)));
    broker.wait(SECOND * 10);
    broker.heartbeat(&worker);
    broker.wait(SECOND * 10);
    assert_eq!(broker.assigned(), tasks[..2]);
}

#[test]
fn a_clock_that_is_set_gives_no_tokens() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    queue_rate(&mut broker, &ann, "q", Some(rate("1/10s", 1)));
    let worker = broker.worker("w", &["q"], 10);
    broker.hush();
    let tasks: Vec<TaskId> = (0..3).map(|_| broker.submit(&ann, "q")).collect();
    assert_eq!(broker.assigned(), tasks[..1]);
    let from = broker.now;
    broker.now = from + SECOND * 86_400;
    broker.engine.clock_set(from, broker.now);
    broker.engine.audit();
    broker.wait(SECOND * 9);
    broker.heartbeat(&worker);
    assert_eq!(broker.assigned(), []);
    broker.wait(SECOND);
    assert_eq!(broker.assigned(), tasks[1..2]);
}

#[test]
fn a_worker_that_fetches_gets_no_task_beyond_the_rate() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    queue_rate(&mut broker, &ann, "q", Some(rate("1/h", 1)));
    let puller = tenure_engine::WorkerSpec { pulls: true, ..crate::broker::spec("p", &["q", "r"], 4) };
    let puller = broker.worker_with(puller);
    let first = broker.submit(&ann, "q");
    broker.submit(&ann, "q");
    let of_r = broker.submit(&ann, "r");
    broker.hush();
    let ask = || Command::Ask { queues: names(&["q", "r"]) };
    broker.does(&puller, ask());
    broker.does(&puller, ask());
    broker.does(&puller, ask());
    assert_eq!(broker.assigned(), [first, of_r]);
}
