//! Commands that come in one write: which of them are decided together, and that each is answered in its place.

use std::time::Duration;

use crate::support::world::World;
use serde_json::Value;

fn register(world: &mut World, slots: u32) {
    let worker = format!(
        r#"{{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":[],"max_concurrent_jobs":{slots}}}"#
    );
    let answer = world.ask(1, &format!("WORKER.REGISTER '{worker}'"));
    assert_eq!(answer, ["+OK worker_id=w heartbeat_interval=30"]);
}

fn push(world: &mut World, queue: &str, jobs: &[&str]) {
    for job in jobs {
        let answer = world.ask(2, &format!(r#"LPUSH queue:{queue} '{{"job_id":"{job}"}}'"#));
        assert!(answer[0].starts_with(':'), "{answer:?}");
    }
}

fn status(world: &mut World, job: &str) -> Value {
    let lines = world.ask(2, &format!("JOB.STATUS {job}"));
    serde_json::from_str(&lines[0][2..]).expect("JSON")
}

/// The id of a job that was popped whole.
fn id(line: &str) -> String {
    let job: Value = serde_json::from_str(&line[2..]).expect("JSON");
    job["job_id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_report_and_the_next_pop_share_a_sync() {
    let mut world = World::new(false);
    register(&mut world, 1);
    push(&mut world, "ready", &["j", "k"]);
    assert_eq!(id(&world.ask(1, "BRPOP queue:ready 5")[0]), "j");
    let done = r#"JOB.UPDATE j '{"status":"completed","result":"r"}'"#;
    let (lines, syncs) = world.ask_together(1, &[done, "BRPOP queue:ready 5"]);
    assert_eq!((lines[0].as_str(), id(&lines[1]).as_str()), ("+OK", "k"));
    assert_eq!((lines.len(), syncs), (2, 1));
    assert_eq!(status(&mut world, "j")["status"], "completed");
    assert_eq!(status(&mut world, "k")["attempt"], 1, "it was handed out once");
}

#[test]
fn many_are_taken_at_once_and_reported_at_once() {
    let mut world = World::new(false);
    register(&mut world, 10);
    let jobs: Vec<String> = (0..10).map(|number| format!("j{number}")).collect();
    push(&mut world, "ready", &jobs.iter().map(String::as_str).collect::<Vec<_>>());
    push(&mut world, "ready", &["next", "later"]);
    let (lines, syncs) = world.ask_together(1, &["RPOP queue:ready 10"]);
    assert_eq!((lines[0].as_str(), syncs), ("*10", 1));
    assert_eq!(lines[1..].iter().map(|line| id(line)).collect::<Vec<_>>(), jobs);

    let mut reports: Vec<String> =
        jobs.iter().map(|job| format!(r#"JOB.UPDATE {job} '{{"status":"completed"}}'"#)).collect();
    reports.insert(5, r#"JOB.UPDATE absent '{"status":"completed"}'"#.to_owned());
    reports.push("RPOP queue:ready 10".to_owned());
    let (lines, syncs) = world.ask_together(1, &reports.iter().map(String::as_str).collect::<Vec<_>>());
    let mut expected = vec!["+OK"; 10];
    expected.insert(5, "-ERR Job not found: absent");
    assert_eq!(lines[..11], expected, "each in its place");
    assert_eq!((lines[11].as_str(), id(&lines[12]).as_str(), syncs), ("*2", "next", 1));
    assert!(jobs.iter().all(|job| status(&mut world, job)["status"] == "completed"));
}

#[test]
fn the_old_way_of_reporting_goes_together_too() {
    let mut world = World::new(false);
    push(&mut world, "ready", &["j"]);
    world.ask(1, "BRPOPLPUSH queue:ready queue:processing 5");
    world.ask(1, "GET job:j");
    let report = ["SET job:j:stdout out", "SET job:j:stderr err", "SET job:j:status completed"];
    let then = ["LREM queue:processing 1 j", "RPOPLPUSH queue:ready queue:processing"];
    let (lines, syncs) = world.ask_together(1, &[&report[..], &then[..]].concat());
    assert_eq!(lines, ["+OK", "+OK", "+OK", ":1", "$-1"]);
    assert_eq!(syncs, 1);
    assert_eq!(status(&mut world, "j")["stdout"], "out");
}

#[test]
fn no_task_exceeds_the_slots_and_every_assignment_is_delivered() {
    let mut world = World::new(false);
    register(&mut world, 2);
    push(&mut world, "ready", &["a", "b", "c", "d"]);
    let lines = world.ask(1, "RPOP queue:ready 100");
    assert_eq!((lines[0].as_str(), id(&lines[1]).as_str(), id(&lines[2]).as_str()), ("*2", "a", "b"));
    assert_eq!(world.ask(2, "LLEN queue:ready"), [":2"]);
    for (job, attempt) in [("a", 1), ("b", 1), ("c", 0), ("d", 0)] {
        assert_eq!(status(&mut world, job)["attempt"], attempt, "{job}");
    }
    assert_eq!(world.ask(1, "RPOP queue:ready 3"), ["*-1"], "no slot is free");
    assert_eq!(world.ask(1, "RPOP queue:ready 0"), ["*0"]);
    world.ask(1, r#"JOB.UPDATE a '{"status":"completed"}'"#);
    assert_eq!(id(&world.ask(1, "RPOP queue:ready 1")[1]), "c");
}

#[test]
fn pops_in_one_write_take_in_order_and_from_their_own_queue() {
    let mut world = World::new(false);
    push(&mut world, "a", &["a1", "a2", "a3"]);
    push(&mut world, "b", &["b1"]);
    let pops = ["RPOP queue:a", "RPOP queue:b", "RPOP queue:b", "RPOP queue:a", "BRPOP queue:b queue:c 5"];
    world.ask(1, "RPOP queue:none");
    let (lines, syncs) = world.ask_together(1, &pops);
    assert_eq!([id(&lines[0]), id(&lines[1]), id(&lines[3])], ["a1", "b1", "a2"]);
    assert_eq!((lines[2].as_str(), lines.len(), syncs), ("$-1", 4, 1));
    assert_eq!(world.ask(2, "LLEN queue:a"), [":1"]);
    assert_eq!(status(&mut world, "a3")["attempt"], 0, "it was never handed out");
    push(&mut world, "c", &["c1"]);
    let lines = world.heard(1);
    assert_eq!(
        (lines[1].as_str(), id(&lines[2]).as_str()),
        ("$ queue:c", "c1"),
        "the last pop waited for it"
    );
}

#[test]
fn whatever_comes_after_reports_sees_them() {
    let mut world = World::new(false);
    push(&mut world, "ready", &["j"]);
    world.ask(1, "BRPOP queue:ready 5");
    let done = r#"JOB.UPDATE j '{"status":"completed"}'"#;
    let (lines, _) = world.ask_together(1, &[done, "GET job:j:status", "LPUSH queue:ready x", "PING"]);
    assert_eq!(lines, ["+OK", "$ completed", ":1", "+PONG"]);
}

#[test]
fn a_pop_that_blocks_keeps_what_follows_waiting() {
    let mut world = World::new(false);
    register(&mut world, 5);
    push(&mut world, "ready", &["j"]);
    world.ask(1, "BRPOP queue:ready 5");
    let done = r#"JOB.UPDATE j '{"status":"completed"}'"#;
    let (lines, _) = world.ask_together(1, &[done, "BRPOP queue:ready 5", "PING", "BRPOP queue:ready 3"]);
    assert_eq!(lines, ["+OK"], "the report does not wait for the pop");
    push(&mut world, "ready", &["k"]);
    let lines = world.heard(1);
    assert_eq!((lines.len(), id(&lines[0]).as_str(), lines[1].as_str()), (2, "k", "+PONG"));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.heard(1), ["$-1"]);
}

#[test]
fn of_many_short_commands_none_is_left_lying() {
    let mut world = World::new(false);
    let many = "PING\r\n".repeat(5_000);
    world.send(1, many.as_bytes());
    assert_eq!(world.heard(1).len(), 5_000);
}
