//! `WORKER.VERIFY`: a client tests a capability. It names a command to run, and the worker answers with the output.

use serde_json::Value;
use tenure_plans::{Document, SchemaError, TEXT_BYTES_MAX};

use super::error::DocumentError;
use super::identifier::check_worker_id;

const WHAT: &str = "Invalid challenge";
const CHALLENGE_BYTES_MAX: usize = 64 * 1024;
const ARGUMENTS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    Ask {
        command: String,
        arguments: Vec<String>,
        /// One worker; otherwise every worker that offers the capability.
        worker: Option<String>,
        /// What the output must contain; otherwise success is enough.
        expect: Option<String>,
    },
    Answer {
        output: String,
        exit_code: i32,
    },
}

impl Challenge {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, DocumentError> {
        let mut object = Document::parse(WHAT, json, CHALLENGE_BYTES_MAX)?;
        if object.has("output") || object.has("exit_code") {
            let output = object.text("output", CHALLENGE_BYTES_MAX)?.unwrap_or_default();
            let exit_code = object.integer("exit_code", i64::from(i32::MIN)..=i64::from(i32::MAX))?;
            let exit_code = i32::try_from(exit_code.unwrap_or(0)).expect("within the limit");
            object.end()?;
            return Ok(Self::Answer { output, exit_code });
        }
        let command = object.required_text("command", 256)?;
        let arguments = match object.take("args") {
            None => Vec::new(),
            Some(Value::Array(items)) => arguments(&object, items)?,
            Some(_) => return Err(object.invalid("args is not a list").into()),
        };
        let worker = object.text("worker_id", TEXT_BYTES_MAX)?;
        if let Some(worker) = &worker {
            check_worker_id(worker)?;
        }
        let expect = object.text("expect", TEXT_BYTES_MAX)?;
        object.end()?;
        Ok(Self::Ask { command, arguments, worker, expect })
    }
}

fn arguments(object: &Document, items: Vec<Value>) -> Result<Vec<String>, SchemaError> {
    if items.len() > ARGUMENTS_MAX {
        return Err(object.invalid(format!("args has more than {ARGUMENTS_MAX} entries")));
    }
    let mut arguments = Vec::with_capacity(items.len());
    for item in items {
        let Value::String(text) = item else {
            return Err(object.invalid("args has one that is not a string"));
        };
        arguments.push(text);
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_and_its_answer() {
        let ask = Challenge::parse(br#"{"command":"agx-ocr","args":["--version"]}"#).unwrap();
        let Challenge::Ask { command, arguments, worker: None, expect: None } = ask else {
            panic!("{ask:?}")
        };
        assert_eq!((command.as_str(), arguments.as_slice()), ("agx-ocr", &["--version".to_owned()][..]));
        assert_eq!(
            Challenge::parse(br#"{"output":"agx-ocr 0.1.0"}"#).unwrap(),
            Challenge::Answer { output: "agx-ocr 0.1.0".into(), exit_code: 0 }
        );
    }

    #[test]
    fn what_is_neither_is_refused() {
        for (json, why) in [
            ("{}", "Missing required field command"),
            (r#"{"command":"a","args":"x"}"#, "args is not a list"),
            (r#"{"command":"a","args":[1]}"#, "args has one that is not a string"),
            (r#"{"command":"a","comand":"b"}"#, "unknown field comand"),
            (r#"{"output":1}"#, "output is not a string"),
        ] {
            let error = Challenge::parse(json.as_bytes()).unwrap_err().to_string();
            assert_eq!(error, format!("Invalid challenge: {why}"));
        }
    }
}
