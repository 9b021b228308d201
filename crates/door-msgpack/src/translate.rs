//! Translates between the native protocol and the hub's types; no other module knows both. Pure. It uses no `_` arm
//! for the hub's types, so that a new variant does not compile until it is handled here.

mod answer;
mod ask;
mod event;
mod hook;
mod notice;
mod reconcile;
mod refusal;
mod schedule;
mod topic;
mod word;

pub(crate) use answer::{accepted, bytes, ended, response};
pub(crate) use ask::{
    Template, about_end, array_submission, arrays_query, call_answer, confirmed, failure, filter, held,
    list_query, log_piece, moved, save_checkpoint, set_rate, set_thresholds, stats, suspend, unknown_kind,
    worker_spec,
};
pub(crate) use event::{ended_by, event};
pub(crate) use notice::{assignment, call_answered, continued, stop, terms, wanted};
pub(crate) use reconcile::reconciliation;
pub(crate) use refusal::refusal;
pub(crate) use schedule::set_schedule;
pub(crate) use topic::{
    SubscriptionOptions, SubscriptionStart, last_seen, message, publish, published, replay_complete, request,
    responded, resumed, subscribed, subscription, subscription_ended, subscription_list,
    subscription_options, subscription_paused, topic_gap, topic_list, topic_refusal, topics_query, warning,
};
pub(crate) use word::{id, task, time};
