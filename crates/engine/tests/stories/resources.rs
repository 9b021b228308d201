//! Resources: tasks need quantities, workers declare what they have, and no worker is over-committed.

use tenure_engine::{
    Command, Demand, Devices, NewTask, Notice, Peer, Quantity, Refusal, Resource, TaskId, WorkerSpec,
};

use crate::broker::{Broker, SECOND, Said, spec};

fn listed(resources: &[(&str, &str)]) -> Vec<Resource> {
    let quantity = |text: &str| Quantity::parse(text).expect("a quantity");
    resources.iter().map(|(name, text)| Resource::new(*name, quantity(text))).collect()
}

fn needing(broker: &mut Broker, resources: &[(&str, &str)]) -> NewTask {
    NewTask { demand: Demand { slots: 1, resources: listed(resources) }, ..broker.new_task("q") }
}

fn submit(broker: &mut Broker, ann: &Peer, resources: &[(&str, &str)]) -> TaskId {
    let task = needing(broker, resources);
    broker.submit_task(ann, task)
}

fn worker(broker: &mut Broker, name: &str, resources: &[(&str, &str)]) -> Peer {
    broker.worker_with(WorkerSpec { resources: listed(resources), ..spec(name, &["q"], 8) })
}

fn devices(broker: &mut Broker) -> Vec<Devices> {
    let said = broker.take_raw().into_iter();
    let assigned = said.filter_map(|(said, _)| match said {
        Said::Notice(_, Notice::Assign(assignment)) => Some(assignment.devices),
        _ => None,
    });
    assigned.collect()
}

#[test]
fn a_task_goes_where_there_is_enough_of_everything() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    worker(&mut broker, "plain", &[]);
    worker(&mut broker, "small", &[("cpus", "2"), ("mem", "64GB")]);
    worker(&mut broker, "large", &[("cpus", "8"), ("mem", "32GB")]);
    broker.hush();
    submit(&mut broker, &ann, &[("cpus", "4"), ("mem", "8GB")]);
    broker.hears(&["#1 submitted", "#1/1 assigned to large", "-> large: run #1/1"]);
    submit(&mut broker, &ann, &[("mem", "40GB")]);
    broker.hears(&["#2 submitted", "#2/1 assigned to small", "-> small: run #2/1"]);
    let third = submit(&mut broker, &ann, &[("cpus", "6")]);
    broker.hears(&["#3 submitted"]);
    assert_eq!(broker.explain(third).to_string(), "needs 6 cpus, worker large has 4 free");
    let info = broker.worker_info("large");
    let shown = info.resources.iter().map(|of| format!("{} {}/{}", of.name, of.used, of.total));
    assert_eq!(shown.collect::<Vec<_>>(), ["cpus 4/8", "mem 8000000000/32000000000"]);
}

#[test]
fn an_attempt_learns_which_cpus_and_gpus_are_its_own() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let peer = worker(&mut broker, "w", &[("cpus", "6"), ("gpus", "2")]);
    broker.hush();
    let half = [("gpus", "0.5"), ("cpus", "1")];
    let first = submit(&mut broker, &ann, &half);
    submit(&mut broker, &ann, &[("gpus", "1"), ("cpus", "2")]);
    submit(&mut broker, &ann, &half);
    let given = devices(&mut broker);
    assert_eq!(given[0], Devices { cpus: vec![0], gpus: vec![0] });
    assert_eq!(given[1], Devices { cpus: vec![1, 2], gpus: vec![1] });
    assert_eq!(given[2], Devices { cpus: vec![3], gpus: vec![0] });
    assert_eq!(broker.show(first).devices.as_deref(), Some(&given[0]));
    // A restart of the broker changes nothing about who holds what.
    broker.start(&peer, first);
    broker.restart_after(SECOND);
    let held = vec![broker.held(first)];
    let resources = listed(&[("cpus", "6"), ("gpus", "2")]);
    broker.worker_with(WorkerSpec { held, resources, ..spec("w", &["q"], 8) });
    broker.hush();
    submit(&mut broker, &ann, &[("cpus", "1")]);
    let given = devices(&mut broker);
    assert!(!given[0].cpus.contains(&0), "cpu 0 is in use: {given:?}");
}

#[test]
fn resources_of_ones_own_are_counted_too() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let peer = worker(&mut broker, "w", &[("licence", "2")]);
    let first = submit(&mut broker, &ann, &[("licence", "2")]);
    broker.hush();
    let second = submit(&mut broker, &ann, &[("licence", "0.5")]);
    broker.hears(&["#2 submitted"]);
    assert_eq!(broker.explain(second).to_string(), "needs 0.5 licence, worker w has 0 free");
    broker.complete(&peer, first);
    broker.hears(&["#1/1 completed by w", "#2/1 assigned to w", "-> w: run #2/1"]);
}

#[test]
fn the_submitter_learns_which_resource_no_worker_has_enough_of() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    worker(&mut broker, "one", &[("cpus", "8"), ("mem", "8GB")]);
    worker(&mut broker, "two", &[("cpus", "4"), ("mem", "64GB")]);
    let task = needing(&mut broker, &[("mem", "128GB")]);
    let why = broker.submit_and_see(&ann, task).unserved.expect("too large");
    assert_eq!(why.to_string(), "no worker is large enough: needs 128 GB mem, worker two has 64 GB");
    // Each has enough of one, none of both.
    let task = needing(&mut broker, &[("cpus", "8"), ("mem", "16GB")]);
    let why = broker.submit_and_see(&ann, task).unserved.expect("too large");
    assert_eq!(why.to_string(), "no worker is large enough: needs 16 GB mem, worker one has 8 GB");
    let task = needing(&mut broker, &[("gpus", "1")]);
    let why = broker.submit_and_see(&ann, task).unserved.expect("too large");
    assert_eq!(why.code(), "too-large");
    broker.hush();
}

#[test]
fn an_attempt_that_is_over_keeps_its_resources_until_its_worker_stops_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let peer = worker(&mut broker, "w", &[("gpus", "1")]);
    let task = NewTask { run_limit: Some(SECOND), ..needing(&mut broker, &[("gpus", "1")]) };
    let first = broker.submit_task(&ann, task);
    broker.start(&peer, first);
    let held = broker.held(first);
    broker.does(&peer, Command::Heartbeat { held: Some(vec![held]), stats: None });
    broker.wait(SECOND * 2);
    let second = submit(&mut broker, &ann, &[("gpus", "1")]);
    assert_eq!(broker.explain(second).code(), "resources-short");
    broker.hush();
    broker.does(&peer, Command::Heartbeat { held: Some(Vec::new()), stats: None });
    assert_eq!(broker.worker_info("w").resources[0].used, Quantity::ONE);
    assert_eq!(broker.assigned().len(), 1, "one of the two gets the gpu");
}

#[test]
fn demands_that_make_no_sense_are_refused() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("gpus", "1.5")], "is neither a whole number of cpus or gpus nor a part of one"),
        (&[("x", "1"), ("x", "2")], "is named twice"),
        (&[("slots", "2")], "has the reserved name of the slots: choose another"),
        (&[("mem", "9000TB")], "is above the largest quantity, 10^15"),
    ];
    for (resources, expected) in cases {
        let task = needing(&mut broker, resources);
        let refused = broker.submit_many(&ann, vec![task]).remove(0);
        assert_eq!(refused, Err(Refusal::BadValue { what: "resource", why: expected }), "{resources:?}");
    }
    let spec = WorkerSpec { resources: listed(&[("gpus", "0.5")]), ..spec("w", &["q"], 1) };
    let refused = broker.refuses(&ann, Command::Register(Box::new(spec)));
    let why = "is a part of a cpu or gpu: declare whole ones";
    assert_eq!(refused, Refusal::BadValue { what: "resource", why });
}

#[test]
fn the_number_of_different_demands_is_limited() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    for number in 1..=1_000 {
        submit(&mut broker, &ann, &[("mem", &format!("{number}MB"))]);
    }
    let task = needing(&mut broker, &[("mem", "2GB")]);
    let refused = broker.submit_many(&ann, vec![task]).remove(0);
    assert_eq!(refused, Err(Refusal::Full { what: "different demands for resources", limit: 1_000 }));
    submit(&mut broker, &ann, &[("mem", "7MB")]);
    broker.hush();
}
