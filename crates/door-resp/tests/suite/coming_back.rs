//! Workers that go and come back: the same process on another connection, or another process under the same id.

use std::time::{Duration, Instant};

use crate::support::broker::Broker;
use crate::support::peer::Client;
use crate::support::world::World;
use serde_json::Value;
use tenure_door_resp::testing::Reply;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn register_with(world: &mut World, client: usize, more: &str) -> Vec<String> {
    let base = r#""worker_id":"w","hostname":"h","agw_version":"1","capabilities":[]"#;
    world.ask(client, &format!("WORKER.REGISTER '{{{base}{more}}}'"))
}

fn register(world: &mut World, client: usize) {
    assert_eq!(register_with(world, client, ""), ["+OK worker_id=w heartbeat_interval=30"]);
}

fn json(lines: &[String]) -> Value {
    let text = lines.last().expect("an answer").strip_prefix("$ ").expect("a bulk string");
    serde_json::from_str(text).expect("JSON")
}

/// A job's status, its attempt and how often it crashed.
fn state(world: &mut World, job: &str) -> (String, u64, u64) {
    let status = json(&world.ask(99, &format!("JOB.STATUS {job}")));
    let word = status["status"].as_str().expect("a status").to_owned();
    (word, status["attempt"].as_u64().unwrap_or(0), status["crashes"].as_u64().unwrap_or(0))
}

fn is(word: &str, attempt: u64, crashes: u64) -> (String, u64, u64) {
    (word.to_owned(), attempt, crashes)
}

/// The names of the events so far.
fn events(world: &mut World) -> Vec<String> {
    let lines = world.ask(98, "XREAD COUNT 1000 STREAMS events 0");
    let after_event = lines.windows(2).filter(|pair| pair[0] == "$ event");
    after_event.map(|pair| pair[1].trim_start_matches("$ ").to_owned()).collect()
}

/// A worker with one slot that runs `j`.
fn busy(world: &mut World, client: usize) {
    register(world, client);
    world.ask(99, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(client, "BRPOP queue:ready 5");
    assert_eq!(world.ask(client, r#"JOB.UPDATE j '{"status":"running"}'"#), ["+OK"]);
}

/// A worker with one slot that got a job that must not run twice, a moment ago.
fn careful(world: &mut World, client: usize) {
    register(world, client);
    world.ask(99, r#"JOB.SUBMIT '{"job_id":"j","body":"x","policy":"pause"}'"#);
    assert_eq!(json(&world.ask(client, "BRPOP queue:ready 5"))["job_id"], "j");
}

#[test]
fn a_restarted_worker_that_pops_has_lost_the_job_of_its_predecessor() {
    let mut world = World::new(false);
    busy(&mut world, 1);
    world.close(1);
    world.pass(seconds(3));
    register(&mut world, 2);
    assert!(world.ask(2, "BRPOP queue:ready 30").is_empty(), "it may still say that it has the job");
    world.pass(seconds(6));
    let job = json(&world.heard(2));
    assert_eq!((&job["job_id"], &job["attempt"]), (&"j".into(), &2.into()));
    assert_eq!(state(&mut world, "j").2, 1);
}

#[test]
fn a_restarted_worker_that_only_pings_and_pops_gets_work_again() {
    let mut world = World::new(false);
    world.ask(99, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "PING agw");
    assert_eq!(world.ask(1, "BRPOPLPUSH queue:ready queue:processing 5"), ["$ j"]);
    world.ask(1, "GET job:j");
    for restarts_broker in [false, true] {
        world.close(1);
        if restarts_broker {
            world = world.restart();
        }
        world.ask(1, "PING agw");
        let mut answer = world.ask(1, "BRPOPLPUSH queue:ready queue:processing 5");
        world.pass(seconds(5));
        answer.extend(world.heard(1));
        if answer == ["$-1"] {
            answer = world.ask(1, "BRPOPLPUSH queue:ready queue:processing 5");
        }
        assert_eq!(answer, ["$ j"], "after a restart of the broker: {restarts_broker}");
        world.ask(1, "GET job:j");
    }
    assert_eq!(state(&mut world, "j"), is("running", 3, 2));
}

#[test]
fn a_registration_that_names_jobs_has_lost_the_others() {
    let mut world = World::new(false);
    register_with(&mut world, 1, r#","max_concurrent_jobs":3"#);
    for job in ["j", "k", "l"] {
        world.ask(99, &format!(r#"LPUSH queue:ready '{{"job_id":"{job}"}}'"#));
        world.ask(1, "BRPOP queue:ready 5");
        world.ask(1, &format!(r#"JOB.UPDATE {job} '{{"status":"running"}}'"#));
    }
    world.close(1);
    let named = register_with(&mut world, 2, r#","max_concurrent_jobs":3,"jobs":["k"],"running":["l","m"]"#);
    assert_eq!(named, ["+OK worker_id=w heartbeat_interval=30"]);
    assert_eq!(state(&mut world, "j"), is("pending", 1, 1));
    assert_eq!(state(&mut world, "k"), is("running", 1, 0));
    assert_eq!(state(&mut world, "l"), is("running", 1, 0));
    assert_eq!(world.ask(2, r#"JOB.UPDATE k '{"status":"completed"}'"#), ["+OK"]);
    let wrong = register_with(&mut world, 2, r#","jobs":"k""#);
    assert_eq!(wrong, ["-ERR Invalid worker registration: jobs is not a list of job ids"]);
}

#[test]
fn a_worker_that_reconnects_and_says_nothing_else_for_ten_minutes_keeps_its_job() {
    for restarts_broker in [false, true] {
        let mut world = World::new(false);
        world.ask(99, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
        world.ask(1, "PING agw");
        world.ask(1, "BRPOPLPUSH queue:ready queue:processing 5");
        world.ask(1, "GET job:j");
        world.close(1);
        if restarts_broker {
            world = world.restart();
        }
        world.pass(seconds(20));
        for _ in 0..20 {
            world.ask(2, "PING agw");
            world.pass(seconds(30));
        }
        assert_eq!(state(&mut world, "j"), is("running", 1, 0));
        assert_eq!(world.ask(2, "SET job:j:status completed"), ["+OK"]);
        assert_eq!(state(&mut world, "j"), is("completed", 1, 0));
    }
}

#[test]
fn a_worker_that_pops_and_reports_its_old_job_in_time_keeps_it() {
    let mut world = World::new(false);
    busy(&mut world, 1);
    world.close(1);
    register(&mut world, 2);
    register_with(&mut world, 2, "");
    assert!(world.ask(2, "BRPOP queue:ready 60").is_empty());
    world.ask(3, "PING w");
    world.pass(seconds(2));
    assert_eq!(world.ask(3, r#"JOB.UPDATE j '{"progress_percent":50}'"#), ["+OK"]);
    world.pass(seconds(30));
    assert_eq!(state(&mut world, "j"), is("running", 1, 0));
}

#[test]
fn an_answer_that_the_broker_could_not_give_before_it_died_is_asked_for_again() {
    let mut world = World::new(false);
    register(&mut world, 1);
    world.ask(99, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    let mut world = world.restart();
    register(&mut world, 1);
    let job = json(&world.ask(1, "BRPOP queue:ready 5"));
    assert_eq!((&job["job_id"], &job["attempt"]), (&"j".into(), &2.into()));
    assert_eq!(state(&mut world, "j").2, 0, "no worker is to blame");
}

#[test]
fn an_instance_tells_a_process_from_its_successor() {
    let mut world = World::new(false);
    let registered = ["+OK worker_id=w heartbeat_interval=30"];
    assert_eq!(register_with(&mut world, 1, r#","instance":"a""#), registered);
    world.ask(99, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    assert_eq!(register_with(&mut world, 2, r#","instance":"b""#), ["-ERR Worker ID already registered"]);
    assert_eq!(register_with(&mut world, 2, r#","instance":"a""#), registered, "it has lost its connection");
    world.close(1);
    world.ask(2, "BRPOP queue:ready 0");
    world.pass(seconds(20));
    assert_eq!(state(&mut world, "j"), is("running", 1, 0), "the same process goes on");
    world.close(2);
    assert_eq!(register_with(&mut world, 3, r#","instance":"b""#), registered);
    assert_eq!(state(&mut world, "j"), is("pending", 1, 1), "another one knows nothing of it");
}

#[test]
fn a_worker_that_says_it_works_on_nothing_has_lost_its_old_jobs() {
    let mut world = World::new(false);
    register_with(&mut world, 1, r#","max_concurrent_jobs":4"#);
    world.ask(99, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    world.close(1);
    register_with(&mut world, 2, r#","max_concurrent_jobs":4"#);
    world.ask(2, r#"WORKER.HEARTBEAT w '{"active_jobs":1}'"#);
    world.pass(seconds(6));
    assert_eq!(state(&mut world, "j"), is("running", 1, 0));
    world.ask(2, r#"WORKER.HEARTBEAT w '{"active_jobs":0}'"#);
    world.pass(seconds(6));
    assert_eq!(state(&mut world, "j"), is("pending", 1, 1));
}

#[test]
fn a_job_that_must_not_run_twice_survives_a_short_break_of_the_connection() {
    let mut world = World::new(false);
    careful(&mut world, 1);
    world.close(1);
    assert_eq!(state(&mut world, "j"), is("running", 1, 0));
    assert_eq!(world.ask(5, "RPOP queue:ready"), ["$-1"]);
    register(&mut world, 2);
    assert_eq!(world.ask(2, r#"JOB.UPDATE j '{"status":"completed"}'"#), ["+OK"]);
    assert_eq!(state(&mut world, "j"), is("completed", 1, 0));
}

#[test]
fn a_job_that_must_not_run_twice_is_paused_when_its_worker_stays_away() {
    let mut world = World::new(false);
    careful(&mut world, 1);
    world.close(1);
    world.pass(seconds(91));
    assert_eq!(state(&mut world, "j"), is("paused", 1, 1));
    world.ask(99, r#"JOB.SUBMIT '{"job_id":"k","body":"x","policy":"pause"}'"#);
    world.ask(3, "BRPOP queue:ready 5");
    world.close(3);
    assert_eq!(state(&mut world, "k"), is("paused", 1, 1), "a plain client is gone for good");
}

#[test]
fn a_job_that_must_not_run_twice_is_paused_when_its_worker_did_not_read_it() {
    let mut world = World::new(false);
    careful(&mut world, 1);
    world.ask(99, "LPUSH queue:ready next");
    assert!(world.ask(1, "BRPOP queue:ready 30").is_empty());
    world.pass(seconds(6));
    assert!(world.heard(1)[0].contains("next"), "it has work again");
    assert_eq!(state(&mut world, "j"), is("paused", 1, 1));
}

#[test]
fn a_job_that_was_never_delivered_waits_again_even_if_it_must_not_run_twice() {
    let mut world = World::new(false);
    register(&mut world, 1);
    assert!(world.ask(1, "BRPOP queue:ready 1").is_empty());
    world.disk_stands_still = true;
    world.ask(99, r#"JOB.SUBMIT '{"job_id":"j","body":"x","policy":"pause"}'"#);
    world.pass(seconds(2));
    assert_eq!(world.heard(1), ["$-1"], "it has given up");
    world.disk_stands_still = false;
    world.pass(seconds(1));
    assert_eq!(state(&mut world, "j"), is("pending", 1, 0));
    assert_eq!(json(&world.ask(1, "BRPOP queue:ready 5"))["attempt"], 2);
}

#[test]
fn a_worker_whose_last_connection_is_gone_is_reported_at_once() {
    let mut world = World::new(false);
    busy(&mut world, 1);
    world.ask(2, "WORKER.HEARTBEAT w");
    world.close(1);
    assert!(!events(&mut world).contains(&"holder-lost".into()), "it speaks on another connection");
    world.close(2);
    assert!(events(&mut world).contains(&"holder-lost".into()));
    assert_eq!(state(&mut world, "j"), is("running", 1, 0));
    world.pass(seconds(60));
    register(&mut world, 3);
    assert_eq!(world.ask(3, r#"JOB.UPDATE j '{"progress_percent":50}'"#), ["+OK"]);
    assert!(events(&mut world).contains(&"holder-returned".into()));
    world.pass(seconds(60));
    assert_eq!(world.ask(3, r#"JOB.UPDATE j '{"status":"completed"}'"#), ["+OK"]);
    assert_eq!(state(&mut world, "j"), is("completed", 1, 0));
}

#[test]
fn a_worker_without_a_connection_hears_of_itself_like_any_other() {
    let mut world = World::new(false);
    busy(&mut world, 1);
    world.close(1);
    world.pass(seconds(10));
    assert_eq!(
        world.ask(4, r#"WORKER.HEARTBEAT w '{"active_jobs":1}'"#),
        ["+OK"],
        "no need to register again"
    );
    world.close(4);
    assert_eq!(world.ask(99, "WORKER.UNREGISTER w"), ["+OK"], "a client sends it away");
    assert_eq!(state(&mut world, "j"), is("pending", 1, 0));
}

#[tokio::test]
async fn a_closed_socket_is_reported_at_once_and_the_worker_goes_on_over_another() {
    let broker = Broker::start().await;
    let registration = r#"{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":[]}"#;
    let mut client = Client::connect(broker.address).await;
    client.ask(r#"LPUSH queue:ready '{"job_id":"j"}'"#).await;
    let mut worker = Client::connect(broker.address).await;
    worker.ask(&format!("WORKER.REGISTER '{registration}'")).await;
    worker.ask("BRPOP queue:ready 5").await;
    worker.ask(r#"JOB.UPDATE j '{"status":"running"}'"#).await;
    drop(worker);
    let since = Instant::now();
    while !format!("{:?}", client.ask("XREAD COUNT 100 STREAMS events:j 0").await).contains("holder-lost") {
        assert!(since.elapsed() < seconds(30), "long before the lease of 90 s ends");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut worker = Client::connect(broker.address).await;
    let registered = worker.ask(&format!("WORKER.REGISTER '{registration}'")).await;
    assert_eq!(registered, Reply::simple("OK worker_id=w heartbeat_interval=30"));
    assert_eq!(worker.ask(r#"JOB.UPDATE j '{"status":"completed"}'"#).await, Reply::OK);
}

#[test]
fn a_worker_is_as_full_as_its_jobs_are_heavy() {
    let mut world = World::new(false);
    register_with(&mut world, 1, r#","max_concurrent_jobs":4"#);
    let submit = |world: &mut World, job: &str, slots: u32| {
        world.ask(99, &format!(r#"JOB.SUBMIT '{{"job_id":"{job}","body":"x","slots":{slots}}}'"#));
    };
    let names = |lines: &[String]| -> Vec<String> {
        let jobs = lines.iter().filter_map(|line| line.strip_prefix("$ "));
        let name = |job: &str| {
            serde_json::from_str::<Value>(job).expect("JSON")["job_id"].as_str().map(str::to_owned)
        };
        jobs.filter_map(name).collect()
    };
    // Jobs that mostly wait occupy no slot.
    for job in ["a", "b", "c"] {
        submit(&mut world, job, 0);
    }
    assert_eq!(names(&world.ask(1, "RPOP queue:ready 3")), ["a", "b", "c"]);
    for job in ["d", "e", "f", "g", "h"] {
        submit(&mut world, job, 1);
    }
    assert_eq!(names(&world.ask(1, "RPOP queue:ready 5")), ["d", "e", "f", "g"]);
    assert_eq!(world.ask(1, "RPOP queue:ready 5"), ["*-1"]);
    for job in ["a", "b", "c", "d", "e", "f", "g"] {
        assert_eq!(world.ask(1, &format!(r#"JOB.UPDATE {job} '{{"status":"completed"}}'"#)), ["+OK"]);
    }
    assert_eq!(names(&world.ask(1, "RPOP queue:ready 5")), ["h"]);
    assert_eq!(world.ask(1, r#"JOB.UPDATE h '{"status":"completed"}'"#), ["+OK"]);
    // A heavy one occupies several.
    submit(&mut world, "i", 3);
    assert_eq!(names(&world.ask(1, "RPOP queue:ready 5")), ["i"]);
    submit(&mut world, "j", 1);
    submit(&mut world, "k", 1);
    assert_eq!(names(&world.ask(1, "RPOP queue:ready 5")), ["j"]);
    assert_eq!(state(&mut world, "k"), is("pending", 0, 0));
}
