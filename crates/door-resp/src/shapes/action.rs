//! `ACTION.SUBMIT`: one plan, many inputs, one job for each.

use serde_json::Value;

use super::error::ShapeError;
use super::identifier::{ID_BYTES_MAX, check_plain_id};
use super::object::Object;
use super::options::TaskOptions;

const WHAT: &str = "action schema";
const ACTION_BYTES_MAX: usize = crate::codec::Limits::MESSAGE_BYTES_MAX;
pub(crate) const ACTION_INPUTS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Action {
    /// The broker chooses one if the client does not.
    pub id: Option<String>,
    pub plan: String,
    pub inputs: Vec<Value>,
    pub options: TaskOptions,
}

impl Action {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, ShapeError> {
        let mut object = Object::parse(WHAT, json, ACTION_BYTES_MAX)?;
        let id = object.text("action_id", ID_BYTES_MAX)?;
        if let Some(id) = &id {
            check_plain_id(WHAT, "action_id", id)?;
        }
        let plan = object.required_text("plan_id", ID_BYTES_MAX)?;
        check_plain_id(WHAT, "plan_id", &plan)?;
        let inputs = match object.take("inputs") {
            Some(Value::Array(inputs)) => inputs,
            Some(_) => return Err(object.invalid("inputs is not a list")),
            None => return Err(object.invalid("missing required field inputs")),
        };
        if inputs.is_empty() {
            return Err(object.invalid("inputs is empty"));
        }
        if inputs.len() > ACTION_INPUTS_MAX {
            return Err(ShapeError::TooManyInputs { max: ACTION_INPUTS_MAX });
        }
        // Clients repeat the plan's description here; the stored plan has the word.
        object.take("plan_description");
        let options = TaskOptions::take(&mut object)?;
        object.end()?;
        Ok(Self { id, plan, inputs, options })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::key::QueueKey;

    fn parse(value: &Value) -> Result<Action, String> {
        Action::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_action_names_a_plan_and_its_inputs() {
        let action = parse(&json!({
            "action_id": "action-001", "plan_id": "p", "inputs": [{"file": "a"}, "b", 3], "queue": "images",
            "priority": 5, "needs": ["gpu"],
        }))
        .unwrap();
        assert_eq!(action.inputs.len(), 3);
        assert_eq!(action.options.queue, QueueKey::Named("images".into()));
        assert_eq!(action.options.needs.unwrap(), ["gpu"]);
    }

    #[test]
    fn inputs_are_between_one_and_a_hundred() {
        let action = |count: usize| parse(&json!({"plan_id": "p", "inputs": vec![1; count]}));
        assert!(action(100).is_ok());
        assert_eq!(action(101).unwrap_err(), "Too many inputs: max 100");
        assert_eq!(action(0).unwrap_err(), "Invalid action schema: inputs is empty");
        assert_eq!(
            parse(&json!({"plan_id": "p"})).unwrap_err(),
            "Invalid action schema: missing required field inputs"
        );
    }

    #[test]
    fn a_misspelled_field_is_named() {
        let error = parse(&json!({"plan_id": "p", "inputs": [1], "prioritaet": 1})).unwrap_err();
        assert_eq!(error, "Invalid action schema: unknown field prioritaet");
    }
}
