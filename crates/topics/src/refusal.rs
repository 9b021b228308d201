//! Every refusal of this crate, by name. A refused call changes nothing.

use thiserror::Error;

/// Why a call was refused. [`TopicRefusal::code`] is stable; doors send it to their peers.
#[expect(missing_docs, reason = "the sentence of each variant says what it means")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopicRefusal {
    #[error("a topic name is empty")]
    NameEmpty,
    #[error("a topic name has {length} bytes, the limit is {limit}")]
    NameTooLong { length: usize, limit: usize },
    #[error("a topic name has {levels} levels, the limit is {limit}")]
    TooManyLevels { levels: usize, limit: usize },
    #[error("a topic name has an empty level: two dots in a row, or a dot at an end")]
    LevelEmpty,
    #[error("a topic name has a control character or an invisible one")]
    ControlCharacter,
    #[error("a topic to publish to has no wildcards")]
    WildcardInName,
    #[error("`*` stands for a whole level, and `>` for a whole last level")]
    WildcardMisplaced,
    #[error("names that begin with `_reply.` are reserved for replies to requests")]
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
    #[error(
        "there are {limit} topics, which is the limit, and each has subscribers, a retained value or durable messages: \
         end or clear some, or raise the limit"
    )]
    TooManyTopics { limit: usize },
    #[error("there are {limit} subscriptions, which is the limit")]
    TooManySubscriptions { limit: usize },
    #[error("retained values take {limit} bytes, which is the limit")]
    RetainedFull { limit: usize },
    #[error("there are {limit} open requests, which is the limit")]
    TooManyRequests { limit: usize },
    #[error("the subscriber names the last numbers of {count} topics, the limit is {limit}")]
    TooManyLastSeen { count: usize, limit: usize },
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
    #[error("the topic of the request has no subscribers")]
    NoResponders,
    #[error("no such request is open: it was answered, or its time is over")]
    UnknownRequest,
    #[error("a request with this id is open already")]
    RequestExists,
    #[error("no subscriber answered the request in time")]
    NoAnswer,
    #[error(
        "names that begin with `{prefix}.` are reserved for the broker's events: subscribe to them, and publish under another name"
    )]
    ReadOnly { prefix: &'static str },
    #[error("topics are in use in {limit} namespaces, which is the limit")]
    TooManyNamespaces { limit: usize },
    #[error("the broker cannot write to its disk fast enough: try again")]
    NotWritten,
    #[error("the topic is durable and accepts no requests: use another name")]
    DurableRequest,
    #[error(
        "a group cannot share the broker's events, because every subscriber receives them: subscribe without a group"
    )]
    EventsInGroup,
    #[error("the broker is stopping")]
    Stopping,
}

impl TopicRefusal {
    /// The stable code of this refusal.
    pub fn code(&self) -> &'static str {
        match self {
            TopicRefusal::NameEmpty => "topic-name-empty",
            TopicRefusal::NameTooLong { .. } => "topic-name-too-long",
            TopicRefusal::TooManyLevels { .. } => "topic-name-too-many-levels",
            TopicRefusal::LevelEmpty => "topic-level-empty",
            TopicRefusal::ControlCharacter => "topic-name-control-character",
            TopicRefusal::WildcardInName => "topic-name-wildcard",
            TopicRefusal::WildcardMisplaced => "wildcard-misplaced",
            TopicRefusal::NameReserved => "topic-name-reserved",
            TopicRefusal::NoFilters => "subscription-without-topics",
            TopicRefusal::TooManyFilters { .. } => "subscription-too-many-topics",
            TopicRefusal::FiltersFull { .. } => "too-many-topics-in-subscriptions",
            TopicRefusal::TextEmpty { .. } => "text-empty",
            TopicRefusal::TextTooLong { .. } => "text-too-long",
            TopicRefusal::PayloadTooLong { .. } => "payload-too-long",
            TopicRefusal::TtlZero => "ttl-zero",
            TopicRefusal::TooManyTopics { .. } => "too-many-topics",
            TopicRefusal::TooManySubscriptions { .. } => "too-many-subscriptions",
            TopicRefusal::RetainedFull { .. } => "retained-full",
            TopicRefusal::TooManyRequests { .. } => "too-many-requests",
            TopicRefusal::TooManyLastSeen { .. } => "too-many-last-seen",
            TopicRefusal::SubscriptionExists => "subscription-exists",
            TopicRefusal::UnknownSubscription => "unknown-subscription",
            TopicRefusal::SubscriptionPaused => "subscription-paused",
            TopicRefusal::UnknownTopic => "unknown-topic",
            TopicRefusal::TopicInUse => "topic-in-use",
            TopicRefusal::NoResponders => "no-responders",
            TopicRefusal::UnknownRequest => "unknown-request",
            TopicRefusal::RequestExists => "request-exists",
            TopicRefusal::NoAnswer => "no-answer",
            TopicRefusal::ReadOnly { .. } => "topic-read-only",
            TopicRefusal::TooManyNamespaces { .. } => "too-many-namespaces",
            TopicRefusal::DurableRequest => "durable-takes-no-requests",
            TopicRefusal::EventsInGroup => "events-in-group",
            TopicRefusal::NotWritten => "not-written",
            TopicRefusal::Stopping => "stopping",
        }
    }
}
