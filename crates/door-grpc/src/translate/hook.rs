//! Converts hooks and what they have given up.

use tenure_hub::words::Name;
use tenure_hub::{HookInfo, Undelivered};

use crate::proto::tenure::v1 as pb;

pub(crate) fn hooks(hooks: Vec<HookInfo>) -> pb::HooksResponse {
    pb::HooksResponse { hooks: hooks.into_iter().map(hook).collect() }
}

fn hook(info: HookInfo) -> pb::Hook {
    let texts = |names: &[Name]| names.iter().map(ToString::to_string).collect();
    pb::Hook {
        hook: info.about.name.to_string(),
        kind: info.about.kind.as_str().to_owned(),
        target: info.about.target.into(),
        events: texts(&info.about.events),
        queues: texts(&info.about.queues),
        next_event: info.next_event,
        delivered: info.counts.delivered,
        failed_attempts: info.counts.failed_attempts,
        given_up: info.counts.given_up,
        missed: info.counts.missed,
        discarded: info.counts.discarded,
        in_flight: info.in_flight as u64,
        undelivered: info.undelivered as u64,
        last_delivered_at: info.last_delivered_at.map(|at| at.0),
        last_error: info.last_error.map(String::from).unwrap_or_default(),
    }
}

pub(crate) fn undelivered(events: Vec<Undelivered>) -> pb::UndeliveredResponse {
    let event = |one: Undelivered| pb::UndeliveredEvent {
        seq: one.seq,
        kind: one.kind.into(),
        given_up_at: one.given_up_at.0,
        attempts: one.attempts,
        error: one.error.into(),
        body: one.body,
    };
    pb::UndeliveredResponse { events: events.into_iter().map(event).collect() }
}
