//! Stand-ins for the existing workers, of three generations, and for the command-line submitter: what each of them says and
//! what it reads, as it was seen on the wire.

use crate::support::world::World;
use serde_json::{Value, json};

const SUBMITTER: usize = 50;

/// The JSON of a bulk answer.
fn json_of(lines: &[String]) -> Value {
    let text = lines.last().expect("an answer").strip_prefix("$ ").expect("a bulk string");
    serde_json::from_str(text).expect("JSON")
}

fn text(lines: &[String]) -> String {
    lines.last().expect("an answer").strip_prefix("$ ").expect("a bulk string").to_owned()
}

/// One argument in the quoting of the transcripts.
fn quoted(argument: &str) -> String {
    format!("\"{}\"", argument.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// The submitter sends a whole envelope as a plan, reads it back, and runs it once. Returns the id of the job.
fn submit(world: &mut World, plan: &str, tasks: &Value) -> String {
    let envelope =
        json!({"job_id": "job-of-the-client", "plan_id": plan, "plan_description": "d", "tasks": tasks});
    assert_eq!(text(&world.ask(SUBMITTER, &format!("PLAN.SUBMIT {}", quoted(&envelope.to_string())))), plan);
    let listed = world.ask(SUBMITTER, "PLAN.LIST");
    assert!(listed[0].starts_with('*'), "an array of bulk JSON");
    let summary = json_of(&listed);
    assert_eq!((&summary["plan_id"], &summary["description"]), (&plan.into(), &"d".into()));
    assert_eq!(summary["task_count"].as_u64(), Some(tasks.as_array().expect("a list").len() as u64));
    assert!(summary["created_at"].is_string());
    let read = json_of(&world.ask(SUBMITTER, &format!("PLAN.GET {plan}")));
    assert_eq!(read["tasks"], *tasks);
    let action = format!("action_{plan}");
    let request = json!({"action_id": action, "plan_id": plan, "inputs": [{"path": "/tmp/in"}]});
    let answer = json_of(&world.ask(SUBMITTER, &format!("ACTION.SUBMIT {}", quoted(&request.to_string()))));
    assert_eq!((&answer["action_id"], &answer["jobs_created"]), (&action.into(), &1.into()));
    assert!(answer.get("plan_description").is_some());
    answer["job_ids"][0].as_str().expect("an id").to_owned()
}

fn status(world: &mut World, job: &str) -> Value {
    json_of(&world.ask(SUBMITTER, &format!("JOB.STATUS {job}")))
}

/// What all generations say at their start, and how they report.
struct Worker {
    client: usize,
    id: &'static str,
}

impl Worker {
    fn start(world: &mut World, client: usize, id: &'static str) -> Worker {
        assert_eq!(world.ask(client, "CLIENT SETINFO LIB-NAME redis-rs"), ["+OK"]);
        assert_eq!(world.ask(client, "AUTH 00112233"), ["+OK"]);
        let worker = Worker { client, id };
        worker.ping(world);
        worker
    }

    fn ping(&self, world: &mut World) {
        assert_eq!(text(&world.ask(self.client, &format!("PING {}", self.id))), self.id);
    }

    fn pull(&self, world: &mut World, queue: &str) -> String {
        text(&world.ask(self.client, &format!("BRPOPLPUSH {queue} queue:processing 5")))
    }

    fn post(&self, world: &mut World, job: &str, element: &str) {
        for (key, value) in [("stdout", "out\n"), ("stderr", ""), ("status", "completed")] {
            let set = format!("SET job:{job}:{key} {}", quoted(value));
            assert_eq!(world.ask(self.client, &set), ["+OK"], "{key}");
        }
        let remove = format!("LREM queue:processing 1 {}", quoted(element));
        assert_eq!(world.ask(self.client, &remove), [":1"]);
    }
}

fn two_steps() -> Value {
    json!([
        {"task_number": 1, "command": "sort", "args": ["-r", "{{input.path}}"], "timeout_secs": 300},
        {"task_number": 2, "command": "uniq", "args": [], "timeout_secs": 300, "input_from_task": 1},
    ])
}

#[test]
fn the_oldest_generation_reads_whole_jobs_and_asks_for_nothing() {
    let mut world = World::new(false);
    let worker = Worker::start(&mut world, 1, "agw-oldest");
    for round in ["first", "second"] {
        let job = submit(&mut world, round, &two_steps());
        let element = worker.pull(&mut world, "queue:ready");
        let whole: Value = serde_json::from_str(&element).expect("a whole job");
        assert_eq!((&whole["job_id"], &whole["plan_id"]), (&job.as_str().into(), &round.into()));
        assert_eq!(whole["tasks"], two_steps());
        worker.ping(&mut world);
        worker.post(&mut world, &job, &element);
        assert_eq!(status(&mut world, &job)["stdout"], "out\n");
    }
}

#[test]
fn the_second_generation_asks_for_the_job_and_its_plan_by_key() {
    let mut world = World::new(false);
    let worker = Worker::start(&mut world, 1, "agw-second");
    for (round, element_is_id) in [("first", false), ("second", true)] {
        let job = submit(&mut world, round, &two_steps());
        let element = worker.pull(&mut world, "queue:ready");
        // From its first question on the worker is known to read ids.
        assert_eq!(element == job, element_is_id, "{element}");
        let read = json_of(&world.ask(1, &format!("GET {}", quoted(&format!("job:{element}")))));
        assert_eq!((&read["job_id"], &read["plan_id"]), (&job.as_str().into(), &round.into()));
        assert_eq!((&read["input"]["path"], &read["status"]), (&"/tmp/in".into(), &"running".into()));
        let plan = json_of(&world.ask(1, &format!("GET plan:{round}")));
        assert_eq!((&plan["plan_id"], &plan["tasks"]), (&round.into(), &two_steps()));
        worker.post(&mut world, &job, &element);
        assert_eq!(status(&mut world, &job)["status"], "completed");
    }
}

#[test]
fn the_newest_generation_sets_tags_and_reads_one_command() {
    let mut world = World::new(false);
    assert_eq!(world.ask(1, "SET worker:agw-newest:tags cpu"), ["+OK"]);
    let worker = Worker::start(&mut world, 1, "agw-newest");
    assert_eq!(world.ask(2, "GET worker:agw-newest:tags"), ["$ cpu"]);
    let job = submit(&mut world, "p", &json!([{"task_number": 1, "command": "sort", "args": ["-r"]}]));
    let element = worker.pull(&mut world, "queue:default");
    assert_eq!(element, job);
    let read = json_of(&world.ask(1, &format!("JOB.GET {element}")));
    let id = read["id"].as_str().expect("an id").to_owned();
    assert_eq!((&read["action_id"], &read["plan_id"]), (&"action_p".into(), &"p".into()));
    assert_eq!((&read["task_number"], &read["command"]), (&1.into(), &"sort".into()));
    assert_eq!((&read["args"], &read["env"]), (&json!(["-r"]), &json!({"path": "/tmp/in"})));
    assert!(read["tags"].as_array().expect("a list").iter().all(Value::is_string));
    assert_eq!(read["status"], "running");
    worker.post(&mut world, &id, &element);
    assert_eq!(status(&mut world, &job)["status"], "completed");
}

#[test]
fn a_job_that_needs_a_tag_goes_to_the_worker_that_set_it() {
    let mut world = World::new(false);
    world.ask(1, "SET worker:plain:tags cpu");
    world.ask(2, "SET worker:strong:tags gpu,cpu");
    world.ask(3, r#"JOB.SUBMIT '{"job_id":"train","body":"x","needs":["gpu"]}'"#);
    assert_eq!(world.ask(1, "RPOPLPUSH queue:default queue:processing"), ["$-1"]);
    assert_eq!(world.ask(2, "RPOPLPUSH queue:default queue:processing"), ["$ train"]);
}

#[test]
fn a_worker_that_ended_on_an_element_loses_nothing() {
    let mut world = World::new(false);
    let worker = Worker::start(&mut world, 1, "agw-1");
    let job = submit(&mut world, "p", &two_steps());
    worker.pull(&mut world, "queue:ready");
    world.close(1);
    let other = Worker::start(&mut world, 2, "agw-2");
    let element: Value = serde_json::from_str(&other.pull(&mut world, "queue:ready")).expect("a whole job");
    assert_eq!((&element["job_id"], &element["attempt"]), (&job.as_str().into(), &2.into()));
}

/// These workers stop reading what they fetch when their heartbeat is due, and never learn of the job.
#[test]
fn a_worker_whose_heartbeat_interrupts_its_fetching_receives_the_job_again() {
    for (queue, fetches) in [
        ("queue:ready", &["GET job:{job}"][..]),
        ("queue:ready", &["GET job:{job}", "GET plan:p"]),
        ("queue:default", &["JOB.GET {job}"]),
    ] {
        let mut world = World::new(false);
        let worker = Worker::start(&mut world, 1, "agw-1");
        let job = submit(&mut world, "p", &json!([{"task_number": 1, "command": "ls"}]));
        worker.pull(&mut world, queue);
        for fetch in fetches {
            world.ask(1, &fetch.replace("{job}", &job));
        }
        worker.ping(&mut world);
        let element = worker.pull(&mut world, queue);
        assert!(element.contains(&job), "{queue} {fetches:?}: {element}");
        worker.post(&mut world, &job, &element);
        let ended = status(&mut world, &job);
        assert_eq!((&ended["status"], &ended["attempt"]), (&"completed".into(), &2.into()));
    }
}

/// A program may pull ahead, ping on another connection, or ping late: it has the job.
#[test]
fn a_worker_that_pulls_ahead_keeps_the_job_that_it_fetched() {
    let ahead: [(&str, &[(usize, &str)]); 4] = [
        ("without a heartbeat", &[]),
        ("with a heartbeat of another connection", &[(2, "PING agw-1")]),
        ("after a report", &[(1, "SET job:{job}:stdout half"), (1, "PING agw-1")]),
        ("after a pull", &[(1, "RPOPLPUSH queue:ready queue:processing"), (1, "PING agw-1")]),
    ];
    for (how, said) in ahead {
        let mut world = World::new(false);
        let worker = Worker::start(&mut world, 1, "agw-1");
        let job = submit(&mut world, "p", &json!([{"task_number": 1, "command": "ls"}]));
        worker.pull(&mut world, "queue:ready");
        world.ask(1, &format!("GET job:{job}"));
        for (client, line) in said {
            world.ask(*client, &line.replace("{job}", &job));
        }
        assert_eq!(world.ask(1, "RPOPLPUSH queue:ready queue:processing"), ["$-1"], "{how}");
        let held = status(&mut world, &job);
        assert_eq!((&held["status"], &held["attempt"]), (&"running".into(), &1.into()), "{how}");
    }
}

#[test]
fn the_operators_of_the_submitter_read_lists() {
    let mut world = World::new(false);
    submit(&mut world, "p", &two_steps());
    for (list, first) in [("JOBS.LIST", "*1"), ("WORKERS.LIST", "*0"), ("QUEUE.STATS", "*4")] {
        assert_eq!(world.ask(SUBMITTER, list)[0], first, "{list}");
    }
    assert_eq!(world.ask(SUBMITTER, "PLAN.GET nothing"), ["-ERR Plan not found: nothing"]);
}

#[test]
fn a_worker_may_name_as_many_tools_as_a_machine_has() {
    let mut world = World::new(false);
    let tools: Vec<String> = (0..4096).map(|number| format!("some-tool-{number}")).collect();
    let set = format!("SET worker:w:tools {}", tools.join(","));
    assert_eq!(world.ask(1, &set), ["+OK"]);
    let registration = json!({"worker_id": "v", "hostname": "h", "agw_version": "1",
        "capabilities": {"tools": &tools[..3000], "agentic_units": []}});
    let register = format!("WORKER.REGISTER '{registration}'");
    assert_eq!(world.ask(2, &register), ["+OK worker_id=v heartbeat_interval=30"]);
    assert_eq!(json_of(&world.ask(2, "GET worker:v:metadata")), registration);
    assert_eq!(world.ask(3, "SCARD capability:some-tool-7:workers"), [":2"]);
    let one_more = format!("SET worker:w:tools one-more,{}", tools.join(","));
    assert_eq!(world.ask(1, &one_more), ["-ERR Invalid capabilities format"]);
}
