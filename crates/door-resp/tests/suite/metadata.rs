//! Metadata that clients keep beside a job or a plan: durable, bounded in time, and never in place of what the broker says.

use std::time::Duration;

use crate::support::world::World;

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn metadata_of_a_job_outlives_the_broker_and_ends_after_thirty_days() {
    let mut world = World::new(false);
    world.ask(1, r#"LPUSH queue:a '{"job_id":"j"}'"#);
    assert_eq!(world.ask(1, "HSET job:j owner ada status made-up"), [":2"]);
    assert_eq!(world.ask(1, "HINCRBY job:j views 2"), [":2"]);
    let mut world = world.restart();
    assert_eq!(world.ask(1, "HGET job:j owner"), ["$ ada"]);
    assert_eq!(world.ask(1, "HGET job:j status"), ["$ pending"], "the broker has the word");
    assert_eq!(world.ask(1, "HMGET job:j owner status nothing"), ["*3", "$ ada", "$ pending", "$-1"]);
    let all = world.ask(1, "HGETALL job:j");
    for field in ["$ owner", "$ views", "$ status", "$ job_id"] {
        assert_eq!(all.iter().filter(|line| *line == field).count(), 1, "{field}: {all:?}");
    }
    assert!(!all.contains(&"$ made-up".to_owned()), "{all:?}");
    assert_eq!(world.ask(1, "HDEL job:j owner job_id"), [":1"], "what the broker says cannot be deleted");
    assert_eq!(world.ask(1, "HEXISTS job:j owner"), [":0"]);
    assert_eq!(world.ask(1, "HEXISTS job:j job_id"), [":1"]);
    world.pass(29 * DAY);
    assert_eq!(world.ask(1, "HGET job:j views"), ["$ 2"]);
    world.pass(2 * DAY);
    assert_eq!(world.ask(1, "HGET job:j views"), ["$-1"]);
}

#[test]
fn metadata_needs_no_job_and_is_a_hash_like_any_other() {
    let mut world = World::new(false);
    assert_eq!(world.ask(1, "HSET job:123 status pending created_at 1234567890"), [":2"]);
    assert_eq!(world.ask(1, "HSET job:123 status running"), [":0"]);
    assert_eq!(world.ask(1, "HGET job:123 status"), ["$ running"]);
    assert_eq!(world.ask(1, "HLEN job:123"), [":2"]);
    assert_eq!(world.ask(1, "HKEYS job:123"), ["*2", "$ created_at", "$ status"]);
    assert_eq!(world.ask(1, "HVALS job:123"), ["*2", "$ 1234567890", "$ running"]);
    assert_eq!(world.ask(1, "HSCAN job:123 0 MATCH s*"), ["*2", "$ 0", "*2", "$ status", "$ running"]);
    assert_eq!(world.ask(1, "TYPE job:123"), ["+hash"]);
    assert_eq!(world.ask(1, "TTL job:123"), [":2592000"]);
    assert_eq!(world.ask(1, "EXPIRE job:123 60"), [":1"]);
    assert_eq!(world.ask(1, "TTL job:123"), [":60"]);
    assert_eq!(world.ask(1, "PERSIST job:123"), [":1"]);
    assert_eq!(world.ask(1, "KEYS job:*"), ["*1", "$ job:123"]);
    assert_eq!(world.ask(1, "EXISTS job:123 job:other"), [":1"]);
    assert_eq!(world.ask(1, "JOB.GET 123"), ["-ERR Job not found: 123"], "it is no job");
    assert_eq!(world.ask(1, "DEL job:123"), [":1"]);
    assert_eq!(world.ask(1, "HGETALL job:123"), ["*0"]);
    assert_eq!(world.ask(1, "TYPE job:123"), ["+none"]);
}

#[test]
fn a_job_with_metadata_is_listed_once() {
    let mut world = World::new(false);
    world.ask(1, r#"LPUSH queue:a '{"job_id":"j"}'"#);
    world.ask(1, "HSET job:j owner ada");
    world.ask(1, "HSET job:k owner ada");
    let mut keys = world.ask(1, "KEYS job:*");
    keys.sort();
    assert_eq!(keys, ["$ job:j", "$ job:k", "*2"]);
}

#[test]
fn metadata_of_a_plan_goes_with_the_plan() {
    let mut world = World::new(false);
    let plan = r#"{"plan_id":"p","tasks":[{"task_number":1,"command":"ls"}]}"#;
    assert_eq!(world.ask(1, &format!("HSET plan:p json '{plan}'")), [":1"], "this stores the plan itself");
    assert_eq!(world.ask(1, "PLAN.LIST")[0], "*1");
    assert_eq!(
        world.ask(1, &format!("HSET plan:other json '{plan}'")),
        ["-ERR the plan_id in the plan is not the one in the key"]
    );
    assert_eq!(world.ask(1, "HSET plan:p team maths"), [":1"]);
    assert_eq!(world.ask(1, "HGET plan:p plan_id"), ["$ p"]);
    let mut world = world.restart();
    world.pass(100 * DAY);
    assert_eq!(world.ask(1, "HGET plan:p team"), ["$ maths"]);
    assert_eq!(world.ask(1, "PLAN.DELETE p"), [":1"]);
    assert_eq!(world.ask(1, "HGETALL plan:p"), ["*0"]);
}

#[test]
fn one_command_reads_and_deletes_views_and_stored_keys_together() {
    let mut world = World::new(false);
    world.ask(1, r#"LPUSH queue:a '{"job_id":"j"}'"#);
    world.ask(1, "SET mine 1");
    world.ask(1, "RPUSH list x");
    world.ask(1, "HSET job:j owner ada");
    assert_eq!(
        world.ask(1, "MGET mine job:j:status list nothing job:k:status"),
        ["*5", "$ 1", "$ pending", "$-1", "$-1", "$-1"]
    );
    assert_eq!(world.ask(1, "EXISTS mine job:j queue:a nothing list mine"), [":5"]);
    assert_eq!(world.ask(1, "DEL mine job:j queue:a nothing list"), [":3"]);
    assert_eq!(world.ask(1, "GET job:j:status"), ["$ pending"], "the job stays");
    assert_eq!(world.ask(1, "HGET job:j owner"), ["$-1"]);
    assert_eq!(
        world.ask(1, "DEL queue:a worker:w:alive"),
        ["-ERR jobs are cancelled with JOB.CANCEL and forgotten in time"]
    );
}

#[test]
fn rights_hold_for_metadata() {
    let mut world = World::new(true);
    let login = |world: &mut World, client: usize, digit: &str| {
        assert_eq!(world.ask(client, &format!("AUTH {}", digit.repeat(64))), ["+OK"]);
    };
    for (client, digit) in [(1, "4"), (2, "5"), (3, "6")] {
        login(&mut world, client, digit);
    }
    assert_eq!(world.ask(1, "HSET job:j owner ada"), [":1"], "submit writes");
    assert!(world.ask(1, "HGET job:j owner")[0].starts_with("-NOPERM"), "submit alone reads no jobs");
    assert_eq!(world.ask(2, "HGET job:j owner"), ["$ ada"], "read reads");
    assert!(world.ask(2, "HSET job:j owner eve")[0].starts_with("-NOPERM"), "read does not write");
    assert_eq!(world.ask(3, "HSET job:j progress half"), [":1"], "work writes");
}

#[test]
fn an_action_finds_a_capability_by_its_description() {
    let mut world = World::new(false);
    world.ask(
        1,
        r#"WORKER.REGISTER '{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":{"tools":["ls"],"agentic_units":[{"name":"agx-ocr","version":"1","description":"Reads scanned pages","inputs":[],"outputs":[]}]}}'"#,
    );
    world.ask(2, r#"PLAN.SUBMIT '{"plan_id":"p","tasks":[{"task_number":1,"command":"ls"}]}'"#);
    let action = |words: &str| {
        format!(
            r#"ACTION.SUBMIT '{{"action_id":"a","plan_id":"p","inputs":[1,2],"needs_described":"{words}"}}'"#
        )
    };
    assert_eq!(
        world.ask(2, &action("forecast the weather")),
        ["-ERR No capability matches needs_described; see CAPABILITY.SEARCH"]
    );
    assert!(world.ask(2, &action("a scanned page"))[0].contains(r#""jobs_created":2"#));
    let job = world.ask(2, "JOB.LIST a")[1][2..].to_owned();
    let shown = world.ask(2, &format!("JOB.GET {job}"));
    assert!(
        shown[0].contains(r#""needs":["ls","agx-ocr"]"#),
        "the plan's commands are needed as well: {shown:?}"
    );
}
