//! Token buckets: one for each tag or queue with a rate. Time fills a bucket, up to the burst; an assignment
//! takes a token. Ready queues wait at an empty bucket until its timer fires.

use std::collections::VecDeque;

use crate::dispatch_order::OfferRank;
use crate::ordered_set::OrderedSet;
use crate::queues::QueueKey;
use crate::rate::Rate;
use crate::ready_queues::ReadyQueueKey;
use crate::slab::Slab;
use crate::tags::TagKey;
use crate::time::Timestamp;

/// How many levels a bucket remembers. A token taken before the oldest of them is not returned.
const PEAKS_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BucketKey(u32);

/// The subject of a bucket's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketOwner {
    Tag(TagKey),
    Queue(QueueKey),
}

#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) owner: BucketOwner,
    rate: Rate,
    /// In parts: a token has as many parts as the period has milliseconds, and each millisecond adds as many
    /// parts as the rate has tasks. So nothing is ever rounded.
    parts: u64,
    /// When `parts` was right.
    at: Timestamp,
    /// How full the bucket was when tokens were taken, except where it has been as full since. Without a token
    /// that comes back, it would have been fuller by that token, but never fuller than the burst.
    peaks: VecDeque<(Timestamp, u64)>,
    /// Tokens taken before this moment are not returned: it is not known how full the bucket has been since.
    known_since: Timestamp,
    /// Ready queues that wait for a token, by the rank of their first task.
    pub(crate) parked: OrderedSet<(OfferRank, ReadyQueueKey)>,
    /// When the bucket's timer fires. It is armed while ready queues wait.
    pub(crate) wakes_at: Timestamp,
}

impl Bucket {
    fn new(owner: BucketOwner, rate: Rate, now: Timestamp) -> Bucket {
        let parked = OrderedSet::default();
        let mut bucket = Bucket {
            owner,
            rate,
            parts: 0,
            at: now,
            peaks: VecDeque::new(),
            known_since: now,
            parked,
            wakes_at: Timestamp::NEVER,
        };
        bucket.parts = bucket.capacity();
        bucket
    }

    fn capacity(&self) -> u64 {
        u64::from(self.rate.burst) * self.rate.period_millis()
    }

    fn parts_at(&self, now: Timestamp) -> u64 {
        let grown = now.0.saturating_sub(self.at.0).saturating_mul(u64::from(self.rate.count));
        self.parts.saturating_add(grown).min(self.capacity())
    }

    pub(crate) fn has_token(&self, now: Timestamp) -> bool {
        self.parts_at(now) >= self.rate.period_millis()
    }

    /// When there is a token, if none is taken before.
    pub(crate) fn next_at(&self) -> Timestamp {
        let missing = self.rate.period_millis().saturating_sub(self.parts);
        Timestamp(self.at.0.saturating_add(missing.div_ceil(u64::from(self.rate.count))))
    }

    pub(crate) fn take(&mut self, now: Timestamp) {
        self.fill(now);
        let token = self.rate.period_millis();
        while self.peaks.pop_back_if(|(_, level)| *level <= self.parts).is_some() {}
        self.peaks.push_back((now, self.parts));
        if self.peaks.len() > PEAKS_MAX
            && let Some((at, _)) = self.peaks.pop_front()
        {
            self.known_since = self.known_since.max(at);
        }
        self.parts = self.parts.checked_sub(token).expect("a task goes only if there is a token");
    }

    /// Returns a token that was taken at this time, except for what the bucket has gained since only because
    /// the token was missing.
    pub(crate) fn put_back(&mut self, now: Timestamp, taken_at: Timestamp) {
        self.fill(now);
        if taken_at < self.known_since {
            return;
        }
        let (token, capacity) = (self.rate.period_millis(), self.capacity());
        let mut peak = self.parts;
        for (_, level) in self.peaks.iter_mut().filter(|(at, _)| *at > taken_at) {
            peak = peak.max(*level);
            *level = level.saturating_add(token).min(capacity);
        }
        self.parts = self.parts.saturating_add(token.min(capacity - peak)).min(capacity);
    }

    /// Changes the rate. The bucket keeps its tokens, up to the new burst.
    fn set_rate(&mut self, rate: Rate, now: Timestamp) {
        if rate == self.rate {
            return;
        }
        self.fill(now);
        self.forget_peaks(now);
        let tokens = self.parts / self.rate.period_millis();
        self.rate = rate;
        self.parts = tokens.saturating_mul(rate.period_millis()).min(self.capacity());
    }

    /// The clock was set: what has been gathered stays.
    pub(crate) fn shift(&mut self, from: Timestamp, to: Timestamp) {
        self.at = self.at.carried(from, to);
        self.forget_peaks(from.max(to).after());
    }

    /// After a restart it is not known what was taken last.
    pub(crate) fn empty(&mut self, now: Timestamp) {
        (self.parts, self.at) = (0, now);
        self.forget_peaks(now.after());
    }

    fn forget_peaks(&mut self, known_since: Timestamp) {
        self.peaks.clear();
        self.known_since = self.known_since.max(known_since);
    }

    fn fill(&mut self, now: Timestamp) {
        self.parts = self.parts_at(now);
        self.at = self.at.max(now);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Buckets {
    slab: Slab<Bucket>,
}

impl Buckets {
    /// A new bucket is full.
    pub(crate) fn insert(&mut self, owner: BucketOwner, rate: Rate, now: Timestamp) -> BucketKey {
        BucketKey(self.slab.insert(Bucket::new(owner, rate, now)))
    }

    pub(crate) fn set_rate(&mut self, key: BucketKey, rate: Rate, now: Timestamp) {
        self.at_mut(key).set_rate(rate, now);
    }

    pub(crate) fn remove(&mut self, key: BucketKey) -> Bucket {
        self.slab.remove(key.0)
    }

    pub(crate) fn has(&self, key: BucketKey) -> bool {
        self.slab.get(key.0).is_some()
    }

    pub(crate) fn at(&self, key: BucketKey) -> &Bucket {
        self.slab.at(key.0)
    }

    pub(crate) fn at_mut(&mut self, key: BucketKey) -> &mut Bucket {
        self.slab.at_mut(key.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (BucketKey, &Bucket)> {
        self.slab.iter().map(|(place, bucket)| (BucketKey(place), bucket))
    }

    pub(crate) fn keys(&self) -> Vec<BucketKey> {
        self.iter().map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_time_has_replaced_does_not_come_back() {
        let rate = Rate { count: 1, period: Duration::from_secs(1), burst: 2 };
        let mut bucket = Bucket::new(BucketOwner::Queue(QueueKey(0)), rate, Timestamp(0));
        bucket.take(Timestamp(0));
        bucket.put_back(Timestamp(500), Timestamp(0));
        assert_eq!(bucket.parts, 2_000, "nothing has used it");
        bucket.take(Timestamp(1_000));
        bucket.take(Timestamp(2_000));
        bucket.take(Timestamp(2_000));
        bucket.put_back(Timestamp(2_000), Timestamp(1_000));
        assert!(!bucket.has_token(Timestamp(2_000)), "two at once are all that the burst gives");
        bucket.put_back(Timestamp(2_000), Timestamp(2_000));
        assert!(bucket.has_token(Timestamp(2_000)));
    }

    proptest! {
        /// In every window, no more than the burst and what its length gives.
        #[test]
        fn no_window_sees_more_than_the_burst_and_its_share(
            count in 1u32..200,
            period in 1u64..5_000,
            burst in 1u32..20,
            steps in prop::collection::vec((0u64..400, 0u32..30), 1..60),
        ) {
            let rate = Rate { count, period: Duration::from_millis(period), burst };
            let mut now = Timestamp(1_000);
            let mut bucket = Bucket::new(BucketOwner::Queue(QueueKey(0)), rate, now);
            let mut taken = Vec::new();
            for (wait, wanted) in steps {
                now = Timestamp(now.0 + wait);
                for _ in 0..wanted {
                    if !bucket.has_token(now) {
                        prop_assert!(bucket.next_at() > now);
                        break;
                    }
                    bucket.take(now);
                    taken.push(now.0);
                }
                let next = bucket.next_at();
                prop_assert!(bucket.has_token(next.max(now)), "at the time it names there is a token");
            }
            for (index, from) in taken.iter().enumerate() {
                for (more, to) in taken[index..].iter().enumerate() {
                    let given = u64::from(burst) * period + (to - from) * u64::from(count);
                    prop_assert!((more as u64 + 1) * period <= given, "{} in {} ms", more + 1, to - from);
                }
            }
        }

        /// The same, for the tokens that did not come back.
        #[test]
        fn a_token_that_comes_back_gives_no_window_more(
            count in 1u32..20,
            period in 1u64..2_000,
            burst in 1u32..6,
            steps in prop::collection::vec((0u64..400, 0u32..4, prop::option::of(0usize..8)), 1..80),
        ) {
            let rate = Rate { count, period: Duration::from_millis(period), burst };
            let mut now = Timestamp(1_000);
            let mut bucket = Bucket::new(BucketOwner::Queue(QueueKey(0)), rate, now);
            let mut taken = Vec::new();
            for (wait, wanted, back) in steps {
                now = Timestamp(now.0 + wait);
                for _ in 0..wanted {
                    if bucket.has_token(now) {
                        bucket.take(now);
                        taken.push(now.0);
                    }
                }
                if let Some(place) = back.and_then(|back| taken.len().checked_sub(back + 1)) {
                    bucket.put_back(now, Timestamp(taken.remove(place)));
                }
            }
            for (index, from) in taken.iter().enumerate() {
                for (more, to) in taken[index..].iter().enumerate() {
                    let given = u64::from(burst) * period + (to - from) * u64::from(count);
                    prop_assert!((more as u64 + 1) * period <= given, "{} in {} ms", more + 1, to - from);
                }
            }
        }
    }
}
