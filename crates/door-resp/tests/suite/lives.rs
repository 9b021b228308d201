//! A worker's life as its protocol tells it: active, dead, gone, and what stays visible of it.

use std::time::Duration;

use crate::support::world::World;
use serde_json::Value;

const WORKER: &str =
    r#"{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":["sort"],"max_concurrent_jobs":2}"#;

fn register(world: &mut World, client: usize) {
    let answer = world.ask(client, &format!("WORKER.REGISTER '{WORKER}'"));
    assert_eq!(answer, ["+OK worker_id=w heartbeat_interval=30"]);
}

fn status(world: &mut World, job: &str) -> Value {
    let lines = world.ask(99, &format!("JOB.STATUS {job}"));
    serde_json::from_str(&lines[0][2..]).expect("JSON")
}

/// The only worker of the list.
fn listed(world: &mut World) -> Option<Value> {
    let lines = world.ask(99, "WORKERS.LIST");
    assert!(lines.len() <= 2, "{lines:?}");
    lines.get(1).map(|line| serde_json::from_str(&line[2..]).expect("JSON"))
}

#[test]
fn a_worker_that_leaves_gives_its_jobs_back_without_blame() {
    let mut world = World::new(false);
    register(&mut world, 1);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}' '{"job_id":"k"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    assert_eq!(world.ask(1, "WORKER.UNREGISTER w"), ["+OK"]);
    for job in ["j", "k"] {
        let status = status(&mut world, job);
        assert_eq!((&status["status"], &status["crashes"]), (&"pending".into(), &Value::Null), "{status}");
    }
    assert_eq!(listed(&mut world), None, "nothing is left of it");
    assert_eq!(world.ask(2, "KEYS worker:*"), ["*0"]);
    assert_eq!(world.ask(2, "GET worker:w:metadata"), ["$-1"]);
    assert_eq!(world.ask(2, "KEYS capability:*"), ["*0"]);
    register(&mut world, 1);
    assert_eq!(listed(&mut world).expect("it is back")["state"], "ACTIVE");
}

#[test]
fn an_idle_worker_that_falls_silent_is_dead_and_stays_visible() {
    let mut world = World::new(false);
    register(&mut world, 1);
    world.close(1);
    world.pass(Duration::from_secs(89));
    assert_eq!(listed(&mut world).expect("it may come back")["state"], "ACTIVE");
    assert_eq!(world.ask(2, "TTL worker:w:alive"), [":1"]);
    world.pass(Duration::from_secs(2));
    assert_eq!(listed(&mut world).expect("it is remembered")["state"], "DEAD");
    assert_eq!(world.ask(2, "TTL worker:w:alive"), [":-2"]);
    assert_eq!(world.ask(2, "TTL worker:w:metadata"), [":-1"]);
    assert!(world.ask(2, "GET worker:w:metadata")[0].contains(r#""agw_version":"1""#));
    assert_eq!(world.ask(2, "SMEMBERS capability:sort:workers"), ["*0"], "the dead offer nothing");
    assert_eq!(world.ask(2, "WORKER.UNREGISTER w"), ["+OK"], "a client tidies up");
    assert_eq!(listed(&mut world), None);
    assert_eq!(world.ask(2, "WORKER.UNREGISTER w"), ["-ERR Worker not registered: w"]);
}

#[test]
fn setting_the_clock_ends_no_wait_and_loses_no_worker() {
    for hours in [1, -1] {
        let mut world = World::new(false);
        register(&mut world, 1);
        assert_eq!(world.ask(1, "BRPOP queue:ready 20"), Vec::<String>::new());
        assert_eq!(world.ask(2, "BLPOP a-stored-list 20"), Vec::<String>::new());
        world.pass(Duration::from_secs(10));
        world.set_clock(hours * 3_600_000);
        world.pass(Duration::from_secs(9));
        assert_eq!((world.heard(1), world.heard(2)), (vec![], vec![]), "{hours} h: a second is left");
        world.pass(Duration::from_secs(2));
        assert_eq!((world.heard(1), world.heard(2)), (vec!["$-1".into()], vec!["*-1".into()]), "{hours} h");
        assert_eq!(listed(&mut world).expect("a worker")["state"], "ACTIVE", "{hours} h");
        world.close(1);
        world.pass(Duration::from_secs(60));
        assert_eq!(listed(&mut world).expect("it may come back")["state"], "ACTIVE", "{hours} h");
        world.pass(Duration::from_secs(40));
        assert_eq!(listed(&mut world).expect("it is remembered")["state"], "DEAD", "{hours} h");
    }
}

#[test]
fn a_worker_that_crashed_is_cleared_by_hand_or_comes_back_with_its_record() {
    let mut world = World::new(false);
    register(&mut world, 1);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    world.close(1);
    world.pass(Duration::from_secs(91));
    let dead = listed(&mut world).expect("it is remembered");
    assert_eq!(
        (&dead["state"], &dead["crashes"], &dead["flagged"]),
        (&"DEAD".into(), &1.into(), &true.into())
    );
    let mut world = world.restart();
    assert_eq!(listed(&mut world).expect("its record is durable")["crashes"], 1);
    register(&mut world, 3);
    assert_eq!(listed(&mut world).expect("it is back")["state"], "ACTIVE");
    assert_eq!(world.ask(2, "WORKER.UNREGISTER w"), ["+OK"]);
    assert_eq!(listed(&mut world).expect("the record stays")["state"], "DEAD");
    assert_eq!(world.ask(2, "WORKER.UNREGISTER w"), ["+OK"]);
    assert_eq!(listed(&mut world), None);
    let mut world = world.restart();
    assert_eq!(listed(&mut world), None, "it is forgotten for good");
}

#[test]
fn what_a_worker_said_when_it_registered_outlives_the_broker() {
    let mut world = World::new(false);
    let said = r#"{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":["sort"],"site":"north"}"#;
    assert_eq!(world.ask(1, &format!("WORKER.REGISTER '{said}'")), ["+OK worker_id=w heartbeat_interval=30"]);
    let mut world = world.restart();
    assert_eq!(world.ask(2, "GET worker:w:metadata"), [format!("$ {said}")]);
    assert!(world.ask(2, "WORKERS.LIST")[1].contains(r#""state":"DEAD""#));
    // A ping is no registration and says nothing new.
    world.ask(1, "PING w");
    assert_eq!(world.ask(2, "GET worker:w:metadata"), [format!("$ {said}")]);
    let more = said.replace("north", "south");
    assert_eq!(world.ask(3, &format!("WORKER.REGISTER '{more}'")), ["+OK worker_id=w heartbeat_interval=30"]);
    let mut world = world.restart();
    assert_eq!(world.ask(2, "GET worker:w:metadata"), [format!("$ {more}")]);
    assert_eq!(world.ask(2, &format!("WORKER.REGISTER '{more}'")), ["+OK worker_id=w heartbeat_interval=30"]);
    assert_eq!(world.ask(2, "WORKER.UNREGISTER w"), ["+OK"]);
    let mut world = world.restart();
    assert_eq!(world.ask(2, "GET worker:w:metadata"), ["$-1"]);
    assert_eq!(world.ask(2, "WORKERS.LIST"), ["*0"]);
}

#[test]
fn a_worker_with_resources_gets_the_jobs_that_need_them_and_learns_which_are_theirs() {
    let mut world = World::new(false);
    let job = r#"{"job_id":"j","body":"x","queue":"ready","resources":{"gpus":1,"cpus":2,"mem":"1GB"}}"#;
    world.ask(2, &format!("JOB.SUBMIT '{job}'"));
    register(&mut world, 1);
    assert_eq!(world.ask(1, "RPOP queue:ready"), ["$-1"], "it has declared nothing");
    let resources = r#","resources":{"gpus":2,"cpus":4,"mem":"8GB"}}"#;
    let registration = WORKER.replace(r#""w""#, r#""large""#).replace('}', resources);
    let answer = world.ask(3, &format!("WORKER.REGISTER '{registration}'"));
    assert_eq!(answer, ["+OK worker_id=large heartbeat_interval=30"]);
    let popped = world.ask(3, "BRPOP queue:ready 5");
    let popped: Value = serde_json::from_str(&popped[0][2..]).expect("JSON");
    assert_eq!((&popped["cpus"], &popped["gpus"]), (&serde_json::json!([0, 1]), &serde_json::json!([0])));
    let shown = world.ask(99, "JOB.GET j");
    let shown: Value = serde_json::from_str(&shown[0][2..]).expect("JSON");
    assert_eq!((&shown["cpus"], &shown["gpus"]), (&popped["cpus"], &popped["gpus"]), "{shown}");
    world.ask(3, r#"JOB.UPDATE j '{"status":"completed"}'"#);
    let shown = world.ask(99, "JOB.GET j");
    let shown: Value = serde_json::from_str(&shown[0][2..]).expect("JSON");
    assert_eq!((&shown["cpus"], &shown["resources"]["gpus"]), (&Value::Null, &"1".into()), "{shown}");
    let wrong = WORKER.replace('}', r#","resources":{"gpus":"many"}}"#);
    let answer = world.ask(4, &format!("WORKER.REGISTER '{wrong}'"));
    assert!(answer[0].starts_with("-ERR Invalid worker registration: resources"), "{answer:?}");
}
