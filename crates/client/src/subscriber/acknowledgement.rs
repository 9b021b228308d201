//! Which frames of a subscription the program has taken: the broker need not send those again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_wire::Name;
use tenure_wire::topic::{LastSeen, MessageKind};

use super::Received;
use crate::seen::TOPICS_MAX;

#[derive(Debug, Default)]
pub(super) struct Acknowledgement {
    /// The last sequence of each topic, for each frame that was passed on and not taken.
    frames: VecDeque<HashMap<Name, u64>>,
    /// How many frames were passed on before these.
    before: u64,
    /// How many frames the program has taken.
    taken: Arc<AtomicU64>,
}

impl Acknowledgement {
    pub(super) fn taken(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.taken)
    }

    /// Frames passed on before belong to an earlier connection.
    pub(super) fn begin(&mut self) {
        for frame in &mut self.frames {
            frame.clear();
        }
    }

    pub(super) fn hand_over_frame(&mut self, frame: &[Received]) {
        let mut last = HashMap::new();
        for received in frame {
            match received {
                Received::Message { kind, message } if *kind != MessageKind::Retained => {
                    note(&mut last, &message.topic, message.sequence);
                }
                Received::Gap(gap) => note(&mut last, &gap.topic, gap.last_missed),
                Received::Message { .. }
                | Received::ReplayComplete(_)
                | Received::Warning(_)
                | Received::Back { .. }
                | Received::Ended(_) => {}
            }
        }
        self.frames.push_back(last);
    }

    /// Whether there is nothing to acknowledge, whatever the program takes.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.iter().all(HashMap::is_empty)
    }

    /// The messages that the program has taken since the last call.
    pub(super) fn read(&mut self) -> Vec<LastSeen> {
        let done = self.taken.load(Ordering::Acquire);
        let mut read: HashMap<Name, u64> = HashMap::new();
        while self.before < done {
            let Some(frame) = self.frames.pop_front() else { break };
            self.before += 1;
            read.extend(frame);
        }
        let row = |(topic, sequence)| LastSeen { topic, sequence };
        read.into_iter().take(TOPICS_MAX).map(row).collect()
    }
}

/// Topics come in runs, so most messages need no second lookup of their name.
fn note(last: &mut HashMap<Name, u64>, topic: &Name, sequence: u64) {
    match last.get_mut(topic) {
        Some(known) => *known = sequence,
        None => {
            last.insert(topic.clone(), sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenure_wire::Timestamp;
    use tenure_wire::topic::Message;

    use super::*;

    fn message(topic: &str, sequence: u64) -> Received {
        let message = Message {
            topic: topic.into(),
            sequence,
            payload: Bytes::new(),
            published_at: Timestamp(0),
            id: None,
            source: None,
            content_type: None,
            correlation: None,
            reply_to: None,
        };
        Received::Message { kind: MessageKind::Live, message }
    }

    #[test]
    fn a_frame_is_read_when_the_next_one_is_asked_for() {
        let mut acknowledgement = Acknowledgement::default();
        let taken = acknowledgement.taken();
        acknowledgement.hand_over_frame(&[message("a", 1), message("b", 1), message("a", 2)]);
        acknowledgement.hand_over_frame(&[message("a", 3)]);
        assert_eq!(acknowledgement.read(), [], "it is at work on the first");
        taken.store(1, Ordering::Release);
        let mut read = acknowledgement.read();
        read.sort_by(|one, other| one.topic.cmp(&other.topic));
        let row = |topic: &str, sequence| LastSeen { topic: topic.into(), sequence };
        assert_eq!(read, [row("a", 2), row("b", 1)]);
        assert!(!acknowledgement.is_empty());
        acknowledgement.begin();
        taken.store(2, Ordering::Release);
        assert_eq!((acknowledgement.read(), acknowledgement.is_empty()), (Vec::new(), true));
    }
}
