//! An action: one plan, many inputs, one job for each.

use serde_json::Value;

use crate::{Document, ID_BYTES_MAX, SchemaError, check_id};

const ACTION_ID_BYTES_MAX: usize = 64;
/// Maximum number of inputs of one action.
pub const ACTION_INPUTS_MAX: usize = 100;

/// One run of a stored plan for each of its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// The broker chooses one if the client does not.
    pub id: Option<String>,
    /// The id of the plan.
    pub plan: String,
    /// The plan runs once for each.
    pub inputs: Vec<Value>,
}

impl Action {
    /// How errors begin.
    pub const WHAT: &'static str = "Invalid action schema";

    /// Takes the action out of a document and leaves the rest, which are the options of its jobs.
    pub fn take(document: &mut Document) -> Result<Self, SchemaError> {
        let id = document.text("action_id", ID_BYTES_MAX)?;
        if let Some(id) = &id {
            check_id(Self::WHAT, "action_id", id)?;
            if id.len() > ACTION_ID_BYTES_MAX {
                let why = format!("action_id is not between 1 and {ACTION_ID_BYTES_MAX} characters long");
                return Err(document.invalid(why));
            }
        }
        let plan = document.required_text("plan_id", ID_BYTES_MAX)?;
        check_id(Self::WHAT, "plan_id", &plan)?;
        let inputs = match document.take("inputs") {
            Some(Value::Array(inputs)) => inputs,
            Some(_) => return Err(document.invalid("inputs is not a list")),
            None => return Err(document.invalid("Missing required field inputs")),
        };
        if inputs.is_empty() {
            return Err(document.invalid("inputs must contain at least one input"));
        }
        if inputs.len() > ACTION_INPUTS_MAX {
            return Err(SchemaError::TooManyInputs { max: ACTION_INPUTS_MAX });
        }
        // Clients repeat the plan's description here; the stored plan takes precedence.
        document.take("plan_description");
        Ok(Self { id, plan, inputs })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(value: Value) -> Result<(Action, Document), String> {
        let mut document = Document::from_value(Action::WHAT, value).unwrap();
        let action = Action::take(&mut document).map_err(|error| error.to_string())?;
        Ok((action, document))
    }

    #[test]
    fn an_action_names_a_plan_and_its_inputs_and_leaves_the_rest() {
        let document =
            json!({"action_id": "a-1", "plan_id": "p", "inputs": [{"file": "a"}, "b", 3], "priority": 5});
        let (action, rest) = take(document).unwrap();
        assert_eq!((action.id.as_deref(), action.plan.as_str()), (Some("a-1"), "p"));
        assert_eq!(action.inputs, [json!({"file": "a"}), json!("b"), json!(3)]);
        assert!(rest.has("priority") && !rest.has("inputs"));
    }

    #[test]
    fn an_id_has_at_most_sixty_four_characters() {
        let action = |id: String| take(json!({"action_id": id, "plan_id": "p", "inputs": [1]})).map(drop);
        assert_eq!(action("a".repeat(64)), Ok(()));
        let why = "Invalid action schema: action_id is not between 1 and 64 characters long";
        assert_eq!(action("a".repeat(65)).unwrap_err(), why);
    }

    #[test]
    fn inputs_are_between_one_and_a_hundred() {
        let action = |count: usize| take(json!({"plan_id": "p", "inputs": vec![1; count]})).map(drop);
        assert_eq!(action(100), Ok(()));
        assert_eq!(action(101).unwrap_err(), "Too many inputs: max 100");
        assert_eq!(action(0).unwrap_err(), "Invalid action schema: inputs must contain at least one input");
        let missing = take(json!({"plan_id": "p"})).map(drop).unwrap_err();
        assert_eq!(missing, "Invalid action schema: Missing required field inputs");
    }
}
