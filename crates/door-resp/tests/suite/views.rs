//! Looking at a broker that holds a lot: nothing is left out, nothing is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::peer::command;
use crate::support::world::World;

const JOBS: usize = 2_500;

/// A broker with this many jobs in `queue:a`, named j0 to j2499, j0 the next in line.
fn crowded() -> World {
    let mut world = World::new(false);
    for first in (0..JOBS).step_by(500) {
        let mut words = vec!["LPUSH".to_owned(), "queue:a".to_owned()];
        words.extend((first..first + 500).map(|number| format!(r#"{{"job_id":"j{number}"}}"#)));
        world.send(1, &command(&words));
    }
    world.heard(1);
    world
}

fn ids(lines: &[String]) -> Vec<&str> {
    lines[1..].iter().map(|line| line.strip_prefix("$ ").expect("a bulk string")).collect()
}

fn scan(world: &mut World, cursor: &str, options: &str) -> (String, Vec<String>) {
    let lines = world.ask(2, &format!("SCAN {cursor} {options}"));
    assert_eq!(lines[0], "*2", "{lines:?}");
    let cursor = lines[1].strip_prefix("$ ").expect("a cursor").to_owned();
    (cursor, lines[3..].iter().map(|key| key[2..].to_owned()).collect())
}

#[test]
fn any_range_of_a_long_queue_is_answered() {
    let mut world = crowded();
    assert_eq!(world.ask(2, "LLEN queue:a"), [":2500"]);
    let name = |index: usize| format!("j{}", JOBS - 1 - index);
    let all = world.ask(2, "LRANGE queue:a 0 -1");
    assert_eq!(ids(&all), (0..JOBS).map(name).collect::<Vec<_>>(), "the last pushed stands first");
    for (range, indexes) in
        [("0 2", 0..3), ("1700 1702", 1700..1703), ("-2 -1", 2498..2500), ("2498 9999", 2498..2500)]
    {
        let part = world.ask(2, &format!("LRANGE queue:a {range}"));
        assert_eq!(ids(&part), indexes.map(name).collect::<Vec<_>>(), "{range}");
    }
    assert_eq!(world.ask(2, "LRANGE queue:a 2500 -1"), ["*0"]);
    assert_eq!(world.ask(2, "LRANGE queue:a 5 3"), ["*0"]);
}

#[test]
fn a_scan_goes_on_to_the_end_while_jobs_come_and_go() {
    let mut world = crowded();
    let (mut cursor, mut seen, mut calls) = ("0".to_owned(), BTreeMap::<String, usize>::new(), 0);
    loop {
        let (next, keys) = scan(&mut world, &cursor, "MATCH job:* COUNT 100");
        for key in keys {
            *seen.entry(key).or_default() += 1;
        }
        // One is taken and ends, another comes, at the wrong ends of the table.
        world.ask(3, "BRPOPLPUSH queue:a queue:processing 1");
        world.ask(3, &format!("LREM queue:processing 1 j{calls}"));
        world.ask(1, &format!(r#"LPUSH queue:a '{{"job_id":"new{calls}"}}'"#));
        calls += 1;
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    assert!(calls >= 25, "a slice is as long as was asked for: {calls}");
    for number in calls..JOBS {
        assert_eq!(seen.get(&format!("job:j{number}")), Some(&1), "j{number} was there all the while");
    }
}

#[test]
fn a_scan_tells_of_every_kind_of_key() {
    let mut world = World::new(false);
    world.ask(1, "SET worker:agw:tools sort");
    world.ask(1, r#"PLAN.SUBMIT '{"plan_id":"p","tasks":[{"task_number":1,"command":"sort"}]}'"#);
    world.ask(1, r#"ACTION.SUBMIT '{"action_id":"a","plan_id":"p","inputs":[1]}'"#);
    world.ask(1, r#"LPUSH queue:b '{"job_id":"j"}'"#);
    let all = |world: &mut World, options: &str| {
        let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
        loop {
            let (next, keys) = scan(world, &cursor, options);
            found.extend(keys);
            cursor = next;
            if cursor == "0" {
                return found.into_iter().collect::<Vec<_>>();
            }
        }
    };
    let jobs = all(&mut world, "MATCH job:*");
    assert_eq!(jobs.len(), 2);
    let mut expected: Vec<&str> =
        ["action:a", "capability:sort:workers", "events", "plan:p", "queue:b", "queue:ready"].to_vec();
    expected.extend(["worker:agw:alive", "worker:agw:metadata", "worker:agw:tools"]);
    expected.extend(jobs.iter().map(String::as_str));
    expected.sort_unstable();
    assert_eq!(all(&mut world, "COUNT 1"), expected);
    assert_eq!(ids(&world.ask(1, "KEYS *")), expected, "KEYS knows the same");
    assert_eq!(all(&mut world, "TYPE set"), ["capability:sort:workers"]);
    assert_eq!(all(&mut world, "MATCH nothing:*"), [""; 0]);
    assert_eq!(world.ask(1, "SCAN 99999999999999"), ["*2", "$ 0", "*0"], "beyond the end there is nothing");
}

#[test]
fn an_action_is_forgotten_with_its_jobs() {
    let mut world = World::new(false);
    let week = Duration::from_secs(8 * 24 * 3600);
    world.ask(1, r#"PLAN.SUBMIT '{"plan_id":"p","tasks":[{"task_number":1,"command":"sort"}]}'"#);
    let submit = |world: &mut World, action: &str| {
        let json = format!(r#"{{"action_id":"{action}","plan_id":"p","inputs":[1,2]}}"#);
        world.ask(1, &format!("ACTION.SUBMIT '{json}'"))
    };
    assert!(submit(&mut world, "old")[0].contains(r#""jobs_created":2"#));
    assert!(submit(&mut world, "lives")[0].contains(r#""jobs_created":2"#));
    let jobs = world.ask(1, "JOB.LIST old");
    for job in ids(&jobs) {
        world.ask(1, &format!("JOB.CANCEL {job}"));
    }
    world.pass(Duration::from_secs(3600));
    submit(&mut world, "next");
    assert!(world.ask(1, "ACTION.GET old")[0].contains(r#""cancelled":2"#), "its jobs are still known");
    world.pass(week);
    assert_eq!(world.ask(1, "ACTION.GET old"), ["-ERR Action not found: old"], "its jobs are gone");
    assert_eq!(world.ask(1, "ACTION.STATUS old"), ["$-1"]);
    assert_eq!(world.ask(1, "GET action:old"), ["$-1"]);
    assert_eq!(ids(&world.ask(1, "KEYS action:*")), ["action:lives", "action:next"]);
    submit(&mut world, "later");
    assert_eq!(ids(&world.ask(1, "KEYS action:*")), ["action:later", "action:lives", "action:next"]);
    assert!(world.ask(1, "JOB.LIST old")[0].contains("there is no action of that id"));
    assert_eq!(world.ask(1, "LLEN action:old:jobs"), [":0"]);
    assert!(
        world.ask(1, "ACTION.STATUS lives")[0].contains(r#""pending":2"#),
        "jobs wait as long as they wait"
    );
    for _ in 0..2 {
        assert!(submit(&mut world, "old")[0].contains(r#""jobs_created":2"#), "its name is free as well");
        assert!(submit(&mut world, "old")[0].starts_with("-ERR Action ID already exists"));
        let jobs = world.ask(1, "JOB.LIST old");
        assert_eq!(jobs.len(), 3);
        for job in ids(&jobs) {
            world.ask(1, &format!("JOB.CANCEL {job}"));
        }
        world.pass(week);
    }
}
