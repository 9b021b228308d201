//! Pushed messages in RESP3, and the reply to the publisher of a channel.

use crate::support::world::World;

#[test]
fn after_hello_3_news_are_pushes_and_commands_go_on() {
    let mut world = World::new(false);
    world.ask(1, "HELLO 3");
    assert_eq!(world.ask(1, "SUBSCRIBE job:updates"), [">3", "$ subscribe", "$ job:updates", ":1"]);
    assert_eq!(world.ask(1, "PSUBSCRIBE job:*"), [">3", "$ psubscribe", "$ job:*", ":2"]);
    world.ask(2, r#"LPUSH queue:a '{"job_id":"j"}'"#);
    let heard = world.heard(1);
    assert_eq!((&*heard[0], &*heard[1], &*heard[2]), (">3", "$ message", "$ job:updates"), "{heard:?}");
    assert_eq!((&*heard[4], &*heard[5], &*heard[6]), (">4", "$ pmessage", "$ job:*"), "{heard:?}");
    assert_eq!(world.ask(1, "GET job:j:status"), ["$ pending"], "replies and pushed messages differ");
    assert_eq!(world.ask(1, "UNSUBSCRIBE job:updates"), [">3", "$ unsubscribe", "$ job:updates", ":1"]);
    assert_eq!(world.ask(1, "PUNSUBSCRIBE"), [">3", "$ punsubscribe", "$ job:*", ":0"]);
    world.ask(2, "JOB.CANCEL j");
    assert!(world.heard(1).is_empty());
}

#[test]
fn a_worker_that_speaks_resp3_learns_what_is_wanted_of_its_job() {
    let mut world = World::new(false);
    world.ask(1, "HELLO 3");
    world.ask(1, "PING agw");
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "BRPOPLPUSH queue:ready queue:processing 1");
    world.ask(1, "GET job:j");
    world.ask(2, "JOB.CANCEL j");
    assert_eq!(world.heard(1), [">3", "$ wanted", "$ j", "$ cancel"]);
}

#[test]
fn a_job_can_be_followed_before_it_is_submitted() {
    let mut world = World::new(false);
    world.ask(1, "SUBSCRIBE job:later");
    world.ask(1, "SUBSCRIBE job:never");
    world.ask(2, r#"LPUSH queue:a '{"job_id":"other"}'"#);
    assert!(world.heard(1).is_empty());
    world.ask(2, r#"LPUSH queue:a '{"job_id":"later"}'"#);
    let heard = world.heard(1);
    assert_eq!((&*heard[1], &*heard[2]), ("$ message", "$ job:later"), "{heard:?}");
    assert!(
        heard[3].contains(r#""event":"submitted""#) && heard[3].contains(r#""job_id":"later""#),
        "{heard:?}"
    );
    assert_eq!(heard.len(), 4, "{heard:?}");
    world.ask(2, "JOB.PAUSE later");
    assert!(world.heard(1)[3].contains(r#""event":"paused""#));
    world.ask(1, "UNSUBSCRIBE");
    world.ask(2, r#"LPUSH queue:a '{"job_id":"never"}'"#);
    assert!(world.heard(1).is_empty());
}

#[test]
fn the_jobs_that_a_connection_waits_for_are_limited() {
    let mut world = World::new(false);
    world.ask(1, "HELLO 3");
    for number in 0..64 {
        assert_eq!(world.ask(1, &format!("SUBSCRIBE job:j{number}")).len(), 4);
    }
    let heard = world.ask(1, "SUBSCRIBE job:j64").join(" ");
    assert!(heard.contains("job:j64") && heard.contains("waits for 64 others"), "{heard}");
    world.ask(2, r#"LPUSH queue:a '{"job_id":"j63"}'"#);
    assert!(world.heard(1).join(" ").contains("submitted"));
}

#[test]
fn a_reader_from_beyond_the_end_of_the_log_hears_that_the_log_begins_again() {
    let mut world = World::new(false);
    world.ask(1, r#"LPUSH queue:a '{"job_id":"j1"}'"#);
    let gap = world.ask(1, "XREAD BLOCK 0 STREAMS events 99999-0").join(" ");
    let end = gap.split_whitespace().find_map(|word| word.strip_suffix("-0")).map(str::to_owned);
    let end: u64 = end.expect("an entry with an id").parse().expect("a number");
    assert!(gap.contains("gap") && gap.contains("100000") && end < 100, "{gap}");
    world.ask(1, r#"LPUSH queue:a '{"job_id":"j2"}'"#);
    let next = world.ask(1, &format!("XREAD STREAMS events {end}-0")).join(" ");
    let is_next = next.contains(&format!(" {}-0 ", end + 1)) && next.contains("submitted");
    assert!(is_next && !next.contains("gap"), "{next}");
    // A slice of numbers that are not there yet is empty.
    assert_eq!(world.ask(1, "XRANGE events 99999 +"), ["*0"]);
}

#[test]
fn a_plan_is_no_job_in_the_news_either() {
    let mut world = World::new(false);
    world.ask(1, "SUBSCRIBE job:updates");
    let plan = r#"{"plan_id":"p","plan_description":"d","tasks":[{"task_number":1,"command":"sort"}]}"#;
    assert_eq!(world.ask(2, &format!("PLAN.SUBMIT '{plan}'")), ["$ p"]);
    world.ask(2, "PLAN.DELETE p");
    assert!(world.heard(1).is_empty());
    assert_eq!(world.ask(2, "XREAD STREAMS events 0"), ["*-1"]);
    assert_eq!(world.ask(2, "XRANGE events - +"), ["*0"]);
}
