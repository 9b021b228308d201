//! Compares what publishers and subscribers received with what the broker promises.

use std::collections::{BTreeMap, BTreeSet};

use super::subscriber::Subscriber;

/// Maximum number of broken promises reported for one world.
const BROKEN_MAX: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Record {
    /// Which message has which sequence, according to any peer.
    numbers: BTreeMap<(String, u64), u64>,
    /// The confirmed sequences of each durable topic.
    confirmed: BTreeMap<String, BTreeSet<u64>>,
    broken: Vec<String>,
    pub(super) restarts: u64,
    pub(super) deliveries: u64,
}

impl Record {
    pub(super) fn check(&mut self, holds: bool, promise: impl FnOnce() -> String) {
        if !holds && self.broken.len() < BROKEN_MAX {
            self.broken.push(promise());
        }
    }

    pub(super) fn broken(&self) -> &[String] {
        &self.broken
    }

    /// No sequence is used twice, across kills and power failures.
    pub(super) fn numbered(&mut self, topic: &str, number: u64, message: u64) {
        let known = *self.numbers.entry((topic.to_owned(), number)).or_insert(message);
        self.check(known == message, || {
            format!("number {number} of {topic} is message {known} and message {message}")
        });
    }

    /// A publisher received the confirmation of its message.
    pub(super) fn confirmed(&mut self, topic: &str, number: u64, message: u64) {
        self.numbered(topic, number, message);
        if is_durable(topic) {
            self.confirmed.entry(topic.to_owned()).or_default().insert(number);
        }
    }

    /// The numbers of a durable topic that have been confirmed by now.
    pub(super) fn latest(&self, topic: &str) -> u64 {
        self.confirmed.get(topic).and_then(BTreeSet::last).copied().unwrap_or(0)
    }

    pub(super) fn durable_topics(&self) -> impl Iterator<Item = &String> {
        self.confirmed.keys()
    }

    /// Every subscriber must have received the confirmed messages of durable topics.
    pub(super) fn check_all_heard(&mut self, subscriber: &Subscriber) {
        let mut missing = Vec::new();
        for (topic, numbers) in &self.confirmed {
            if !subscriber.wants(topic) {
                continue;
            }
            let from = subscriber.durable_from(topic);
            let unheard = numbers.range(from + 1..).filter(|number| !subscriber.has_heard(topic, **number));
            missing.extend(unheard.map(|number| format!("{topic}#{number}")));
        }
        self.check(missing.is_empty(), || {
            format!("{} never heard {} durable messages: {:?}", subscriber.describe(), missing.len(), missing)
        });
    }
}

pub(super) fn is_durable(topic: &str) -> bool {
    topic.starts_with("audit.")
}
