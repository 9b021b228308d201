//! `ACTION.SUBMIT`: an action, and the options of its jobs.

use tenure_plans::{Action, Document, SchemaError};

use super::options::TaskOptions;

const ACTION_BYTES_MAX: usize = crate::codec::RespLimits::MESSAGE_BYTES_MAX;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubmittedAction {
    pub action: Action,
    pub options: TaskOptions,
}

impl SubmittedAction {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, SchemaError> {
        let mut document = Document::parse(Action::WHAT, json, ACTION_BYTES_MAX)?;
        let action = Action::take(&mut document)?;
        let options = TaskOptions::take(&mut document)?;
        document.end()?;
        Ok(Self { action, options })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::key::RespQueueKey;

    fn parse(value: &Value) -> Result<SubmittedAction, String> {
        SubmittedAction::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_action_says_how_its_jobs_are_to_be_run() {
        let submitted = parse(&json!({
            "action_id": "action-001", "plan_id": "p", "inputs": [{"file": "a"}, "b", 3], "queue": "images",
            "priority": 5, "needs": ["gpu"],
        }))
        .unwrap();
        assert_eq!(submitted.action.inputs.len(), 3);
        assert_eq!(submitted.options.queue, RespQueueKey::Named("images".into()));
        assert_eq!(submitted.options.needs.unwrap(), ["gpu"]);
    }

    #[test]
    fn a_misspelled_field_is_named() {
        let error = parse(&json!({"plan_id": "p", "inputs": [1], "prioritaet": 1})).unwrap_err();
        assert_eq!(error, "Invalid action schema: unknown field prioritaet");
    }
}
