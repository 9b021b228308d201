//! Plans, actions and bodies of plan jobs: untrusted JSON.

use tenure_plans::{Action, Document, Plan, PlanJob, parse_time};

/// The longest document that is tried.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;

pub(crate) fn plans(bytes: &[u8]) {
    let _ = Plan::parse(bytes);
    if let Ok(mut document) = Document::parse("action", bytes, DOCUMENT_BYTES_MAX) {
        let _ = Action::take(&mut document);
        let _ = document.end();
    }
    if let Ok(serde_json::Value::Object(body)) = serde_json::from_slice(bytes)
        && PlanJob::is_in(&body)
    {
        let _ = PlanJob::parse(&body);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = parse_time(text);
    }
}
