//! The plan for a resume: which topics are replayed from which number, and how much was missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::take::reasons;
use super::{Resume, Shard};
use crate::catch_up::Replay;
use crate::delivery::GapReason;
use crate::filter::TopicFilter;
use crate::message::Sequence;
use crate::subscription::Paused;
use crate::subscriptions::SubscriptionIndex;
use crate::topic::Topic;

/// The first missed number of a topic without missed messages.
const NOTHING_MISSED: Sequence = Sequence(u64::MAX);

/// Which topics are replayed from which number, and the result for the subscriber.
pub(super) struct ReplayPlan {
    pub(super) replays: BTreeMap<Arc<str>, Replay>,
    pub(super) missed: Option<u64>,
    pub(super) lost: u64,
    pub(super) is_unsure: bool,
    pub(super) restarted: bool,
}

/// Where the replay of a topic begins.
#[derive(Clone, Copy)]
struct Start {
    /// The first number that was certainly missed.
    missed: Sequence,
    /// The first number that was sent and may not have been read.
    unread: Option<Sequence>,
}

impl ReplayPlan {
    fn nothing() -> ReplayPlan {
        ReplayPlan { replays: BTreeMap::new(), missed: Some(0), lost: 0, is_unsure: false, restarted: false }
    }

    /// Marks that more may be missed and lost than is known.
    fn mark_unsure(&mut self) {
        self.missed = None;
        self.is_unsure = true;
    }
}

impl Shard {
    pub(super) fn plan(
        &self,
        index: SubscriptionIndex,
        resume: &Resume,
        remembered: Option<&Paused>,
    ) -> ReplayPlan {
        let subscription = &self.subscriptions[index];
        let filters = &subscription.details.filters;
        let mut plan = ReplayPlan::nothing();
        if subscription.group.is_some() {
            return plan;
        }
        let all_said = self.plan_from_last_seen(&mut plan, index, resume, remembered.is_some());
        // If the broker's list is incomplete, only the numbers that the client gives are known.
        let named = filters.iter().all(|filter| plan.replays.contains_key(filter.as_str()));
        let was_here = !resume.last_seen.is_empty() || resume.last_seen_single.is_some();
        let unread = subscription.details.unconfirmed.unread(resume.last_seen_single);
        let holes = match remembered {
            Some(remembered) => remembered.incomplete || unread.is_incomplete,
            // The subscription may be new, or paused for so long that it was forgotten.
            None => was_here || self.has_numbers(filters),
        };
        if holes && !named && !all_said {
            plan.missed = None;
            // A durable topic knows everything that it keeps: messages missing from a crash are replayed.
            let is_durable =
                |filter: &TopicFilter| !filter.is_wild() && self.settings.is_kept_by_choice(filter.as_str());
            let is_unsure = remembered.is_none() || !filters.iter().all(is_durable);
            plan.is_unsure |= is_unsure;
            plan.restarted |= is_unsure && remembered.is_some_and(|remembered| remembered.restored);
        }
        let nothing = BTreeMap::new();
        let missed = remembered.map_or(&nothing, |remembered| &remembered.missed);
        let saved_at = remembered.map_or(&nothing, |remembered| &remembered.saved_at);
        let first_missed = |topic: &str| {
            let unsaved = saved_at.get(topic).map(|number| number.next());
            missed.get(topic).copied().into_iter().chain(unsaved).min().unwrap_or(NOTHING_MISSED)
        };
        for topic in missed.keys().chain(unread.first.keys()) {
            if subscription.matches(topic) {
                let first = first_missed(topic);
                let sent = unread.first.get(topic).copied().filter(|sent| *sent < first);
                let start = match sent {
                    Some(sent) if unread.is_exact => Start { missed: sent, unread: None },
                    sent => Start { missed: first, unread: sent },
                };
                self.plan_topic(&mut plan, topic, start);
            }
        }
        for filter in filters.iter().filter(|filter| !filter.is_wild()) {
            // If nothing was missed here, the subscriber gets the end of an empty replay.
            self.plan_topic(&mut plan, filter.as_str(), Start::at(first_missed(filter.as_str())));
        }
        plan
    }

    /// Returns whether the client has given a number for every topic.
    fn plan_from_last_seen(
        &self,
        plan: &mut ReplayPlan,
        index: SubscriptionIndex,
        resume: &Resume,
        remembered: bool,
    ) -> bool {
        let subscription = &self.subscriptions[index];
        for (topic, last) in &resume.last_seen {
            if subscription.matches(topic) {
                self.plan_topic(plan, topic, Start::at(Sequence(last.0.saturating_add(1))));
            }
        }
        // With one number for several topics, look it up in what was sent.
        let filters = &subscription.details.filters;
        let is_one_name = matches!(&filters[..], [only] if !only.is_wild());
        let Some(last) = resume.last_seen_single.filter(|_| is_one_name || !remembered) else { return false };
        let first = Sequence(last.0.saturating_add(1));
        for filter in filters.iter().filter(|filter| !filter.is_wild()) {
            self.plan_topic(plan, filter.as_str(), Start::at(first));
        }
        for topic in self.matching(filters).filter(|topic| topic.sequence >= first) {
            if plan.replays.len() >= self.settings.missed_topics {
                plan.mark_unsure();
                return false;
            }
            self.plan_topic(plan, &topic.name, Start::at(first));
        }
        // A matching topic that was forgotten, or lost in a crash, may have had later numbers.
        if self.topics.hide(first) && filters.iter().any(TopicFilter::is_wild) {
            plan.mark_unsure();
        }
        true
    }

    /// The topics that match a pattern.
    fn matching<'a>(&'a self, filters: &'a [TopicFilter]) -> impl Iterator<Item = &'a Topic> {
        let any_wild = filters.iter().any(TopicFilter::is_wild);
        let end = if any_wild { self.topics.end() } else { 0 };
        let wild = |name: &str| filters.iter().any(|filter| filter.is_wild() && filter.matches(name));
        (0..end).filter_map(|index| self.topics.get(index)).filter(move |topic| wild(&topic.name))
    }

    /// Whether anything was published to these, or may have been: a topic that was forgotten, or lost in a
    /// crash, left a floor.
    fn has_numbers(&self, filters: &[TopicFilter]) -> bool {
        let has_floor = |filter: &TopicFilter| match filter.is_wild() {
            true => self.topics.hide(Sequence(1)),
            false => self.topics.floor_of(filter.as_str()) > Sequence::ZERO,
        };
        if filters.iter().any(has_floor) {
            return true;
        }
        let has_number = |topic: &Topic| topic.sequence > Sequence::ZERO;
        let named = filters.iter().filter_map(|filter| self.topics.find(filter.as_str()));
        named.map(|index| &self.topics[index]).any(has_number) || self.matching(filters).any(has_number)
    }

    /// Adds one topic, unless the plan already has it.
    fn plan_topic(&self, plan: &mut ReplayPlan, name: &str, start: Start) {
        if plan.replays.contains_key(name) {
            return;
        }
        let first = start.missed;
        let Some(topic) = self.topics.find(name).map(|index| &self.topics[index]) else {
            // The client saw messages of a topic that the broker does not know. If the topic was forgotten,
            // its floor is at or above all of its numbers, and the messages are gone.
            let floor = self.topics.floor_of(name);
            if start.unread.is_some() || first < NOTHING_MISSED && (first > Sequence(1) || floor >= first) {
                plan.mark_unsure();
            }
            if first <= floor {
                plan.lost += floor.0 - first.0 + 1;
                plan.replays.insert(Arc::from(name), Replay { next: first, until: floor, replayed: 0 });
            }
            return;
        };
        let until = topic.sequence;
        if first > until.next() && first < NOTHING_MISSED {
            // The client is ahead: it saw numbers that this broker has not assigned yet.
            plan.mark_unsure();
        }
        let mut next = first.min(until.next());
        let missed = until.next().0 - next.0;
        plan.missed = plan.missed.map(|total| total + missed);
        if next <= topic.evicted_to {
            for (from, to, reason) in reasons(Some(topic), next, topic.evicted_to) {
                match reason {
                    // Some of these numbers may never have been assigned.
                    GapReason::Crashed => plan.mark_unsure(),
                    GapReason::Restarted | GapReason::NotKept | GapReason::QueueFull => {
                        plan.lost += to.0 - from.0 + 1;
                    }
                }
                plan.restarted |= matches!(reason, GapReason::Crashed | GapReason::Restarted);
            }
        }
        if next <= topic.skipped_to {
            plan.missed = None;
        }
        if let Some(unread) = start.unread.filter(|unread| *unread < next) {
            // The subscriber may have read these. Kept ones are sent again; others may be lost.
            plan.missed = None;
            if unread <= topic.evicted_to {
                plan.is_unsure = true;
                plan.restarted |= unread <= topic.restarted_to;
            }
            next = next.min(unread.max(topic.evicted_to.next()));
        }
        plan.replays.insert(Arc::clone(&topic.name), Replay { next, until, replayed: 0 });
    }
}

impl Start {
    fn at(missed: Sequence) -> Start {
        Start { missed, unread: None }
    }
}
