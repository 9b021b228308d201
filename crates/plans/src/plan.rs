//! A plan: a list of tasks that is stored under an id.

use serde_json::Value;

use crate::task::WHAT;
use crate::{Document, PlanTasks, SchemaError, check_id};

/// Maximum length of a plan in JSON.
pub const PLAN_BYTES_MAX: usize = 1024 * 1024;
const DESCRIPTION_BYTES_MAX: usize = 1024;

/// A stored list of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The id under which it is stored.
    pub id: String,
    /// What the plan is for.
    pub description: Option<String>,
    /// What it runs.
    pub tasks: PlanTasks,
}

impl Plan {
    /// Parses and checks a plan.
    pub fn parse(json: &[u8]) -> Result<Self, SchemaError> {
        Self::take(Document::parse(WHAT, json, PLAN_BYTES_MAX)?)
    }

    /// Reads a plan that came inside another document.
    pub fn from_value(value: Value) -> Result<Self, SchemaError> {
        Self::take(Document::from_value(WHAT, value)?)
    }

    /// Reads the tasks of a plan without an id, for a plan that is not stored.
    pub fn tasks_of(value: Value) -> Result<PlanTasks, SchemaError> {
        let mut document = Document::from_value(WHAT, value)?;
        document.take("plan_id");
        Ok(take_recipe(document)?.1)
    }

    fn take(mut document: Document) -> Result<Self, SchemaError> {
        let id = document.required_text("plan_id", PLAN_BYTES_MAX)?;
        check_id(WHAT, "plan_id", &id)?;
        let (description, tasks) = take_recipe(document)?;
        Ok(Self { id, description, tasks })
    }
}

fn take_recipe(mut document: Document) -> Result<(Option<String>, PlanTasks), SchemaError> {
    let description = document.text("plan_description", DESCRIPTION_BYTES_MAX)?;
    // Other fields are the client's own: a whole job may come as a plan. They are kept and ignored.
    let tasks = PlanTasks::take(&mut document)?;
    Ok((description, tasks))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn parse(value: &Value) -> Result<Plan, String> {
        Plan::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    fn tasks(tasks: &Value) -> Result<Plan, String> {
        parse(&json!({"plan_id": "p", "tasks": tasks}))
    }

    #[test]
    fn a_plan_of_two_tasks_is_understood() {
        let plan = parse(&json!({
            "plan_id": "uuid-5678", "plan_description": "Sort and deduplicate",
            "tasks": [
                {"task_number": 1, "command": "sort", "args": ["-r"], "timeout_secs": 30},
                {"task_number": 2, "command": "uniq", "args": [], "input_from_task": 1},
            ],
        }))
        .unwrap();
        assert_eq!(plan.tasks[1].input_from, Some(1));
        assert!(plan.tasks.is_read(1) && !plan.tasks.is_read(2));
        assert_eq!(plan.tasks[0].timeout, Some(Duration::from_secs(30)));
        assert_eq!(plan.tasks.needs(), ["sort", "uniq"]);
    }

    #[test]
    fn numbers_run_from_one_without_a_gap() {
        let step = |number: i64| json!({"task_number": number, "command": "sort"});
        assert!(tasks(&json!([step(1), step(2)])).is_ok());
        assert_eq!(
            tasks(&json!([step(1), step(3)])).unwrap_err(),
            "Plan validation failed: task numbers must be contiguous from 1, expected 2, got 3"
        );
        assert!(tasks(&json!([step(0)])).is_err());
        assert!(
            tasks(&json!([{"command": "sort"}])).unwrap_err().contains("Missing required field task_number")
        );
    }

    #[test]
    fn input_comes_from_an_earlier_step_only() {
        for from in [i64::MIN, -1, 0, 1, 2, 9] {
            let error =
                tasks(&json!([{"task_number": 1, "command": "a", "input_from_task": from}])).unwrap_err();
            assert!(error.contains("which is not an earlier task"), "{error}");
        }
    }

    #[test]
    fn a_plan_has_between_one_and_a_hundred_steps() {
        let steps = |count: usize| -> Value {
            (1..=count).map(|number| json!({"task_number": number, "command": "sort"})).collect()
        };
        assert!(tasks(&steps(100)).is_ok());
        assert_eq!(
            tasks(&steps(101)).unwrap_err(),
            "Plan validation failed: tasks has more than 100 entries"
        );
        assert_eq!(tasks(&steps(0)).unwrap_err(), "Plan validation failed: tasks is empty");
        assert_eq!(
            parse(&json!({"plan_id": "p"})).unwrap_err(),
            "Plan validation failed: Missing required field tasks"
        );
    }

    #[test]
    fn a_mistake_names_its_field_and_its_task() {
        let second = |fields: &str| {
            let text = format!(
                r#"{{"plan_id":"p","tasks":[{{"task_number":1,"command":"a"}},{{"task_number":2{fields}}}]}}"#
            );
            Plan::parse(text.as_bytes()).unwrap_err().to_string()
        };
        let said = |why: &str| format!("Plan validation failed: task 2: {why}");
        assert_eq!(second(""), said("Missing required field command"));
        assert_eq!(second(r#","command":"b","arg":[]"#), said("unknown field arg"));
        assert_eq!(second(r#","command":"b","timeout_secs":"1""#), said("timeout_secs is not an integer"));
    }

    #[test]
    fn fields_of_the_client_are_not_looked_at() {
        let plan = parse(&json!({
            "job_id": "j", "plan_id": "p", "plan_description": null, "instruction": {"of": "a client"},
            "tasks": [{"task_number": 1, "command": "a"}],
        }));
        assert_eq!(plan.unwrap().tasks.len(), 1);
    }

    #[test]
    fn names_and_arguments_are_checked() {
        assert!(parse(&json!({"plan_id": "a b", "tasks": []})).unwrap_err().contains("plan_id holds"));
        assert!(tasks(&json!([{"task_number": 1, "command": ""}])).unwrap_err().contains("command is empty"));
        assert!(tasks(&json!([{"task_number": 1, "command": "a", "args": "x"}])).is_err());
        assert!(tasks(&json!([{"task_number": 1, "command": "a", "args": [1]}])).is_err());
        assert!(tasks(&json!([{"task_number": 1, "command": "a", "timeout_secs": 0}])).is_err());
    }
}
