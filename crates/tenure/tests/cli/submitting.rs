//! Submitting: bodies from everywhere, many at once, and following a task to its end.

use serde_json::json;

use crate::support::Broker;

#[test]
fn a_body_comes_from_the_argument_a_file_or_stdin() {
    let broker = Broker::start();
    let body = |task: &str| broker.tenure(&["show", "--body", task]).ok();
    assert_eq!(body(&broker.submit(&["-q", "q", "typed"])), "typed");
    let file = broker.dir.join("body.txt");
    std::fs::write(&file, "from a file").unwrap();
    assert_eq!(body(&broker.submit(&["-q", "q", "--file", file.to_str().unwrap()])), "from a file");
    let said = broker.tenure_fed(&["submit", "-q", "q", "-", "-o", "json"], b"from stdin");
    assert_eq!(body(said.json()["task"].as_str().unwrap()), "from stdin");
    let task = broker.submit(&["--env", "A=1", "--cwd", "/tmp", "--", "echo", "a b"]);
    assert_eq!(body(&task), r#"{"command":["echo","a b"],"env":{"A":"1"},"cwd":"/tmp"}"#);
    broker.tenure(&["submit", "-q", "q"]).fails(64, "body");
    broker.tenure(&["submit", "--file", "/nowhere"]).fails(65, "/nowhere");
}

#[test]
fn people_read_the_id_and_why_no_worker_can_take_it_yet() {
    let broker = Broker::start();
    let said = broker.tenure(&["submit", "-q", "images", "--name", "n", "x"]);
    assert!(said.err.contains("no worker has ever served queue images"), "{said:?}");
    // `id=$(tenure submit …)` is the id and nothing else.
    assert_eq!((said.out.trim_end().len(), said.out.lines().count()), (36, 1), "{said:?}");
    let again = broker.tenure(&["submit", "-q", "images", "--name", "n", "x"]);
    assert_eq!(again.out, said.out);
    assert!(again.err.contains("known already"), "{again:?}");
}

#[test]
fn every_option_of_a_task_arrives() {
    let broker = Broker::start();
    let parent = broker.submit(&["-q", "q", "--hold", "p"]);
    let task = broker.submit(&[
        "-q",
        "images",
        "--name",
        "scan-7",
        "--priority",
        "-3",
        "--need",
        "gpu,big",
        "--tag",
        "lab",
        "--parent",
        &parent,
        "--not-before",
        "2h",
        "--expires",
        "2099-01-01T00:00:00Z",
        "--on-lost",
        "pause",
        "--crash-budget",
        "1",
        "--retries",
        "4",
        "--backoff",
        "2s",
        "--backoff-max",
        "1m",
        "--accept-timeout",
        "9s",
        "--run-limit",
        "3h",
        "--cancel-timeout",
        "20s",
        "--slots",
        "2",
        "--cpus",
        "4",
        "--mem",
        "8GB",
        "--gpus",
        "0.5",
        "--resource",
        "licence=2",
        "x",
    ]);
    let shown = broker.tenure(&["show", "name:scan-7", "-o", "json"]).json();
    for (field, value) in [
        ("id", json!(task)),
        ("state", json!("delayed")),
        ("queue", json!("images")),
        ("priority", json!(-3)),
        ("needs", json!(["big", "gpu"])),
        ("tags", json!(["lab"])),
        ("parent", json!(parent)),
        ("expires_at", json!("2099-01-01T00:00:00.000Z")),
        ("on_lost", json!("pause")),
        ("crash_budget", json!(1)),
        ("retries", json!(4)),
        ("backoff_first_ms", json!(2_000)),
        ("backoff_max_ms", json!(60_000)),
        ("accept_timeout_ms", json!(9_000)),
        ("run_limit_ms", json!(10_800_000)),
        ("cancel_timeout_ms", json!(20_000)),
        ("slots", json!(2)),
        ("resources", json!({"cpus": 4, "gpus": 0.5, "licence": 2, "mem": 8_000_000_000_u64})),
        ("submitter", json!("ada")),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(shown["timeline"][0]["kind"], "submitted");
}

#[test]
fn a_name_makes_it_idempotent_and_an_id_of_its_own_unrepeatable() {
    let broker = Broker::start();
    let first = broker.submit(&["-q", "q", "--name", "n", "x"]);
    let again = broker.tenure(&["submit", "-q", "q", "--name", "n", "x", "-o", "json"]).json();
    assert_eq!(again["task"], first.as_str());
    assert_eq!(again["known"], true);
    broker.tenure(&["submit", "-q", "q", "--name", "n", "other"]).fails(76, "name-taken");
    let id = "0190b5a2-77f0-7cc3-98b4-dc0c0c07398f";
    assert_eq!(broker.submit(&["-q", "q", "--id", id, "x"]), id);
    broker.tenure(&["submit", "-q", "q", "--id", id, "x"]).fails(76, "id-taken");
}

#[test]
fn many_come_as_lines_of_json() {
    let broker = Broker::start();
    let lines = (0..2_500)
        .map(|n| format!("{{\"body\": {{\"n\": {n}}}, \"name\": \"n{n}\", \"tags\": [\"many\"]}}\n"));
    let said = broker.tenure_fed(
        &["submit", "-q", "bulk", "--jsonl", "-", "-o", "jsonl"],
        lines.collect::<String>().as_bytes(),
    );
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.lines().len(), 2_500);
    let counts = broker.tenure(&["stats", "-o", "json"]).json();
    assert_eq!(counts["by_state"]["ready"], 2_500);
    assert_eq!(broker.tenure(&["show", "--body", "name:n2499"]).ok(), "{\"n\":2499}");
}

#[test]
fn a_line_that_cannot_be_understood_is_reported_by_its_number() {
    let broker = Broker::start();
    let feed = |lines: &str| broker.tenure_fed(&["submit", "-q", "q", "--jsonl", "-"], lines.as_bytes());
    feed("{\"body\": \"a\"}\n\n{\"bdoy\": \"b\"}\n")
        .fails(65, "-:3: `bdoy` is not a known field: did you mean `body`?");
    feed("{\"body\": \"a\", \"priority\": \"high\"}\n").fails(65, "-:1: priority");
    feed("not json\n").fails(65, "-:1: is not JSON");
    assert_eq!(broker.tenure(&["stats", "-o", "json"]).json()["by_state"]["ready"], 0);
}

#[test]
fn wait_follows_a_task_and_ends_with_its_result_and_exit_code() {
    let broker = Broker::start();
    let _worker = broker.worker("w1", "q");
    let said = broker.tenure(&["submit", "-q", "q", "--wait", "the laundry"]);
    assert_eq!((said.code, said.out.as_str()), (0, "did the laundry"), "{}", said.err);
    assert!(
        said.err.contains("started by worker w1") && said.err.contains("completed by worker w1"),
        "{}",
        said.err
    );
    let said = broker.tenure(&["submit", "-q", "q", "--wait", "fail 7"]);
    assert_eq!(said.code, 7, "{}", said.err);
    assert!(said.err.contains("as the body says"), "{}", said.err);
    // A task's code is never mistaken for one of the program's own.
    assert_eq!(broker.tenure(&["submit", "-q", "q", "--wait", "fail 69"]).code, 80);
    let said = broker.tenure(&["submit", "-q", "q", "--wait", "x", "-o", "jsonl"]);
    let lines = said.lines();
    assert_eq!(lines.last().unwrap()["state"], "completed");
    assert!(lines.iter().any(|line| line["kind"] == "started" && line["worker"] == "w1"), "{}", said.out);
}

#[test]
fn a_known_name_is_followed_even_if_its_task_has_ended() {
    let broker = Broker::start();
    let _worker = broker.worker("w1", "q");
    for _ in 0..2 {
        assert_eq!(broker.tenure(&["submit", "-q", "q", "--name", "n", "--wait", "x"]).ok(), "did x");
    }
}

#[test]
fn wait_gives_up_in_time_and_the_task_goes_on() {
    let broker = Broker::start();
    let said = broker.tenure(&["submit", "-q", "absent", "--wait", "--timeout", "200ms", "x", "-o", "jsonl"]);
    assert_eq!(said.code, 83, "{}", said.err);
    let task = said.lines()[0]["task"].as_str().unwrap().to_owned();
    assert_eq!(broker.state(&task), "ready");
}

#[test]
fn json_is_one_document_and_has_the_result() {
    let broker = Broker::start();
    let _worker = broker.worker("w1", "q");
    let ended = broker.tenure(&["submit", "-q", "q", "--wait", "x", "-o", "json"]).json();
    assert_eq!((ended["state"].as_str(), ended["result"].as_str()), (Some("completed"), Some("did x")));
    let task = ended["task"].as_str().unwrap();
    let ended = broker.tenure(&["wait", task, "-o", "json"]).json();
    assert_eq!(ended["result"], "did x");
    let both = broker.tenure(&["wait", task, task, "-o", "json"]).json();
    assert_eq!(both.as_array().map(Vec::len), Some(2), "{both}");
    let lines = b"{\"body\": \"a\"}\n{\"body\": \"b\"}\n";
    let both = broker.tenure_fed(&["submit", "-q", "q", "--jsonl", "-", "-o", "json"], lines).json();
    assert_eq!(both[1]["known"], false, "{both}");
    let both =
        broker.tenure_fed(&["submit", "-q", "q", "--jsonl", "-", "--wait", "-o", "json"], lines).json();
    assert_eq!(both[1]["state"], "completed", "{both}");
}

#[test]
fn a_refused_line_is_named() {
    let broker = Broker::start();
    let lines = b"{\"body\": \"a\"}\n\n{\"body\": \"b\", \"expires\": \"2001-01-01T00:00:00Z\"}\n";
    let said = broker.tenure_fed(&["submit", "-q", "q", "--jsonl", "-"], lines);
    assert!(said.err.contains("-:3: refused"), "{said:?}");
    let said = broker.tenure_fed(&["submit", "-q", "q", "--jsonl", "-", "-o", "jsonl"], lines);
    assert_eq!(said.lines()[1]["refused"]["line"], 3, "{said:?}");
}

#[test]
fn other_tasks_are_named_by_short_ids_and_by_their_place_in_an_array() {
    let broker = Broker::start();
    let end = |id: &str| id[id.len() - 8..].to_owned();
    let first = broker.submit(&["-q", "q", "a"]);
    let said = broker.tenure(&["submit", "-q", "q", "--array", "5-7", "--name", "sweep", "-o", "json", "x"]);
    let array = said.json()["array"].as_str().unwrap().to_owned();
    let element =
        broker.tenure(&["show", "name:sweep[7]", "-o", "json"]).json()["id"].as_str().unwrap().to_owned();
    let after = |task: &str| {
        let shown = broker.tenure(&["show", "--no-timeline", "-o", "json", task]).json();
        let list = shown["after"].as_array().unwrap().clone();
        list.iter().map(|one| one["task"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // On the command line, in a line of JSON and in a job file.
    let both = format!("{}:ended,{}", end(&first), end(&array));
    assert_eq!(after(&broker.submit(&["-q", "q", "--after", &both, "b"])), [first.clone(), array.clone()]);
    for text in [format!("{}[7]", end(&array)), "sweep[7]".to_owned(), "name:sweep[7]:failed".to_owned()] {
        assert_eq!(after(&broker.submit(&["-q", "q", "--after", &text, "b"])), [element.as_str()], "{text}");
    }
    broker.tenure(&["submit", "-q", "q", "--after", "sweep[9]", "b"]).fails(76, "no element");
    let line = format!(r#"{{"body": "c", "after": ["{}"], "parent": "{}"}}"#, end(&first), end(&first));
    let said = broker.tenure_fed(&["submit", "-q", "q", "--jsonl", "-", "-o", "jsonl"], line.as_bytes());
    let child = said.lines()[0]["task"].as_str().unwrap().to_owned();
    assert_eq!(after(&child), [first.as_str()]);
    let job = broker.dir.join("job.toml");
    let text = format!(
        "command = [\"true\"]\nqueue = \"q\"\nafter = [\"{}\"]\nparent = \"{}\"\n",
        end(&first),
        end(&first)
    );
    std::fs::write(&job, text).unwrap();
    let of_job = broker.submit(&[job.to_str().unwrap()]);
    assert_eq!(after(&of_job), [first.as_str()]);
    let ids = |pair: String| {
        let listed = broker.tenure(&["list", "--elements", "--where", &pair, "-o", "json"]).json();
        listed
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(format!("parent={}", end(&first))), [child.clone(), of_job]);
    assert_eq!(ids(format!("array={}", end(&array))).len(), 3);
    assert_eq!(ids("array=name:sweep".to_owned()).len(), 3);
    let said =
        broker.tenure(&["cancel", "--where", &format!("array={}", end(&array)), "--yes", "-o", "json"]);
    assert_eq!(said.json()["done"], 3);
}

#[test]
fn a_name_of_hexadecimal_digits_comes_before_an_id() {
    let broker = Broker::start();
    let other = broker.submit(&["-q", "q", "a"]);
    let digits = &other[other.len() - 8..];
    let named = broker.submit(&["-q", "q", "--name", digits, "b"]);
    let after = broker.submit(&["-q", "q", "--after", digits, "c"]);
    let shown = broker.tenure(&["show", "--no-timeline", "-o", "json", &after]).json();
    assert_eq!(shown["after"][0]["task"], named.as_str());
    // A name of an earlier line, which the broker does not know yet.
    let lines = "{\"body\": \"d\", \"name\": \"abcdef01\"}\n{\"body\": \"e\", \"after\": \"abcdef01\"}\n";
    let said = broker.tenure_fed(&["submit", "-q", "q", "--jsonl", "-", "-o", "jsonl"], lines.as_bytes());
    assert_eq!(said.code, 0, "{said:?}");
    broker.tenure(&["submit", "-q", "q", "--after", "abcdef99", "c"]).fails(76, "unknown-name");
}

#[test]
fn a_line_of_sh_runs_when_the_waiting_is_over() {
    let broker = Broker::start();
    let _worker = broker.worker("w", "q");
    let said = broker.dir.join("said");
    let notify = format!("echo noise; echo $TENURE_TASK_ID $TENURE_STATE >> {}", said.display());
    let submitted = broker.tenure(&["submit", "-q", "q", "--notify", &notify, "-o", "jsonl", "fail 3"]);
    assert_eq!(submitted.code, 3, "{submitted:?}");
    let task = submitted.lines()[0]["task"].as_str().unwrap().to_owned();
    let array =
        broker.tenure(&["submit", "-q", "q", "--array", "1-2", "--notify", &notify, "-o", "jsonl", "a"]);
    let array = array.lines()[0]["array"].as_str().unwrap().to_owned();
    let held = ["submit", "-q", "q", "--hold", "--notify", &notify, "--timeout", "100ms", "-o", "jsonl", "a"];
    let held = broker.tenure(&held);
    assert_eq!(held.code, 83, "{held:?}");
    let held = held.lines()[0]["task"].as_str().unwrap().to_owned();
    let expected = format!("{task} failed\n{array} completed\n{held} created\n");
    assert_eq!(std::fs::read_to_string(&said).unwrap(), expected);
    broker.tenure(&["submit", "-q", "q", "--notify", "exit 7", "a"]).ok();
    broker.tenure(&["submit", "-q", "q", "--timeout", "1s", "a"]).fails(64, "add --wait");
}

#[test]
fn a_task_that_is_cancelled_as_it_comes_says_so() {
    let broker = Broker::start();
    let failed = broker.submit(&["-q", "q", "--name", "failed", "x"]);
    broker.tenure(&["cancel", &failed]).ok();
    let said = broker.tenure(&["submit", "-q", "q", "--after", "failed", "y"]);
    assert_eq!((said.code, said.out.trim().len()), (0, 36), "{said:?}");
    let expected = format!(
        "it is cancelled already, because of how a task of --after has ended: tenure explain {}\n",
        end(said.out.trim())
    );
    assert_eq!(said.err, expected);
    assert!(broker.tenure(&["explain", end(said.out.trim())]).ok().contains("(failed) ended as cancelled"));
    let held = broker.tenure(&["submit", "-q", "q", "--after", "failed", "--after-broken", "hold", "y"]);
    assert!(held.err.starts_with("it is paused already, because of how"), "{held:?}");
    let array = broker.tenure(&["submit", "-q", "q", "--after", "failed", "--array", "1-3", "y"]);
    assert!(array.err.starts_with("it is cancelled already, because of how"), "{array:?}");
    let file = broker.dir.join("lines");
    std::fs::write(&file, "{\"body\": \"z\", \"queue\": \"q\", \"after\": \"failed\"}\n").unwrap();
    let lines = broker.tenure(&["submit", "--jsonl", file.to_str().unwrap()]);
    assert_eq!(
        lines.err, "1 task is cancelled already, because of how a task of `after` has ended\n",
        "{lines:?}"
    );
}

/// The digits of an id that the command line shows.
fn end(id: &str) -> &str {
    &id[id.len() - 8..]
}
