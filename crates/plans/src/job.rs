//! The body of a job that runs a plan: a door renders it, a worker reads it.

use serde_json::{Map, Value, json};

use crate::{Plan, PlanTasks, SchemaError};

/// What a worker runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanJob {
    /// What the job runs.
    pub tasks: PlanTasks,
    /// The input of the first task, unless the task names another: text as it is, anything else as JSON.
    pub input: Option<String>,
}

/// Which job of which action.
#[derive(Clone, Copy, Debug)]
pub struct OfAction<'a> {
    /// The id of the action.
    pub action: &'a str,
    /// Which input of the action this job is for.
    pub index: usize,
    /// How many jobs the action has.
    pub jobs: usize,
}

impl PlanJob {
    /// Whether a body is that of a plan's job.
    pub fn is_in(body: &Map<String, Value>) -> bool {
        body.contains_key("plan") || body.contains_key("tasks")
    }

    /// Reads `{"plan": {"tasks": […]}, "inputs": …}`, or a body that has its `tasks` and `input` itself.
    pub fn parse(body: &Map<String, Value>) -> Result<Self, SchemaError> {
        let plan = match body.get("plan").filter(|plan| !plan.is_null()) {
            Some(plan) => plan.clone(),
            None => json!({"plan_description": body.get("plan_description"), "tasks": body.get("tasks")}),
        };
        let tasks = Plan::tasks_of(plan)?;
        let input =
            ["input", "inputs"].iter().find_map(|name| body.get(*name)).filter(|input| !input.is_null());
        let input = input.map(|input| input.as_str().map_or_else(|| input.to_string(), str::to_owned));
        Ok(Self { tasks, input })
    }

    /// Renders the body of one job: the plan as it was submitted, and its input.
    pub fn render(plan: &Value, input: &Value, of: Option<OfAction<'_>>) -> String {
        let mut body = json!({"plan": plan, "inputs": input});
        if let Some(id) = plan.get("plan_id") {
            body["plan_id"] = id.clone();
        }
        if let Some(of) = of {
            body["action_id"] = of.action.into();
            body["input_index"] = of.index.into();
            body["jobs_created"] = of.jobs.into();
        }
        body.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<PlanJob, String> {
        let Ok(Value::Object(body)) = serde_json::from_str(json) else { panic!("{json}") };
        PlanJob::parse(&body).map_err(|error| error.to_string())
    }

    #[test]
    fn a_plan_stands_alone_or_in_the_body_itself() {
        let tasks = r#"[{"task_number": 1, "command": "sort", "args": ["-r"], "timeout_secs": 30}, {"task_number": 2, "command": "uniq", "input_from_task": 1}]"#;
        let alone = parse(&format!(r#"{{"plan": {{"plan_id": "p", "tasks": {tasks}}}, "input": "b\na\n"}}"#));
        let alone = alone.unwrap();
        assert_eq!((alone.tasks.len(), alone.input.as_deref()), (2, Some("b\na\n")));
        let body =
            format!(r#"{{"job_id": "j", "plan_id": "p", "tasks": {tasks}, "inputs": {{"file": "1"}}}}"#);
        let flat = parse(&body).unwrap();
        assert_eq!((flat.tasks, flat.input.as_deref()), (alone.tasks, Some(r#"{"file":"1"}"#)));
    }

    #[test]
    fn a_worker_reads_what_a_door_renders() {
        let plan =
            json!({"plan_id": "p", "plan_description": "d", "tasks": [{"task_number": 1, "command": "ls"}]});
        let of = OfAction { action: "a", index: 1, jobs: 2 };
        let body = PlanJob::render(&plan, &json!("x"), Some(of));
        assert!(body.contains(r#""action_id":"a","input_index":1,"inputs":"x","jobs_created":2"#), "{body}");
        let job = parse(&body).unwrap();
        assert_eq!((&*job.tasks[0].command, job.input.as_deref()), ("ls", Some("x")));
        let alone = PlanJob::render(&json!({"tasks": plan["tasks"]}), &Value::Null, None);
        assert_eq!(parse(&alone).unwrap(), PlanJob { tasks: job.tasks, input: None });
    }

    #[test]
    fn a_mistake_in_a_plan_is_named() {
        for (json, word) in [
            (r#"{"plan": {}}"#, "Missing required field tasks"),
            (r#"{"plan": 7}"#, "not a JSON object"),
            (r#"{"tasks": []}"#, "tasks is empty"),
            (r#"{"tasks": [{"task_number": 2, "command": "ls"}]}"#, "contiguous"),
            (r#"{"tasks": [{"task_number": 1, "command": ""}]}"#, "command is empty"),
            (r#"{"tasks": [{"task_number": 1, "command": "ls", "input_from_task": 1}]}"#, "not an earlier"),
            (r#"{"tasks": [{"command": "ls"}]}"#, "task_number"),
            (r#"{"plan": {"tasks": [{"task_number": 1, "command": "ls", "arg": []}]}}"#, "unknown field arg"),
        ] {
            assert!(parse(json).unwrap_err().contains(word), "{json}");
        }
    }
}
