//! Translates between the messages of `proto/` and the hub's types; no other module knows both. Pure.

mod answer;
mod ask;
mod event;
mod hook;
mod notice;
mod reconcile;
mod refusal;
mod schedule;
mod topic;
mod topic_refusal;
mod word;

pub(crate) use answer::{
    accepted, array_accepted, array_has_ended, array_info, counts, explanation, has_ended, limits, logs,
    queues, refused, shares, stats, task_info, tasks, workers,
};
pub(crate) use ask::{
    SubmitTemplate, about_end, array_query, array_submission, arrays_query, confirmed, failure, filter,
    given_back, held, list_query, log_piece, moved, progress, rate, saved_checkpoint, suspended, worker_spec,
    worker_stats,
};
pub(crate) use event::{event, gap};
pub(crate) use hook::{hooks, undelivered};
pub(crate) use notice::{assign, continued, stop, wanted};
pub(crate) use reconcile::{reconciled, reconciliation};
pub(crate) use refusal::{no_key, refusal, status, unauthenticated, unavailable, unexpected, unknown_key};
pub(crate) use schedule::{schedule, schedules, set_schedule};
pub(crate) use topic::{
    answer, delivery, heartbeat, info, last_seen, publish, published, resume, resumed, subscribe,
    subscribe_with, subscription_status, topic_info, verdict,
};
pub(crate) use topic_refusal::{ended, topic_status};
pub(crate) use word::{id, ids, name, some_text};
