//! Plans: several commands, one after the other, on one worker.

use serde_json::json;
use tenure_client::Submission;

use crate::stage::Stage;

fn plan(body: &serde_json::Value) -> Submission {
    Submission::to("default").body(body.to_string())
}

#[test]
fn a_step_reads_what_an_earlier_one_wrote() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let tasks = json!([
        { "task_number": 1, "command": "sort", "args": ["-r"], "timeout_secs": 30 },
        { "task_number": 2, "command": "uniq", "input_from_task": 1 },
        { "task_number": 3, "command": "wc", "args": ["-l"], "input_from_task": 1 },
    ]);
    let body = json!({ "plan": { "plan_id": "p", "tasks": tasks }, "input": "a\nb\na\n" });
    let (ended, result) = stage.result(stage.submit(plan(&body)));
    assert_eq!(ended.state.as_str(), "completed", "{ended:?}");
    let steps = result["task_results"].as_array().unwrap();
    let outputs: Vec<&str> = steps.iter().map(|step| step["stdout"].as_str().unwrap().trim()).collect();
    assert_eq!(outputs, ["b\na\na", "b\na", "3"]);
    assert_eq!(steps[1]["task_number"].as_i64(), Some(2));
    assert_eq!(result["stdout"].as_str().map(str::trim), Some("3"), "the last step's output is the plan's");
}

#[test]
fn a_plan_stops_at_the_first_step_that_fails() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let tasks = json!([
        { "task_number": 1, "command": "echo", "args": ["one"] },
        { "task_number": 2, "command": "sh", "args": ["-c", "cat; exit 7"], "input_from_task": 1 },
        { "task_number": 3, "command": "echo", "args": ["never"] },
    ]);
    // As a job that carries its tasks itself.
    let (ended, result) =
        stage.result(stage.submit(plan(&json!({ "job_id": "j", "tasks": tasks, "inputs": {} }))));
    assert_eq!((ended.state.as_str(), ended.exit_code), ("failed", 7));
    assert!(ended.message.unwrap().contains("step 2 of 3"));
    let steps = result["task_results"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    assert_eq!((steps[1]["stdout"].as_str(), steps[1]["exit_code"].as_i64()), (Some("one\n"), Some(7)));
}

#[test]
fn a_step_has_no_longer_than_it_may_have() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let tasks = json!([
        { "task_number": 1, "command": "sleep", "args": ["300"], "timeout_secs": 1 },
        { "task_number": 2, "command": "echo", "args": ["never"] },
    ]);
    let (ended, result) = stage.result(stage.submit(plan(&json!({ "tasks": tasks }))));
    assert_eq!((ended.state.as_str(), ended.exit_code), ("failed", 143));
    assert!(ended.message.unwrap().contains("step 1 ran longer"));
    assert_eq!(result["task_results"][0]["timed_out"].as_bool(), Some(true));
}

#[test]
fn a_plan_that_cannot_be_run_fails_with_what_is_wrong() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let ended = stage.wait(stage.submit(plan(&json!({ "tasks": [{ "task_number": 2, "command": "ls" }] }))));
    assert!(ended.message.unwrap().contains("contiguous"));
}
