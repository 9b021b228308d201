//! What a key with few rights may do here: what it may not is refused by name, and a worker reads what it holds.

use crate::support::world::World;

/// Opens a connection with the key whose digits these are.
fn key(world: &mut World, client: usize, digit: char) {
    let digits: String = std::iter::repeat_n(digit, 64).collect();
    assert_eq!(world.ask(client, &format!("AUTH {digits}")), ["+OK"]);
}

fn refused(world: &mut World, client: usize, words: &str) {
    let answer = world.ask(client, words);
    assert!(answer.len() == 1 && answer[0].starts_with("-NOPERM "), "{words}: {answer:?}");
}

const SUBMITTER: usize = 4;
const READER: usize = 5;
const WORKER: usize = 6;

fn world() -> World {
    let mut world = World::new(true);
    key(&mut world, SUBMITTER, '4');
    key(&mut world, READER, '5');
    key(&mut world, WORKER, '6');
    assert_eq!(world.ask(SUBMITTER, "LPUSH queue:a '{\"job_id\":\"j\"}' '{\"job_id\":\"k\"}'"), [":2"]);
    world
}

#[test]
fn submitting_does_not_let_read_or_work() {
    let mut world = world();
    for words in [
        "GET job:j",
        "JOB.GET j",
        "JOB.STATUS j",
        "GET job:j:result",
        "MGET job:j job:k",
        "LRANGE queue:a 0 -1",
        "LLEN queue:a",
        "QUEUE.PEEK a",
        "JOBS.LIST",
        "WORKERS.LIST",
        "KEYS *",
        "XREAD STREAMS events 0",
        "SUBSCRIBE job:updates",
        "PSUBSCRIBE task.*",
        "BRPOP queue:a 1",
        "JOB.UPDATE j '{\"status\":\"completed\"}'",
        "WORKER.VERIFY sort '{\"command\":\"sort\"}'",
    ] {
        refused(&mut world, SUBMITTER, words);
    }
    assert_eq!(world.ask(SUBMITTER, "JOB.CANCEL k"), ["+OK job cancelled"]);
}

#[test]
fn reading_changes_nothing() {
    let mut world = world();
    assert!(world.ask(READER, "JOB.GET j")[0].contains("\"job_id\":\"j\""));
    for words in [
        "LPUSH queue:a x",
        "JOB.CANCEL j",
        "RPOP queue:a",
        "SET job:j:status completed",
        "PUBLISH news x",
        "PLAN.DELETE p",
    ] {
        refused(&mut world, READER, words);
    }
}

#[test]
fn a_worker_reads_what_it_holds_and_nothing_else() {
    let mut world = world();
    let register =
        r#"WORKER.REGISTER '{"worker_id":"worker-006","hostname":"h","agw_version":"1","capabilities":[]}'"#;
    assert_eq!(world.ask(WORKER, register), ["+OK worker_id=worker-006 heartbeat_interval=30"]);
    refused(&mut world, WORKER, "JOB.GET j");
    let job = world.ask(WORKER, "RPOP queue:a");
    assert!(job[0].contains("\"job_id\":\"j\""), "{job:?}");
    for words in ["JOB.GET j", "JOB.STATUS j", "GET job:j"] {
        assert!(world.ask(WORKER, words)[0].contains("\"job_id\":\"j\""), "{words}");
    }
    assert_eq!(world.ask(WORKER, "GET job:j:status"), ["$ running"]);
    assert_eq!(world.ask(WORKER, "GET plan:p"), ["$-1"]);
    assert!(world.ask(WORKER, "GET worker:worker-006:metadata")[0].contains("worker-006"));
    for words in
        ["JOB.GET k", "GET job:k", "HGETALL job:k", "GET worker:w:metadata", "KEYS *", "LPUSH queue:a x"]
    {
        refused(&mut world, WORKER, words);
    }
    refused(&mut world, WORKER, "WORKER.VERIFY sort '{\"command\":\"sort\"}'");
    assert_eq!(world.ask(WORKER, "JOB.UPDATE j '{\"status\":\"completed\"}'"), ["+OK"]);
    refused(&mut world, WORKER, "JOB.GET j");
}
