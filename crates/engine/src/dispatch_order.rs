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
    match first_if_comparable(offers.clone()) {
        Ok(first) => first,
        Err(Incomparable) => first_by_queue(offers),
    }
}

/// The offers are of several queues whose share keys take turns.
pub(crate) struct Incomparable;

/// The most urgent of these offers, if all of them can be compared. Then none of the others goes before it.
#[inline]
pub(crate) fn first_if_comparable<T: Copy + Ord>(
    offers: impl Iterator<Item = (QueueKey, OfferRank, T)>,
) -> Result<Option<(QueueKey, OfferRank, T)>, Incomparable> {
    let mut first: Option<(QueueKey, OfferRank, T)> = None;
    let (mut take_turns, mut are_of_several_queues) = (false, false);
    for (queue, rank, of) in offers {
        take_turns |= rank.turn != 0;
        if let Some((first_queue, first_rank, first_of)) = first {
            are_of_several_queues |= queue != first_queue;
            if (first_rank, first_of) < (rank, of) {
                continue;
            }
        }
        first = Some((queue, rank, of));
    }
    if take_turns && are_of_several_queues { Err(Incomparable) } else { Ok(first) }
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
