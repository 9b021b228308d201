//! Prints the flow of every command with more than one step: its requests, and the state that waits for each reply.
//! All replies are as empty as possible, so each flow is shown up to the first thing that is missing.

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};
use tenure_hub::keyspace::Reply as KeyReply;
use tenure_hub::words::{Answer, Query, Refusal, Timestamp};
use tenure_hub::{HubRefusal, Request, Response};

use super::{FlowStep, Input};
use crate::codec::{Decoder, RespLimits, Version};
use crate::command::Command;
use crate::rights::JobReader;
use crate::translate::{CallerInfo, start};
use crate::worker::RespCallReply;

const NOW: Timestamp = Timestamp(1_763_373_600_000);

fn first(line: &str) -> FlowStep {
    let mut decoder = Decoder::new(RespLimits::trusted());
    decoder.feed(line.as_bytes());
    decoder.feed(b"\r\n");
    let request = decoder.next_request().expect("framing").expect("a command");
    let speaker = CallerInfo {
        now: NOW,
        version: Version::Resp2,
        is_library: false,
        is_introduced: false,
        may_read_jobs_only: false,
        worker: Some("w".into()),
        is_nameless: false,
        may_claim: true,
        settings: Arc::default(),
        reader: JobReader::Everyone,
        tidies: false,
    };
    start(Command::parse(&request).expect(line), &speaker)
}

/// One line for each step; what was asked stands before the state that waits for the answer.
fn printed(line: &str) -> String {
    let mut text = format!("{line}\n");
    let mut step = first(line);
    for _ in 0..9 {
        let (flow, input) = match step {
            FlowStep::Reply(reply) => {
                let _ = writeln!(text, "  reply {reply:?}");
                return text;
            }
            FlowStep::Last(request, last) => {
                let _ = writeln!(text, "  last {} -> {last:?}", kind(&request));
                return text;
            }
            FlowStep::Push { queue, .. } => {
                let _ = writeln!(text, "  push to {queue}");
                return text;
            }
            FlowStep::Handed { job, .. } => {
                let _ = writeln!(text, "  hand out {job}");
                return text;
            }
            FlowStep::Follow(follow) => {
                let _ = writeln!(text, "  follow {} streams", follow.streams.len());
                return text;
            }
            FlowStep::Ask(request, flow) => {
                let _ = writeln!(text, "  ask {} -> {}", kind(&request), state(&flow));
                (flow, Input::Answer(nothing(&request)))
            }
            FlowStep::Read(blobs, flow) => {
                let _ = writeln!(text, "  read {} -> {}", blobs.len(), state(&flow));
                (flow, Input::Read(vec![Err(HubRefusal::Unreadable { what: "body" })]))
            }
            FlowStep::Keys(_, flow) => {
                let _ = writeln!(text, "  stored keys -> {}", state(&flow));
                (flow, Input::Keys(Ok(KeyReply::Integer(0))))
            }
            FlowStep::Call(whom, _, flow) => {
                let _ = writeln!(text, "  call {whom:?} -> {}", state(&flow));
                (flow, Input::Call(RespCallReply::NotRegistered))
            }
            FlowStep::Later(wait, flow) => {
                let _ = writeln!(text, "  wait {wait:?} -> {}", state(&flow));
                (flow, Input::Later)
            }
            FlowStep::Calls(calls, flow) => {
                let _ = writeln!(text, "  call {} times -> {}", calls.len(), state(&flow));
                (flow, Input::Calls(vec![RespCallReply::Nothing; calls.len()]))
            }
        };
        step = flow.resume(NOW, input);
    }
    text
}

/// The name of a request.
fn kind(request: &Request) -> String {
    let whole = format!("{request:?}");
    let mut words = whole.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    match words.next() {
        Some("Query") => words.next().unwrap_or_default().to_owned(),
        first => first.unwrap_or_default().to_owned(),
    }
}

/// A state with the beginning of what it holds.
fn state(flow: &super::CommandFlow) -> String {
    let whole = format!("{flow:?}");
    match whole.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}

/// An answer without anything in it.
fn nothing(request: &Request) -> Result<Response, HubRefusal> {
    match request {
        Request::Query(Query::List(_)) => {
            Ok(Response::Answer(Answer::Tasks { tasks: Vec::new(), next: None }))
        }
        Request::Query(Query::Worker { .. }) => Ok(Response::Answer(Answer::Workers(Vec::new()))),
        Request::Query(Query::Queue { .. } | Query::Queues) => {
            Ok(Response::Answer(Answer::Queues(Vec::new())))
        }
        Request::Query(Query::ScanWorkers { .. }) => {
            Ok(Response::Answer(Answer::ScannedWorkers { workers: Vec::new(), next: None }))
        }
        Request::Query(Query::ScanTasks { .. }) => {
            Ok(Response::Answer(Answer::ScannedTasks { tasks: Vec::new(), next: None }))
        }
        _ => Err(Refusal::UnknownName { name: "absent".into() }.into()),
    }
}

fn check(lines: &[&str], wanted: &Expect) {
    wanted.assert_eq(&lines.iter().map(|line| printed(line)).collect::<String>());
}

#[test]
fn flows_of_jobs() {
    let lines = [
        "JOB.GET j",
        "JOB.STATUS j",
        "JOB.CANCEL j",
        r#"JOB.UPDATE j '{"status":"completed"}'"#,
        r#"JOB.UPDATE j '{"status":"completed","worker_id":"v"}'"#,
        r#"JOB.SUBMIT '{"body":"x","parent":"p"}'"#,
        "JOB.LIST a",
        "JOBS.LIST",
        "JOBS.SEARCH pending p",
    ];
    check(
        &lines,
        &expect![[r#"
            JOB.GET j
              call Own -> Job(Mentioning { job: "j", then: Get { job: "j" }, reader: Everyone, worker: Some("w") })
              ask Find -> Lookup(Job(Mentioned(Get { job: "j" })))
              reply Error("ERR Job not found: j")
            JOB.STATUS j
              call Own -> Job(Mentioning { job: "j", then: Status, reader: Everyone, worker: Some("w") })
              ask Find -> Lookup(Job(Mentioned(Status)))
              reply Null
            JOB.CANCEL j
              ask Find -> Lookup(Job(Steer { job: "j", verb: Cancel, reason: None }))
              reply Error("ERR Job not found: j")
            JOB.UPDATE j '{"status":"completed"}'
              call Own -> Worker(AboutHeld { then: Report { job: "j", report: Some(Completed), worker: Some("w") }, job: "j", …
              ask Find -> Lookup(Job(HeldAfterAll { then: Report { job: "j", report: Some(Completed), worker: Some("w") }, wor…
              ask Find -> Lookup(Job(NotHeld { job: "j", report: Some(Completed), worker: Some("w") }))
              reply Error("ERR Job not found: j")
            JOB.UPDATE j '{"status":"completed","worker_id":"v"}'
              ask Find -> Lookup(Job(NotHeld { job: "j", report: Some(Completed), worker: Some("w") }))
              reply Error("ERR Job not found: j")
            JOB.SUBMIT '{"body":"x","parent":"p"}'
              ask Find -> Lookup(Job(Parent { parent: "p", job: PendingJob { name: None, work: Body(b"x"), options: TaskOption…
              reply Error("ERR Parent job not found: p")
            JOB.LIST a
              ask Find -> Lookup(Named(Action(Filtered { action: "a", filter: JobFilter { status: None, plan: None, action: So…
              reply Error("ERR Invalid status: a, and there is no action of that id; the statuses are pending, scheduled, running, paused, completed, failed, dead and cancelled")
            JOBS.LIST
              ask List -> Lookup(Page(List(PagedList { then: Filtered { of_action: false, page: PageOptions { offset: 0, limit…
              reply Array([])
            JOBS.SEARCH pending p
              ask List -> Lookup(Page(List(PagedList { then: Filtered { of_action: false, page: PageOptions { offset: 0, limit…
              ask Find -> Lookup(Named(Plan(Find(Bare { plan: "p", view: Ids }))))
              reply Error("ERR Invalid status: p, and there is no plan of that id; the statuses are pending, scheduled, running, paused, completed, failed, dead and cancelled")
        "#]],
    );
}

#[test]
fn flows_of_lists_and_streams() {
    let lines = [
        "BRPOP queue:a 1",
        "RPOP queue:a 2",
        "LREM queue:processing 1 j",
        "LRANGE queue:a 0 -1",
        "LRANGE action:a:jobs 0 -1",
        "LLEN action:a:jobs",
        "QUEUE.PEEK a",
        "XREAD STREAMS events:j events 0 0",
    ];
    check(
        &lines,
        &expect![[r#"
            BRPOP queue:a 1
              call Puller -> List(Popping(Popping { reply: KeyAndJob, whole: true, raw: false, as_pair: true, keys: [("a", b"queu…
              reply Error("ERR Worker not registered: w")
            RPOP queue:a 2
              call 2 times -> List(PoppingMany { worker: "w" })
              reply NullArray
            LREM queue:processing 1 j
              call Own -> Worker(AboutHeld { then: Remove { queue: Processing, job: "j", worker: Some("w") }, job: "j", worker…
              ask Find -> Lookup(Job(HeldAfterAll { then: Remove { queue: Processing, job: "j", worker: Some("w") }, worker: "…
              ask Find -> Lookup(Job(Remove { queue: Processing, job: "j", worker: Some("w") }))
              reply Integer(0)
            LRANGE queue:a 0 -1
              ask Queue -> Range(Counting { queue: Named("a"), start: 0, stop: -1 })
              reply Array([])
            LRANGE action:a:jobs 0 -1
              ask Find -> Lookup(Named(Action(Range { start: 0, stop: -1 })))
              reply Array([])
            LLEN action:a:jobs
              ask Find -> Lookup(Named(Action(Length)))
              reply Integer(0)
            QUEUE.PEEK a
              ask List -> Lookup(Page(List(PagedList { then: Peek, keep: All, limit: 10, found: [] }), ListQuery { states: [Re…
              reply Array([])
            XREAD STREAMS events:j events 0 0
              ask Find -> Lookup(Job(Stream(Resolving { left: [(b"events", All, After(0))], current: Some((b"events:j", "j", A…
              follow 2 streams
        "#]],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn flows_of_views() {
    let lines = [
        "GET job:j:stdout",
        "GET plan:p",
        "GET action:a",
        "GET worker:w:alive",
        "GET nothing",
        "HGET job:j status",
        "MGET job:j plan:p",
        "SET job:j:status completed",
        "SET worker:w:tools a,b",
        "TTL job:j:worker",
        "TTL worker:w:alive",
        "TTL queue:a",
        "EXISTS job:j queue:a",
        "TYPE job:j",
        "SISMEMBER capability:sort:workers w",
        "KEYS queue:*",
        "SCAN 0",
    ];
    check(
        &lines,
        &expect![[r#"
            GET job:j:stdout
              call Own -> View(Mentioning { job: "j", field: Stdout, then: Get, reader: Everyone, worker: Some("w") })
              ask Find -> Lookup(Job(Field(Stdout, Get)))
              reply Null
            GET plan:p
              ask Find -> Lookup(Named(Plan(Find(Value(Get)))))
              reply Null
            GET action:a
              ask Find -> Lookup(Named(Action(About(Value(Get)))))
              reply Null
            GET worker:w:alive
              ask Worker -> Lookup(Worker(Field(Alive, Get)))
              reply Null
            GET nothing
              reply Error("ERR not a command for the broker")
            HGET job:j status
              stored keys -> View(Metadata { key: Job { id: "j", field: Whole }, part: Field(b"status"), wanted: Some([b"status"]…
              call Own -> View(Mentioning { job: "j", field: Whole, then: Hash { part: Field(b"status"), kept: [] }, reader: E…
              ask Find -> Lookup(Job(Field(Whole, Hash { part: Field(b"status"), kept: [] })))
              reply Null
            MGET job:j plan:p
              call Own -> View(Mentioning { job: "j", field: Whole, then: GetMany { left: [View(Plan { id: "p" })], found: [] …
              ask Find -> Lookup(Job(Field(Whole, GetMany { left: [View(Plan { id: "p" })], found: [] })))
              ask Find -> Lookup(Named(Plan(Find(Value(GetMany { left: [], found: [Null] })))))
              reply Array([Null, Null])
            SET job:j:status completed
              call Own -> Worker(AboutHeld { then: Set { job: "j", report: Some(Completed), worker: Some("w") }, job: "j", wor…
              ask Find -> Lookup(Job(HeldAfterAll { then: Set { job: "j", report: Some(Completed), worker: Some("w") }, worker…
              ask Find -> Lookup(Job(NotHeld { job: "j", report: Some(Completed), worker: Some("w") }))
              reply Error("ERR Job not found: j")
            SET worker:w:tools a,b
              call Become("w") -> Worker(Saying { worker: "w", done: Simple("OK") })
              reply Error("ERR Worker not registered: w")
            TTL job:j:worker
              ask Find -> Lookup(Job(TimeToLive { milliseconds: false }))
              reply Integer(-2)
            TTL worker:w:alive
              ask Worker -> Lookup(Worker(TimeToLive { field: Alive, milliseconds: false, dead_after: 90s }))
              reply Integer(-2)
            TTL queue:a
              ask Queue -> Keyspace(FindingQueue("a", TimeToLive { milliseconds: false }))
              reply Integer(-2)
            EXISTS job:j queue:a
              ask Queue -> Keyspace(FindingQueue("a", Exists([View(Job { id: "j", field: Whole })], 0)))
              stored keys -> View(StoredOr(Some(Job { id: "j", field: Whole }), Exists([], 0)))
              ask Find -> Lookup(Job(IsThere(Exists([], 0))))
              reply Integer(0)
            TYPE job:j
              ask Find -> Lookup(Job(IsThere(OrStored(Type(Some("string")), Type { key: b"job:j" }))))
              stored keys -> View(Answering)
              reply Integer(0)
            SISMEMBER capability:sort:workers w
              ask ScanWorkers -> Lookup(Workers([], Members { capability: "sort", then: Has("w") }))
              reply Integer(0)
            KEYS queue:*
              ask Queues -> Keyspace(Walking(At { table: Queues, place: 0 }, Keys(WantedKeys { pattern: b"queue:*", kind: None }…
              reply Array([])
            SCAN 0
              reply Error("ERR not a command for the broker")
        "#]],
    );
}

#[test]
fn flows_of_plans_and_actions() {
    let lines = [
        r#"PLAN.SUBMIT '{"plan_id":"p","tasks":[{"task_number":1,"command":"ls"}]}'"#,
        "PLAN.GET p",
        "PLAN.LIST",
        "PLAN.DELETE p",
        r#"ACTION.SUBMIT '{"plan_id":"p","inputs":[1]}'"#,
        "ACTION.GET a",
        "ACTION.LIST",
    ];
    check(
        &lines,
        &expect![[r#"
            PLAN.SUBMIT '{"plan_id":"p","tasks":[{"task_number":1,"command":"ls"}]}'
              ask Find -> Lookup(Named(Plan(Submit { plan: "p", json: Object {"plan_id": String("p"), "tasks": Array [Object {…
              ask Submit -> Plan(StoringFirst { plan: "p", then: Submitted { plan: "p", answer: Id } })
              reply Error("ERR Job not found: absent")
            PLAN.GET p
              ask Find -> Lookup(Named(Plan(Find(Get { plan: "p" }))))
              reply Error("ERR Plan not found: p")
            PLAN.LIST
              ask List -> Lookup(Page(List(PagedList { then: Plans { page: PageOptions { offset: 0, limit: 100 } }, keep: Plan…
              reply Array([])
            PLAN.DELETE p
              ask Find -> Lookup(Named(Plan(Delete { plan: "p" })))
              reply Integer(0)
            ACTION.SUBMIT '{"plan_id":"p","inputs":[1]}'
              ask Find -> Lookup(Named(Plan(Find(With { plan: "p", then: Action((SubmittedAction { action: Action { id: None, …
              reply Error("ERR Plan not found: p")
            ACTION.GET a
              ask Find -> Lookup(Named(Action(About(Get { action: "a", page: PageOptions { offset: 0, limit: 100 } }))))
              reply Error("ERR Action not found: a")
            ACTION.LIST
              ask List -> Lookup(Page(List(PagedList { then: Actions { wanted: None, page: PageOptions { offset: 0, limit: 100…
              reply Bulk(b"[]")
        "#]],
    );
}

#[test]
fn flows_of_workers() {
    let lines = [
        r#"WORKER.REGISTER '{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":[]}'"#,
        "WORKER.HEARTBEAT w",
        "WORKER.UNREGISTER w",
        r#"WORKER.VERIFY sort '{"command":"sort"}'"#,
        r#"WORKER.VERIFY sort '{"output":"x"}'"#,
        "WORKERS.LIST",
    ];
    check(
        &lines,
        &expect![[r#"
        WORKER.REGISTER '{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":[]}'
          call Become("w") -> Worker(Saying { worker: "w", done: Simple("OK worker_id=w heartbeat_interval=30") })
          reply Error("ERR Worker not registered: w")
        WORKER.HEARTBEAT w
          call Known("w") -> Worker(Saying { worker: "w", done: Simple("OK") })
          reply Error("ERR Worker not registered: w")
        WORKER.UNREGISTER w
          call Known("w") -> Worker(Unregistering { worker: "w" })
          ask Worker -> Lookup(Worker(Forget { name: "w" }))
          reply Error("ERR Worker not registered: w")
        WORKER.VERIFY sort '{"command":"sort"}'
          ask ScanWorkers -> Lookup(Workers([], Challenge(Asking { capability: "sort", command: "sort", arguments: [], worker: No…
          reply Error("ERR No worker offers sort")
        WORKER.VERIFY sort '{"output":"x"}'
          call Own -> Worker(Verifying)
          reply Error("ERR Worker not registered: ")
        WORKERS.LIST
          ask ScanWorkers -> Lookup(Workers([], List))
          reply Array([])
    "#]],
    );
}

#[test]
fn a_connection_that_waits_holds_little() {
    let bytes = (size_of::<super::CommandFlow>(), size_of::<FlowStep>());
    assert!(bytes.0 <= 200, "{bytes:?}");
}
