//! The plan of a return: which topics are replayed from where, and how much was missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Resume, Shard};
use crate::catch_up::Replay;
use crate::message::Sequence;
use crate::subscription::Paused;
use crate::subscriptions::SubscriptionIndex;

/// First missed number of a topic of which nothing was missed.
const NOTHING_MISSED: Sequence = Sequence(u64::MAX);

/// Which topics are replayed from where, and what that means for the subscriber.
pub(super) struct Plan {
    pub(super) replays: BTreeMap<Arc<str>, Replay>,
    pub(super) missed: Option<u64>,
    pub(super) lost: u64,
}

impl Shard {
    pub(super) fn plan(
        &self,
        index: SubscriptionIndex,
        resume: &Resume,
        remembered: Option<&Paused>,
    ) -> Plan {
        let subscription = &self.subscriptions[index];
        let filters = &subscription.details.filters;
        let mut plan = Plan { replays: BTreeMap::new(), missed: Some(0), lost: 0 };
        if subscription.group.is_some() {
            return plan;
        }
        self.plan_what_the_client_says(&mut plan, index, resume, remembered.is_some());
        // If the broker's memory has holes, only what the client names itself is known.
        let named = filters.iter().all(|filter| plan.replays.contains_key(filter.as_str()));
        let was_here = !resume.last_seen.is_empty() || resume.last_seen_single.is_some();
        let holes = remembered.map_or(was_here, |remembered| remembered.incomplete);
        if holes && !named {
            plan.missed = None;
        }
        for (topic, &first) in remembered.into_iter().flat_map(|remembered| &remembered.missed) {
            if subscription.matches(topic) {
                self.plan_topic(&mut plan, topic, first);
            }
        }
        for filter in filters.iter().filter(|filter| !filter.is_wild()) {
            // Nothing was missed here, and the subscriber is told so.
            self.plan_topic(&mut plan, filter.as_str(), NOTHING_MISSED);
        }
        plan
    }

    fn plan_what_the_client_says(
        &self,
        plan: &mut Plan,
        index: SubscriptionIndex,
        resume: &Resume,
        remembered: bool,
    ) {
        let subscription = &self.subscriptions[index];
        for (topic, last) in &resume.last_seen {
            if subscription.matches(topic) {
                self.plan_topic(plan, topic, Sequence(last.0.saturating_add(1)));
            }
        }
        // One number for several topics is a guess, and the broker's memory is better than that.
        let filters = &subscription.details.filters;
        if let Some(last) = resume.last_seen_single.filter(|_| filters.len() == 1 || !remembered) {
            for filter in filters.iter().filter(|filter| !filter.is_wild()) {
                self.plan_topic(plan, filter.as_str(), Sequence(last.0.saturating_add(1)));
            }
        }
    }

    /// Adds one topic, unless it is in the plan already.
    fn plan_topic(&self, plan: &mut Plan, name: &str, first: Sequence) {
        if plan.replays.contains_key(name) {
            return;
        }
        let Some(topic) = self.topics.find(name).map(|index| &self.topics[index]) else {
            // The client saw messages of a topic that the broker does not know.
            if first > Sequence(1) && first < NOTHING_MISSED {
                plan.missed = None;
            }
            return;
        };
        let until = topic.sequence;
        if first > until.next() && first < NOTHING_MISSED {
            // The client is ahead: it heard numbers that this broker has not given yet.
            plan.missed = None;
        }
        let next = first.min(until.next());
        let missed = until.next().0 - next.0;
        plan.missed = plan.missed.map(|total| total + missed);
        if next <= topic.evicted_to {
            plan.lost += topic.evicted_to.0 - next.0 + 1;
            if self.unclean {
                plan.missed = None;
            }
        }
        plan.replays.insert(Arc::clone(&topic.name), Replay { next, until, replayed: 0 });
    }
}
