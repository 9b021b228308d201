//! The tasks of a plan. All of them run on one worker, in order.

use std::time::Duration;

use serde_json::Value;

use crate::{Document, SchemaError};

pub(crate) const WHAT: &str = "Plan validation failed";
/// Maximum number of tasks of one plan.
pub const PLAN_TASKS_MAX: usize = 100;
const COMMAND_BYTES_MAX: usize = 256;
const ARGUMENTS_MAX: usize = 256;
const ARGUMENT_BYTES_MAX: usize = 64 * 1024;
/// A task may take days.
const TIMEOUT_SECONDS_MAX: i64 = 365 * 86_400;

/// Between 1 and 100 tasks, numbered from 1 without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanTasks(Vec<PlanTask>);

/// One command of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanTask {
    /// Its place in the plan, from 1.
    pub number: u32,
    /// The program, and what a worker must offer to run it.
    pub command: String,
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// The earlier task whose output this one reads.
    pub input_from: Option<u32>,
}

impl PlanTasks {
    /// Takes `tasks` out of a document.
    pub fn take(document: &mut Document) -> Result<Self, SchemaError> {
        let items = match document.take("tasks") {
            Some(Value::Array(items)) => items,
            Some(_) => return Err(document.invalid("tasks is not a list")),
            None => return Err(document.invalid("Missing required field tasks")),
        };
        if items.is_empty() {
            return Err(document.invalid("tasks is empty"));
        }
        if items.len() > PLAN_TASKS_MAX {
            return Err(document.invalid(format!("tasks has more than {PLAN_TASKS_MAX} entries")));
        }
        (1..).zip(items).map(|(number, item)| task(number, item)).collect::<Result<_, _>>().map(Self)
    }

    /// The commands, each once, sorted. A worker must offer all of them.
    pub fn needs(&self) -> Vec<String> {
        let mut needs: Vec<String> = self.0.iter().map(|task| task.command.clone()).collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// Whether a later task reads the output of this one.
    pub fn is_read(&self, number: u32) -> bool {
        self.0.iter().any(|task| task.input_from == Some(number))
    }
}

impl std::ops::Deref for PlanTasks {
    type Target = [PlanTask];

    fn deref(&self) -> &[PlanTask] {
        &self.0
    }
}

fn task(expected: u32, value: Value) -> Result<PlanTask, SchemaError> {
    let here = |error: SchemaError| error.within(&format!("task {expected}"));
    let mut document = Document::from_value(WHAT, value).map_err(here)?;
    let number = document.integer("task_number", i64::MIN..=i64::MAX).map_err(here)?;
    let number = document.required("task_number", number).map_err(here)?;
    if number != i64::from(expected) {
        let why = format!("task numbers must be contiguous from 1, expected {expected}, got {number}");
        return Err(document.invalid(why));
    }
    let command = document.required_text("command", COMMAND_BYTES_MAX).map_err(here)?;
    let arguments = arguments(&mut document, expected)?;
    let timeout = document.integer("timeout_secs", 1..=TIMEOUT_SECONDS_MAX).map_err(here)?;
    let timeout = timeout.map(|seconds| Duration::from_secs(seconds.unsigned_abs()));
    let input_from = match document.integer("input_from_task", i64::MIN..=i64::MAX).map_err(here)? {
        None => None,
        Some(from) => match u32::try_from(from) {
            Ok(from) if (1..expected).contains(&from) => Some(from),
            _ => {
                let why = format!("task {expected} has input_from_task {from}, which is not an earlier task");
                return Err(document.invalid(why));
            }
        },
    };
    document.end().map_err(here)?;
    Ok(PlanTask { number: expected, command, arguments, timeout, input_from })
}

fn arguments(document: &mut Document, task: u32) -> Result<Vec<String>, SchemaError> {
    let items = match document.take("args") {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(document.invalid(format!("args of task {task} is not a list"))),
    };
    if items.len() > ARGUMENTS_MAX {
        return Err(document.invalid(format!("args of task {task} has more than {ARGUMENTS_MAX} entries")));
    }
    let mut arguments = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::String(text) if text.len() <= ARGUMENT_BYTES_MAX => arguments.push(text),
            Value::String(_) => {
                let why = format!("args of task {task} has one longer than {ARGUMENT_BYTES_MAX} bytes");
                return Err(document.invalid(why));
            }
            _ => return Err(document.invalid(format!("args of task {task} has one that is not a string"))),
        }
    }
    Ok(arguments)
}
