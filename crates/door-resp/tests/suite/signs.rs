//! Signs of life: what counts as one, what does not, and what happens when there are none.

use std::time::{Duration, Instant};

use crate::support::broker::Broker;
use crate::support::peer::Client;
use crate::support::world::World;
use serde_json::Value;
use tenure_door_resp::Settings;
use tenure_door_resp::testing::Reply;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn register(world: &mut World, client: usize, worker: &str) -> Vec<String> {
    let worker = format!(
        r#"{{"worker_id":"{worker}","hostname":"h","agw_version":"1","capabilities":["ocr"],"max_concurrent_jobs":2}}"#
    );
    world.ask(client, &format!("WORKER.REGISTER '{worker}'"))
}

fn registered(worker: &str) -> String {
    format!("+OK worker_id={worker} heartbeat_interval=30")
}

/// A worker that runs a job.
fn busy(world: &mut World, client: usize, worker: &str) {
    assert_eq!(register(world, client, worker), [registered(worker)]);
    world.ask(99, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(client, "BRPOP queue:ready 5");
    assert_eq!(world.ask(client, r#"JOB.UPDATE j '{"status":"running"}'"#), ["+OK"]);
}

fn status(world: &mut World, job: &str) -> Value {
    let lines = world.ask(99, &format!("JOB.STATUS {job}"));
    serde_json::from_str(&lines[0][2..]).expect("JSON")
}

fn alive(world: &mut World) -> Vec<String> {
    world.ask(99, "KEYS worker:*:alive")
}

#[test]
fn any_command_on_a_workers_connection_is_a_sign_of_life() {
    for words in [
        r#"JOB.UPDATE j '{"status":"running"}'"#,
        r#"JOB.UPDATE j '{"stdout":"x"}'"#,
        "SET job:j:stdout x",
        "GET job:j",
        "JOB.GET j",
        "PING",
        "ECHO hello",
        "LLEN queue:ready",
        "WORKERS.LIST",
        "TIME",
        "LPUSH queue:other x",
    ] {
        let mut world = World::new(false);
        busy(&mut world, 1, "w");
        for _ in 0..20 {
            world.pass(seconds(13));
            let answer = world.ask(1, words);
            assert!(!answer[0].starts_with('-'), "{words}: {answer:?}");
        }
        assert_eq!(alive(&mut world)[0], "*1", "{words}");
        let status = status(&mut world, "j");
        assert_eq!((&status["status"], &status["crashes"]), (&"running".into(), &Value::Null), "{words}");
    }
}

#[test]
fn an_idle_worker_that_only_asks_for_the_time_stays_active() {
    let mut world = World::new(false);
    register(&mut world, 1, "w");
    for _ in 0..20 {
        world.pass(seconds(25));
        world.ask(1, "TIME");
    }
    assert_eq!(alive(&mut world), ["*1", "$ worker:w:alive"]);
}

#[test]
fn the_id_of_a_dead_worker_is_free_although_its_connection_is_open() {
    for last_word in ["PING", "BRPOP queue:ready 0"] {
        let mut world = World::new(false);
        register(&mut world, 1, "half");
        world.ask(1, last_word);
        world.pass(seconds(80));
        assert_eq!(register(&mut world, 2, "half"), ["-ERR Worker ID already registered"]);
        world.pass(seconds(15));
        assert_eq!(alive(&mut world), ["*0"], "{last_word}");
        assert_eq!(register(&mut world, 2, "half"), [registered("half")], "{last_word}");
    }
}

#[test]
fn a_pop_does_not_outlive_its_worker() {
    let mut world = World::new(false);
    register(&mut world, 1, "w");
    assert!(world.ask(1, "BRPOP queue:ready 0").is_empty());
    world.pass(seconds(95));
    assert_eq!(world.heard(1), ["-ERR Worker not registered: w"]);
    world.ask(2, "LPUSH queue:ready x");
    assert_eq!(world.ask(2, "LLEN queue:ready"), [":1"]);
    assert_eq!(register(&mut world, 1, "w"), [registered("w")]);
    assert!(world.ask(1, "BRPOP queue:ready 0")[0].contains(r#""body":"x""#));
}

#[test]
fn an_old_worker_whose_pop_took_too_long_pops_again() {
    let mut world = World::new(false);
    world.ask(1, "PING old");
    assert!(world.ask(1, "BRPOPLPUSH queue:ready queue:processing 0").is_empty());
    world.pass(seconds(95));
    assert_eq!(world.heard(1), ["$-1"]);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    assert_eq!(world.ask(1, "BRPOPLPUSH queue:ready queue:processing 0"), ["$ j"]);
}

#[test]
fn a_pop_without_a_worker_name_waits_without_limit() {
    let mut world = World::new(false);
    assert!(world.ask(1, "BRPOP queue:ready 0").is_empty());
    world.pass(seconds(86_400));
    assert!(world.heard(1).is_empty());
    world.ask(2, "LPUSH queue:ready x");
    assert!(world.heard(1)[2].contains(r#""body":"x""#));
}

#[test]
fn a_dead_worker_hears_so_at_its_first_pop() {
    let mut world = World::new(false);
    register(&mut world, 1, "w");
    world.pass(seconds(91));
    assert_eq!(world.ask(1, "BRPOP queue:ready 1"), ["-ERR Worker not registered: w"]);
}

#[test]
fn a_challenge_does_not_keep_a_worker_alive() {
    let mut world = World::new(false);
    busy(&mut world, 1, "w");
    for client in 10..16 {
        world.pass(seconds(15));
        world.ask(client, r#"WORKER.VERIFY ocr '{"command":"ocr"}'"#);
    }
    assert_eq!(world.heard(10), ["-ERR Capability ocr not verified: w"], "it had its minute");
    world.pass(seconds(5));
    assert_eq!(alive(&mut world), ["*0"]);
    assert_eq!(status(&mut world, "j")["status"], "pending");
}

#[test]
fn a_worker_that_did_not_answer_a_challenge_gets_its_full_timeout_when_it_speaks_again() {
    let mut world = World::new(false);
    busy(&mut world, 1, "w");
    world.ask(2, r#"WORKER.VERIFY ocr '{"command":"ocr"}'"#);
    world.pass(seconds(65));
    assert_eq!(world.heard(2), ["-ERR Capability ocr not verified: w"]);
    assert_eq!(world.ask(1, "PING"), ["+PONG"]);
    world.pass(seconds(85));
    assert_eq!(alive(&mut world)[0], "*1");
    assert_eq!(status(&mut world, "j")["status"], "running");
}

#[test]
fn a_waiting_client_learns_at_once_that_the_worker_left() {
    let mut world = World::new(false);
    register(&mut world, 1, "w");
    assert!(world.ask(2, r#"WORKER.VERIFY ocr '{"command":"ocr"}'"#).is_empty());
    assert_eq!(world.ask(1, "WORKER.UNREGISTER w"), ["+OK"]);
    assert_eq!(world.heard(2), ["-ERR Capability ocr not verified: w"]);
    assert_eq!(world.ask(2, "LLEN queue:ready"), [":0"], "nothing is left of the question");
}

#[test]
fn sending_a_worker_away_does_not_make_one_that_worker() {
    let mut world = World::new(false);
    register(&mut world, 1, "w");
    assert_eq!(world.ask(2, "WORKER.UNREGISTER w"), ["+OK"]);
    world.ask(2, "LPUSH queue:ready x");
    assert!(world.ask(2, "BRPOP queue:ready 1")[2].contains(r#""body":"x""#), "it has no id");
}

#[tokio::test]
async fn a_pop_over_a_socket_does_not_outlive_its_worker() {
    let settings = Settings { heartbeat: Duration::from_millis(100), ..Settings::default() };
    let broker = Broker::told(settings).await;
    let mut worker = Client::connect(broker.address).await;
    let registration = r#"{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":[]}"#;
    worker.ask(&format!("WORKER.REGISTER '{registration}'")).await;
    let Reply::Error(text) = worker.ask("BRPOP queue:ready 0").await else { panic!("an error") };
    assert_eq!(text, "ERR Worker not registered: w");
}

#[tokio::test]
async fn a_worker_over_a_socket_lives_as_long_as_it_says_anything() {
    let settings = Settings { heartbeat: Duration::from_millis(500), ..Settings::default() };
    let broker = Broker::told(settings).await;
    let mut worker = Client::connect(broker.address).await;
    let registration = r#"{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":[]}"#;
    worker.ask(&format!("WORKER.REGISTER '{registration}'")).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        worker.ask("TIME").await;
    }
    let mut other = Client::connect(broker.address).await;
    let taken = other.ask(&format!("WORKER.REGISTER '{registration}'")).await;
    assert_eq!(taken, Reply::error("ERR Worker ID already registered"));
    let since = Instant::now();
    let free = loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let answer = other.ask(&format!("WORKER.REGISTER '{registration}'")).await;
        if answer != taken {
            break answer;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "a silent worker dies after 1.5 s");
    };
    assert_eq!(free, Reply::simple("OK worker_id=w heartbeat_interval=1"));
}
