//! What comes out of a job, and what a job shows: nothing is lost, nothing is made up.

use std::time::Duration;

use crate::support::peer::command;
use crate::support::world::World;
use serde_json::{Value, json};

/// A broker where client 1 holds these jobs, as a worker that never said who it is.
fn holding(jobs: &[&str]) -> World {
    let mut world = World::new(false);
    for job in jobs {
        world.ask(2, &format!(r#"LPUSH queue:a '{{"job_id":"{job}"}}'"#));
        assert_eq!(world.ask(1, "BRPOPLPUSH queue:a queue:processing 1"), [format!("$ {job}")]);
    }
    world
}

fn ok(world: &mut World, command: &str) {
    assert_eq!(world.ask(1, command), ["+OK"], "{command}");
}

fn shown(world: &mut World, command: &str) -> Value {
    let lines = world.ask(99, command);
    serde_json::from_str(lines[0].strip_prefix("$ ").expect("a bulk string")).expect("JSON")
}

#[test]
fn a_result_never_takes_the_place_of_what_the_broker_says() {
    let mut world = holding(&["j"]);
    let result = json!({"stdout": "out", "status": "failed", "job_id": "zz", "queue": "other", "exit_code": 9,
        "completed_at": "never", "attempt": 7, "wanted": "cancel"});
    let update = json!({"status": "completed", "result": result.to_string()}).to_string();
    world.send(1, &command(&["JOB.UPDATE".to_owned(), "j".to_owned(), update]));
    assert_eq!(world.heard(1), ["+OK"]);
    for look in ["JOB.STATUS j", "JOB.GET j"] {
        let job = shown(&mut world, look);
        assert_eq!((&job["job_id"], &job["queue"]), (&"j".into(), &"a".into()), "{job}");
        assert_eq!((&job["status"], &job["attempt"]), (&"completed".into(), &1.into()), "{job}");
        assert_eq!((&job["stdout"], &job["exit_code"]), (&"out".into(), &0.into()), "{job}");
        assert_ne!(job["completed_at"], "never");
        assert_eq!(job["wanted"], Value::Null, "{job}");
    }
    assert_eq!(world.ask(2, "GET job:j:result"), [format!("$ {result}")], "it is kept as it came");
}

#[test]
fn outputs_add_up_whichever_way_they_come() {
    let mut world = holding(&["bits", "keys", "both"]);
    ok(&mut world, r#"JOB.UPDATE bits '{"stdout":"a"}'"#);
    ok(&mut world, r#"JOB.UPDATE bits '{"stderr":"b","progress_percent":10}'"#);
    ok(&mut world, r#"JOB.UPDATE bits '{"status":"completed"}'"#);
    assert_eq!(world.ask(2, "GET job:bits:result"), [r#"$ {"stderr":"b","stdout":"a"}"#]);

    ok(&mut world, "SET job:keys:stdout abc");
    ok(&mut world, "SET job:keys:stderr err");
    ok(&mut world, r#"JOB.UPDATE keys '{"status":"completed","task_results":[{"task_number":1}]}'"#);
    assert_eq!(world.ask(2, "MGET job:keys:stdout job:keys:stderr"), ["*2", "$ abc", "$ err"]);
    assert_eq!(shown(&mut world, "JOB.STATUS keys")["task_results"][0]["task_number"], 1);

    ok(&mut world, r#"JOB.UPDATE both '{"task_results":[{"task_number":1,"stdout":"step"}]}'"#);
    ok(&mut world, "SET job:both:stdout first");
    ok(&mut world, "SET job:both:stdout abc");
    assert_eq!(world.ask(1, "LREM queue:processing 1 both"), [":1"]);
    assert_eq!(world.ask(2, "GET job:both:stdout"), ["$ abc"], "the last word counts");
    assert_eq!(shown(&mut world, "JOB.STATUS both")["task_results"][0]["stdout"], "step");
}

#[test]
fn saved_outputs_outlive_the_broker() {
    let outputs: [&[&str]; 3] = [
        &["SET job:j:stdout out", "SET job:j:stderr err"],
        &[r#"JOB.UPDATE j '{"stdout":"out","progress_percent":90}'"#, r#"JOB.UPDATE j '{"stderr":"err"}'"#],
        &[r#"JOB.UPDATE j '{"status":"running","stdout":"out","stderr":"er"}'"#, "SET job:j:stderr err"],
    ];
    for words in outputs {
        let mut world = World::new(false);
        world.ask(2, r#"LPUSH queue:a '{"job_id":"j"}'"#);
        world.ask(1, "PING old");
        world.ask(1, "BRPOPLPUSH queue:a queue:processing 1");
        words.iter().for_each(|words| ok(&mut world, words));
        let mut world = world.restart();
        assert_eq!(world.ask(1, "PING old"), ["$ old"]);
        ok(&mut world, "SET job:j:status completed");
        assert_eq!(world.ask(2, "GET job:j:result"), [r#"$ {"stderr":"err","stdout":"out"}"#], "{words:?}");
    }
}

#[test]
fn saved_outputs_do_not_outlive_the_attempt() {
    let mut world = World::new(false);
    world.ask(2, r#"LPUSH queue:a '{"job_id":"j"}'"#);
    world.ask(1, "PING old");
    world.ask(1, "BRPOPLPUSH queue:a queue:processing 1");
    ok(&mut world, "SET job:j:stdout half");
    world.close(1);
    world.pass(Duration::from_secs(600));
    world.ask(3, "PING new");
    assert_eq!(world.ask(3, "BRPOPLPUSH queue:a queue:processing 1"), ["$ j"]);
    let mut world = world.restart();
    world.ask(3, "PING new");
    assert_eq!(world.ask(3, "SET job:j:stderr err"), ["+OK"]);
    assert_eq!(world.ask(3, "SET job:j:status completed"), ["+OK"]);
    assert_eq!(world.ask(2, "GET job:j:result"), [r#"$ {"stderr":"err"}"#]);
}

#[test]
fn a_result_and_outputs_stand_beside_each_other() {
    let mut world = holding(&["j", "k"]);
    ok(&mut world, r#"JOB.UPDATE j '{"status":"completed","result":"42","stdout":"x"}'"#);
    assert_eq!(world.ask(2, "MGET job:j:result job:j:stdout"), ["*2", "$ 42", "$ x"]);
    let job = shown(&mut world, "JOB.STATUS j");
    assert_eq!((&job["result"], &job["stdout"]), (&"42".into(), &"x".into()));
    ok(&mut world, "SET job:k:result 42");
    ok(&mut world, "SET job:k:stdout x");
    ok(&mut world, "SET job:k:status completed");
    assert_eq!(world.ask(2, "MGET job:k:result job:k:stdout"), ["*2", "$ 42", "$ x"]);
}

#[test]
fn bytes_that_are_no_text_come_out_as_they_went_in() {
    let mut world = holding(&["j"]);
    let set = [&b"SET"[..], b"job:j:stdout", b"\xff\0bin"];
    let mut bytes = format!("*{}\r\n", set.len()).into_bytes();
    for word in set {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    world.send(1, &bytes);
    assert_eq!(world.heard(1), ["+OK"]);
    ok(&mut world, "SET job:j:stderr text");
    ok(&mut world, "SET job:j:status completed");
    let job = shown(&mut world, "JOB.STATUS j");
    assert_eq!((&job["stdout_base64"], &job["stderr"]), (&"/wBiaW4=".into(), &"text".into()), "{job}");
    assert_eq!(world.ask(2, "HGET job:j stdout_base64"), ["$ /wBiaW4="]);
    assert_eq!(world.ask(2, "GET job:j:stdout"), [String::from_utf8_lossy(b"$ \xff\0bin")]);
}

#[test]
fn a_report_that_contradicts_itself_is_refused_and_changes_nothing() {
    let mut world = holding(&["j", "k", "l"]);
    for (update, why) in [
        (r#"{"status":"completed","exit_code":3}"#, "a completed job has exit_code 0, report failed"),
        (r#"{"status":"completed","error":"no"}"#, "a completed job has no error, report failed"),
        (r#"{"status":"running","exit_code":3}"#, "error and exit_code belong to a job that ends"),
    ] {
        let refused = world.ask(1, &format!("JOB.UPDATE j '{update}'"));
        assert_eq!(refused, [format!("-ERR Invalid update: {why}")]);
    }
    assert_eq!(shown(&mut world, "JOB.STATUS j")["status"], "running");
    ok(&mut world, r#"JOB.UPDATE j '{"status":"failed","exit_code":-9,"error":"killed"}'"#);
    let job = shown(&mut world, "JOB.STATUS j");
    assert_eq!((&job["exit_code"], &job["error"]), (&(-9).into(), &"killed".into()), "{job}");
    // A code that means another end to the broker is kept as an output.
    ok(&mut world, r#"JOB.UPDATE k '{"status":"failed","exit_code":-2,"stdout":"x"}'"#);
    let job = shown(&mut world, "JOB.STATUS k");
    assert_eq!((&job["exit_code"], &job["status"]), (&1.into(), &"failed".into()), "{job}");
    assert_eq!(world.ask(2, "GET job:k:result"), [r#"$ {"exit_code":-2,"stdout":"x"}"#]);
    ok(&mut world, "SET job:l:stdout half");
    assert_eq!(world.ask(2, "JOB.CANCEL l"), ["+OK cancellation requested"]);
    ok(&mut world, r#"JOB.UPDATE l '{"status":"cancelled","exit_code":130}'"#);
    assert_eq!(world.ask(2, "GET job:l:stdout"), ["$ half"]);
    assert_eq!(world.ask(2, "GET job:l:result"), [r#"$ {"exit_code":130,"stdout":"half"}"#]);
}

#[test]
fn only_the_list_of_what_workers_hold_is_where_a_job_is_finished() {
    let mut world = holding(&["j"]);
    for list in ["queue:a", "queue:other", "queue:scheduled", "queue:ready"] {
        assert_eq!(world.ask(1, &format!("LREM {list} 1 j")), [":0"], "{list}");
        assert_eq!(world.ask(3, &format!("LREM {list} 1 j")), [":0"], "{list}");
    }
    assert_eq!(shown(&mut world, "JOB.STATUS j")["status"], "running");
    assert_eq!(world.ask(1, "LREM queue:processing 1 j"), [":1"]);
    assert_eq!(shown(&mut world, "JOB.STATUS j")["status"], "completed");
    assert_eq!(world.ask(1, "LREM queue:a 1 j"), [":0"], "it is not there");
    assert_eq!(world.ask(1, "LREM queue:processing 1 j"), [":1"], "it may have been reported before");
    world.ask(2, r#"LPUSH queue:a '{"job_id":"waits"}'"#);
    assert_eq!(world.ask(2, "LREM queue:other 1 waits"), [":0"]);
    assert_eq!(world.ask(2, "LREM queue:a 1 waits"), [":1"]);
    assert_eq!(shown(&mut world, "JOB.STATUS waits")["status"], "cancelled");
}

#[test]
fn a_worker_may_keep_what_it_holds_on_a_list_of_its_own() {
    let mut world = World::new(false);
    world.ask(2, r#"LPUSH queue:a '{"job_id":"j"}' '{"job_id":"k"}'"#);
    assert_eq!(world.ask(1, "BRPOPLPUSH queue:a queue:mine 1"), ["$ j"]);
    assert_eq!(world.ask(1, "LMOVE queue:a queue:mine RIGHT LEFT"), ["$ k"]);
    assert_eq!(world.ask(1, "LREM queue:mine 1 j"), [":1"]);
    assert_eq!(world.ask(1, "LREM queue:processing 1 k"), [":1"]);
    for job in ["j", "k"] {
        assert_eq!(shown(&mut world, &format!("JOB.STATUS {job}"))["status"], "completed");
    }
}

#[test]
fn a_verb_that_does_not_fit_is_refused_in_words() {
    let mut world = holding(&["done"]);
    ok(&mut world, "SET job:done:status completed");
    assert_eq!(world.ask(2, "JOB.RETRY done"), ["-ERR Job not in failed status"]);
    assert_eq!(world.ask(2, "JOB.CANCEL done"), ["-ERR Job cannot be cancelled: done is completed"]);
    assert_eq!(world.ask(2, "JOB.PAUSE done"), ["-ERR Job cannot be paused: done is completed"]);
    world.ask(2, r#"JOB.SUBMIT '{"job_id":"p","body":"x"}'"#);
    assert_eq!(world.ask(2, "JOB.RESUME p"), ["-ERR Job not paused: p is pending"]);
    assert_eq!(world.ask(2, "JOB.CANCEL p"), ["+OK job cancelled"]);
    let not_held = ["-ERR Job not held by a worker: p is cancelled"];
    assert_eq!(world.ask(1, "SET job:p:stdout x"), not_held);
    assert_eq!(world.ask(1, r#"JOB.UPDATE p '{"progress_percent":5}'"#), not_held);
}

#[test]
fn a_job_shows_the_terms_in_force() {
    let mut world = World::new(false);
    world.ask(2, r#"JOB.SUBMIT '{"job_id":"whole","body":"x"}'"#);
    let submitted = json!({"job_id": "part", "body": "x", "priority": 5, "policy": "pause", "max_retries": 2,
        "retry_delay_secs": 1.5, "crash_budget": 7, "run_limit_secs": 60, "parent": "whole", "tags": ["t"]});
    assert_eq!(world.ask(2, &format!("JOB.SUBMIT '{submitted}'")), ["$ part"]);
    let job = shown(&mut world, "JOB.GET part");
    for field in
        ["priority", "policy", "max_retries", "retry_delay_secs", "crash_budget", "run_limit_secs", "tags"]
    {
        assert_eq!(job[field], submitted[field], "{field}");
    }
    assert_eq!(job["parent"], shown(&mut world, "JOB.GET whole")["id"]);
    assert_eq!(job["body_fields"], Value::Null);
}

#[test]
fn what_only_the_body_says_does_not_look_like_state() {
    let mut world = World::new(false);
    let body = json!({"job_id": "j", "input": 1, "worker_id": "me", "max_retries": 9, "delay_secs": 60,
        "run_limit_secs": 5, "priority": 7, "status": "completed", "stdout": "made up", "needs": ["gpu"]});
    assert_eq!(world.ask(2, &format!("LPUSH queue:a '{body}'")), [":1"]);
    let job = shown(&mut world, "JOB.GET j");
    assert_eq!((&job["status"], &job["input"]), (&"pending".into(), &1.into()));
    assert_eq!((&job["max_retries"], &job["priority"]), (&0.into(), &0.into()));
    assert_eq!((&job["run_limit_secs"], &job["needs"]), (&Value::Null, &json!([])));
    for field in ["worker_id", "delay_secs", "stdout"] {
        assert_eq!(job[field], Value::Null, "{field}");
    }
    let mut said = body;
    for field in ["job_id", "input"] {
        said.as_object_mut().expect("an object").remove(field);
    }
    assert_eq!(job["body_fields"], said, "and nothing of it is lost");
}

#[test]
fn times_in_sentences_are_written_like_all_others() {
    let mut world = holding(&["j"]);
    world.ask(2, r#"JOB.SUBMIT '{"job_id":"later","body":"x","delay_secs":60}'"#);
    let later = shown(&mut world, "JOB.STATUS later");
    let run_at = later["run_at"].as_str().expect("a time");
    assert_eq!(later["waiting_because"], format!("not before {run_at}"));
    ok(&mut world, "SET job:j:status completed");
    world.close(1);
    world.ask(2, r#"LPUSH queue:a '{"job_id":"k"}'"#);
    let waits = shown(&mut world, "JOB.STATUS k");
    let why = waits["waiting_because"].as_str().expect("a sentence");
    assert!(why.starts_with("all workers of queue a have been gone since 20") && why.ends_with('Z'), "{why}");
}

#[test]
fn a_job_that_dies_is_dead_in_its_event_too() {
    let mut world = World::new(false);
    world.ask(2, r#"JOB.SUBMIT '{"job_id":"j","body":"x","crash_budget":1}'"#);
    world.ask(11, "BRPOP queue:ready 5");
    world.ask(11, "JOB.GET j");
    world.close(11);
    world.pass(Duration::from_secs(1));
    assert_eq!(shown(&mut world, "JOB.STATUS j")["status"], "dead");
    let events = world.ask(2, "XREAD STREAMS events:j 0");
    let crashed = events.iter().position(|line| line == "$ crashed").expect("the crash is an event");
    assert!(events[crashed..].contains(&"$ dead".to_owned()), "{events:?}");
}

#[test]
fn what_a_body_says_comes_out_as_it_was_written() {
    let mut world = World::new(false);
    let body = r#"{"job_id":"big","number":12345678901234567890123,"precise":0.10000000000000000001}"#;
    world.ask(2, &format!("LPUSH queue:ready '{body}'"));
    let popped = world.ask(1, "RPOP queue:ready").remove(0);
    assert!(popped.contains(r#""number":12345678901234567890123,"#), "{popped}");
    assert!(popped.contains(r#""precise":0.10000000000000000001,"#), "{popped}");
}

#[test]
fn that_a_job_runs_is_answered_when_it_is_on_disk() {
    let mut world = World::new(false);
    world.ask(2, r#"LPUSH queue:ready '{"job_id":"j"}'"#);
    world.ask(1, "RPOP queue:ready");
    world.disk_stands_still = true;
    let running = r#"JOB.UPDATE j '{"status":"running"}'"#;
    assert!(world.ask(1, running).is_empty(), "nothing is promised before it is written");
    world.disk_stands_still = false;
    world.pass(Duration::from_millis(1));
    assert_eq!(world.heard(1), ["+OK"]);
    assert_eq!(world.ask(1, running), ["+OK"], "once more is no news");
}
