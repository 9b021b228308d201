//! Messages that were sent to a group member and not acknowledged, if the member acknowledges at all. If the
//! member leaves, another one gets them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::delivery::Delivery;
use crate::message::{Message, Sequence};
use crate::unconfirmed::UNREAD_BYTES_MAX;

/// The maximum number of unacknowledged messages of one member. Beyond that, or beyond [`UNREAD_BYTES_MAX`],
/// the oldest count as read.
pub const IN_FLIGHT_MESSAGES_MAX: usize = 65_536;

/// Messages in sending order.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    messages: VecDeque<Arc<Message>>,
    bytes: u64,
}

impl InFlight {
    pub(crate) fn sent(&mut self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            let Delivery::Message { message, .. } = delivery else { continue };
            self.bytes += message.cost() as u64;
            self.messages.push_back(Arc::clone(message));
            while self.messages.len() > IN_FLIGHT_MESSAGES_MAX || self.bytes > UNREAD_BYTES_MAX {
                let Some(oldest) = self.messages.pop_front() else { break };
                self.bytes -= oldest.cost() as u64;
            }
        }
    }

    /// The member has last read these numbers. A message taken over from another member comes late and has a
    /// lower number, so the sending order counts, and a number that is not here has no meaning.
    pub(crate) fn confirm(&mut self, last_read: &BTreeMap<&str, Sequence>) {
        let mut confirmed = BTreeSet::new();
        let mut kept = VecDeque::new();
        while let Some(message) = self.messages.pop_back() {
            if last_read.get(&*message.topic) == Some(&message.sequence) {
                confirmed.insert(Arc::clone(&message.topic));
            }
            if confirmed.contains(&message.topic) {
                self.bytes -= message.cost() as u64;
            } else {
                kept.push_front(message);
            }
        }
        self.messages = kept;
    }

    pub(crate) fn take(&mut self) -> Vec<Arc<Message>> {
        self.bytes = 0;
        std::mem::take(&mut self.messages).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::DeliveryKind;
    use crate::time::Timestamp;

    fn sent(in_flight: &mut InFlight, numbers: &[u64], payload: &'static [u8]) {
        for &number in numbers {
            let message = Arc::new(Message::sample(number, Timestamp::NEVER, payload));
            in_flight.sent(&[Delivery::Message { kind: DeliveryKind::Live, message }]);
        }
    }

    fn confirm(in_flight: &mut InFlight, number: u64) {
        let topic = Message::sample(0, Timestamp::NEVER, b"").topic;
        in_flight.confirm(&BTreeMap::from([(&*topic, Sequence(number))]));
    }

    fn left(in_flight: &mut InFlight) -> Vec<u64> {
        in_flight.take().iter().map(|message| message.sequence.0).collect()
    }

    #[test]
    fn the_order_of_sending_counts_and_not_the_number() {
        let mut in_flight = InFlight::default();
        sent(&mut in_flight, &[4, 5, 1, 7], b"");
        confirm(&mut in_flight, 5);
        confirm(&mut in_flight, 5);
        confirm(&mut in_flight, 6);
        assert_eq!(left(&mut in_flight), [1, 7]);
        sent(&mut in_flight, &[4, 5, 1, 7], b"");
        confirm(&mut in_flight, 1);
        assert_eq!(left(&mut in_flight), [7]);
        assert_eq!(in_flight.bytes, 0);
    }

    #[test]
    fn what_is_in_flight_is_bounded_in_messages_and_bytes() {
        let mut in_flight = InFlight::default();
        let numbers: Vec<u64> = (0..=IN_FLIGHT_MESSAGES_MAX as u64).collect();
        sent(&mut in_flight, &numbers, b"");
        assert_eq!(left(&mut in_flight)[0], 1);
        static LARGE: [u8; 1 << 20] = [0; 1 << 20];
        sent(&mut in_flight, &numbers[..40], &LARGE);
        assert_eq!(left(&mut in_flight).len(), 31);
    }
}
