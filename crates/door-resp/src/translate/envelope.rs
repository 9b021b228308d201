//! An envelope is a body that is a JSON object with the job's own fields. Values stay as written, so a number of
//! thirty digits keeps all of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

/// One of these makes a JSON object an envelope.
const MARKS: [&str; 5] = ["job_id", "plan", "plan_id", "tasks", "verify"];

pub(super) type Fields = BTreeMap<String, Box<RawValue>>;

/// Whether a body is the job of a plan.
pub(super) fn runs_plan(body: &Bytes) -> bool {
    let is_plan = |fields: Fields| ["plan", "plan_id", "tasks"].iter().any(|mark| fields.contains_key(*mark));
    body.first() == Some(&b'{') && serde_json::from_slice(body).is_ok_and(is_plan)
}

/// The fields of a body that is an envelope.
pub(super) fn envelope(body: &Bytes) -> Option<Fields> {
    if body.first() != Some(&b'{') {
        return None;
    }
    let mut fields: Fields = serde_json::from_slice(body).ok()?;
    if !fields.keys().any(|key| MARKS.contains(&key.as_str())) {
        return None;
    }
    // Workers of every generation find the steps and the input where they expect them.
    if let Some(mut plan) =
        fields.get("plan").and_then(|plan| serde_json::from_str::<Fields>(plan.get()).ok())
    {
        for field in ["plan_id", "plan_description", "tasks"] {
            if let (false, Some(value)) = (fields.contains_key(field), plan.remove(field)) {
                fields.insert(field.into(), value);
            }
        }
    }
    if let (false, Some(inputs)) = (fields.contains_key("input"), fields.get("inputs").cloned()) {
        fields.insert("input".into(), inputs);
    }
    Some(fields)
}
