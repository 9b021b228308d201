//! The plan of a return: which topics are replayed from where, and how much was missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Resume, Shard};
use crate::catch_up::Replay;
use crate::filter::Filter;
use crate::message::Sequence;
use crate::subscription::Paused;
use crate::subscriptions::SubscriptionIndex;
use crate::topic::Topic;

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
        let all_said = self.plan_what_the_client_says(&mut plan, index, resume, remembered.is_some());
        // If the broker's memory has holes, only what the client names itself is known.
        let named = filters.iter().all(|filter| plan.replays.contains_key(filter.as_str()));
        let was_here = !resume.last_seen.is_empty() || resume.last_seen_single.is_some();
        let holes = match remembered {
            Some(remembered) => remembered.incomplete,
            // It may never have been here, or have been away for so long that it was forgotten.
            None => was_here || self.has_numbers(filters),
        };
        if holes && !named && !all_said {
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

    /// Says whether the client has named a number for everything there is.
    fn plan_what_the_client_says(
        &self,
        plan: &mut Plan,
        index: SubscriptionIndex,
        resume: &Resume,
        remembered: bool,
    ) -> bool {
        let subscription = &self.subscriptions[index];
        for (topic, last) in &resume.last_seen {
            if subscription.matches(topic) {
                self.plan_topic(plan, topic, Sequence(last.0.saturating_add(1)));
            }
        }
        // One number for several topics is a guess, and the broker's memory is better than that.
        let filters = &subscription.details.filters;
        let is_one_name = matches!(&filters[..], [only] if !only.is_wild());
        let Some(last) = resume.last_seen_single.filter(|_| is_one_name || !remembered) else { return false };
        let first = Sequence(last.0.saturating_add(1));
        for filter in filters.iter().filter(|filter| !filter.is_wild()) {
            self.plan_topic(plan, filter.as_str(), first);
        }
        for topic in self.matching(filters).filter(|topic| topic.sequence >= first) {
            if plan.replays.len() >= self.settings.missed_topics {
                plan.missed = None;
                return false;
            }
            self.plan_topic(plan, &topic.name, first);
        }
        true
    }

    /// The topics that match a pattern.
    fn matching<'a>(&'a self, filters: &'a [Filter]) -> impl Iterator<Item = &'a Topic> {
        let any_wild = filters.iter().any(Filter::is_wild);
        let end = if any_wild { self.topics.end() } else { 0 };
        let wild = |name: &str| filters.iter().any(|filter| filter.is_wild() && filter.matches(name));
        (0..end).filter_map(|index| self.topics.get(index)).filter(move |topic| wild(&topic.name))
    }

    /// Whether anything was ever published to these, as far as that is known.
    fn has_numbers(&self, filters: &[Filter]) -> bool {
        let has_number = |topic: &Topic| topic.sequence > Sequence::ZERO;
        let named = filters.iter().filter_map(|filter| self.topics.find(filter.as_str()));
        named.map(|index| &self.topics[index]).any(has_number) || self.matching(filters).any(has_number)
    }

    /// Adds one topic, unless it is in the plan already.
    fn plan_topic(&self, plan: &mut Plan, name: &str, first: Sequence) {
        if plan.replays.contains_key(name) {
            return;
        }
        let Some(topic) = self.topics.find(name).map(|index| &self.topics[index]) else {
            // The client saw messages of a topic that the broker does not know. If it was forgotten, its floor is not
            // below any of its numbers, and they are gone.
            let floor = self.topics.floor_of(name);
            if first < NOTHING_MISSED && (first > Sequence(1) || floor >= first) {
                plan.missed = None;
            }
            if first <= floor {
                plan.lost += floor.0 - first.0 + 1;
                plan.replays.insert(Arc::from(name), Replay { next: first, until: floor, replayed: 0 });
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
        }
        if next <= topic.skipped_to {
            // Some of these numbers may never have been given.
            plan.missed = None;
        }
        plan.replays.insert(Arc::clone(&topic.name), Replay { next, until, replayed: 0 });
    }
}
