//! What programs of the former broker rely on, one row per fact, and what differs by intention (`spec/resp.md`). Each row
//! is a conversation with a broker of its own: a command, and its answer with a bar between the lines.

use crate::support::pattern::Bindings;
use crate::support::world::World;

type Row = (&'static str, &'static [(&'static str, &'static str)]);

const FACTS: &[Row] = &[
    (
        "strings, with a time to live",
        &[
            ("SET k v", "+OK"),
            ("GET k", "$ v"),
            ("TTL k", ":-1"),
            ("TTL absent", ":-2"),
            ("SET k v EX 10", "+OK"),
            ("TTL k", ":10"),
            ("SET k v PX 1500", "+OK"),
            ("TTL k", ":2"),
            ("SET k v EXAT 99999999999", "-ERR …"),
            ("SET k v EX 315360001", "-ERR …"),
            ("EXISTS k", ":1"),
            ("DEL k", ":1"),
            ("GET k", "$-1"),
        ],
    ),
    (
        "lists on any key",
        &[
            ("LPUSH l a b c", ":3"),
            ("LLEN l", ":3"),
            ("LRANGE l 0 -1", "*3 | $ c | $ b | $ a"),
            ("RPOP l", "$ a"),
            ("RPOPLPUSH l m", "$ b"),
            ("LREM m 1 b", ":1"),
            ("BRPOP l 1", "*2 | $ l | $ c"),
            ("LPUSH l d", ":1"),
            ("BRPOPLPUSH l m 1", "$ d"),
        ],
    ),
    (
        "sorted sets",
        &[
            ("ZADD z 1 a", ":1"),
            ("ZADD z 2 b", ":1"),
            ("ZADD z nan c", "-ERR …"),
            ("ZRANGE z 0 -1", "*2 | $ a | $ b"),
            ("ZRANGEBYSCORE z 2 9", "*1 | $ b"),
            ("ZSCORE z b", "$ 2"),
            ("ZCARD z", ":2"),
            ("ZREM z a", ":1"),
        ],
    ),
    (
        "hashes",
        &[
            ("HSET h f v", ":1"),
            ("HGET h f", "$ v"),
            ("HEXISTS h f", ":1"),
            ("HLEN h", ":1"),
            ("HINCRBY h n 5", ":5"),
            ("HGETALL h", "*4 | $ f | $ v | $ n | $ 5"),
            ("HDEL h f", ":1"),
        ],
    ),
    ("values are bytes", &[(r#"SET k "\x00\xff\r\n""#, "+OK"), ("STRLEN k", ":4")]),
    (
        "what programs write to views",
        &[
            ("SET worker:w:tags cpu", "+OK"),
            ("SET worker:w:tools a,b", "+OK"),
            (r#"JOB.SUBMIT '{"job_id":"j","body":"x"}'"#, "$ j"),
            ("HSET job:j plan p", ":1"),
            ("HGET job:j plan", "$ p"),
            ("LREM queue:processing 1 j", ":0"),
        ],
    ),
    (
        "a ping makes a worker known and checks its id",
        &[
            ("PING agw-1", "$ agw-1"),
            ("WORKERS.LIST", "*1 | …\"last_seen\":…\"tools\":…\"worker_id\":\"agw-1\"…"),
            ("PING 'not an id!'", "-ERR …"),
        ],
    ),
    (
        "what is not found",
        &[
            ("PLAN.GET absent", "-ERR Plan not found: absent"),
            ("ACTION.GET absent", "-ERR Action not found: absent"),
            ("JOB.GET absent", "-ERR Job not found: absent"),
            ("JOB.STATUS absent", "$-1"),
        ],
    ),
    (
        "lists cap their limits and refuse those that are no numbers",
        &[("JOBS.LIST 0 100000000", "*0"), ("JOBS.LIST 0 many", "-ERR …"), ("PLAN.LIST 0 100000000", "*0")],
    ),
    (
        "plans keep fields that are not known, and actions summarize",
        &[
            (
                r#"PLAN.SUBMIT '{"plan_id":"p","job_id":"own","extra":1,"tasks":[{"task_number":1,"command":"sort"}]}'"#,
                "$ p",
            ),
            ("PLAN.GET p", "…\"extra\":1…"),
            (
                "PLAN.GET p",
                "…\"metadata\":{\"created_at\":…\"last_used\":…\"total_actions\":0,\"total_jobs\":0}…",
            ),
            ("PLAN.LIST", "*1 | $ {…\"plan_id\":\"p\"…}"),
            (
                r#"ACTION.SUBMIT '{"action_id":"a","plan_id":"p","inputs":[{"n":1}]}'"#,
                "$ {\"action_id\":\"a\",…\"jobs_created\":1…}",
            ),
            ("ACTION.GET a", "…\"jobs_completed\":0,\"jobs_failed\":0,\"jobs_pending\":1,\"jobs_total\":1…"),
            ("PLAN.GET p", "…\"total_actions\":1,\"total_jobs\":1…"),
        ],
    ),
    (
        "the oldest generation pulls whole jobs",
        &[
            (r#"JOB.SUBMIT '{"job_id":"j","tasks":[{"task_number":1,"command":"sort"}]}'"#, "$ j"),
            ("PING agw-1", "$ agw-1"),
            (
                "BRPOPLPUSH queue:ready queue:processing 5",
                "$ {…\"job_id\":\"j\",…\"plan_id\":\"j\",…\"tasks\":…}",
            ),
            (r#"LREM queue:processing 1 '{"job_id":"j","plan_id":"j"}'"#, ":1"),
        ],
    ),
    (
        "the newest generation pulls ids and asks for the job",
        &[
            (r#"JOB.SUBMIT '{"job_id":"j","tasks":[{"task_number":1,"command":"sort"}]}'"#, "$ j"),
            ("SET worker:agw-3:tags cpu", "+OK"),
            ("PING agw-3", "$ agw-3"),
            ("BRPOPLPUSH queue:default queue:processing 5", "$ j"),
            ("JOB.GET j", "…\"args\":[],…\"command\":\"sort\",…\"task_number\":1…"),
            ("LREM queue:processing 1 j", ":1"),
        ],
    ),
    (
        "a worker without tools runs anything",
        &[
            (r#"JOB.SUBMIT '{"job_id":"j","tasks":[{"task_number":1,"command":"rare"}]}'"#, "$ j"),
            (
                r#"WORKER.REGISTER '{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":[]}'"#,
                "+OK …",
            ),
            ("RPOPLPUSH queue:ready queue:processing", "$ j"),
        ],
    ),
    (
        "a pop answers as Redis does, and gives the bytes if asked",
        &[
            ("LPUSH queue:q one two", ":2"),
            ("BRPOP queue:q 1", "*2 | $ queue:q | $ {…\"body\":\"one\"…}"),
            ("BRPOP raw:q 1", "*2 | $ raw:q | $ two"),
            (r#"LPUSH queue:q "\xff""#, ":1"),
            ("BRPOP queue:q 1", "*2 | $ queue:q | $ {…\"body_base64\":\"/w==\"…}"),
        ],
    ),
    ("figures for monitoring", &[("METRICS json", "$ {…}"), ("METRICS prometheus", "…tenure_…")]),
    (
        "capabilities are found by their description",
        &[
            (
                r#"WORKER.REGISTER '{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":[{"name":"ocr","version":"1","description":"reads text from pictures"}]}'"#,
                "+OK …",
            ),
            ("CAPABILITY.SEARCH pictures", "*1 | $ {\"capability\":\"ocr\",…}"),
        ],
    ),
    (
        "differs: a pop of a client that has not named itself answers with Redis' pair",
        &[("LPUSH queue:ready x", ":1"), ("BRPOP queue:ready 1", "*2 | $ queue:ready | $ {…}")],
    ),
    ("differs: an empty list of plans is an array", &[("PLAN.LIST", "*0")]),
    (
        "differs: only workers put jobs into processing",
        &[("LPUSH queue:processing x", "-…queue:processing…")],
    ),
    (
        "differs: alive is a heartbeat, and not a value",
        &[("PING w", "$ w"), ("SET worker:w:alive 1 EX 10", "+OK"), ("TTL worker:w:alive", ":90")],
    ),
    ("differs: ids of jobs may have any visible characters", &[("JOB.GET a;b", "-ERR Job not found: a;b")]),
];

#[test]
fn programs_of_the_former_broker_find_what_they_rely_on() {
    let mut failures = Vec::new();
    for (fact, steps) in FACTS {
        let mut world = World::new(false);
        for (command, expected) in *steps {
            let answer = world.ask(1, command).join(" | ");
            if !Bindings::default().fits(expected, &answer) {
                failures.push(format!("{fact}: {command}\n  {answer}\n  not {expected}"));
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn keys_come_as_text_or_as_bytes_and_strangers_are_refused_by_a_word_that_libraries_know() {
    let mut world = World::new(true);
    for command in ["PING", "PLAN.SUBMIT '{}'", "HSET h f v", "SET k v"] {
        let answer = world.ask(1, command).join(" | ");
        assert!(answer.starts_with("-NOAUTH "), "{command}: {answer}");
    }
    assert_eq!(world.ask(1, &format!("AUTH {}", "1".repeat(64))), ["+OK"]);
    let raw = "\\x11".repeat(32);
    assert_eq!(world.ask(2, &format!("AUTH \"{raw}\"")), ["+OK"]);
    // A command whose key is longer than announced.
    world.send(3, format!("AUTH {}\r\n*4\r\n$7\r\nHINCRBY\r\n$1\r\nlong\r\n", "1".repeat(64)).as_bytes());
    assert!(world.heard(3).iter().any(|line| line.starts_with("-ERR Protocol error")), "as in Redis");
}
