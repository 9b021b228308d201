//! The delivery of one event: attempts with pauses between them, until it is delivered or given up.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

use tenure_hub::{HookProgress, Undelivered, wall_clock};
use tokio::time::sleep;

use super::body::OutgoingEvent;
use super::settings::{HookSettings, HookTarget};
use super::{command, retry, webhook};

/// The longest error that is kept.
const ERROR_CHARS_MAX: usize = 300;

/// Delivers, or gives up. When this returns, the progress knows how it ended. Returns the event's number.
pub(super) async fn deliver(
    settings: Arc<HookSettings>,
    progress: Arc<HookProgress>,
    event: OutgoingEvent,
) -> u64 {
    let hook = &settings.name;
    let mut failed = 0;
    loop {
        let attempt = match &settings.target {
            HookTarget::Webhook(webhook) => webhook::deliver(webhook, hook, &event, settings.timeout).await,
            HookTarget::Command(command) => command::deliver(command, hook, &event, settings.timeout).await,
        };
        let Err(error) = attempt else {
            progress.delivered(wall_clock());
            progress.forget(event.seq);
            return event.seq;
        };
        let error: String = error.chars().take(ERROR_CHARS_MAX).collect();
        failed += 1;
        progress.attempt_failed(&error);
        if failed >= settings.attempts {
            tracing::error!(%hook, event = event.seq, kind = %event.kind, attempts = failed, error, "a hook gave up an event; `tenure hooks redeliver` sends it again");
            progress.give_up(Undelivered {
                seq: event.seq,
                kind: event.kind,
                given_up_at: wall_clock(),
                attempts: failed,
                error: error.into(),
                body: event.body,
                is_due: false,
            });
            return event.seq;
        }
        let pause = retry::pause(settings.backoff_first, settings.backoff_max, failed, random());
        tracing::warn!(%hook, event = event.seq, failed, error, retry_ms = pause.as_millis() as u64, "a hook failed and tries again");
        sleep(pause).await;
    }
}

/// An unpredictable number, from the operating system's randomness behind the standard library's hash maps.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
