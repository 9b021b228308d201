//! A webhook: posts an event to an address. Any status of 200 to 299 means that the receiver has it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{HeaderName, HeaderValue};
use tenure_hub::words::Name;

use super::body::OutgoingEvent;
use super::settings::WebhookSettings;
use super::signature::signature;
use crate::http_client::Post;

const HOOK: HeaderName = HeaderName::from_static("tenure-hook");
const EVENT: HeaderName = HeaderName::from_static("tenure-event");
const DELIVERY: HeaderName = HeaderName::from_static("tenure-delivery");
const TIMESTAMP: HeaderName = HeaderName::from_static("tenure-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("tenure-signature");

pub(super) async fn deliver(
    webhook: &WebhookSettings,
    hook: &Name,
    event: &OutgoingEvent,
    within: Duration,
) -> Result<(), String> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut headers = Vec::new();
    let mut add = |name: HeaderName, text: &str| {
        // Names and numbers are plain text, so each fits into a header.
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.push((name, value));
        }
    };
    add(HOOK, hook);
    add(EVENT, &event.kind);
    add(DELIVERY, &event.delivery_id(hook));
    add(TIMESTAMP, &seconds.to_string());
    if let Some(secret) = &webhook.secret {
        add(SIGNATURE, &signature(secret.bytes(), seconds, &event.body));
    }
    let post = Post {
        target: &webhook.target,
        roots: webhook.roots.as_ref(),
        media_type: HeaderValue::from_static("application/json"),
        headers,
        body: event.body.clone(),
        within,
    };
    let answer = post.send().await.map_err(|error| error.to_string())?;
    if answer.status.is_success() {
        return Ok(());
    }
    let said: String = String::from_utf8_lossy(&answer.body).chars().filter(|c| !c.is_control()).collect();
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Err(format!("the receiver answered with status {}{said}", answer.status.as_u16()))
}
