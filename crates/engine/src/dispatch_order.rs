//! The order in which ready queues are served: by priority, then by whose turn it is, then by age.

use std::collections::BTreeMap;

use crate::queues::QueueKey;
use crate::ranked_list::TaskRank;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OfferRank {
    /// Tasks of one level take turns.
    pub(crate) level: i64,
    /// Zero in a queue without share keys. Turns of different queues cannot be compared.
    pub(crate) turn: u64,
    pub(crate) task: TaskRank,
}

impl OfferRank {
    /// The order between ready queues of different queues.
    fn across_queues(&self) -> (i64, TaskRank) {
        (self.level, self.task)
    }
}

/// Whether an offer of a queue goes before another, perhaps of another queue.
pub(crate) fn goes_before((queue, rank): (QueueKey, OfferRank), other: (QueueKey, OfferRank)) -> bool {
    if queue == other.0 { rank < other.1 } else { rank.across_queues() < other.1.across_queues() }
}

/// The most urgent of these offers. Turns of different queues cannot be compared: each queue says what is
/// first in it, and the most urgent of those goes.
pub(crate) fn first_offer<T: Copy + Ord>(
    offers: impl Iterator<Item = (QueueKey, OfferRank, T)> + Clone,
) -> Option<(QueueKey, OfferRank, T)> {
    let mut first = None;
    for offer in offers.clone() {
        let (_, rank, of) = offer;
        if rank.turn != 0 {
            return first_by_queue(offers);
        }
        if first.is_none_or(|(_, first_rank, first_of)| (rank, of) < (first_rank, first_of)) {
            first = Some(offer);
        }
    }
    first
}

fn first_by_queue<T: Copy + Ord>(
    offers: impl Iterator<Item = (QueueKey, OfferRank, T)>,
) -> Option<(QueueKey, OfferRank, T)> {
    let mut by_queue: BTreeMap<QueueKey, (OfferRank, T)> = BTreeMap::new();
    for (queue, rank, of) in offers {
        let best = by_queue.entry(queue).or_insert((rank, of));
        *best = (*best).min((rank, of));
    }
    let firsts = by_queue.into_iter().map(|(queue, (rank, of))| (queue, rank, of));
    firsts.min_by_key(|(_, rank, _)| rank.across_queues())
}
