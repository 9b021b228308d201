//! Tests of the grammar.

use std::time::Duration;

use super::*;
use crate::codec::{Decoder, RespLimits, Version};
use crate::key::{EventsKey, JobField, RespKey, RespQueueKey};
use bytes::Bytes;

fn parse(line: &str) -> Result<Command, String> {
    let mut decoder = Decoder::new(RespLimits::trusted());
    decoder.feed(line.as_bytes());
    decoder.feed(b"\r\n");
    let request = decoder.next_request().expect("framing").expect("a command");
    Command::parse(&request).map_err(|error| error.to_string())
}

fn refused(line: &str) -> String {
    parse(line).expect_err(line)
}

fn claim(line: &str) -> ClaimCommand {
    match parse(line).expect(line) {
        Command::List(RespListCommand::Claim(claim)) => claim,
        other => panic!("{line} is {other:?}"),
    }
}

#[test]
fn an_unknown_command_is_named() {
    assert_eq!(refused("FROBNICATE"), "ERR unknown command 'FROBNICATE'");
    assert_eq!(refused("frobnicate now"), "ERR unknown command 'frobnicate'");
}

#[test]
fn every_command_counts_its_arguments() {
    for entry in TABLE {
        let needed = entry.arity.unsigned_abs() as usize - 1;
        if needed > 0 {
            let line = format!("{}{}", entry.name, " x".repeat(needed - 1));
            assert_eq!(refused(&line), format!("ERR wrong number of arguments for '{}' command", entry.name));
        }
        if entry.arity > 0 {
            let line = format!("{}{}", entry.name, " x".repeat(needed + 1));
            assert_eq!(refused(&line), format!("ERR wrong number of arguments for '{}' command", entry.name));
        }
    }
}

#[test]
fn libraries_introduce_themselves() {
    let Command::Connection(ConnectionCommand::Hello(hello)) =
        parse("HELLO 3 AUTH default k SETNAME me").unwrap()
    else {
        panic!("not a hello")
    };
    assert_eq!((hello.version, hello.name.as_deref()), (Some(Version::Resp3), Some("me")));
    assert_eq!(hello.auth.unwrap().key, "k");
    assert_eq!(refused("HELLO 4"), "NOPROTO unsupported protocol version");
    assert_eq!(refused("HELLO x"), "ERR Protocol version is not an integer or out of range");
    assert_eq!(refused("HELLO 3 AUTH a"), "ERR syntax error");
    assert!(parse("CLIENT SETINFO LIB-NAME redis-py").is_ok());
    assert!(parse("client setinfo lib-ver 5.0").is_ok());
    assert_eq!(refused("CLIENT SETINFO colour red"), "ERR syntax error");
    assert_eq!(refused("CLIENT DANCE"), "ERR unknown subcommand 'DANCE' of 'client'");
    assert_eq!(
        parse("CLIENT ID").unwrap(),
        Command::Connection(ConnectionCommand::Client(ClientCommand::Id))
    );
    assert_eq!(
        refused("CLIENT SETNAME 'a b'"),
        "ERR Invalid client name: cannot contain spaces, newlines or special characters"
    );
    assert_eq!(
        parse("COMMAND DOCS GET").unwrap(),
        Command::Connection(ConnectionCommand::Command(CommandQuery::Docs(vec!["get".into()])))
    );
    assert!(parse("SELECT 0").is_ok());
    assert_eq!(refused("SELECT 1"), "ERR DB index is out of range");
}

#[test]
fn a_key_is_not_shown_even_when_a_command_is_printed() {
    let command = parse("AUTH default s3cret").unwrap();
    assert!(!format!("{command:?}").contains("s3cret"));
    assert_eq!(refused("AUTH ''"), "ERR AUTH key cannot be empty");
}

#[test]
fn a_pop_may_watch_several_queues_in_order() {
    let claim = claim("BRPOP queue:urgent queue:ready 5");
    let names: Vec<_> = claim.queues.iter().map(|(_, queue)| queue.clone()).collect();
    assert_eq!(names, [RespQueueKey::Named("urgent".into()), RespQueueKey::Default]);
    assert_eq!(claim.queues[1].0, Bytes::from_static(b"queue:ready"));
    assert_eq!((claim.wait, claim.reply), (Wait::AtMost(Duration::from_secs(5)), PopReply::KeyAndJob));
}

#[test]
fn every_form_of_pop_is_a_claim() {
    assert_eq!(claim("BRPOPLPUSH queue:ready queue:processing 0").wait, Wait::ForEver);
    assert_eq!(
        claim("BLMOVE queue:a queue:processing RIGHT LEFT 0.25").wait,
        Wait::AtMost(Duration::from_millis(250))
    );
    assert_eq!(claim("RPOPLPUSH queue:a queue:processing").wait, Wait::NotAtAll);
    assert_eq!(claim("LMOVE queue:a queue:processing right left").reply, PopReply::Element);
    assert_eq!(claim("RPOP queue:a").reply, PopReply::Job);
    assert_eq!(claim("RPOP queue:a 3").reply, PopReply::Jobs { count: 3 });
    assert_eq!(claim("RPOP queue:a 999999").reply, PopReply::Jobs { count: 1000 });
}

#[test]
fn a_timeout_is_a_number_of_seconds() {
    for wrong in ["x", "nan", "inf", "1e99"] {
        assert_eq!(refused(&format!("BRPOP queue:a {wrong}")), "ERR timeout is not a float or out of range");
    }
    assert_eq!(refused("BRPOP queue:a -1"), "ERR timeout is negative");
    assert_eq!(claim("BRPOP queue:a 0.0000001").wait, Wait::AtMost(Duration::from_millis(1)));
    assert_eq!(refused("XREAD BLOCK 1.5 STREAMS events $"), "ERR timeout is not an integer or out of range");
    assert_eq!(refused("XREAD BLOCK -1 STREAMS events $"), "ERR timeout is negative");
}

#[test]
fn only_queues_are_popped_and_pushed() {
    assert_eq!(refused("RPOPLPUSH queue:a b"), "ERR 'b' is not a queue, queues are queue:<name>");
    assert_eq!(refused("LPOP queue:a"), "ERR the oldest job of a queue is at the right end: use RPOP");
    assert_eq!(refused("BLPOP queue:a 1"), "ERR the oldest job of a queue is at the right end: use BRPOP");
    assert_eq!(refused("RPUSH queue:a x"), "ERR jobs enter a queue at the left end: use LPUSH");
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    for line in ["LPUSH job:1 x", "GET queue:a", "LLEN job:1", "SMEMBERS job:1"] {
        assert_eq!(refused(line), wrong, "{line}");
    }
    assert_eq!(refused("BRPOP queue:processing 1"), "WRONGTYPE 'queue:processing' is kept for the broker");
    assert_eq!(refused("RPOP queue:scheduled"), "WRONGTYPE 'queue:scheduled' is kept for the broker");
    assert_eq!(refused("BLMOVE queue:a queue:b UP LEFT 1"), "ERR syntax error");
}

#[test]
fn a_push_submits_each_body() {
    let Command::List(RespListCommand::Push { queue, bodies }) = parse("LPUSH queue:images a b").unwrap()
    else {
        panic!("not a push")
    };
    assert_eq!((queue, bodies), (RespQueueKey::Named("images".into()), vec!["a".into(), "b".into()]));
}

#[test]
fn old_workers_report_by_setting_keys_and_nothing_else_can_be_set() {
    let Command::View(ViewCommand::Set { key, value }) = parse("SET job:1:status completed").unwrap() else {
        panic!("not a set")
    };
    assert_eq!((key, value), (RespKey::Job { id: "1".into(), field: JobField::Status }, "completed".into()));
    assert!(parse("SET worker:w:tools sort,uniq").is_ok());
    assert!(parse("SET worker:w:alive 1763373600 EX 90").is_ok());
    assert_eq!(refused("SET worker:w:alive 1 EX"), "ERR syntax error");
    assert_eq!(refused("SET worker:w:alive 1 EX 0"), "ERR value is out of range, must be positive");
    assert_eq!(refused("SET worker:w:alive 1 NX"), "ERR syntax error");
    assert_eq!(
        refused("SET plan:p 1"),
        "ERR 'plan:p' cannot be set, only job:<id>:status|stdout|stderr|result and worker:<id>:tools|tags|alive can"
    );
}

#[test]
fn views_are_looked_at_by_key() {
    assert!(matches!(parse("GET job:1").unwrap(), Command::View(ViewCommand::Get(RespKey::Job { .. }))));
    assert!(parse("HGETALL job:1").is_ok());
    assert!(refused("HGETALL job:1:status").starts_with("WRONGTYPE"));
    assert!(matches!(
        parse("PTTL worker:w:alive").unwrap(),
        Command::View(ViewCommand::TimeToLive { milliseconds: true, .. })
    ));
    let Command::View(ViewCommand::Scan(scan)) = parse("SCAN 0 MATCH action:* COUNT 5 TYPE string").unwrap()
    else {
        panic!("not a scan")
    };
    assert_eq!(
        (scan.count, scan.pattern, scan.kind.as_deref()),
        (5, Some("action:*".into()), Some("string"))
    );
    assert_eq!(refused("SCAN x"), "ERR invalid cursor");
    assert_eq!(refused("SCAN 0 COUNT 0"), "ERR syntax error");
    assert_eq!(refused("SCAN 0 COUNT x"), "ERR value is not an integer or out of range");
    assert_eq!(refused("SCAN 0 MATCH"), "ERR syntax error");
}

#[test]
fn a_worker_introduces_itself_lives_and_leaves() {
    let line =
        r#"WORKER.REGISTER '{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":["sort"]}'"#;
    assert!(matches!(parse(line).unwrap(), Command::Worker(WorkerCommand::Register(_))));
    assert!(parse("WORKER.HEARTBEAT w").is_ok());
    assert!(parse(r#"WORKER.HEARTBEAT w '{"active_jobs":1}'"#).is_ok());
    assert_eq!(
        refused("WORKER.HEARTBEAT w {}  x"),
        "ERR wrong number of arguments for 'worker.heartbeat' command"
    );
    assert_eq!(refused("WORKER.HEARTBEAT a:b"), "ERR Invalid worker ID characters");
    assert_eq!(refused("WORKER.UNREGISTER ''"), "ERR Worker ID is empty");
    assert!(parse(r#"WORKER.VERIFY agx-ocr '{"command":"agx-ocr","args":["--version"]}'"#).is_ok());
    assert!(refused("WORKER.REGISTER x").starts_with("ERR Invalid worker registration: Invalid JSON"));
}

#[test]
fn jobs_are_submitted_reported_and_steered() {
    assert!(matches!(parse(r#"JOB.SUBMIT '{"body":"x"}'"#).unwrap(), Command::Job(JobCommand::Submit(_))));
    let Command::Job(JobCommand::Update { job, update }) =
        parse(r#"JOB.UPDATE j-1 '{"status":"running"}'"#).unwrap()
    else {
        panic!("not an update")
    };
    assert_eq!((job.as_str(), update.unwrap().report.unwrap().word()), ("j-1", "running"));
    assert_eq!(refused("JOB.GET ''"), "ERR Invalid job id: empty");
    let Command::Job(JobCommand::Steer { verb, reason, .. }) =
        parse("JOB.CANCEL j 'no longer needed'").unwrap()
    else {
        panic!("not a verb")
    };
    assert_eq!((verb, reason.as_deref()), (JobVerb::Cancel, Some("no longer needed")));
}

const STATUSES: &str =
    "the statuses are pending, scheduled, running, paused, completed, failed, dead and cancelled";

#[test]
fn lists_of_jobs_are_narrowed_by_words() {
    let ids = |line: &str| match parse(line).expect(line) {
        Command::Job(JobCommand::Ids { action, status, page }) => (action, status, page.limit),
        other => panic!("{line} is {other:?}"),
    };
    assert_eq!(ids("JOB.LIST"), (None, None, 100));
    assert_eq!(ids("JOB.LIST action-1"), (Some("action-1".into()), None, 100));
    assert_eq!(
        ids("JOB.LIST action-1 failed LIMIT 5"),
        (Some("action-1".into()), Some(JobStatus::Failed), 5)
    );
    assert_eq!(ids("JOB.LIST pending"), (None, Some(JobStatus::Pending), 100));
    assert_eq!(refused("JOB.LIST action-1 broken"), format!("ERR Invalid status: broken, {STATUSES}"));

    let Command::Job(JobCommand::Search { filter, page }) =
        parse("JOBS.SEARCH failed plan-1 QUEUE images WORKER w TAG t LIMIT 100000 OFFSET 7").unwrap()
    else {
        panic!("not a search")
    };
    assert_eq!((filter.status, filter.plan.as_deref()), (Some(JobStatus::Failed), Some("plan-1")));
    assert_eq!(filter.queue, Some(RespQueueKey::Named("images".into())));
    assert_eq!((page.limit, page.offset), (1000, 7));
    assert_eq!(refused("JOBS.SEARCH LIMIT 0"), "ERR limit must be > 0");
    assert_eq!(refused("JOBS.SEARCH LIMIT x"), "ERR limit must be a positive integer, not 'x'");
    assert_eq!(refused("JOBS.LIST STATUS broken"), format!("ERR Invalid status: broken, {STATUSES}"));
    for option in ["STATUS", "PLAN", "ACTION", "QUEUE", "WORKER", "TAG"] {
        assert_eq!(refused(&format!("JOBS.SEARCH {option}")), "ERR syntax error");
    }
    let kept = "WRONGTYPE 'queue:scheduled' is kept for the broker";
    assert_eq!(refused("JOBS.SEARCH QUEUE scheduled"), kept);
}

#[test]
fn plans_and_actions() {
    let plan = r#"PLAN.SUBMIT '{"plan_id":"p","tasks":[{"task_number":1,"command":"sort"}]}'"#;
    assert!(matches!(parse(plan).unwrap(), Command::Plan(PlanCommand::Submit { .. })));
    assert!(
        refused("PLAN.SUBMIT {}").starts_with("ERR Plan validation failed: Missing required field plan_id")
    );
    let Command::Plan(PlanCommand::List { pattern, page }) = parse("PLAN.LIST ocr-* LIMIT 3").unwrap() else {
        panic!("not a list")
    };
    assert_eq!((pattern, page.limit), (Some("ocr-*".into()), 3));
    let Command::Plan(PlanCommand::List { pattern, page }) = parse("PLAN.LIST 10 20").unwrap() else {
        panic!("not a list")
    };
    assert_eq!((pattern, page.offset, page.limit), (None, 10, 20));
    assert!(parse(r#"ACTION.SUBMIT '{"plan_id":"p","inputs":[1]}'"#).is_ok());
    let Command::Action(ActionCommand::List { status, page }) = parse("ACTION.LIST running 5 6").unwrap()
    else {
        panic!("not a list")
    };
    assert_eq!((status, page.offset, page.limit), (Some(JobStatus::Running), 5, 6));
    assert_eq!(refused("ACTION.LIST odd"), format!("ERR Invalid status: odd, {STATUSES}"));
    assert!(parse("ACTION.LIST all").is_ok());
}

#[test]
fn a_queue_is_named_with_or_without_its_prefix() {
    for line in ["QUEUE.PEEK images", "QUEUE.PEEK queue:images"] {
        let Command::Queue(QueueCommand::Peek { queue, count }) = parse(line).unwrap() else {
            panic!("{line}")
        };
        assert_eq!((queue, count), (RespQueueKey::Named("images".into()), 10));
    }
    assert_eq!(parse("QUEUE.STATS").unwrap(), Command::Queue(QueueCommand::Stats { queue: None }));
}

#[test]
fn events_are_read_from_a_number_on() {
    let Command::Events(EventsCommand::Read(read)) =
        parse("XREAD COUNT 2 BLOCK 100 STREAMS events events:images 7-0 $").unwrap()
    else {
        panic!("not a read")
    };
    assert_eq!(read.count, 2);
    assert_eq!(read.block, Some(Some(Duration::from_millis(100))));
    assert_eq!(read.streams[0], ("events".into(), EventsKey::All, ReadFrom::After(7)));
    assert_eq!(read.streams[1], ("events:images".into(), EventsKey::Of("images".into()), ReadFrom::Now));
    let Command::Events(EventsCommand::Read(read)) = parse("XREAD BLOCK 0 STREAMS events 0").unwrap() else {
        panic!("not a read")
    };
    assert_eq!(read.block, Some(None), "zero blocks without end");

    assert!(refused("XREAD STREAMS events events:a 0").starts_with("ERR Unbalanced 'xread' list of streams"));
    assert_eq!(
        refused("XREAD STREAMS events x-y"),
        "ERR Invalid stream ID specified as stream command argument"
    );
    assert_eq!(
        refused("XREAD STREAMS events other 0 0"),
        "ERR No such stream: 'other', the streams are events and events:<queue or job>"
    );
    assert_eq!(refused("XREAD COUNT 1 events 0"), "ERR syntax error");
    assert!(parse("XRANGE events - + COUNT 5").is_ok());
    assert!(parse("PSUBSCRIBE job:*").is_ok());
    assert!(parse("UNSUBSCRIBE").is_ok());
}

#[test]
fn other_keys_are_stored_and_views_are_not_changed_by_commands_on_values() {
    for line in [
        "SET k v EX 5 NX GET",
        "SET k v KEEPTTL",
        "LPUSH l a b",
        "BRPOP a b 0",
        "BLMOVE a b LEFT RIGHT 1",
        "HSET h f v g w",
        "ZADD z NX CH 1 a 2 b",
        "ZRANGE z (1 +inf BYSCORE LIMIT 0 5 WITHSCORES",
        "XADD s MAXLEN ~ 10 * f v",
        "XREAD COUNT 1 BLOCK 5 STREAMS s $",
        "WATCH a b",
        "SET worker:w:notes cpu",
        "HSET worker:w a b",
        "SET capability:x 1",
        "KEYS rq:*",
        "SCAN 0",
    ] {
        assert!(matches!(parse(line), Ok(Command::Keyspace(_))), "{line}: {:?}", parse(line));
    }
    let view = "ERR 'job:1' is a view of the broker's jobs and workers: this command is for other keys";
    for line in ["APPEND job:1 x", "SETEX job:1 5 x", "SADD job:1 x", "MSET a 1 job:1 2", "RENAME a job:1"] {
        assert_eq!(refused(line), view, "{line}");
    }
    for (line, why) in [
        ("SET k v EX", "ERR syntax error"),
        ("SET k v EX 5 PX 5", "ERR syntax error"),
        ("SET k v NX XX", "ERR syntax error"),
        ("HSET h f", "ERR wrong number of arguments for 'hset' command"),
        ("ZADD z x a", "ERR value is not a valid float"),
        ("ZADD z inf a", "ERR value is not a valid float"),
        ("ZADD z 1 a 2", "ERR syntax error"),
        ("ZRANGEBYSCORE z a b", "ERR min or max is not a float"),
        ("XADD s 5-x f v", "ERR Invalid stream ID specified as stream command argument"),
        ("DEL queue:a", "ERR jobs are cancelled with JOB.CANCEL and forgotten in time"),
    ] {
        assert_eq!(refused(line), why, "{line}");
    }
}

#[test]
fn a_script_is_known_by_its_text_or_its_sha1_and_nothing_else_is_run() {
    let release = "EVALSHA C3F8721CBB97F72BC19E972846BD7AAF91901658 1 lock token";
    assert!(matches!(parse(release), Ok(Command::Keyspace(KeyspaceCommand::Run(_)))));
    for line in ["EVAL 'return 1' 0", "EVALSHA 00 0", "SCRIPT LOAD 'return 1'", "FUNCTION LIST", "FCALL f 0"]
    {
        assert_eq!(parse(line), Ok(Command::Keyspace(KeyspaceCommand::Refused)), "{line}");
    }
}
