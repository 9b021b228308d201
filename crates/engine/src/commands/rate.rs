//! Rate: how many tasks of a tag or queue the broker hands out in a period. An assignment takes a token from
//! the queue and from each tag; a task that comes back without having started returns them.

use crate::buckets::{BucketKey, BucketOwner};
use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::{Event, EventData, EventSubject};
use crate::id::Slot;
use crate::limits::LIMITED_TAGS_MAX;
use crate::name::{self, Name};
use crate::rate::Rate;
use crate::ready_queues::{ReadyOffer, ReadyQueueKey};
use crate::record::{Change, LimitSetting, Output};
use crate::refusal::Refusal;
use crate::tags::TagKey;
use crate::time::Timestamp;
use crate::timers::Timer;
use crate::why::Why;

impl Engine {
    pub(crate) fn set_tag_rate(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        tag: &Name,
        rate: Option<Rate>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        name::check("tag", tag)?;
        name::check("namespace", &peer.namespace)?;
        rate.map_or(Ok(()), Rate::check)?;
        if rate.is_some()
            && self.tags.len() >= LIMITED_TAGS_MAX
            && self.tags.find(&peer.namespace, tag).is_none()
        {
            return Err(Refusal::Full { what: "limits", limit: LIMITED_TAGS_MAX as u64 });
        }
        let key = self.tags.open(&peer.namespace, tag);
        let bucket = self.set_bucket(now, BucketOwner::Tag(key), self.tags.at(key).bucket, rate);
        let entry = self.tags.at_mut(key);
        (entry.rate, entry.bucket) = (rate, bucket);
        self.emit_tag_record(now, key, EventData::RateSet { rate }, out);
        self.tags.close_if_unused(key);
        Ok(Reply::Done)
    }

    pub(crate) fn set_queue_rate(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        queue: &Name,
        rate: Option<Rate>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        name::check("queue", queue)?;
        rate.map_or(Ok(()), Rate::check)?;
        self.check_queue_room(&peer.namespace, std::slice::from_ref(queue))?;
        let namespace_key = self.namespaces.open(&peer.namespace);
        let key = self.queues.open(&peer.namespace, queue, namespace_key);
        let bucket = self.set_bucket(now, BucketOwner::Queue(key), self.queues.at(key).bucket, rate);
        let entry = self.queues.at_mut(key);
        (entry.setting.rate, entry.bucket) = (rate, bucket);
        self.emit_queue_record(now, key, EventData::QueueRateSet { rate }, out);
        // The backlog check also removes a queue without tasks and settings.
        self.mark_queue_dirty(key);
        Ok(Reply::Done)
    }

    /// Creates, changes or removes a bucket. The ready queues that wait at it are looked at again.
    fn set_bucket(
        &mut self,
        now: Timestamp,
        owner: BucketOwner,
        before: Option<BucketKey>,
        rate: Option<Rate>,
    ) -> Option<BucketKey> {
        match (before, rate) {
            (None, None) => None,
            (None, Some(rate)) => Some(self.buckets.insert(owner, rate, now)),
            (Some(key), Some(rate)) => {
                self.buckets.set_rate(key, rate, now);
                self.wake(key);
                Some(key)
            }
            (Some(key), None) => {
                let parked: Vec<ReadyQueueKey> =
                    self.buckets.at(key).parked.iter().map(|(_, ready_queue)| *ready_queue).collect();
                for ready_queue in parked {
                    self.set_offer(ready_queue, ReadyOffer::Hidden);
                    self.dirty.ready_queues.push(ready_queue);
                }
                let bucket = self.buckets.remove(key);
                self.timers.disarm(bucket.wakes_at, Timer::Token(key));
                None
            }
        }
    }

    pub(crate) fn emit_tag_record(
        &mut self,
        now: Timestamp,
        key: TagKey,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let seq = self.take_event();
        let tag = self.tags.at(key);
        let (namespace, tag, limit, rate) = (tag.namespace.clone(), tag.name.clone(), tag.limit, tag.rate);
        let about = EventSubject::Tag { namespace: namespace.clone(), tag: tag.clone() };
        let setting = LimitSetting { namespace, tag, limit, rate };
        out.record(Event { seq, at: now, about, kind }, Change::Limit(&setting));
    }

    /// The first bucket without a token that the tasks of this ready queue need.
    pub(crate) fn empty_bucket(&self, now: Timestamp, ready_queue: ReadyQueueKey) -> Option<BucketKey> {
        let ready_queue = self.ready_queues.at(ready_queue);
        let of_queue = self.queues.at(ready_queue.queue).bucket;
        let of_tags = ready_queue.tags.iter().filter_map(|tag| self.tags.at(*tag).bucket);
        of_queue.into_iter().chain(of_tags).find(|bucket| !self.buckets.at(*bucket).has_token(now))
    }

    /// Lets a ready queue wait for a token.
    pub(crate) fn throttle(&mut self, ready_queue: ReadyQueueKey, key: BucketKey) {
        let (rank, _) = self.first_of(ready_queue).expect("a listed ready queue has a task");
        self.set_offer(ready_queue, ReadyOffer::Throttled(key, rank));
        let bucket = self.buckets.at_mut(key);
        if bucket.wakes_at == Timestamp::NEVER {
            bucket.wakes_at = bucket.next_at();
            let at = bucket.wakes_at;
            self.timers.arm(at, Timer::Token(key));
        }
    }

    /// Takes the tokens of a task that is about to be assigned.
    pub(crate) fn take_tokens(&mut self, now: Timestamp, slot: Slot) {
        self.each_bucket(slot, |engine, bucket| {
            engine.buckets.at_mut(bucket).take(now);
            engine.dirty.reservations |= !engine.buckets.at(bucket).has_token(now);
        });
    }

    /// Returns the tokens of a task that did not start.
    pub(crate) fn return_tokens(&mut self, now: Timestamp, slot: Slot) {
        let taken_at = self.tasks.at(slot).state.holding().expect("it has not come back yet").since;
        self.each_bucket(slot, |engine, bucket| {
            engine.buckets.at_mut(bucket).put_back(now, taken_at);
            engine.wake(bucket);
        });
    }

    fn each_bucket(&mut self, slot: Slot, mut see: impl FnMut(&mut Engine, BucketKey)) {
        let key = self.terms.ready_queue(self.tasks.at(slot).terms);
        let ready_queue = self.ready_queues.at(key);
        let tags = ready_queue.tags.len();
        if let Some(bucket) = self.queues.at(ready_queue.queue).bucket {
            see(self, bucket);
        }
        for index in 0..tags {
            let tag = self.ready_queues.at(key).tags[index];
            if let Some(bucket) = self.tags.at(tag).bucket {
                see(self, bucket);
            }
        }
    }

    /// Handles the timer of a bucket: it has a token.
    pub(crate) fn token_due(&mut self, key: BucketKey) {
        self.buckets.at_mut(key).wakes_at = Timestamp::NEVER;
        self.dirty.buckets.push(key);
    }

    /// Looks again at the ready queues that wait at a bucket: it may have a token before its time.
    fn wake(&mut self, key: BucketKey) {
        let wakes_at = self.buckets.at(key).wakes_at;
        if wakes_at != Timestamp::NEVER {
            self.timers.disarm(wakes_at, Timer::Token(key));
            self.token_due(key);
        }
    }

    /// Gives every tag and queue with a rate its bucket after a restart. The buckets are empty: what was
    /// taken before the restart is not stored, and the rate must not be exceeded.
    pub(crate) fn restore_buckets(&mut self, now: Timestamp) {
        let tags: Vec<(TagKey, Option<Rate>)> =
            self.tags.entries().map(|(key, tag)| (key, tag.rate)).collect();
        for (key, rate) in tags {
            let Some(rate) = rate else { continue };
            let bucket = self.buckets.insert(BucketOwner::Tag(key), rate, now);
            self.tags.at_mut(key).bucket = Some(bucket);
        }
        let queues: Vec<_> = self.queues.keys().collect();
        for key in queues {
            let Some(rate) = self.queues.at(key).setting.rate else { continue };
            let bucket = self.buckets.insert(BucketOwner::Queue(key), rate, now);
            self.queues.at_mut(key).bucket = Some(bucket);
        }
        for key in self.buckets.keys() {
            self.buckets.at_mut(key).empty(now);
        }
    }

    /// The clock was set. The tokens gathered so far stay, and the next one takes as long as before.
    pub(crate) fn shift_tokens(&mut self, from: Timestamp, to: Timestamp) {
        for key in self.buckets.keys() {
            let bucket = self.buckets.at_mut(key);
            bucket.shift(from, to);
            let before = bucket.wakes_at;
            bucket.wakes_at = before.carried(from, to);
            let after = bucket.wakes_at;
            self.timers.disarm(before, Timer::Token(key));
            self.timers.arm(after, Timer::Token(key));
        }
    }

    /// Why a ready queue waits for a token, if it does.
    pub(crate) fn why_throttled(&self, key: ReadyQueueKey) -> Option<Why> {
        let offered = self.ready_queues.at(key).parent.unwrap_or(key);
        let ReadyOffer::Throttled(bucket, _) = self.ready_queues.at(offered).offer else { return None };
        let bucket = self.buckets.at(bucket);
        let next_at = bucket.next_at();
        Some(match bucket.owner {
            BucketOwner::Tag(tag) => {
                let tag = self.tags.at(tag);
                Why::TagRate { tag: tag.name.clone(), rate: tag.rate.expect("a bucket has a rate"), next_at }
            }
            BucketOwner::Queue(queue) => {
                let setting = &self.queues.at(queue).setting;
                let rate = setting.rate.expect("a bucket has a rate");
                Why::QueueRate { queue: setting.queue.clone(), rate, next_at }
            }
        })
    }
}
