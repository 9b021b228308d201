//! Hooks: where events leave the broker, and what could not be delivered.

use bytes::Bytes;

use crate::Name;
use crate::schema::{message, words};
use crate::time::Timestamp;

words! {
    /// The way in which a hook delivers an event.
    pub enum HookKind {
        Webhook = "webhook",
        Command = "command",
    }
}

message! {
    /// A hook, and how it fares. Counts are those since the start of the broker.
    pub struct HookInfo {
        hook: Name,
        kind: HookKind,
        /// The address without its query, or the program.
        target: Box<str>,
        /// Empty: all kinds.
        events: Vec<Name>,
        /// Empty: all queues.
        queues: Vec<Name>,
        /// All events before this one are delivered, or are among the undelivered ones.
        next_event: u64,
        delivered: u64 = 0,
        /// Attempts that failed.
        failed_attempts: u64 = 0,
        given_up: u64 = 0,
        /// Events that were no longer kept when the hook wanted them.
        missed: u64 = 0,
        /// Undelivered events that made room for newer ones.
        discarded: u64 = 0,
        in_flight: u64 = 0,
        /// How many events are kept that could not be delivered.
        undelivered: u64 = 0,
        last_delivered_at: Option<Timestamp>,
        last_error: Option<Box<str>>,
    }
}

message! {
    /// The list of hooks.
    #[derive(Default)]
    pub struct HookList {
        hooks: Vec<HookInfo>,
    }
}

message! {
    /// A request that names one hook.
    pub struct OneHook {
        hook: Name,
    }
}

message! {
    /// Sends what a hook has given up again.
    pub struct Redeliver {
        hook: Name,
        /// The number of one event; absent: all.
        event: Option<u64>,
    }
}

message! {
    /// An event that a hook has given up.
    pub struct UndeliveredEvent {
        seq: u64,
        kind: Box<str>,
        given_up_at: Timestamp,
        attempts: u32,
        error: Box<str>,
        /// The body that would be sent.
        body: Bytes,
    }
}

message! {
    /// Events that a hook has given up.
    #[derive(Default)]
    pub struct UndeliveredList {
        events: Vec<UndeliveredEvent>,
    }
}

message! {
    /// How many events a hook delivers again.
    pub struct Redelivered {
        events: u64,
    }
}
