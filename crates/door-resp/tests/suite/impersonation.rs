//! Whose worker an id is: no other key speaks for it.

use std::time::Duration;

use crate::support::world::World;

/// Digits of the keys: 1 is worker-001's, 3 may do everything, 7 and 8 may work, 9 may submit and read.
fn come_in(world: &mut World, client: usize, digit: &str) {
    assert_eq!(world.ask(client, &format!("AUTH {}", digit.repeat(64))), ["+OK"]);
}

fn register(world: &mut World, client: usize, worker: &str) -> Vec<String> {
    let fields = r#""hostname":"h","agw_version":"1","capabilities":["ocr"]"#;
    world.ask(client, &format!(r#"WORKER.REGISTER '{{"worker_id":"{worker}",{fields}}}'"#))
}

/// A worker that runs `j`.
fn busy(world: &mut World, client: usize, digit: &str, worker: &str) {
    come_in(world, client, digit);
    assert_eq!(register(world, client, worker), [format!("+OK worker_id={worker} heartbeat_interval=30")]);
    come_in(world, 90, "9");
    world.ask(90, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(client, "BRPOP queue:ready 5");
    assert_eq!(world.ask(client, r#"JOB.UPDATE j '{"status":"running"}'"#), ["+OK"]);
}

fn status(world: &mut World) -> String {
    world.ask(90, "GET job:j:status").concat()
}

const AS_ANOTHER: [&str; 6] = [
    "WORKER.HEARTBEAT {}",
    "WORKER.UNREGISTER {}",
    "SET worker:{}:tools ocr",
    r#"JOB.UPDATE j '{"status":"completed"}'"#,
    "SET job:j:status completed",
    "LREM queue:processing 1 j",
];

#[test]
fn an_id_with_a_key_of_its_own_is_spoken_for_by_no_other() {
    let mut world = World::new(true);
    busy(&mut world, 1, "1", "worker-001");
    come_in(&mut world, 2, "7");
    assert_eq!(world.ask(2, "PING worker-001"), ["$ worker-001"]);
    assert!(register(&mut world, 2, "worker-001")[0].starts_with('-'));
    for words in AS_ANOTHER {
        let answer = world.ask(2, &words.replace("{}", "worker-001"));
        assert!(answer[0].starts_with('-'), "{words}: {answer:?}");
        assert_eq!(status(&mut world), "$ running", "{words}");
    }
}

#[test]
fn an_id_without_a_key_belongs_to_the_worker_that_registered_it_while_it_may_return() {
    let mut world = World::new(true);
    busy(&mut world, 1, "7", "w");
    come_in(&mut world, 2, "8");
    for is_connected in [true, false] {
        if !is_connected {
            world.close(1);
        }
        assert_eq!(world.ask(2, "PING w"), ["$ w"]);
        assert!(register(&mut world, 2, "w")[0].starts_with('-'), "connected: {is_connected}");
        for words in AS_ANOTHER {
            let answer = world.ask(2, &words.replace("{}", "w"));
            assert!(answer[0].starts_with('-'), "{words}: {answer:?}");
            assert_eq!(status(&mut world), "$ running", "{words}");
        }
    }
    come_in(&mut world, 3, "7");
    assert_eq!(register(&mut world, 3, "w"), ["+OK worker_id=w heartbeat_interval=30"], "the same crew");
    assert_eq!(world.ask(3, "WORKER.UNREGISTER w"), ["+OK"]);
    assert_eq!(register(&mut world, 2, "w"), ["+OK worker_id=w heartbeat_interval=30"], "it is free");
    come_in(&mut world, 7, "3");
    assert_eq!(world.ask(7, "WORKER.UNREGISTER w"), ["+OK"], "a key that manages workers sends any away");
}

#[test]
fn a_ping_without_the_right_to_work_renews_nothing() {
    let mut world = World::new(true);
    busy(&mut world, 1, "7", "w");
    for _ in 0..10 {
        world.pass(Duration::from_secs(10));
        assert_eq!(world.ask(90, "PING w"), ["$ w"]);
    }
    assert_eq!(status(&mut world), "$ pending");
}

#[test]
fn only_who_manages_workers_puts_them_to_the_test() {
    let mut world = World::new(true);
    busy(&mut world, 1, "7", "w");
    come_in(&mut world, 2, "8");
    let ask = r#"WORKER.VERIFY ocr '{"command":"ocr"}'"#;
    assert!(world.ask(2, ask)[0].starts_with("-NOPERM"), "it may only work");
    assert!(world.ask(90, ask)[0].starts_with("-NOPERM"), "it may only submit");
    come_in(&mut world, 3, "3");
    assert!(world.ask(3, ask).is_empty(), "the worker is asked");
}

#[test]
fn a_key_that_may_only_work_does_not_control_the_jobs_of_others() {
    let mut world = World::new(true);
    busy(&mut world, 1, "7", "w");
    world.ask(90, r#"LPUSH queue:ready '{"job_id":"k"}'"#);
    for words in ["JOB.CANCEL k", "JOB.PAUSE k", "JOB.CANCEL j", "JOB.PAUSE j", "LREM queue:ready 1 k"] {
        assert!(world.ask(1, words)[0].starts_with('-'), "{words}");
    }
    assert_eq!(world.ask(90, "MGET job:j:status job:k:status"), ["*2", "$ running", "$ pending"]);
}
