//! Take: a subscriber drains its deliveries, in order and in batches.

use std::ops::Bound;
use std::sync::Arc;

use super::Shard;
use crate::catch_up::{CatchUp, Replay, RetainedSweep};
use crate::delivery::{Delivery, DeliveryKind, Gap, GapReason, ReplayComplete};
use crate::message::{Message, Sequence};
use crate::refusal::TopicRefusal;
use crate::subscription::Subscription;
use crate::subscriptions::SubscriptionKey;
use crate::time::Timestamp;
use crate::topic::Topic;

/// How often one take compares a retained value with a filter.
const COMPARISONS_MAX: usize = 10_000;

/// The result of a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Items added.
    pub count: usize,
    /// There may be more: take again. If not, the next message wakes the subscriber.
    pub more: bool,
}

impl Shard {
    /// Adds about `max` items to `out`: a due warning, retained values, replays, then live messages. Gaps
    /// come on top of `max`, at most [`crate::GAPS_MAX`] of them.
    pub fn take(
        &mut self,
        key: SubscriptionKey,
        max: usize,
        now: Timestamp,
        out: &mut Vec<Delivery>,
    ) -> Result<Taken, TopicRefusal> {
        let index = self.subscriptions.resolve(key)?;
        let wall = self.wall(now);
        let subscription = &mut self.subscriptions[index];
        if subscription.paused.is_some() {
            return Err(TopicRefusal::SubscriptionPaused);
        }
        let start = out.len();
        let end = start.saturating_add(max);
        out.extend(subscription.warning(now, wall).map(|warning| Delivery::Warning(Box::new(warning))));
        if let Some(mut catch_up) = subscription.catch_up.take() {
            let before = out.len();
            self.serve(&self.subscriptions[index], &mut catch_up, end, now, out);
            let subscription = &mut self.subscriptions[index];
            let messages = out[before..].iter().filter(|item| matches!(item, Delivery::Message { .. }));
            subscription.queue.count_caught_up(messages.count());
            subscription.catch_up = Some(catch_up).filter(|catch_up| !CatchUp::is_over(catch_up));
        }
        let subscription = &mut self.subscriptions[index];
        if subscription.catch_up.is_none() && out.len() < end {
            for ticket in subscription.queue.take(end - out.len(), now, out) {
                self.tickets.release(ticket, index);
            }
        }
        let more = !subscription.has_nothing_to_take();
        subscription.idle = !more;
        if !more {
            subscription.note_empty(now);
        }
        Ok(Taken { count: out.len() - start, more })
    }

    fn serve(
        &self,
        subscription: &Subscription,
        catch_up: &mut CatchUp,
        end: usize,
        now: Timestamp,
        out: &mut Vec<Delivery>,
    ) {
        while out.len() < end {
            let Some(message) = catch_up.retained.pop_front() else { break };
            if !message.is_expired(now) && !self.will_be_replayed(catch_up, &message) {
                out.push(Delivery::Message { kind: DeliveryKind::Retained, message });
            }
        }
        let mut compared = 0;
        while out.len() < end && compared < COMPARISONS_MAX {
            let Some(sweep) = catch_up.sweeps.pop_front() else { break };
            let rest = self.sweep(subscription, catch_up, &sweep, &mut compared, end, now, out);
            catch_up.sweeps.extend(rest);
        }
        if !catch_up.retained.is_empty() || !catch_up.sweeps.is_empty() {
            return;
        }
        while out.len() < end {
            let Some(mut first) = catch_up.replays.first_entry() else { break };
            let topic = Arc::clone(first.key());
            if self.replay(&topic, first.get_mut(), end, now, out) {
                first.remove();
            }
        }
    }

    /// Walks a slice of the retained values. Returns the rest of the walk, if any.
    #[expect(clippy::too_many_arguments, reason = "one step of serve, which has all of these")]
    fn sweep(
        &self,
        subscription: &Subscription,
        catch_up: &CatchUp,
        sweep: &RetainedSweep,
        compared: &mut usize,
        end: usize,
        now: Timestamp,
        out: &mut Vec<Delivery>,
    ) -> Option<RetainedSweep> {
        let filters = &subscription.details.filters;
        let filter = &filters[sweep.filter];
        let prefix = filter.literal_prefix();
        let start = sweep.after.as_deref().map_or(Bound::Included(prefix), Bound::Excluded);
        for (name, &topic) in self.retained.range::<str, _>((start, Bound::Unbounded)) {
            if !name.starts_with(prefix) {
                return None;
            }
            // A value that another filter matches as well is delivered once, with that filter.
            let elsewhere = filters
                .iter()
                .enumerate()
                .any(|(number, other)| (!other.is_wild() || number < sweep.filter) && other.matches(name));
            if !elsewhere
                && filter.matches(name)
                && let Some(message) = self.topics[topic].retained(now)
                && message.order <= catch_up.joined
                && !self.will_be_replayed(catch_up, message)
            {
                out.push(Delivery::Message { kind: DeliveryKind::Retained, message: Arc::clone(message) });
            }
            *compared += filters.len();
            if *compared >= COMPARISONS_MAX || out.len() >= end {
                return Some(RetainedSweep { filter: sweep.filter, after: Some(Arc::clone(name)) });
            }
        }
        None
    }

    fn will_be_replayed(&self, catch_up: &CatchUp, message: &Message) -> bool {
        let Some(replay) = catch_up.replays.get(&message.topic) else { return false };
        let in_ring = || {
            let topic = self.topics.find(&message.topic).map(|index| &self.topics[index]);
            topic.and_then(|topic| topic.active()).is_some_and(|active| active.ring.holds(message.order))
        };
        (replay.next..=replay.until).contains(&message.sequence) && in_ring()
    }

    /// Continues a topic's replay. Returns true when it has ended.
    ///
    /// The ring may have changed since the last slice, so losses are determined again each time.
    fn replay(
        &self,
        name: &Arc<str>,
        replay: &mut Replay,
        end: usize,
        now: Timestamp,
        out: &mut Vec<Delivery>,
    ) -> bool {
        let topic = self.topics.find(name).map(|index| &self.topics[index]);
        let evicted_to = topic.map_or(replay.until, |topic| topic.evicted_to).min(replay.until);
        let ring = topic.and_then(|topic| topic.active()).map(|active| &active.ring);
        if replay.next <= evicted_to {
            let mut later = ring.into_iter().flat_map(|ring| ring.from(evicted_to.next()));
            let kept = later.find(|message| !message.is_expired(now)).map(|message| message.sequence);
            let oldest_kept =
                kept.unwrap_or_else(|| topic.map_or(replay.until, |topic| topic.sequence).next());
            for (first_missed, last_missed, reason) in reasons(topic, replay.next, evicted_to) {
                let topic = Arc::clone(name);
                let gap = Gap { topic, first_missed, last_missed, oldest_kept, reason };
                out.push(Delivery::Gap(Box::new(gap)));
            }
            replay.next = evicted_to.next();
        }
        let next = replay.next;
        for message in ring.into_iter().flat_map(|ring| ring.from(next)) {
            if message.sequence > replay.until {
                break;
            }
            if message.is_expired(now) {
                continue;
            }
            if out.len() >= end {
                return false;
            }
            replay.next = message.sequence.next();
            replay.replayed += 1;
            out.push(Delivery::Message { kind: DeliveryKind::Replay, message: Arc::clone(message) });
        }
        // What is not in the ring by now has expired. A later eviction of it is no loss.
        replay.next = replay.until.next();
        if out.len() >= end {
            return false;
        }
        out.push(Delivery::ReplayComplete(Box::new(ReplayComplete {
            topic: Arc::clone(name),
            replayed: replay.replayed,
            latest: replay.until,
        })));
        true
    }
}

/// Splits a range of numbers that are not kept by the reason.
pub(super) fn reasons(
    topic: Option<&Topic>,
    first: Sequence,
    last: Sequence,
) -> impl Iterator<Item = (Sequence, Sequence, GapReason)> {
    let restarted_to = topic.map_or(Sequence::ZERO, |topic| topic.restarted_to);
    let skipped_to = topic.map_or(Sequence::ZERO, |topic| topic.skipped_to.min(restarted_to));
    let mut next = first;
    let ends =
        [(skipped_to, GapReason::Crashed), (restarted_to, GapReason::Restarted), (last, GapReason::NotKept)];
    ends.into_iter().filter_map(move |(end, reason)| {
        let (from, to) = (next, end.min(last));
        next = next.max(to.next());
        (from <= to).then_some((from, to, reason))
    })
}
