//! Every "no" of the core, by name. A refusal changes nothing.

use thiserror::Error;

/// Why a call was refused. [`Refusal::code`] is stable and is what doors put on their wires.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("a topic name is empty")]
    NameEmpty,
    #[error("a topic name has {length} bytes, the limit is {limit}")]
    NameTooLong { length: usize, limit: usize },
    #[error("a topic name has {levels} levels, the limit is {limit}")]
    TooManyLevels { levels: usize, limit: usize },
    #[error("a topic name has an empty level: two dots in a row, or a dot at an end")]
    LevelEmpty,
    #[error("a topic name has a control character")]
    ControlCharacter,
    #[error("a topic to publish to has no wildcards")]
    WildcardInName,
    #[error("`*` stands for a whole level, and `>` for a whole last level")]
    WildcardMisplaced,
    #[error("names that begin with `_reply.` are answers to requests")]
    NameReserved,
    #[error("a subscription needs at least one topic")]
    NoFilters,
    #[error("a subscription names {count} topics, the limit is {limit}")]
    TooManyFilters { count: usize, limit: usize },
    #[error("all subscriptions together name {limit} topics, which is the limit")]
    FiltersFull { limit: usize },
    #[error("{field} is empty")]
    TextEmpty { field: &'static str },
    #[error("{field} has {length} bytes, the limit is {limit}")]
    TextTooLong { field: &'static str, length: usize, limit: usize },
    #[error("the payload has {length} bytes, the limit is {limit}")]
    PayloadTooLong { length: usize, limit: usize },
    #[error("a time to live is at least one millisecond")]
    TtlZero,
    #[error("there are {limit} topics, which is the limit, and none of them is idle")]
    TooManyTopics { limit: usize },
    #[error("there are {limit} subscriptions, which is the limit")]
    TooManySubscriptions { limit: usize },
    #[error("retained values take {limit} bytes, which is the limit")]
    RetainedFull { limit: usize },
    #[error("there are {limit} open requests, which is the limit")]
    TooManyRequests { limit: usize },
    #[error("the subscription exists already")]
    SubscriptionExists,
    #[error("there is no such subscription")]
    UnknownSubscription,
    #[error("the subscription is paused")]
    SubscriptionPaused,
    #[error("there is no such topic")]
    UnknownTopic,
    #[error("the topic has subscribers")]
    TopicInUse,
    #[error("nobody is subscribed to the topic of the request")]
    NoResponders,
    #[error("no such request is open: it was answered, or its time is over")]
    UnknownRequest,
    #[error("a request with this id is open already")]
    RequestExists,
}

impl Refusal {
    /// The stable code of this refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::NameEmpty => "topic_name_empty",
            Refusal::NameTooLong { .. } => "topic_name_too_long",
            Refusal::TooManyLevels { .. } => "topic_name_too_many_levels",
            Refusal::LevelEmpty => "topic_level_empty",
            Refusal::ControlCharacter => "topic_name_control_character",
            Refusal::WildcardInName => "topic_name_wildcard",
            Refusal::WildcardMisplaced => "wildcard_misplaced",
            Refusal::NameReserved => "topic_name_reserved",
            Refusal::NoFilters => "subscription_without_topics",
            Refusal::TooManyFilters { .. } => "subscription_too_many_topics",
            Refusal::FiltersFull { .. } => "too_many_topics_in_subscriptions",
            Refusal::TextEmpty { .. } => "text_empty",
            Refusal::TextTooLong { .. } => "text_too_long",
            Refusal::PayloadTooLong { .. } => "payload_too_long",
            Refusal::TtlZero => "ttl_zero",
            Refusal::TooManyTopics { .. } => "too_many_topics",
            Refusal::TooManySubscriptions { .. } => "too_many_subscriptions",
            Refusal::RetainedFull { .. } => "retained_full",
            Refusal::TooManyRequests { .. } => "too_many_requests",
            Refusal::SubscriptionExists => "subscription_exists",
            Refusal::UnknownSubscription => "unknown_subscription",
            Refusal::SubscriptionPaused => "subscription_paused",
            Refusal::UnknownTopic => "unknown_topic",
            Refusal::TopicInUse => "topic_in_use",
            Refusal::NoResponders => "no_responders",
            Refusal::UnknownRequest => "unknown_request",
            Refusal::RequestExists => "request_exists",
        }
    }
}
