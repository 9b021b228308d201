//! A plan: commands that run one after the other on one worker, each reading what an earlier one wrote.

use serde::Deserialize;
use serde_json::{Map, Value};

/// How many steps a plan has at most.
pub(crate) const STEPS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// What the first step reads, unless it says otherwise: text as it is, anything else as JSON.
    pub(crate) input: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Step {
    pub(crate) task_number: u32,
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) timeout_secs: Option<u64>,
    /// The earlier step whose output this one reads.
    #[serde(default)]
    pub(crate) input_from_task: Option<u32>,
}

impl Plan {
    /// From `{"plan": {"tasks": […]}, "input": …}`, or from a job that has its `tasks` and `inputs` itself.
    pub(crate) fn parse(fields: &Map<String, Value>) -> Result<Plan, String> {
        let tasks = match fields.get("plan") {
            Some(Value::Object(plan)) => plan.get("tasks"),
            _ => fields.get("tasks"),
        };
        let Some(tasks @ Value::Array(_)) = tasks else {
            return Err("the plan has no list of tasks".to_owned());
        };
        let steps: Vec<Step> = serde_json::from_value(tasks.clone())
            .map_err(|error| format!("the plan cannot be read: {error}"))?;
        check(&steps)?;
        let input =
            ["input", "inputs"].iter().find_map(|name| fields.get(*name)).filter(|input| !input.is_null());
        let input = input.map(|input| input.as_str().map_or_else(|| input.to_string(), str::to_owned));
        Ok(Plan { steps, input })
    }

    /// Whether a later step reads what this one writes.
    pub(crate) fn is_read(&self, task_number: u32) -> bool {
        self.steps.iter().any(|step| step.input_from_task == Some(task_number))
    }
}

fn check(steps: &[Step]) -> Result<(), String> {
    if steps.is_empty() {
        return Err("the plan has no tasks".to_owned());
    }
    if steps.len() > STEPS_MAX {
        return Err(format!("the plan has {} tasks, at most {STEPS_MAX} are taken", steps.len()));
    }
    for (expected, step) in (1..).zip(steps) {
        let number = step.task_number;
        if number != expected {
            return Err(format!(
                "the plan's task numbers must be contiguous from 1, expected {expected}, got {number}"
            ));
        }
        if step.command.is_empty()
            || step.command.contains('\0')
            || step.args.iter().any(|arg| arg.contains('\0'))
        {
            return Err(format!("task {number} of the plan has no command that could be run"));
        }
        if let Some(from) = step.input_from_task
            && !(1..number).contains(&from)
        {
            return Err(format!(
                "task {number} of the plan has input_from_task {from}, which is not an earlier task"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Plan, String> {
        let Ok(Value::Object(fields)) = serde_json::from_str(json) else { panic!("{json}") };
        Plan::parse(&fields)
    }

    #[test]
    fn a_plan_comes_alone_or_in_a_job() {
        let tasks = r#"[{"task_number": 1, "command": "sort", "args": ["-r"], "timeout_secs": 30}, {"task_number": 2, "command": "uniq", "input_from_task": 1}]"#;
        let alone = parse(&format!(r#"{{"plan": {{"plan_id": "p", "tasks": {tasks}}}, "input": "b\na\n"}}"#))
            .unwrap();
        assert_eq!((alone.steps.len(), alone.input.as_deref()), (2, Some("b\na\n")));
        assert!(alone.is_read(1) && !alone.is_read(2));
        let job = parse(&format!(
            r#"{{"job_id": "j", "plan_id": "p", "tasks": {tasks}, "inputs": {{"file": "1"}}}}"#
        ))
        .unwrap();
        assert_eq!((job.steps, job.input.as_deref()), (alone.steps, Some(r#"{"file":"1"}"#)));
    }

    #[test]
    fn what_is_wrong_with_a_plan_is_said() {
        for (json, word) in [
            (r#"{"plan": {}}"#, "no list"),
            (r#"{"tasks": []}"#, "no tasks"),
            (r#"{"tasks": [{"task_number": 2, "command": "ls"}]}"#, "contiguous"),
            (r#"{"tasks": [{"task_number": 1, "command": ""}]}"#, "no command"),
            (r#"{"tasks": [{"task_number": 1, "command": "ls", "input_from_task": 1}]}"#, "not an earlier"),
            (r#"{"tasks": [{"command": "ls"}]}"#, "task_number"),
        ] {
            assert!(parse(json).unwrap_err().contains(word), "{json}");
        }
        let many: Vec<String> =
            (1..=101).map(|n| format!(r#"{{"task_number": {n}, "command": "ls"}}"#)).collect();
        assert!(parse(&format!(r#"{{"tasks": [{}]}}"#, many.join(","))).unwrap_err().contains("at most 100"));
    }
}
