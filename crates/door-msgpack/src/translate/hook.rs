//! Hooks and what they could not deliver.

use tenure_hub::{HookAbout, HookCounts, HookKind, Undelivered};
use tenure_wire::hook::{self, HookList, UndeliveredEvent, UndeliveredList};

use super::word::time;

pub(super) fn hooks(hooks: Vec<tenure_hub::HookInfo>) -> HookList {
    HookList { hooks: hooks.into_iter().map(info).collect() }
}

fn info(hook: tenure_hub::HookInfo) -> hook::HookInfo {
    let tenure_hub::HookInfo {
        about,
        next_event,
        counts,
        in_flight,
        undelivered,
        last_delivered_at,
        last_error,
    } = hook;
    let HookAbout { name, namespace: _, kind, target, events, queues } = about;
    let HookCounts { delivered, failed_attempts, given_up, missed, discarded } = counts;
    hook::HookInfo {
        hook: name,
        kind: match kind {
            HookKind::Webhook => hook::HookKind::Webhook,
            HookKind::Command => hook::HookKind::Command,
        },
        target,
        events,
        queues,
        next_event,
        delivered,
        failed_attempts,
        given_up,
        missed,
        discarded,
        in_flight: in_flight as u64,
        undelivered: undelivered as u64,
        last_delivered_at: last_delivered_at.map(time),
        last_error,
    }
}

pub(super) fn undelivered(events: Vec<Undelivered>) -> UndeliveredList {
    let event = |one: Undelivered| UndeliveredEvent {
        seq: one.seq,
        kind: one.kind,
        given_up_at: time(one.given_up_at),
        attempts: one.attempts,
        error: one.error,
        body: one.body,
    };
    UndeliveredList { events: events.into_iter().map(event).collect() }
}
