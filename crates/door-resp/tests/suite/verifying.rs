//! Putting capabilities to the test: where the question goes, who may take it, and what its asker hears.

use std::time::Duration;

use crate::support::world::World;

fn register(world: &mut World, client: usize, worker: &str, capability: &str) {
    let json = format!(
        r#"{{"worker_id":"{worker}","hostname":"h","agw_version":"1","capabilities":["{capability}"]}}"#
    );
    let answer = world.ask(client, &format!("WORKER.REGISTER '{json}'"));
    assert_eq!(answer, [format!("+OK worker_id={worker} heartbeat_interval=30")]);
}

#[test]
fn a_question_goes_where_the_worker_looks() {
    let mut world = World::new(false);
    register(&mut world, 1, "w", "ocr");
    assert_eq!(world.ask(1, "BRPOP queue:images 1"), [""; 0]);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.heard(1), ["$-1"]);
    assert!(world.ask(2, r#"WORKER.VERIFY ocr '{"command":"ocr"}'"#).is_empty());
    assert_eq!(world.ask(3, "LLEN queue:ready"), [":0"]);
    let question = world.ask(1, "BRPOP queue:images 1");
    assert!(question[0].contains(r#""verify":"ocr""#), "{question:?}");
    assert_eq!(world.ask(1, r#"WORKER.VERIFY ocr '{"output":"fine"}'"#), ["+OK"]);
    assert_eq!(world.heard(2), [r#"+OK output="fine""#]);
    assert_eq!(world.ask(3, "SMEMBERS capability:ocr:workers"), ["*1", "$ w"]);
}

#[test]
fn a_question_reaches_a_pop_that_waits_already() {
    let mut world = World::new(false);
    register(&mut world, 1, "w", "ocr");
    assert!(world.ask(1, "BRPOP queue:images 0").is_empty());
    for client in [2, 3] {
        assert!(world.ask(client, r#"WORKER.VERIFY ocr '{"command":"ocr"}'"#).is_empty());
    }
    for client in [2, 3] {
        let question = world.heard(1);
        assert!(question[0].contains(r#""verify":"ocr""#), "{question:?}");
        assert_eq!(world.ask(1, r#"WORKER.VERIFY ocr '{"output":"fine"}'"#), ["+OK"]);
        assert_eq!(world.heard(client), [r#"+OK output="fine""#]);
        world.send(1, &crate::support::transcript::as_array("BRPOP queue:images 0"));
    }
}

#[test]
fn no_answer_takes_the_capability_away() {
    let mut world = World::new(false);
    register(&mut world, 1, "w", "ocr");
    world.ask(2, r#"WORKER.VERIFY ocr '{"command":"ocr"}'"#);
    world.pass(Duration::from_secs(61));
    assert_eq!(world.heard(2), ["-ERR Capability ocr not verified: w"]);
    assert_eq!(world.ask(3, "SMEMBERS capability:ocr:workers"), ["*0"]);
}

#[test]
fn a_question_for_one_worker_says_what_is_wrong_with_it() {
    let mut world = World::new(false);
    register(&mut world, 1, "w", "ocr");
    register(&mut world, 2, "v", "sort");
    let ask = |worker: &str| format!(r#"WORKER.VERIFY ocr '{{"command":"ocr","worker_id":"{worker}"}}'"#);
    assert_eq!(world.ask(3, &ask("absent")), ["-ERR Worker not registered: absent"]);
    assert_eq!(world.ask(3, &ask("v")), ["-ERR Worker v does not offer ocr"]);
    assert_eq!(world.ask(3, r#"WORKER.VERIFY jq '{"command":"jq"}'"#), ["-ERR No worker offers jq"]);
}
