//! `PLAN.SUBMIT`: a recipe of steps. All steps of one job run on one worker, in order.

use std::time::Duration;

use serde_json::Value;

use super::error::ShapeError;
use super::identifier::check_plain_id;
use super::object::Object;

const WHAT: &str = "plan schema";
pub(crate) const PLAN_BYTES_MAX: usize = 1024 * 1024;
pub(crate) const PLAN_TASKS_MAX: usize = 100;
const DESCRIPTION_BYTES_MAX: usize = 1024;
const COMMAND_BYTES_MAX: usize = 256;
const ARGUMENTS_MAX: usize = 256;
const ARGUMENT_BYTES_MAX: usize = 64 * 1024;
/// A step may take days.
const TIMEOUT_SECONDS_MAX: i64 = 365 * 86_400;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub id: String,
    pub description: Option<String>,
    pub tasks: Vec<PlanTask>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanTask {
    pub number: usize,
    pub command: String,
    pub arguments: Vec<String>,
    pub timeout: Option<Duration>,
    /// The earlier step whose output this one reads.
    pub input_from: Option<usize>,
}

impl Plan {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, ShapeError> {
        Self::take(Object::parse(WHAT, json, PLAN_BYTES_MAX)?)
    }

    /// A plan that came inside another document.
    pub(super) fn from_value(value: Value) -> Result<Self, ShapeError> {
        Self::take(Object::from_value(WHAT, value)?)
    }

    /// One that nobody asks for by its id.
    pub(super) fn unnamed(value: Value) -> Result<Self, ShapeError> {
        let mut object = Object::from_value(WHAT, value)?;
        object.take("plan_id");
        Self::take_steps(String::new(), object)
    }

    /// The commands of its steps, each once, sorted. A worker must offer them all.
    pub(crate) fn needs(&self) -> Vec<String> {
        let mut needs: Vec<String> = self.tasks.iter().map(|task| task.command.clone()).collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    fn take(mut object: Object) -> Result<Self, ShapeError> {
        let id = object.required_text("plan_id", PLAN_BYTES_MAX)?;
        check_plain_id(WHAT, "plan_id", &id)?;
        Self::take_steps(id, object)
    }

    fn take_steps(id: String, mut object: Object) -> Result<Self, ShapeError> {
        let description = object.text("plan_description", DESCRIPTION_BYTES_MAX)?;
        let items = match object.take("tasks") {
            Some(Value::Array(items)) => items,
            Some(_) => return Err(object.invalid("tasks is not a list")),
            None => return Err(object.invalid("missing required field tasks")),
        };
        if items.is_empty() {
            return Err(object.invalid("tasks is empty"));
        }
        if items.len() > PLAN_TASKS_MAX {
            return Err(object.invalid(format!("tasks has more than {PLAN_TASKS_MAX} entries")));
        }
        let mut tasks = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            tasks.push(task(index + 1, item)?);
        }
        object.end()?;
        Ok(Self { id, description, tasks })
    }
}

fn task(expected: usize, value: Value) -> Result<PlanTask, ShapeError> {
    let here = |error: ShapeError| error.within(&format!("task {expected}"));
    let mut object = Object::from_value(WHAT, value).map_err(here)?;
    let number = object.integer("task_number", i64::MIN..=i64::MAX).map_err(here)?;
    let number = object.required("task_number", number).map_err(here)?;
    if usize::try_from(number) != Ok(expected) {
        let why = format!("task numbers must be contiguous from 1, expected {expected}, got {number}");
        return Err(object.invalid(why));
    }
    let command = object.required_text("command", COMMAND_BYTES_MAX).map_err(here)?;
    let arguments = arguments(&mut object, expected)?;
    let timeout = object.integer("timeout_secs", 1..=TIMEOUT_SECONDS_MAX).map_err(here)?;
    let timeout = timeout.map(|seconds| Duration::from_secs(seconds.unsigned_abs()));
    let input_from = match object.integer("input_from_task", i64::MIN..=i64::MAX).map_err(here)? {
        None => None,
        Some(from) => match usize::try_from(from) {
            Ok(from) if (1..expected).contains(&from) => Some(from),
            _ => {
                let why = format!("task {expected} has input_from_task {from}, which is not an earlier task");
                return Err(object.invalid(why));
            }
        },
    };
    object.end().map_err(here)?;
    Ok(PlanTask { number: expected, command, arguments, timeout, input_from })
}

fn arguments(object: &mut Object, task: usize) -> Result<Vec<String>, ShapeError> {
    let items = match object.take("args") {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(object.invalid(format!("args of task {task} is not a list"))),
    };
    if items.len() > ARGUMENTS_MAX {
        return Err(object.invalid(format!("args of task {task} has more than {ARGUMENTS_MAX} entries")));
    }
    let mut arguments = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::String(text) if text.len() <= ARGUMENT_BYTES_MAX => arguments.push(text),
            Value::String(_) => {
                let why = format!("args of task {task} has one longer than {ARGUMENT_BYTES_MAX} bytes");
                return Err(object.invalid(why));
            }
            _ => return Err(object.invalid(format!("args of task {task} has one that is not a string"))),
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: &Value) -> Result<Plan, String> {
        Plan::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    fn tasks(tasks: &Value) -> Result<Plan, String> {
        parse(&json!({"plan_id": "p", "tasks": tasks}))
    }

    #[test]
    fn a_plan_of_two_steps_is_understood() {
        let plan = parse(&json!({
            "plan_id": "uuid-5678", "plan_description": "Sort and deduplicate",
            "tasks": [
                {"task_number": 1, "command": "sort", "args": ["-r"], "timeout_secs": 30},
                {"task_number": 2, "command": "uniq", "args": [], "input_from_task": 1},
            ],
        }))
        .unwrap();
        assert_eq!(plan.tasks[1].input_from, Some(1));
        assert_eq!(plan.tasks[0].timeout, Some(Duration::from_secs(30)));
        assert_eq!(plan.needs(), ["sort", "uniq"]);
    }

    #[test]
    fn numbers_run_from_one_without_a_gap() {
        let step = |number: i64| json!({"task_number": number, "command": "sort"});
        assert!(tasks(&json!([step(1), step(2)])).is_ok());
        assert_eq!(
            tasks(&json!([step(1), step(3)])).unwrap_err(),
            "Invalid plan schema: task numbers must be contiguous from 1, expected 2, got 3"
        );
        assert!(tasks(&json!([step(0)])).is_err());
        assert!(
            tasks(&json!([{"command": "sort"}])).unwrap_err().contains("missing required field task_number")
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
        assert_eq!(tasks(&steps(101)).unwrap_err(), "Invalid plan schema: tasks has more than 100 entries");
        assert_eq!(tasks(&steps(0)).unwrap_err(), "Invalid plan schema: tasks is empty");
        assert_eq!(
            parse(&json!({"plan_id": "p"})).unwrap_err(),
            "Invalid plan schema: missing required field tasks"
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
        let said = |why: &str| format!("Invalid plan schema: task 2: {why}");
        assert_eq!(second(""), said("missing required field command"));
        assert_eq!(second(r#","command":"b","arg":[]"#), said("unknown field arg"));
        assert_eq!(second(r#","command":"b","timeout_secs":"1""#), said("timeout_secs is not an integer"));
        let error =
            parse(&json!({"plan_id": "p", "taks": [], "tasks": [{"task_number": 1, "command": "a"}]}));
        assert_eq!(error.unwrap_err(), "Invalid plan schema: unknown field taks");
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
