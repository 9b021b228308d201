//! Stories of workers and jobs on the pure parts of the door, where an hour takes a microsecond.

use std::time::Duration;

use crate::support::world::World;
use serde_json::Value;

const WORKER: &str = r#"{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":["sort"]}"#;

fn world() -> World {
    World::new(false)
}

fn register(world: &mut World, client: usize) {
    let answer = world.ask(client, &format!("WORKER.REGISTER '{WORKER}'"));
    assert_eq!(answer, ["+OK worker_id=w heartbeat_interval=30"]);
}

/// The JSON object of a bulk answer.
fn json(lines: &[String]) -> Value {
    let text = lines.last().expect("an answer").strip_prefix("$ ").expect("a bulk string");
    serde_json::from_str(text).expect("JSON")
}

fn status(world: &mut World, job: &str) -> Value {
    json(&world.ask(99, &format!("JOB.STATUS {job}")))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_client_that_vanished_before_it_read_its_job_gives_it_back() {
    let mut world = world();
    assert!(world.ask(1, "BRPOP queue:a 0").is_empty());
    world.ask(2, r#"LPUSH queue:a '{"job_id":"j"}'"#);
    world.close(1);
    assert_eq!(status(&mut world, "j")["status"], "pending");
    let job = json(&world.ask(3, "BRPOP queue:a 5"));
    assert_eq!((&job["job_id"], &job["attempt"]), (&"j".into(), &2.into()));
    assert_eq!(status(&mut world, "j")["crashes"], Value::Null, "no worker is to blame");
}

#[test]
fn a_plain_client_that_vanished_while_it_worked_has_crashed() {
    let mut world = world();
    world.ask(2, r#"LPUSH queue:a '{"job_id":"j"}'"#);
    world.ask(1, "BRPOP queue:a 0");
    world.pass(seconds(3));
    assert_eq!(status(&mut world, "j")["status"], "running");
    world.close(1);
    let status = status(&mut world, "j");
    assert_eq!((&status["status"], &status["crashes"]), (&"pending".into(), &1.into()));
}

#[test]
fn a_named_worker_keeps_its_jobs_when_its_connection_breaks() {
    let mut world = world();
    register(&mut world, 1);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    assert_eq!(world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#), ["+OK"]);
    world.close(1);
    world.pass(seconds(60));
    register(&mut world, 3);
    assert_eq!(world.ask(3, r#"JOB.UPDATE j '{"status":"completed","attempt":1}'"#), ["+OK"]);
    assert_eq!(status(&mut world, "j")["status"], "completed");
}

#[test]
fn a_worker_that_stays_away_loses_its_jobs_after_ninety_seconds() {
    let mut world = world();
    register(&mut world, 1);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    world.close(1);
    world.pass(seconds(89));
    assert_eq!(status(&mut world, "j")["status"], "running");
    world.pass(seconds(2));
    assert_eq!(status(&mut world, "j")["status"], "pending");
    register(&mut world, 3);
    let refused = world.ask(3, r#"JOB.UPDATE j '{"status":"completed","attempt":1}'"#);
    assert_eq!(refused, ["-ERR Invalid status transition: pending -> completed"]);
    let workers = world.ask(2, "WORKERS.LIST");
    assert!(workers[1].contains(r#""crashes":1"#) && workers[1].contains(r#""flagged":true"#), "{workers:?}");
}

#[test]
fn heartbeats_over_another_connection_keep_a_worker_alive() {
    let mut world = world();
    register(&mut world, 1);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    for _ in 0..10 {
        world.pass(seconds(30));
        assert_eq!(world.ask(3, r#"WORKER.HEARTBEAT w '{"active_jobs":1}'"#), ["+OK"]);
    }
    assert_eq!(world.ask(3, r#"JOB.UPDATE j '{"status":"completed"}'"#), ["+OK"]);
}

#[test]
fn a_broker_restart_is_a_non_event() {
    let mut world = world();
    register(&mut world, 1);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}' '{"job_id":"k"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    let mut world = world.restart();
    assert_eq!(world.ask(1, "WORKER.HEARTBEAT w"), ["-ERR Worker not registered: w"]);
    register(&mut world, 1);
    assert_eq!(world.ask(1, r#"JOB.UPDATE j '{"status":"completed","attempt":1,"result":"r"}'"#), ["+OK"]);
    assert_eq!(world.ask(2, "GET job:j:result"), ["$ r"]);
    assert_eq!(json(&world.ask(1, "BRPOP queue:ready 5"))["job_id"], "k");
}

#[test]
fn a_job_that_runs_longer_than_its_limit_is_taken_away_and_its_worker_flagged() {
    let mut world = world();
    register(&mut world, 1);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j","tasks":[{"task_number":1,"command":"sort"}]}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    for _ in 0..121 {
        world.pass(seconds(30));
        world.ask(1, "WORKER.HEARTBEAT w");
    }
    let status = status(&mut world, "j");
    assert_eq!((&status["status"], &status["crashes"]), (&"failed".into(), &Value::Null), "{status}");
    assert_eq!((&status["failures"], &status["exit_code"]), (&1.into(), &124.into()), "{status}");
    assert_eq!(
        world.ask(1, r#"JOB.UPDATE j '{"status":"completed"}'"#),
        ["-ERR Invalid status transition: failed -> completed"]
    );
    let workers = world.ask(2, "WORKERS.LIST");
    assert!(workers[1].contains(r#""flagged":true"#), "{workers:?}");
}

#[test]
fn a_process_that_is_younger_than_its_claim_has_forgotten_it() {
    let mut world = world();
    register(&mut world, 1);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    world.close(1);
    world.pass(seconds(60));
    register(&mut world, 3);
    assert_eq!(world.ask(3, r#"WORKER.HEARTBEAT w '{"uptime_seconds":3}'"#), ["+OK"]);
    assert_eq!(status(&mut world, "j")["status"], "pending", "it died with the process before");
}

#[test]
fn a_worker_takes_no_more_than_its_slots() {
    let mut world = world();
    register(&mut world, 1);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}' '{"job_id":"k"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    assert!(world.ask(1, "BRPOP queue:ready 0").is_empty(), "its one slot is taken");
    assert_eq!(world.ask(3, "WORKER.HEARTBEAT w"), ["+OK"]);
    assert_eq!(world.ask(3, r#"JOB.UPDATE j '{"status":"completed","worker_id":"w"}'"#), ["+OK"]);
    assert_eq!(json(&world.heard(1))["job_id"], "k", "now it is free");
}

#[test]
fn the_most_urgent_job_goes_first_and_queues_are_tried_in_order() {
    let mut world = world();
    for (job, queue, priority) in [("a", "low", 0), ("b", "low", 9), ("c", "high", 0)] {
        let json = format!(r#"{{"job_id":"{job}","body":"x","queue":"{queue}","priority":{priority}}}"#);
        world.ask(2, &format!("JOB.SUBMIT '{json}'"));
    }
    let mut order = Vec::new();
    for _ in 0..3 {
        let answer = world.ask(1, "BRPOP queue:high queue:low 5");
        order.push(json(&answer)["job_id"].as_str().expect("an id").to_owned());
    }
    assert_eq!(order, ["c", "b", "a"]);
}

#[test]
fn a_scheduled_job_waits_for_its_time() {
    let mut world = world();
    world.ask(2, r#"JOB.SUBMIT '{"job_id":"j","body":"x","delay_secs":60}'"#);
    assert_eq!(world.ask(2, "LRANGE queue:scheduled 0 -1"), ["*1", "$ j"]);
    assert_eq!(status(&mut world, "j")["status"], "scheduled");
    assert!(world.ask(1, "BRPOPLPUSH queue:ready queue:processing 0").is_empty());
    world.pass(seconds(61));
    assert_eq!(world.heard(1), ["$ j"]);
    assert_eq!(world.ask(2, "LLEN queue:processing"), [":1"]);
}

#[test]
fn a_cancel_reaches_the_worker_and_is_confirmed() {
    let mut world = world();
    world.ask(1, "HELLO 3");
    register(&mut world, 1);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    assert_eq!(world.ask(2, "JOB.CANCEL j"), ["+OK cancellation requested"]);
    assert_eq!(world.heard(1), [">3", "$ wanted", "$ j", "$ cancel"]);
    assert_eq!(status(&mut world, "j")["wanted"], "cancel");
    assert_eq!(world.ask(1, r#"JOB.UPDATE j '{"progress_percent":50}'"#), ["+OK wanted=cancel"]);
    assert_eq!(world.ask(1, r#"JOB.UPDATE j '{"status":"cancelled"}'"#), ["+OK"]);
    assert_eq!(status(&mut world, "j")["status"], "cancelled");
}

#[test]
fn a_failure_is_tried_again_as_often_as_its_submitter_said() {
    let mut world = world();
    register(&mut world, 1);
    world.ask(2, r#"JOB.SUBMIT '{"job_id":"j","body":"x","max_retries":1,"retry_delay_secs":10}'"#);
    for expected in ["scheduled", "failed"] {
        world.ask(1, "BRPOP queue:ready 60");
        world.pass(seconds(30));
        world.heard(1);
        let failed = r#"JOB.UPDATE j '{"status":"failed","error":"no such file","exit_code":2}'"#;
        assert_eq!(world.ask(1, failed), ["+OK"]);
        assert_eq!(status(&mut world, "j")["status"], expected);
    }
    let status = status(&mut world, "j");
    assert_eq!((&status["error"], &status["exit_code"]), (&"no such file".into(), &2.into()));
    assert_eq!(world.ask(2, "JOB.RETRY j"), ["+OK job re-queued"]);
}

#[test]
fn a_job_whose_workers_keep_dying_is_dead() {
    let mut world = world();
    world.ask(2, r#"JOB.SUBMIT '{"job_id":"j","body":"x","crash_budget":2}'"#);
    for client in [11, 12] {
        world.ask(client, "BRPOP queue:ready 5");
        world.ask(client, "JOB.GET j");
        world.close(client);
    }
    assert_eq!(status(&mut world, "j")["status"], "dead");
    assert_eq!(world.ask(2, "JOBS.SEARCH dead"), ["*1", "$ j"]);
    assert_eq!(world.ask(2, "JOBS.SEARCH failed"), ["*1", "$ j"]);
}

#[test]
fn the_workers_that_a_connection_pings_for_are_limited() {
    let mut world = world();
    for number in 0..64 {
        assert_eq!(world.ask(1, &format!("PING w-{number}")), [format!("$ w-{number}")]);
    }
    let refused = "-ERR too many worker IDs on one connection, at most 64";
    assert_eq!(world.ask(1, "PING w-64"), [refused]);
    assert_eq!(world.ask(1, "PING w-63"), ["$ w-63"]);
    assert_eq!(world.ask(1, "WORKERS.LIST")[0], "*64");
}

#[test]
fn a_push_that_is_no_job_of_a_plan_may_take_as_long_as_it_likes() {
    let mut world = world();
    world.ask(2, "LPUSH queue:a three-hours");
    let job = json(&world.ask(1, "BRPOP queue:a 5"));
    assert_eq!(job["run_limit_secs"], Value::Null);
    world.pass(seconds(3 * 3600));
    let id = job["job_id"].as_str().expect("an id");
    assert_eq!(world.ask(1, &format!(r#"JOB.UPDATE {id} '{{"status":"completed"}}'"#)), ["+OK"]);
}

#[test]
fn what_follows_a_blocking_command_waits_for_it() {
    let mut world = world();
    world.send(1, b"BRPOP queue:a 10\r\nPING\r\n");
    assert!(world.heard(1).is_empty());
    world.pass(seconds(10));
    assert_eq!(world.heard(1), ["*-1", "+PONG"]);
}

#[test]
fn pipelined_commands_are_answered_in_order_whatever_each_needs() {
    let mut world = world();
    world.send(1, b"LPUSH queue:a x\r\nPING\r\nLLEN queue:a\r\nGET job:nothing\r\nECHO end\r\n");
    assert_eq!(world.heard(1), [":1", "+PONG", ":1", "$-1", "$ end"]);
}

#[test]
fn pushes_that_arrive_together_are_answered_one_by_one() {
    let mut world = world();
    let once = r#"LPUSH queue:a '{"job_id":"once"}'"#;
    let together = ["LPUSH queue:a x y", once, "LPUSH queue:b z", once, "PING", "LPUSH queue:a x"];
    let bytes: Vec<u8> =
        together.iter().flat_map(|line| crate::support::transcript::as_array(line)).collect();
    world.send(1, &bytes);
    assert_eq!(world.heard(1), [":2", ":3", ":1", ":3", "+PONG", ":4"]);
    let long = format!("LPUSH queue:a '{{\"job_id\":\"{}\"}}'", "x".repeat(2000));
    let together = ["LPUSH queue:a x", &*long, "LPUSH queue:a x"];
    let bytes: Vec<u8> =
        together.iter().flat_map(|line| crate::support::transcript::as_array(line)).collect();
    world.send(1, &bytes);
    let heard = world.heard(1);
    assert_eq!((&*heard[0], &*heard[2]), (":5", ":6"), "one that is refused takes no other along");
    assert!(heard[1].starts_with("-ERR"), "{heard:?}");
}

#[test]
fn a_deleted_plan_makes_room_for_another_under_its_id() {
    let mut world = world();
    let plan = |command: &str| {
        format!(r#"PLAN.SUBMIT '{{"plan_id":"p","tasks":[{{"task_number":1,"command":"{command}"}}]}}'"#)
    };
    for command in ["sort", "uniq", "sort"] {
        assert_eq!(world.ask(1, &plan(command)), ["$ p"]);
        assert!(world.ask(1, "PLAN.GET p")[0].contains(command));
        assert_eq!(world.ask(1, "PLAN.LIST")[0], "*1");
        assert_eq!(world.ask(1, "PLAN.DELETE p"), [":1"]);
        assert_eq!(world.ask(1, "PLAN.GET p"), ["-ERR Plan not found: p"]);
    }
}

#[test]
fn plans_and_actions_are_no_jobs() {
    let mut world = world();
    world.ask(1, r#"PLAN.SUBMIT '{"plan_id":"p","tasks":[{"task_number":1,"command":"sort"}]}'"#);
    world.ask(1, r#"ACTION.SUBMIT '{"action_id":"a","plan_id":"p","inputs":[1]}'"#);
    assert_eq!(world.ask(1, "JOB.LIST")[0], "*1");
    assert_eq!(world.ask(1, "KEYS plan:*"), ["*1", "$ plan:p"]);
    assert_eq!(world.ask(1, "KEYS action:*"), ["*1", "$ action:a"]);
    assert!(world.ask(2, "BRPOP queue:resp.plans 1")[0].starts_with("-WRONGTYPE"));
}

#[test]
fn a_job_may_bring_its_plan_along_and_old_workers_find_it() {
    let mut world = world();
    let job = r#"{"job_id":"j","plan_id":"p","tasks":[{"task_number":1,"command":"sort","args":["-r"]}],"input":{"f":1}}"#;
    assert_eq!(world.ask(2, &format!("JOB.SUBMIT '{job}'")), ["$ j"]);
    assert_eq!(world.ask(1, "SET worker:agw:tools sort"), ["+OK"]);
    assert_eq!(world.ask(1, "BRPOPLPUSH queue:ready queue:processing 5"), ["$ j"]);
    let job = json(&world.ask(1, "GET job:j"));
    assert_eq!(
        (&job["plan_id"], &job["input"]["f"], &job["status"]),
        (&"p".into(), &1.into(), &"running".into())
    );
    assert_eq!(json(&world.ask(1, "GET plan:p"))["tasks"][0]["command"], "sort");
    let other = r#"{"plan_id":"p","tasks":[{"task_number":1,"command":"rm"}]}"#;
    assert_eq!(world.ask(2, &format!("JOB.SUBMIT '{other}'")), ["-ERR Plan already exists: p"]);
}

#[test]
fn a_stream_is_followed_without_a_hole() {
    let mut world = world();
    assert!(world.ask(1, "XREAD BLOCK 0 STREAMS events $").is_empty());
    world.ask(2, r#"LPUSH queue:a '{"job_id":"j"}'"#);
    let first = world.heard(1);
    assert!(first.iter().any(|line| line == "$ submitted"), "{first:?}");
    let id = first[5].strip_prefix("$ ").expect("an id").to_owned();
    world.ask(3, "RPOP queue:a");
    let next = world.ask(1, &format!("XREAD STREAMS events {id}"));
    assert!(next.iter().any(|line| line == "$ assigned"), "{next:?}");
    let of_job = world.ask(1, "XREAD STREAMS events:j 0");
    assert!(of_job.iter().any(|line| line == "$ submitted") && of_job.iter().any(|line| line == "$ j"));
    assert_eq!(world.ask(1, "XREAD BLOCK 100 STREAMS events:other $"), [""; 0]);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.heard(1), ["*-1"]);
    let range = world.ask(1, "XRANGE events - + COUNT 1");
    assert!(range.contains(&"$ submitted".to_owned()), "{range:?}");
}

#[test]
fn a_channel_of_one_job_tells_of_that_job_only() {
    let mut world = world();
    world.ask(2, r#"LPUSH queue:a '{"job_id":"j"}' '{"job_id":"k"}'"#);
    assert_eq!(world.ask(1, "SUBSCRIBE job:j").len(), 4);
    world.ask(2, "JOB.CANCEL k");
    assert!(world.heard(1).is_empty());
    world.ask(2, "JOB.CANCEL j");
    let heard = world.heard(1);
    assert_eq!(&heard[1..3], ["$ message", "$ job:j"]);
    assert!(heard[3].contains(r#""job_id":"j""#) && heard[3].contains(r#""event":"cancelled""#), "{heard:?}");
}

#[test]
fn any_garbage_leaves_the_door_standing() {
    let mut world = world();
    let pieces: [&[u8]; 8] = [
        b"*3\r\n$3\r\nSET\r\n",
        b"BRPOP queue:a 1\r\n",
        b"\xff\xfe\r\n",
        b"SUBSCRIBE a\r\n",
        b"HELLO 3\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"XREAD BLOCK 5 STREAMS events $\r\n",
        b"WORKER.REGISTER {}\r\nRESET\r\n",
    ];
    let mut seed = 7_usize;
    for client in 1..400 {
        for _ in 0..6 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            world.send(client, pieces[(seed >> 33) % pieces.len()]);
        }
        if client % 3 == 0 {
            world.close(client);
        }
    }
    world.pass(seconds(100));
    assert_eq!(world.ask(1000, "PING"), ["+PONG"]);
}
