//! Who speaks: connections without a name, workers that come back after a restart, and those who claim to be others.

use crate::support::world::World;
use serde_json::Value;

fn register(world: &mut World, client: usize, worker: &str) -> Vec<String> {
    let worker = format!(r#"{{"worker_id":"{worker}","hostname":"h","agw_version":"1","capabilities":[]}}"#);
    world.ask(client, &format!("WORKER.REGISTER '{worker}'"))
}

fn push(world: &mut World, job: &str) {
    world.ask(99, &format!(r#"LPUSH queue:ready '{{"job_id":"{job}"}}'"#));
}

fn status(world: &mut World, job: &str) -> Value {
    let lines = world.ask(99, &format!("JOB.STATUS {job}"));
    serde_json::from_str(&lines[0][2..]).expect("JSON")
}

#[test]
fn a_connection_inherits_nothing_from_one_before_the_restart() {
    let mut world = World::new(false);
    push(&mut world, "j");
    world.ask(20, "BRPOP queue:ready 5");
    assert_eq!(world.ask(20, r#"JOB.UPDATE j '{"status":"running"}'"#), ["+OK"]);
    let before = world.ask(99, "GET job:j:worker");
    let mut world = world.restart();
    assert_eq!(world.ask(20, "RPOP queue:ready"), ["$-1"]);
    let refused = world.ask(20, r#"JOB.UPDATE j '{"status":"completed"}'"#);
    assert!(refused[0].starts_with("-ERR Worker resp.20."), "{refused:?}");
    assert_eq!(world.ask(99, "GET job:j:worker"), before, "it may still run where it ran");
    let name = before[0].strip_prefix("$ ").expect("a name");
    assert_eq!(register(&mut world, 21, name), ["-ERR Invalid worker ID characters"]);
}

#[test]
fn a_worker_without_a_name_finishes_its_job_before_it_gets_one() {
    let mut world = World::new(false);
    push(&mut world, "j");
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    for refused in [world.ask(1, "SET worker:an:tools sort"), register(&mut world, 1, "an")] {
        assert!(refused[0].starts_with("-ERR This connection holds job "), "{refused:?}");
    }
    assert_eq!(world.ask(1, r#"JOB.UPDATE j '{"status":"completed"}'"#), ["+OK"]);
    assert_eq!(register(&mut world, 1, "an"), ["+OK worker_id=an heartbeat_interval=30"]);
    assert_eq!(status(&mut world, "j")["crashes"], Value::Null);
}

#[test]
fn an_old_worker_finishes_after_a_restart() {
    let finishes: [&[&str]; 3] = [
        &["SET job:j:stdout out", "SET job:j:status completed"],
        &["LREM queue:processing 1 j"],
        &[r#"JOB.UPDATE j '{"status":"completed"}'"#],
    ];
    for finish in finishes {
        let mut world = World::new(false);
        push(&mut world, "j");
        world.ask(1, "PING old");
        world.ask(1, "BRPOPLPUSH queue:ready queue:processing 5");
        world.ask(1, "GET job:j");
        let mut world = world.restart();
        assert_eq!(world.ask(1, "PING old"), ["$ old"]);
        assert_eq!(world.ask(99, "KEYS worker:*:alive"), ["*1", "$ worker:old:alive"]);
        for words in finish {
            let answer = world.ask(1, words);
            assert!(["+OK", ":1"].contains(&answer[0].as_str()), "{words}: {answer:?}");
        }
        let status = status(&mut world, "j");
        assert_eq!((&status["status"], &status["attempt"]), (&"completed".into(), &1.into()), "{status}");
    }
}

#[test]
fn a_report_brings_a_worker_back_whose_key_says_who_it_is() {
    let mut world = World::new(true);
    let auth = format!("AUTH {}", "1".repeat(64));
    world.ask(1, &auth);
    world.ask(99, &format!("AUTH {}", "2".repeat(64)));
    push(&mut world, "j");
    world.ask(1, "BRPOPLPUSH queue:ready queue:processing 5");
    world.ask(1, "GET job:j");
    let mut world = world.restart();
    world.ask(1, &auth);
    world.ask(99, &format!("AUTH {}", "2".repeat(64)));
    assert_eq!(world.ask(1, "SET job:j:status completed"), ["+OK"]);
    assert_eq!(status(&mut world, "j")["status"], "completed");
}

#[test]
fn a_worker_that_registers_is_asked_to_do_so_again_however_it_came_back() {
    let mut world = World::new(false);
    register(&mut world, 1, "w");
    push(&mut world, "j");
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    let mut world = world.restart();
    world.ask(1, "PING w");
    assert_eq!(world.ask(1, "WORKER.HEARTBEAT w"), ["-ERR Worker not registered: w"]);
    assert_eq!(register(&mut world, 2, "w"), ["+OK worker_id=w heartbeat_interval=30"]);
    assert_eq!(world.ask(2, r#"JOB.UPDATE j '{"status":"completed"}'"#), ["+OK"]);
}

#[test]
fn no_peer_reports_for_a_worker_on_another_connection() {
    let mut world = World::new(false);
    register(&mut world, 1, "imp");
    push(&mut world, "j");
    world.ask(1, "BRPOP queue:ready 5");
    world.ask(1, r#"JOB.UPDATE j '{"status":"running"}'"#);
    let forged = r#"JOB.UPDATE j '{"status":"completed","worker_id":"imp","result":"forged"}'"#;
    assert_eq!(world.ask(2, forged), ["-ERR Worker (unregistered) cannot update job claimed by imp"]);
    assert_eq!(status(&mut world, "j")["status"], "running");
    world.close(1);
    assert_eq!(world.ask(3, r#"JOB.UPDATE j '{"status":"completed","worker_id":"imp"}'"#), ["+OK"]);
}

#[test]
fn a_job_that_no_worker_or_another_one_holds_is_not_recalled() {
    let mut world = World::new(false);
    push(&mut world, "j");
    world.ask(1, "PING one");
    world.ask(1, "BRPOPLPUSH queue:ready queue:processing 5");
    world.ask(1, "GET job:j");
    let mut world = world.restart();
    world.ask(2, "PING two");
    assert_eq!(
        world.ask(2, "SET job:j:status completed"),
        ["-ERR Worker two cannot update job claimed by one"]
    );
    let workers = world.ask(99, "WORKERS.LIST");
    assert!(
        workers[1].contains(r#""active_jobs":0"#) && workers[1].contains(r#""worker_id":"two""#),
        "{workers:?}"
    );
    assert!(
        workers[2].contains(r#""active_jobs":1"#) && workers[2].contains(r#""worker_id":"one""#),
        "{workers:?}"
    );
}

#[test]
fn where_there_are_keys_a_report_does_not_say_who_speaks() {
    let mut world = World::new(true);
    for (client, digit) in [(1, "1"), (2, "3"), (99, "3")] {
        assert_eq!(world.ask(client, &format!("AUTH {}", digit.repeat(64))), ["+OK"]);
    }
    push(&mut world, "j");
    world.ask(1, "BRPOPLPUSH queue:ready queue:processing 5");
    world.ask(1, "GET job:j");
    world.close(1);
    let forged = r#"JOB.UPDATE j '{"status":"completed","worker_id":"worker-001"}'"#;
    let refused = world.ask(2, forged);
    assert_eq!(refused, ["-ERR Worker (unregistered) cannot update job claimed by worker-001"]);
}
