//! The order in which ready queues of one queue are served: by priority, then by whose turn it is, then by
//! age.

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
    pub(crate) fn across_queues(&self) -> (i64, TaskRank) {
        (self.level, self.task)
    }
}
