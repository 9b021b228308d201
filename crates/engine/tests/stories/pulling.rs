//! Pulling: a worker that fetches for itself asks for one task at a time, of queues in the order it names them.

use tenure_engine::command::Unnamed;
use tenure_engine::terms::OnLost;
use tenure_engine::{Command, NewTask, Peer, Refusal, Reply, StateName, Why, WorkerSpec};

use crate::broker::{Broker, SECOND, names, spec};

fn puller(broker: &mut Broker, name: &str, queues: &[&str], slots: u32) -> Peer {
    broker.worker_with(WorkerSpec { pulls: true, ..spec(name, queues, slots) })
}

fn ask(broker: &mut Broker, worker: &Peer, queues: &[&str]) {
    broker.does(worker, Command::Ask { queues: names(queues) });
}

#[test]
fn a_worker_that_fetches_for_itself_gets_one_task_for_each_ask() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = puller(&mut broker, "p", &["q"], 4);
    let (first, second) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.hears(&["p registered", "queue q served", "#1 submitted", "#2 submitted"]);
    assert_eq!(broker.explain(first), Why::NoWorkerAsks { workers: 1 });
    ask(&mut broker, &worker, &["q"]);
    broker.hears(&["#1/1 assigned to p", "-> p: run #1/1"]);
    // It may ask for more while it works, up to its slots.
    ask(&mut broker, &worker, &["q"]);
    broker.hears(&["#2/1 assigned to p", "-> p: run #2/1"]);
    broker.complete(&worker, second);
    broker.complete(&worker, first);
    broker.hears(&["#2/1 completed by p", "#1/1 completed by p"]);
}

#[test]
fn an_ask_waits_until_there_is_something() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = puller(&mut broker, "p", &["q"], 1);
    ask(&mut broker, &worker, &["q"]);
    broker.hush();
    broker.wait(SECOND * 5);
    broker.submit(&ann, "q");
    broker.hears(&["#1 submitted", "#1/1 assigned to p", "-> p: run #1/1"]);
    broker.submit(&ann, "q");
    broker.hears(&["#2 submitted"]);
}

#[test]
fn an_ask_that_is_withdrawn_gets_nothing() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = puller(&mut broker, "p", &["q"], 1);
    ask(&mut broker, &worker, &["q"]);
    broker.does(&worker, Command::Unask);
    broker.hush();
    broker.submit(&ann, "q");
    broker.hears(&["#1 submitted"]);
    broker.does(&worker, Command::Unask);
    broker.hears_nothing();
}

#[test]
fn the_first_queue_that_has_something_counts_for_more_than_priority() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = puller(&mut broker, "p", &["a", "b"], 9);
    let urgent = NewTask { priority: Some(9), ..broker.new_task("b") };
    let urgent = broker.submit_task(&ann, urgent);
    let plain = broker.submit(&ann, "a");
    let tagged = NewTask { priority: Some(1), tags: names(&["t"]), ..broker.new_task("a") };
    let tagged = broker.submit_task(&ann, tagged);
    broker.hush();
    for expected in [tagged, plain, urgent] {
        ask(&mut broker, &worker, &["a", "b"]);
        assert_eq!(broker.assigned(), [expected]);
    }
    ask(&mut broker, &worker, &["a", "b"]);
    assert_eq!(broker.assigned(), []);
}

#[test]
fn a_queue_that_is_blocked_does_not_hide_the_next_one() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "t", Some(0));
    let worker = puller(&mut broker, "p", &["a", "b", "c", "d"], 9);
    let tagged = NewTask { tags: names(&["t"]), ..broker.new_task("a") };
    broker.submit_task(&ann, tagged);
    broker.submit(&ann, "b");
    broker.does(&ann, Command::PauseQueue { queue: "b".into() });
    let needy = NewTask { needs: names(&["gpu"]), ..broker.new_task("c") };
    broker.submit_task(&ann, needy);
    let free = broker.submit(&ann, "d");
    broker.hush();
    ask(&mut broker, &worker, &["a", "b", "c", "d"]);
    assert_eq!(broker.assigned(), [free]);
}

#[test]
fn a_worker_that_asks_for_a_queue_serves_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = puller(&mut broker, "p", &[], 1);
    broker.hears(&["p registered"]);
    ask(&mut broker, &worker, &["q"]);
    broker.hears(&["queue q served"]);
    assert_eq!(broker.worker_info("p").queues, names(&["q"]));
    ask(&mut broker, &worker, &["r"]);
    broker.hears(&["queue r served"]);
    // The last ask is the one that counts, but both queues are served.
    broker.submit(&ann, "q");
    broker.hears(&["#1 submitted"]);
    broker.submit(&ann, "r");
    broker.hears(&["#2 submitted", "#2/1 assigned to p", "-> p: run #2/1"]);
}

#[test]
fn a_worker_that_keeps_asking_for_new_queues_leaves_the_first_ones() {
    let mut broker = Broker::new();
    let worker = puller(&mut broker, "p", &[], 1);
    for number in 0..300 {
        ask(&mut broker, &worker, &[&format!("q{number}")]);
    }
    let queues = broker.worker_info("p").queues;
    assert_eq!((queues.len(), &*queues[255]), (256, "q299"));
    broker.hush();
}

#[test]
fn a_full_worker_that_asks_gets_its_task_when_a_slot_is_free() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = puller(&mut broker, "p", &["q"], 1);
    let (first, second) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    ask(&mut broker, &worker, &["q"]);
    ask(&mut broker, &worker, &["q"]);
    broker.hush();
    assert_eq!(broker.explain(second), Why::AllFull { workers: 1, slots: 1 });
    broker.complete(&worker, first);
    broker.hears(&["#1/1 completed by p", "#2/1 assigned to p", "-> p: run #2/1"]);
}

#[test]
fn asks_that_make_no_sense_are_refused() {
    let mut broker = Broker::new();
    let pushed = broker.worker("w", &["q"], 1);
    let puller = puller(&mut broker, "p", &["q"], 1);
    broker.hush();
    assert_eq!(broker.refuses(&pushed, Command::Ask { queues: names(&["q"]) }).code(), "bad-value");
    assert_eq!(broker.refuses(&puller, Command::Ask { queues: vec![] }).code(), "bad-value");
    assert_eq!(broker.refuses(&puller, Command::Ask { queues: names(&[""]) }).code(), "bad-name");
    let many = (0..257).map(|number| format!("q{number}").into()).collect();
    assert_eq!(broker.refuses(&puller, Command::Ask { queues: many }).code(), "too-many");
}

#[test]
fn a_puller_that_is_lost_asks_no_more() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = puller(&mut broker, "p", &["q"], 1);
    ask(&mut broker, &worker, &["q"]);
    broker.disconnect(&worker);
    broker.hush();
    broker.submit(&ann, "q");
    broker.hears(&["#1 submitted, all-lost"]);
    let again = broker.client("p");
    broker.does(&again, Command::Register(Box::new(WorkerSpec { pulls: true, ..spec("p", &["q"], 1) })));
    broker.hears(&["p returned", "queue q served"]);
    ask(&mut broker, &again, &["q"]);
    broker.hears(&["#1/1 assigned to p", "-> p: run #1/1"]);
}

#[test]
fn pushed_and_pulling_workers_share_a_queue() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let puller = puller(&mut broker, "p", &["q"], 1);
    broker.worker("w", &["q"], 1);
    ask(&mut broker, &puller, &["q"]);
    broker.submit(&ann, "q");
    broker.submit(&ann, "q");
    broker.hush();
    assert_eq!([broker.worker_info("p").held.len(), broker.worker_info("w").held.len()], [1, 1]);
}

#[test]
fn a_restarted_worker_that_fetches_for_itself_names_what_it_holds_and_the_rest_has_crashed() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = puller(&mut broker, "p", &["q"], 4);
    let [kept, lost, unconfirmed] = [(); 3].map(|()| broker.submit(&ann, "q"));
    for _ in 0..3 {
        ask(&mut broker, &worker, &["q"]);
    }
    broker.start(&worker, kept);
    broker.start(&worker, lost);
    broker.hush();
    // Its door has one session for the worker, whichever process speaks.
    let held = vec![broker.held(kept)];
    let again = WorkerSpec { pulls: true, held, ..spec("p", &["q"], 4) };
    let reply = broker.does(&worker, Command::Register(Box::new(again)));
    assert_eq!(reply, Reply::Registered { held: vec![Ok(())], returned: true });
    broker.hears(&[
        "p returned",
        "#1/1 holder p returned",
        "#2/1 crashed on p, forgotten: requeued, 2 left",
        "-> p: stop #3/1, taken-back",
        "#3/1 given back by p",
    ]);
    assert_eq!(broker.state(kept), StateName::Running);
    assert_eq!((broker.show(lost).crashes, broker.show(unconfirmed).crashes), (1, 0));
    assert_eq!(broker.worker_info("p").crashes, 1, "a new process without its tasks");
}

#[test]
fn a_restarted_worker_that_fetches_for_itself_and_names_nothing_has_lost_all() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = puller(&mut broker, "p", &["q"], 1);
    let task = NewTask { on_lost: OnLost::Pause, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    ask(&mut broker, &worker, &["q"]);
    broker.start(&worker, task);
    broker.disconnect(&worker);
    broker.hush();
    let again = puller(&mut broker, "p", &["q"], 1);
    broker.hears(&["p returned", "#1/1 crashed on p, forgotten: paused, 2 left", "queue q served"]);
    ask(&mut broker, &again, &["q"]);
    broker.hears_nothing();
}

#[test]
fn a_door_that_cannot_tell_what_its_worker_still_holds_settles_it_later() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = puller(&mut broker, "p", &["q"], 2);
    let [running, unconfirmed] = [(); 2].map(|()| broker.submit(&ann, "q"));
    for _ in 0..2 {
        ask(&mut broker, &worker, &["q"]);
    }
    broker.start(&worker, running);
    broker.disconnect(&worker);
    broker.hush();
    let spec = WorkerSpec { pulls: true, unnamed: Unnamed::Open, ..spec("p", &["q"], 2) };
    let again = broker.worker_with(spec);
    broker.hears(&["p returned", "queue q served"]);
    assert_eq!(
        (broker.state(running), broker.state(unconfirmed)),
        (StateName::Running, StateName::Assigned),
        "nothing is decided"
    );
    let held = vec![broker.held(running), broker.held(unconfirmed)];
    broker.does(&again, Command::Forgotten(held));
    broker.hears(&[
        "#1/1 crashed on p, forgotten: requeued, 2 left",
        "-> p: stop #2/1, taken-back",
        "#2/1 given back by p",
    ]);
}

#[test]
fn a_workers_id_belongs_to_the_key_that_registered_it_while_it_may_come_back() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let owned = |owner: &str| WorkerSpec { pulls: true, owner: Some(owner.into()), ..spec("p", &["q"], 1) };
    let worker = broker.worker_with(owned("crew"));
    let task = broker.submit(&ann, "q");
    ask(&mut broker, &worker, &["q"]);
    broker.start(&worker, task);
    broker.disconnect(&worker);
    let thief = broker.client("thief");
    let refusal = broker.refuses(&thief, Command::Register(Box::new(owned("other crew"))));
    assert_eq!(refusal, Refusal::NotAllowed { what: "use this worker id" });
    assert_eq!(broker.state(task), StateName::Running);
    let held = vec![broker.held(task)];
    let again = broker.worker_with(WorkerSpec { held, ..owned("crew") });
    broker.complete(&again, task);
    broker.does(&again, Command::Leave);
    broker.does(&thief, Command::Register(Box::new(owned("other crew"))));
    broker.hush();
}
