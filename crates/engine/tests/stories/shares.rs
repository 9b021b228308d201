//! Fair shares: the tasks of different share keys take turns by weight, within a queue and priority.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tenure_engine::command::{ListQuery, ShareInfo};
use tenure_engine::{Answer, Command, NewTask, Peer, Query, Settings, StateName, TaskId, WorkerSpec};

use crate::broker::{Broker, SECOND, names, spec};

fn submit_for(broker: &mut Broker, peer: &Peer, share: &str) -> TaskId {
    submit_with(broker, peer, share, 0, &[])
}

fn submit_with(broker: &mut Broker, peer: &Peer, share: &str, priority: i32, tags: &[&str]) -> TaskId {
    let share = (!share.is_empty()).then(|| share.into());
    let task = NewTask { share, priority: Some(priority), tags: names(tags), ..broker.new_task("q") };
    broker.submit_task(peer, task)
}

fn weigh(broker: &mut Broker, peer: &Peer, share: &str, weight: Option<u32>) {
    broker.does(peer, Command::SetShare { share: share.into(), weight });
}

/// Completes one task after the other with a worker of one slot. Returns whose they were.
fn order_of(broker: &mut Broker, worker: &Peer, count: usize) -> String {
    let mut order = String::new();
    broker.hush();
    for _ in 0..count {
        let query = ListQuery { states: vec![StateName::Assigned], ..ListQuery::default() };
        let task = broker.list(query).pop().expect("the worker has a task");
        let share = broker.show(task).terms.share.clone();
        order.push(share.map_or('-', |share| share.chars().next().expect("a name")));
        broker.complete(worker, task);
    }
    broker.hush();
    order
}

#[test]
fn a_key_with_a_million_tasks_does_not_keep_the_others_waiting() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    for _ in 0..20 {
        submit_for(&mut broker, &ann, "alice");
    }
    for _ in 0..3 {
        submit_for(&mut broker, &ann, "bob");
    }
    broker.hush();
    let worker = broker.worker("w", &["q"], 1);
    assert_eq!(order_of(&mut broker, &worker, 10), "abababaaaa");
}

#[test]
fn a_key_of_weight_three_gets_three_of_four_turns() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    weigh(&mut broker, &ann, "alice", Some(3));
    broker.hears(&["share alice has weight 3"]);
    for _ in 0..20 {
        submit_for(&mut broker, &ann, "alice");
        submit_for(&mut broker, &ann, "bob");
    }
    broker.hush();
    let worker = broker.worker("w", &["q"], 1);
    let order = order_of(&mut broker, &worker, 16);
    assert_eq!(order.matches('a').count(), 12, "{order}");
    // The weight counts from the next turn on.
    weigh(&mut broker, &ann, "alice", None);
    broker.hush();
    let Ok(Answer::Shares(shares)) = broker.ask(&Query::Shares) else { panic!("no shares") };
    let ready: Vec<(&str, u32)> = shares.iter().map(|share| (&*share.share, share.weight)).collect();
    assert_eq!(ready, [("alice", 1), ("bob", 1)]);
}

#[test]
fn priority_comes_before_the_share_and_age_after_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let mut expected = Vec::new();
    let low = submit_with(&mut broker, &ann, "bob", 0, &[]);
    let old = submit_with(&mut broker, &ann, "alice", 0, &[]);
    let young = submit_with(&mut broker, &ann, "alice", 0, &[]);
    expected.extend((0..3).map(|_| submit_with(&mut broker, &ann, "alice", 5, &[])));
    broker.hush();
    let worker = broker.worker("w", &["q"], 1);
    expected.extend([low, old, young]);
    let mut order = broker.assigned();
    for index in 0..5 {
        broker.complete(&worker, order[index]);
        order.extend(broker.assigned());
    }
    assert_eq!(order, expected);
}

#[test]
fn a_key_that_returns_has_no_credit_for_its_idle_time() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    submit_for(&mut broker, &ann, "bob");
    for _ in 0..40 {
        submit_for(&mut broker, &ann, "alice");
    }
    broker.hush();
    let worker = broker.worker("w", &["q"], 1);
    assert_eq!(order_of(&mut broker, &worker, 20), "baaaaaaaaaaaaaaaaaaa");
    for _ in 0..10 {
        submit_for(&mut broker, &ann, "bob");
    }
    // One task of alice is assigned already; then they take turns again.
    assert_eq!(order_of(&mut broker, &worker, 8), "abababab");
}

#[test]
fn a_key_that_could_not_run_has_no_credit_either() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "licence", Some(0));
    for _ in 0..40 {
        submit_with(&mut broker, &ann, "alice", 0, &[]);
        submit_with(&mut broker, &ann, "bob", 0, &["licence"]);
    }
    broker.hush();
    let worker = broker.worker("w", &["q"], 1);
    assert_eq!(order_of(&mut broker, &worker, 20), "a".repeat(20));
    broker.limit(&ann, "licence", None);
    // The task that waited goes first; then they take turns again.
    assert_eq!(order_of(&mut broker, &worker, 9), "abbababab");
}

#[test]
fn tasks_without_a_key_take_turns_as_if_they_had_one() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    for _ in 0..6 {
        submit_with(&mut broker, &ann, "", 0, &[]);
    }
    let worker = broker.worker("w", &["q"], 1);
    for _ in 0..6 {
        submit_for(&mut broker, &ann, "alice");
    }
    let order = order_of(&mut broker, &worker, 9);
    assert!(order.contains("a-a-a") || order.contains("-a-a-"), "{order}");
    broker.hush();
}

#[test]
fn a_key_takes_turns_over_all_needs_and_tags_of_a_queue() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    for _ in 0..10 {
        submit_with(&mut broker, &ann, "alice", 0, &["x"]);
        submit_with(&mut broker, &ann, "alice", 0, &["y"]);
    }
    for _ in 0..10 {
        submit_with(&mut broker, &ann, "bob", 0, &["z"]);
    }
    broker.hush();
    let worker = broker.worker("w", &["q"], 1);
    let order = order_of(&mut broker, &worker, 12);
    assert_eq!(order, "abababababab");
}

#[test]
fn queues_with_and_without_keys_share_a_worker_by_age() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    for _ in 0..3 {
        submit_for(&mut broker, &ann, "alice");
    }
    let plain: Vec<TaskId> = (0..3).map(|_| broker.submit(&ann, "r")).collect();
    for _ in 0..3 {
        submit_for(&mut broker, &ann, "alice");
    }
    broker.hush();
    let worker = broker.worker("w", &["q", "r"], 1);
    assert_eq!(order_of(&mut broker, &worker, 9), "aaa---aaa");
    assert!(plain.iter().all(|task| broker.state(*task).has_ended()));
}

#[test]
fn a_full_tag_holds_back_all_keys_and_lets_them_take_turns_again() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "licence", Some(1));
    for _ in 0..3 {
        for share in ["alice", "bob", "carol"] {
            submit_with(&mut broker, &ann, share, 0, &["licence"]);
        }
    }
    broker.hush();
    let worker = broker.worker("w", &["q"], 5);
    assert_eq!(order_of(&mut broker, &worker, 9), "abcabcabc");
}

#[test]
fn a_restart_keeps_weights_and_keys_and_starts_the_turns_equal() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    weigh(&mut broker, &ann, "bob", Some(2));
    for _ in 0..9 {
        submit_for(&mut broker, &ann, "alice");
        submit_for(&mut broker, &ann, "bob");
    }
    broker.restart_after(SECOND);
    broker.hush();
    let worker = broker.worker("w", &["q"], 1);
    let order = order_of(&mut broker, &worker, 9);
    assert_eq!(order.matches('b').count(), 6, "{order}");
    let Ok(Answer::Shares(shares)) = broker.ask(&Query::Shares) else { panic!("no shares") };
    let bob = ShareInfo { share: "bob".into(), weight: 2, ready: broker_ready(&shares, "bob") };
    assert_eq!(shares[1], bob);
    assert_eq!(shares.iter().map(|share| share.ready).sum::<u64>(), 8);
    broker.hush();
}

fn broker_ready(shares: &[ShareInfo], share: &str) -> u64 {
    shares.iter().find(|one| &*one.share == share).expect("it is there").ready
}

#[test]
fn a_bad_share_is_refused() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    for weight in [0, 1_001] {
        let refusal = broker.refuses(&ann, Command::SetShare { share: "a".into(), weight: Some(weight) });
        assert_eq!(refusal.code(), "bad-value");
    }
    let refusal = broker.refuses(&ann, Command::SetShare { share: "".into(), weight: Some(1) });
    assert_eq!(refusal.code(), "bad-name");
    let task = NewTask { share: Some("".into()), ..broker.new_task("q") };
    assert_eq!(broker.refuses(&ann, Command::Submit(vec![task])).code(), "bad-name");
}

#[test]
fn without_keys_nothing_is_kept() {
    let mut broker = Broker::with(Settings { ended_kept: 0, ..Settings::default() });
    let ann = broker.client("ann");
    let before = broker.snapshot();
    let task = submit_for(&mut broker, &ann, "alice");
    broker.cancel(&ann, task);
    broker.hush();
    let after = broker.snapshot();
    let shares = |text: &str| {
        text.split("shares: ").nth(1).expect("shares").split("workers: ").next().map(str::to_owned)
    };
    let alive = |text: &str| shares(text).is_some_and(|text| text.contains("alice"));
    assert!(!alive(&before) && !alive(&after), "{after}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// While all keys have tasks, any two of them have what their weights give, within one task of each, whatever
    /// the weights, the number of slots and the order of submission. So none lags behind its ideal part by more
    /// than one task of its own and its part of one task of each key.
    #[test]
    fn keys_get_what_their_weights_give_within_one_task_of_each_key(
        weights in prop::collection::vec(1u32..8, 2..6),
        slots in 1u32..4,
        shuffle in any::<u64>(),
    ) {
        let mut broker = Broker::new();
        let ann = broker.client("ann");
        let total: u32 = weights.iter().sum();
        let rounds = 6;
        for (index, weight) in weights.iter().enumerate() {
            weigh(&mut broker, &ann, &index.to_string(), Some(*weight));
        }
        let mut all: Vec<usize> = weights
            .iter()
            .enumerate()
            .flat_map(|(index, weight)| vec![index; (*weight * (rounds + 4)) as usize])
            .collect();
        let mut seed = shuffle;
        for index in (1..all.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            all.swap(index, (seed >> 33) as usize % (index + 1));
        }
        let tasks = all.iter().map(|index| NewTask {
            share: Some(index.to_string().into()),
            ..broker.new_task("q")
        });
        let tasks: Vec<NewTask> = tasks.collect();
        broker.submit_many(&ann, tasks);
        broker.hush();
        let worker = broker.worker_with(WorkerSpec { slots, ..spec("w", &["q"], slots) });
        let mut got: BTreeMap<usize, u32> = BTreeMap::new();
        let mut count = 0;
        let mut held = std::collections::VecDeque::from(broker.assigned());
        while count < total * rounds {
            let task = held.pop_front().expect("the worker has a task");
            let share = broker.show(task).terms.share.clone().expect("all have a key");
            *got.entry(share.parse().expect("a number")).or_default() += 1;
            count += 1;
            let part = |index: usize| {
                let weight = f64::from(weights[index]);
                (f64::from(got.get(&index).copied().unwrap_or(0)) / weight, 1.001 / weight)
            };
            for one in 0..weights.len() {
                let ideal = f64::from(count) / f64::from(total);
                let keys = weights.len() as f64;
                let (own, task) = part(one);
                prop_assert!(
                    own + task + keys / f64::from(total) >= ideal,
                    "key {one} of {weights:?} has {own}, not {ideal}, after {count}"
                );
                for other in 0..weights.len() {
                    let (its, its_task) = part(other);
                    prop_assert!(
                        (own - its).abs() <= task + its_task,
                        "keys {one} and {other} of {weights:?} have {own} and {its} after {count}"
                    );
                }
            }
            broker.complete(&worker, task);
            held.extend(broker.assigned());
        }
        broker.hush();
    }
}
