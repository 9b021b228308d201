//! MULTI, EXEC and DISCARD: all or nothing is run, in order, and the answers are one array.

use crate::support::world::World;

const WORKER: &str =
    r#"WORKER.REGISTER '{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":[]}'"#;

fn ask_all(world: &mut World, client: usize, commands: &[&str]) -> Vec<String> {
    world.ask_together(client, commands).0
}

#[test]
fn queued_commands_run_with_exec_and_are_answered_in_one_array() {
    let mut world = World::new(false);
    assert_eq!(world.ask(1, "MULTI"), ["+OK"]);
    assert_eq!(world.ask(1, "LPUSH queue:q a"), ["+QUEUED"]);
    assert_eq!(world.ask(1, "LLEN queue:q"), ["+QUEUED"]);
    assert_eq!(world.ask(2, "LLEN queue:q"), [":0"], "nothing has happened yet");
    assert_eq!(world.ask(1, "EXEC"), ["*2", ":1", ":1"]);
    assert_eq!(world.ask(1, "PING"), ["+PONG"]);
    let empty = ask_all(&mut world, 1, &["MULTI", "EXEC", "ECHO after"]);
    assert_eq!(empty, ["+OK", "*0", "$ after"]);
}

#[test]
fn a_pipelined_transaction_keeps_its_place() {
    let mut world = World::new(false);
    let commands =
        ["LPUSH queue:q a", "MULTI", "LPUSH queue:q b c", "JOB.CANCEL absent", "EXEC", "LLEN queue:q"];
    let answers = ask_all(&mut world, 1, &commands);
    let expected = [":1", "+OK", "+QUEUED", "+QUEUED", "*2", ":3", "-ERR Job not found: absent", ":3"];
    assert_eq!(answers, expected, "a refusal while it runs does not undo the rest");
}

#[test]
fn after_a_refusal_nothing_runs() {
    let mut world = World::new(false);
    for refused in ["NOSUCH x", "LPUSH queue:q", "SUBSCRIBE news", "HELLO 3", "MULTI"] {
        assert_eq!(world.ask(1, "MULTI"), ["+OK"]);
        assert_eq!(world.ask(1, "LPUSH queue:q a"), ["+QUEUED"]);
        assert!(world.ask(1, refused)[0].starts_with("-ERR"), "{refused}");
        if refused == "MULTI" {
            assert_eq!(world.ask(1, "DISCARD"), ["+OK"]);
        } else {
            assert_eq!(world.ask(1, "LPUSH queue:q b"), ["+QUEUED"]);
            assert!(world.ask(1, "EXEC")[0].starts_with("-EXECABORT"), "{refused}");
        }
        assert_eq!(world.ask(1, "LLEN queue:q"), [":0"], "{refused}");
    }
}

#[test]
fn what_is_discarded_does_not_run_and_there_is_nothing_to_run_without_multi() {
    let mut world = World::new(false);
    let answers = ask_all(&mut world, 1, &["MULTI", "LPUSH queue:q a", "DISCARD", "LLEN queue:q"]);
    assert_eq!(answers, ["+OK", "+QUEUED", "+OK", ":0"]);
    assert_eq!(world.ask(1, "EXEC"), ["-ERR EXEC without MULTI"]);
    assert_eq!(world.ask(1, "DISCARD"), ["-ERR DISCARD without MULTI"]);
    let answers = ask_all(&mut world, 1, &["MULTI", "LPUSH queue:q a", "RESET", "EXEC"]);
    assert_eq!(answers, ["+OK", "+QUEUED", "+RESET", "-ERR EXEC without MULTI"]);
}

#[test]
fn commands_in_a_transaction_do_not_wait_and_a_worker_may_report_and_pop() {
    let mut world = World::new(false);
    assert!(world.ask(1, WORKER)[0].starts_with("+OK"));
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    let answers = ask_all(&mut world, 1, &["MULTI", "RPOPLPUSH queue:ready queue:processing", "EXEC"]);
    assert_eq!(answers[2..], ["*1", "$ j"]);
    let done = r#"JOB.UPDATE j '{"status":"completed"}'"#;
    let pop = "BRPOP queue:ready 0";
    let read = "XREAD BLOCK 0 STREAMS events $";
    let answers = ask_all(&mut world, 1, &["MULTI", done, pop, read, "EXEC", "PING"]);
    assert_eq!(answers[4..], ["*3", "+OK", "$-1", "*-1", "+PONG"]);
}

#[test]
fn news_does_not_stand_among_the_answers() {
    let mut world = World::new(false);
    world.ask(1, "HELLO 3");
    world.ask(1, "SUBSCRIBE job:updates");
    let answers = ask_all(&mut world, 1, &["MULTI", "LPUSH queue:q a", "LLEN queue:q", "EXEC"]);
    let array = answers.iter().position(|line| line == "*2").expect("an array");
    assert_eq!(answers[array + 1..array + 3], [":1", ":1"], "{answers:?}");
}
