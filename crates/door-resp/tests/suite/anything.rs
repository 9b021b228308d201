//! Whole conversations of any commands with any arguments, noise, hang-ups and passing time: the door answers every one
//! of them in good RESP, keeps its answers short, and stays there for others.

use std::time::Duration;

use crate::support::peer::command;
use crate::support::world::World;
use proptest::prelude::*;
use tenure_door_resp::testing::{Reply, command_names, read_reply};

/// What one act may lead to, for all clients together. The longest words here are a tenth of it.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

#[derive(Clone, Debug)]
enum Act {
    Say { client: usize, words: Vec<Vec<u8>> },
    Send { client: usize, bytes: Vec<u8> },
    Close { client: usize },
    Pass(u64),
}

const WORDS: &[&str] = &[
    "",
    "0",
    "-1",
    "1",
    "5",
    "0.01",
    "18446744073709551615",
    "-9223372036854775808",
    "nan",
    "$",
    "*",
    "job:*",
    "[",
    "queue:a",
    "queue:b",
    "queue:ready",
    "queue:processing",
    "queue:scheduled",
    "queue:resp.plans",
    "events",
    "events:a",
    "events:j",
    "job:j",
    "job:j:status",
    "job:j:stdout",
    "job:j:worker",
    "job:updates",
    "plan:p",
    "action:a",
    "action:a:jobs",
    "worker:w:tools",
    "worker:w:alive",
    "worker:w:metadata",
    "capability:sort:workers",
    "news",
    "w",
    "j",
    "k",
    "p",
    "a",
    "sort",
    "completed",
    "failed",
    "running",
    "pending",
    "COUNT",
    "MATCH",
    "BLOCK",
    "STREAMS",
    "LIMIT",
    "OFFSET",
    "STATUS",
    "LEFT",
    "RIGHT",
    "AUTH",
    "2",
    "3",
    "SETNAME",
    "SETINFO",
    "LIB-NAME",
    r#"{"job_id":"j"}"#,
    r#"{"job_id":"k","plan_id":"p"}"#,
    r#"{"job_id":"j","body":"x","queue":"a","delay_secs":5,"max_retries":2}"#,
    r#"{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":["sort"],"max_concurrent_jobs":2}"#,
    r#"{"status":"completed","result":"r"}"#,
    r#"{"status":"failed","error":"e"}"#,
    r#"{"progress_percent":40,"current_task":2}"#,
    r#"{"plan_id":"p","tasks":[{"task_number":1,"command":"sort"}]}"#,
    r#"{"action_id":"a","plan_id":"p","inputs":[1,2]}"#,
    r#"{"command":"sort","args":[]}"#,
    r#"{"output":"x"}"#,
    r#"{"active_jobs":1,"uptime_seconds":0}"#,
    "[[[[[[[[",
];

fn word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => prop::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (0_usize..100_000).prop_map(|length| vec![b'x'; length]),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let client = 1_usize..4;
    let names: Vec<&str> = command_names().collect();
    let name = prop::sample::select(names).prop_map(|name| name.as_bytes().to_vec());
    let words = (name, prop::collection::vec(word(), 0..6)).prop_map(|(name, mut words)| {
        words.insert(0, name);
        words
    });
    prop_oneof![
        30 => (client.clone(), words).prop_map(|(client, words)| Act::Say { client, words }),
        2 => (client.clone(), prop::collection::vec(any::<u8>(), 0..60))
            .prop_map(|(client, bytes)| Act::Send { client, bytes }),
        2 => client.prop_map(|client| Act::Close { client }),
        2 => (0_u64..120).prop_map(Act::Pass),
    ]
}

/// Decodes everything that a client received; it must consist of whole replies.
fn drain(world: &mut World, client: usize) -> Result<usize, TestCaseError> {
    let wire = std::mem::take(world.wire(client));
    let mut rest = &wire[..];
    while !rest.is_empty() {
        let read = read_reply(rest).map_err(|error| TestCaseError::fail(format!("not RESP: {error}")))?;
        let Some((_, length)) = read else { return Err(TestCaseError::fail("half a reply")) };
        rest = &rest[length..];
    }
    Ok(wire.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_conversation_leaves_the_door_standing(acts in prop::collection::vec(act(), 1..40)) {
        let mut world = World::new(false);
        for act in acts {
            match act {
                Act::Say { client, words } => world.send(client, &command(&words)),
                Act::Send { client, bytes } => world.send(client, &bytes),
                Act::Close { client } => world.close(client),
                Act::Pass(seconds) => world.pass(Duration::from_secs(seconds)),
            }
            let mut answered = 0;
            for client in world.clients() {
                answered += drain(&mut world, client)?;
                if world.is_closed(client) {
                    world.close(client);
                }
            }
            prop_assert!(answered <= ANSWER_BYTES_MAX, "{answered} bytes for one act");
        }
        prop_assert_eq!(world.ask(99, "PING"), ["+PONG"]);
        let pushed = world.ask(99, "LPUSH queue:fresh x");
        prop_assert_eq!(pushed, [":1"]);
        let popped = world.ask(99, "RPOPLPUSH queue:fresh queue:processing");
        prop_assert!(popped[0].starts_with("$ "), "{:?}", popped);
    }
}

#[test]
fn a_reply_differs_from_half_a_reply() {
    assert_eq!(read_reply(b"+OK\r\n"), Ok(Some((Reply::OK, 5))));
    assert_eq!(read_reply(b"*2\r\n+OK\r\n"), Ok(None));
}
