//! RESP. The list of verbs is the one that the door itself dispatches by.

use tenure_door_resp::testing::{Reply, command_names};
use tenure_hub::words::Command;
use tenure_hub::{Request, TopicAct};

use super::what::{HELD, TASK, What};
use super::{Findings, Holder, Row, Verdict};
use crate::peers::Resp;
use crate::support::Broker;

pub(super) fn examine(broker: &Broker, findings: &mut Findings) {
    let address = broker.doors["resp"].as_str().unwrap();
    let verbs: Vec<String> = command_names().map(str::to_owned).collect();
    let all = super::holders().pop().expect("a key with all rights");
    let pushed = Resp::with_key(address, &all.key).ask(r#"LPUSH queue:kept '{"job_id":"kept"}'"#);
    assert_eq!(pushed, Some(Reply::Integer(1)));
    findings.examine("RESP", &verbs, &rows(), |holder, lines| ask(address, holder, lines));
}

fn ask(address: &str, holder: &Holder, lines: &[String]) -> Result<Verdict, String> {
    let mut peer = Resp::with_key(address, &holder.key);
    let mut is_refused = false;
    for line in lines {
        let line = line.replace("HOLDER", holder.name);
        let Some(answer) = peer.ask(&line) else { return Err(format!("no answer to {line}")) };
        let said = format!("{answer:?}");
        if ["unknown command", "wrong number of arguments", "syntax error"].iter().any(|no| said.contains(no))
        {
            return Err(format!("this is no example: {line}: {said}"));
        }
        is_refused |= said.contains("NOPERM");
    }
    Ok(if is_refused { Verdict::Refused } else { Verdict::Allowed })
}

/// Reading a job: with `read` all of them, with `work` those that it holds, and it holds none here.
fn read_job() -> What {
    What::read()
}

/// Reading what tells a worker how to do its job.
fn read_plan() -> What {
    What::either(What::read(), What::take())
}

fn steer() -> What {
    What::command(Command::Cancel { task: TASK, reason: None })
}

fn rows() -> Vec<Row<Vec<String>>> {
    let worker = r#"'{"worker_id":"resp-HOLDER","hostname":"h","agw_version":"1","capabilities":[]}'"#;
    let register = format!("WORKER.REGISTER {worker}");
    let plan = r#"PLAN.SUBMIT '{"plan_id":"p","tasks":[{"task_number":1,"command":"ls"}]}'"#;
    let action = r#"ACTION.SUBMIT '{"plan_id":"p","inputs":[1]}'"#;
    let report = What::complete;
    let events = || What::Topic(TopicAct::SubscribeToEvents);
    let rows: Vec<(&'static str, Vec<&str>, What)> = vec![
        ("auth", vec!["AUTH absent nothing"], What::Protocol),
        ("client", vec!["CLIENT ID"], What::Protocol),
        ("command", vec!["COMMAND COUNT"], What::Protocol),
        ("discard", vec!["MULTI", "DISCARD"], What::Protocol),
        ("echo", vec!["ECHO x"], What::Protocol),
        ("exec", vec!["MULTI", "EXEC"], What::Protocol),
        ("hello", vec!["HELLO 3"], What::Protocol),
        ("info", vec!["INFO"], What::Protocol),
        ("multi", vec!["MULTI"], What::Protocol),
        ("ping", vec!["PING"], What::Protocol),
        ("quit", vec!["QUIT"], What::Protocol),
        ("reset", vec!["RESET"], What::Protocol),
        ("role", vec!["ROLE"], What::Protocol),
        ("select", vec!["SELECT 0"], What::Protocol),
        ("time", vec!["TIME"], What::Protocol),
        ("unsubscribe", vec!["UNSUBSCRIBE"], What::Protocol),
        ("punsubscribe", vec!["PUNSUBSCRIBE"], What::Protocol),
        // A transaction is no way around.
        ("exec", vec!["MULTI", "LPUSH queue:resp x", "EXEC"], What::submit()),
        ("exec", vec!["MULTI", "GET job:kept", "EXEC"], read_job()),
        ("exec", vec!["MULTI", "RPOP queue:nothing", "EXEC"], What::take()),
        ("lpush", vec!["LPUSH queue:resp x"], What::submit()),
        ("job.submit", vec![r#"JOB.SUBMIT '{"body":"x","queue":"resp"}'"#], What::submit()),
        ("plan.submit", vec![plan], What::submit()),
        ("plan.delete", vec!["PLAN.DELETE nothing"], What::submit()),
        ("action.submit", vec![action], What::submit()),
        ("job.cancel", vec!["JOB.CANCEL nothing"], steer()),
        (
            "job.pause",
            vec!["JOB.PAUSE nothing"],
            What::command(Command::Pause { task: TASK, reason: None, terminate: false }),
        ),
        ("job.resume", vec!["JOB.RESUME nothing"], What::command(Command::Resume { task: TASK })),
        ("job.retry", vec!["JOB.RETRY nothing"], What::command(Command::Retry { task: TASK })),
        ("rpop", vec!["RPOP queue:nothing"], What::take()),
        ("brpop", vec!["BRPOP queue:nothing 0.01"], What::take()),
        ("rpoplpush", vec!["RPOPLPUSH queue:nothing queue:processing"], What::take()),
        ("brpoplpush", vec!["BRPOPLPUSH queue:nothing queue:processing 0.01"], What::take()),
        ("lmove", vec!["LMOVE queue:nothing queue:processing RIGHT LEFT"], What::take()),
        ("blmove", vec!["BLMOVE queue:nothing queue:processing RIGHT LEFT 0.01"], What::take()),
        ("lrem", vec!["LREM queue:processing 1 nothing"], report()),
        ("job.update", vec![r#"JOB.UPDATE nothing '{"status":"completed"}'"#], report()),
        ("set", vec!["SET job:nothing:status completed"], report()),
        ("set", vec!["SET job:kept:stdout x"], report()),
        ("worker.register", vec![&register], What::register()),
        (
            "worker.heartbeat",
            vec!["WORKER.HEARTBEAT nothing"],
            What::command(Command::Heartbeat { held: None, stats: None }),
        ),
        ("worker.unregister", vec!["WORKER.UNREGISTER nothing"], What::command(Command::Leave)),
        // It hands a command to another key's worker.
        (
            "worker.verify",
            vec![r#"WORKER.VERIFY nothing '{"command":"ls"}'"#],
            What::command(Command::ClearWorker { worker: "w".into() }),
        ),
        ("get", vec!["GET job:kept"], read_job()),
        ("get", vec!["GET job:kept:result"], read_job()),
        ("get", vec!["GET worker:w:metadata"], What::read()),
        ("get", vec!["GET plan:p"], read_plan()),
        ("hget", vec!["HGET job:kept status"], read_job()),
        ("hgetall", vec!["HGETALL job:kept"], read_job()),
        ("job.get", vec!["JOB.GET kept"], read_job()),
        ("job.status", vec!["JOB.STATUS kept"], read_job()),
        ("plan.get", vec!["PLAN.GET nothing"], read_plan()),
        ("mget", vec!["MGET job:kept job:other"], What::read()),
        ("exists", vec!["EXISTS job:kept"], What::read()),
        ("type", vec!["TYPE job:kept"], What::read()),
        ("ttl", vec!["TTL job:kept:worker"], What::read()),
        ("pttl", vec!["PTTL job:kept:worker"], What::read()),
        ("keys", vec!["KEYS *"], What::read()),
        ("scan", vec!["SCAN 0"], What::read()),
        ("smembers", vec!["SMEMBERS capability:sort:workers"], What::read()),
        ("sismember", vec!["SISMEMBER capability:sort:workers w"], What::read()),
        ("scard", vec!["SCARD capability:sort:workers"], What::read()),
        ("llen", vec!["LLEN queue:kept"], What::read()),
        ("lrange", vec!["LRANGE queue:kept 0 -1"], What::read()),
        ("queue.peek", vec!["QUEUE.PEEK kept"], What::read()),
        ("queue.stats", vec!["QUEUE.STATS"], What::read()),
        (
            "queue.threshold",
            vec!["QUEUE.THRESHOLD kept DEPTH 1000"],
            What::command(Command::SetThresholds { queue: "kept".into(), thresholds: None }),
        ),
        (
            "limit.set",
            vec!["LIMIT.SET t 7"],
            What::command(Command::SetLimit { tag: "t".into(), limit: Some(7) }),
        ),
        (
            "limit.delete",
            vec!["LIMIT.DELETE t"],
            What::command(Command::SetLimit { tag: "t".into(), limit: None }),
        ),
        ("limit.list", vec!["LIMIT.LIST"], What::read()),
        (
            "limit.rate",
            vec!["LIMIT.RATE t 10/m BURST 5", "LIMIT.RATE t NONE"],
            What::command(Command::SetTagRate { tag: "t".into(), rate: None }),
        ),
        (
            "queue.rate",
            vec!["QUEUE.RATE q 10/m", "QUEUE.RATE q NONE"],
            What::command(Command::SetQueueRate { queue: "q".into(), rate: None }),
        ),
        (
            "share.set",
            vec!["SHARE.SET s 2"],
            What::command(Command::SetShare { share: "s".into(), weight: Some(2) }),
        ),
        (
            "share.delete",
            vec!["SHARE.DELETE s"],
            What::command(Command::SetShare { share: "s".into(), weight: None }),
        ),
        ("share.list", vec!["SHARE.LIST"], What::read()),
        (
            "schedule.set",
            vec![r#"SCHEDULE.SET s '{"when":"@yearly","job":{"body":""}}'"#],
            What::command(What::new_schedule()),
        ),
        (
            "schedule.delete",
            vec!["SCHEDULE.DELETE s"],
            What::command(Command::RemoveSchedule { schedule: "s".into() }),
        ),
        (
            "schedule.pause",
            vec!["SCHEDULE.PAUSE s"],
            What::command(Command::PauseSchedule { schedule: "s".into() }),
        ),
        (
            "schedule.resume",
            vec!["SCHEDULE.RESUME s"],
            What::command(Command::ResumeSchedule { schedule: "s".into() }),
        ),
        (
            "schedule.run",
            vec!["SCHEDULE.RUN s"],
            What::command(Command::RunSchedule { schedule: "s".into() }),
        ),
        ("schedule.get", vec!["SCHEDULE.GET s"], What::read()),
        ("schedule.list", vec!["SCHEDULE.LIST"], What::read()),
        ("array.submit", vec![r#"ARRAY.SUBMIT '{"size":1,"job":{"body":""}}'"#], What::submit_array()),
        (
            "array.limit",
            vec!["ARRAY.LIMIT 07070707-0707-0707-0707-070707070707 NONE"],
            What::command(Command::LimitArray { array: TASK, limit: None }),
        ),
        (
            "array.cancel",
            vec!["ARRAY.CANCEL 07070707-0707-0707-0707-070707070707"],
            What::command(Command::Cancel { task: TASK, reason: None }),
        ),
        (
            "array.pause",
            vec!["ARRAY.PAUSE 07070707-0707-0707-0707-070707070707"],
            What::command(Command::Pause { task: TASK, reason: None, terminate: false }),
        ),
        (
            "array.resume",
            vec!["ARRAY.RESUME 07070707-0707-0707-0707-070707070707"],
            What::command(Command::Resume { task: TASK }),
        ),
        (
            "array.retry",
            vec!["ARRAY.RETRY 07070707-0707-0707-0707-070707070707"],
            What::command(Command::Retry { task: TASK }),
        ),
        ("array.get", vec!["ARRAY.GET nothing"], What::read()),
        ("array.list", vec!["ARRAY.LIST"], What::read()),
        ("reconcile", vec![r#"RECONCILE p/ '{"apply":true}'"#], What::reconcile()),
        ("job.list", vec!["JOB.LIST"], What::read()),
        ("jobs.list", vec!["JOBS.LIST"], What::read()),
        ("jobs.search", vec!["JOBS.SEARCH pending"], What::read()),
        ("action.get", vec!["ACTION.GET nothing"], What::read()),
        ("action.list", vec!["ACTION.LIST"], What::read()),
        ("action.status", vec!["ACTION.STATUS nothing"], What::read()),
        ("plan.list", vec!["PLAN.LIST"], What::read()),
        ("workers.list", vec!["WORKERS.LIST"], What::read()),
        ("capability.search", vec!["CAPABILITY.SEARCH sort"], What::read()),
        ("metrics", vec!["METRICS"], What::Hub(Request::Stats)),
        ("xread", vec!["XREAD STREAMS events 0"], What::watch()),
        ("xrange", vec!["XRANGE events 0 9"], What::watch()),
        ("subscribe", vec!["SUBSCRIBE news"], What::Topic(TopicAct::Subscribe)),
        ("subscribe", vec!["SUBSCRIBE job:updates"], events()),
        ("subscribe", vec!["SUBSCRIBE news task.created"], events()),
        ("psubscribe", vec!["PSUBSCRIBE news.*"], What::Topic(TopicAct::Subscribe)),
        ("psubscribe", vec!["PSUBSCRIBE *"], events()),
        ("psubscribe", vec!["PSUBSCRIBE job:*"], events()),
        ("psubscribe", vec!["PSUBSCRIBE t[a]sk.*"], events()),
        ("publish", vec!["PUBLISH news x"], What::Topic(TopicAct::Publish)),
        // Reports of the worker that the connection registers: no key gets there without its right.
        (
            "set",
            vec![&register, "SET worker:resp-HOLDER:alive 1"],
            What::both(What::register(), What::command(Command::Start(vec![HELD]))),
        ),
    ];
    let owned = |lines: Vec<&str>| lines.into_iter().map(str::to_owned).collect();
    let rows = rows.into_iter().map(|(verb, lines, what)| Row { verb, what, example: owned(lines) });
    rows.chain(super::resp_keys::rows()).collect()
}
