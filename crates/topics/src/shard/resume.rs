//! Resume: determines what was missed, replays it from the rings, and reports what is lost.

use std::sync::Arc;

use super::Shard;
use super::subscribe::deduplicated;
use crate::deadlines::Owner;
use crate::filter::TopicFilter;
use crate::message::Sequence;
use crate::refusal::TopicRefusal;
use crate::settings::Policy;
use crate::subscription::{Paused, Subscribe, SubscriptionId};
use crate::subscriptions::{SubscriptionIndex, SubscriptionKey};
use crate::time::Timestamp;

/// The messages that a resuming subscriber wants first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing: continue live.
    #[default]
    None,
    /// The retained values.
    RetainedOnly,
    /// Everything that it missed and that is still kept.
    Replay,
}

/// The request of a resuming subscriber.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The subscription.
    pub id: SubscriptionId,
    /// Used if the subscription is no longer known.
    pub client: Arc<str>,
    /// Creates an unknown subscription; replaces the filters of a known one.
    pub filters: Vec<TopicFilter>,
    /// The part of the missed messages that it gets.
    pub recovery: Recovery,
    /// Begin with the retained values, whatever the recovery.
    pub retained: bool,
    /// The last number it saw of each topic.
    pub last_seen: Vec<(Arc<str>, Sequence)>,
    /// The last number it saw, if it keeps only one.
    pub last_seen_single: Option<Sequence>,
    /// Maximum number of waiting messages, if it should change.
    pub queue_limit: Option<u32>,
    /// Used if the subscription is no longer known, as in [`Subscribe`].
    pub group: Option<Arc<str>>,
    /// The policy for a full queue, if it should change.
    pub policy: Option<Policy>,
}

impl Resume {
    /// A request without positions.
    pub fn new(id: SubscriptionId, recovery: Recovery) -> Resume {
        Resume {
            id,
            client: Arc::from(""),
            filters: Vec::new(),
            recovery,
            retained: false,
            last_seen: Vec::new(),
            last_seen_single: None,
            queue_limit: None,
            group: None,
            policy: None,
        }
    }
}

/// The reply to a resuming subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// Its place in this shard.
    pub key: SubscriptionKey,
    /// The topics that it selects.
    pub filters: Vec<TopicFilter>,
    /// The subscription was unknown and has been created.
    pub created: bool,
    /// Another stream had it, and has ended.
    pub took_over: bool,
    /// How many messages were published that it did not get, if known.
    pub missed: Option<u64>,
    /// How many of these are no longer kept.
    pub lost: u64,
    /// More may be lost: the broker's state does not reach back far enough, or the numbers are unknown.
    pub is_unsure: bool,
    /// Messages may be lost because the broker restarted.
    pub restarted: bool,
    /// Replayed messages follow.
    pub replay_started: bool,
}

impl Resumed {
    /// Messages were lost, or may have been: they were missed and are no longer kept.
    pub fn has_losses(&self) -> bool {
        self.lost > 0 || self.is_unsure
    }

    /// Merges the results of several shards for one subscription.
    pub fn add(&mut self, part: &Resumed) {
        self.created &= part.created;
        self.took_over |= part.took_over;
        self.missed = self.missed.zip(part.missed).map(|(a, b)| a + b);
        self.lost += part.lost;
        self.is_unsure |= part.is_unsure;
        self.restarted |= part.restarted;
        self.replay_started |= part.replay_started;
    }
}

impl Shard {
    /// Makes a paused subscription live again. Its queue may not be empty: take at once.
    ///
    /// A replay begins after the client's last seen number of a topic. Without one, a subscription to one
    /// name begins after the client's single number; others begin after the oldest message with that number
    /// that the client may have read last. Without any number, the replay begins with what the client may not
    /// have read. An unknown id with filters becomes a new subscription.
    pub fn resume(
        &mut self,
        resume: &Resume,
        now: Timestamp,
        wake: &mut Vec<SubscriptionKey>,
    ) -> Result<Resumed, TopicRefusal> {
        let (count, limit) = (resume.last_seen.len(), self.settings.missed_topics);
        if count > limit {
            return Err(TopicRefusal::TooManyLastSeen { count, limit });
        }
        let known = self.subscriptions.find(&resume.id);
        let index = match known {
            Some(index) => {
                self.replace_filters(index, &resume.filters, now)?;
                index
            }
            None if resume.filters.is_empty() => return Err(TopicRefusal::UnknownSubscription),
            None => {
                let mut subscribe = Subscribe::new(resume.id.clone(), resume.filters.clone());
                subscribe.client = Arc::clone(&resume.client);
                subscribe.queue_limit = resume.queue_limit;
                subscribe.group.clone_from(&resume.group);
                subscribe.policy = resume.policy;
                self.create(subscribe, now)?
            }
        };
        let took_over = known.is_some() && self.subscriptions[index].paused.is_none();
        if took_over {
            self.suspend(index, &[], now, wake);
        }
        let remembered = self.wake_up(index, resume.queue_limit);
        let plan = self.plan(index, resume, remembered.as_deref());
        // What the subscriber may not have read is sent again, and is then unconfirmed again.
        self.subscriptions[index].details.unconfirmed.begin(resume.last_seen_single);
        if resume.recovery == Recovery::RetainedOnly || resume.retained {
            self.offer_retained(index, now);
        }
        let replay_started = resume.recovery == Recovery::Replay && !plan.replays.is_empty();
        let subscription = &mut self.subscriptions[index];
        if replay_started {
            subscription.catch_up.get_or_insert_default().replays = plan.replays;
        }
        self.changes.subscription(&subscription.details.id);
        Ok(Resumed {
            filters: subscription.details.filters.clone(),
            key: self.subscriptions.key(index),
            created: known.is_none(),
            took_over,
            missed: plan.missed,
            lost: plan.lost,
            is_unsure: plan.is_unsure,
            restarted: plan.restarted,
            replay_started,
        })
    }

    pub(super) fn replace_filters(
        &mut self,
        index: SubscriptionIndex,
        filters: &[TopicFilter],
        now: Timestamp,
    ) -> Result<(), TopicRefusal> {
        let new = deduplicated(filters);
        let old = self.subscriptions[index].details.filters.clone();
        if new.is_empty() || new == old {
            return Ok(());
        }
        self.check_filters(&new, old.len())?;
        let (added, dropped) = (without(&new, &old), without(&old, &new));
        self.add_filters(index, &added, now)?;
        self.remove_filters(index, &dropped);
        self.subscriptions[index].details.filters = new;
        // Retained values are searched filter by filter, and the filters have changed.
        if let Some(catch_up) = &mut self.subscriptions[index].catch_up {
            catch_up.sweeps.clear();
        }
        Ok(())
    }

    /// Returns the state of a paused subscription.
    pub(super) fn wake_up(
        &mut self,
        index: SubscriptionIndex,
        queue_limit: Option<u32>,
    ) -> Option<Box<Paused>> {
        let limit = self.queue_limit(queue_limit);
        let subscription = &mut self.subscriptions[index];
        if queue_limit.is_some() {
            subscription.queue.set_limit(limit);
        }
        subscription.idle = false;
        let paused = subscription.paused.take()?;
        self.deadlines.replace(&mut subscription.deadline, Timestamp::NEVER, Owner::Subscription(index));
        self.paused -= 1;
        Some(paused)
    }
}

fn without(filters: &[TopicFilter], others: &[TopicFilter]) -> Vec<TopicFilter> {
    filters.iter().filter(|filter| !others.contains(filter)).cloned().collect()
}
