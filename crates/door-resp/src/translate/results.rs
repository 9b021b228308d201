//! Reads results. A result is any bytes; one that is a JSON object of outputs is shown output by output.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::json::{bytes_field, decode_base64};

/// Fields that make a result an object of outputs.
const MARKS: [&str; 6] = ["task_results", "stdout", "stdout_base64", "stderr", "stderr_base64", "exit_code"];
/// Fields that such a result may have beside them.
const BESIDE: [&str; 3] = ["result", "result_base64", "error"];

/// Shows a result in a job. A worker's fields never replace the broker's own, and only outputs are taken from them.
pub(super) fn insert(job: &mut Map<String, Value>, result: &Bytes) {
    if result.is_empty() {
        return;
    }
    let Some(outputs) = outputs(result) else { return job.extend([bytes_field("result", result)]) };
    for (field, value) in outputs {
        if MARKS.contains(&field.as_str()) || BESIDE.contains(&field.as_str()) {
            job.entry(field).or_insert(value);
        }
    }
}

/// One output of a result: its own field, or those of the steps one after the other.
pub(super) fn output(result: &Bytes, field: &str) -> Option<Bytes> {
    output_of(&outputs(result)?, field)
}

/// The result itself, which may accompany other outputs.
pub(super) fn result_only(result: Bytes) -> Bytes {
    outputs(&result).and_then(|outputs| bytes_of(&outputs, "result")).unwrap_or(result)
}

/// The output and the exit code of a result.
pub(crate) fn outcome(result: &Bytes) -> (String, Option<i32>) {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let Some(outputs) = outputs(result) else { return (text(result), None) };
    let code = outputs.get("exit_code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let steps = outputs.get("task_results").and_then(Value::as_array);
    let worst = steps.and_then(|steps| {
        let codes = steps.iter().filter_map(|step| step.get("exit_code").and_then(Value::as_i64));
        codes.max().and_then(|code| i32::try_from(code).ok())
    });
    (output_of(&outputs, "stdout").as_ref().map(text).unwrap_or_default(), code.or(worst))
}

fn output_of(outputs: &Map<String, Value>, field: &str) -> Option<Bytes> {
    if let Some(bytes) = bytes_of(outputs, field) {
        return Some(bytes);
    }
    let steps = outputs.get("task_results")?.as_array()?;
    let texts = steps.iter().filter_map(|step| step.get(field).and_then(Value::as_str));
    Some(Bytes::from(texts.collect::<String>()))
}

fn bytes_of(outputs: &Map<String, Value>, field: &str) -> Option<Bytes> {
    if let Some(text) = outputs.get(field).and_then(Value::as_str) {
        return Some(Bytes::from(text.to_owned()));
    }
    let base64 = outputs.get(&format!("{field}_base64"))?.as_str()?;
    decode_base64(base64).map(Bytes::from)
}

fn outputs(result: &Bytes) -> Option<Map<String, Value>> {
    match serde_json::from_slice(result) {
        Ok(Value::Object(object)) if object.keys().any(|key| MARKS.contains(&key.as_str())) => Some(object),
        _ => None,
    }
}
