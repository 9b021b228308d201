//! The last sequence that a subscriber has seen of each topic. The subscriber sends these when it reconnects, and uses
//! them to detect missed messages when it does not ask for a replay. Pure.

use std::collections::HashMap;

use tenure_wire::Name;
use tenure_wire::topic::{LastSeen, Message, MessageKind, TopicGap};

/// Maximum number of topics that a subscriber tracks. The broker accepts no more, and tracks the rest itself.
pub(crate) const TOPICS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct LastSequences {
    topics: HashMap<Name, LastSequence>,
    highest: u64,
}

#[derive(Debug)]
struct LastSequence {
    sequence: u64,
    /// The number was seen on an earlier connection, and nothing has been replayed since.
    unsure: bool,
}

impl LastSequences {
    /// A message has arrived. Returns the gap before it, if it is the first of its topic after an absence.
    pub(crate) fn message(&mut self, message: &Message, kind: &MessageKind) -> Option<TopicGap> {
        // A retained value says nothing about what came before or after it.
        if *kind == MessageKind::Retained {
            return None;
        }
        self.highest = self.highest.max(message.sequence);
        let Some(last) = self.topics.get_mut(&message.topic) else {
            if self.topics.len() < TOPICS_MAX {
                let last = LastSequence { sequence: message.sequence, unsure: false };
                self.topics.insert(message.topic.clone(), last);
            }
            return None;
        };
        let missed = last.unsure && message.sequence > last.sequence + 1;
        let first_missed = last.sequence + 1;
        *last = LastSequence { sequence: message.sequence, unsure: false };
        missed.then(|| TopicGap {
            subscription: 0,
            topic: message.topic.clone(),
            first_missed,
            last_missed: message.sequence - 1,
            oldest_kept: message.sequence,
            reason: None,
        })
    }

    /// The broker has reported a gap.
    pub(crate) fn note_gap(&mut self, gap: &TopicGap) {
        if let Some(last) = self.topics.get_mut(&gap.topic) {
            last.sequence = last.sequence.max(gap.last_missed);
            last.unsure = false;
        }
    }

    /// The broker has replayed everything up to this number.
    pub(crate) fn complete(&mut self, topic: &str, latest: u64) {
        if let Some(last) = self.topics.get_mut(topic) {
            last.sequence = last.sequence.max(latest);
            last.unsure = false;
        }
    }

    /// A new connection is up. Without a replay, the next message of each topic shows what was missed.
    pub(crate) fn is_back(&mut self, replays: bool) {
        for last in self.topics.values_mut() {
            last.unsure = !replays;
        }
    }

    /// For the request to the broker.
    pub(crate) fn last_seen(&self) -> Vec<LastSeen> {
        let row = |(topic, last): (&Name, &LastSequence)| LastSeen {
            topic: topic.clone(),
            sequence: last.sequence,
        };
        self.topics.iter().map(row).collect()
    }

    /// The highest number of any topic, for the log.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenure_wire::Timestamp;

    use super::*;

    fn message(topic: &str, sequence: u64) -> Message {
        Message {
            topic: topic.into(),
            sequence,
            payload: Bytes::new(),
            published_at: Timestamp(0),
            id: None,
            source: None,
            content_type: None,
            correlation: None,
            reply_to: None,
        }
    }

    fn gap(seen: &mut LastSequences, topic: &str, sequence: u64) -> Option<(u64, u64)> {
        let gap = seen.message(&message(topic, sequence), &MessageKind::Live);
        gap.map(|gap| (gap.first_missed, gap.last_missed))
    }

    #[test]
    fn numbers_that_expired_are_no_gap_but_those_missed_while_away_are() {
        let mut seen = LastSequences::default();
        assert_eq!(gap(&mut seen, "a", 5), None, "it began there");
        assert_eq!(gap(&mut seen, "a", 9), None, "6 to 8 expired");
        seen.is_back(false);
        assert_eq!(gap(&mut seen, "a", 12), Some((10, 11)));
        assert_eq!(gap(&mut seen, "a", 20), None);
        seen.is_back(false);
        assert_eq!(gap(&mut seen, "a", 21), None, "nothing was missed");
    }

    #[test]
    fn what_the_broker_named_or_replayed_is_not_told_again() {
        let mut seen = LastSequences::default();
        for topic in ["a", "b"] {
            gap(&mut seen, topic, 1);
        }
        seen.is_back(true);
        assert_eq!(gap(&mut seen, "a", 7), None);
        seen.is_back(false);
        let told = TopicGap {
            subscription: 0,
            topic: "b".into(),
            first_missed: 2,
            last_missed: 6,
            oldest_kept: 7,
            reason: None,
        };
        seen.note_gap(&told);
        assert_eq!(gap(&mut seen, "b", 7), None);
    }

    #[test]
    fn the_last_number_of_every_topic_goes_to_the_broker() {
        let mut seen = LastSequences::default();
        gap(&mut seen, "a", 3);
        seen.message(&message("a", 9), &MessageKind::Retained);
        assert_eq!(seen.last_seen(), [LastSeen { topic: "a".into(), sequence: 3 }]);
        seen.complete("a", 8);
        assert_eq!(seen.last_seen()[0].sequence, 8);
    }
}
