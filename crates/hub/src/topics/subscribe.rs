//! Subscribe, resume and unsubscribe.

use std::sync::Arc;

use tenure_engine::Name;
use tenure_topics::{
    Resume, Resumed, Sequence, Subscribe, SubscriptionId, SubscriptionInfo, Timestamp, TopicFilter,
    TopicRefusal,
};

use super::events::{Interest, single_counts, without_events};
use super::subscription::{Ended, SubscriptionHandle};
use super::{Topics, feed, log};
use crate::rights::TopicAct;

impl Topics {
    /// Begins a subscription. The retained values come first, if requested.
    pub fn subscribe(
        &self,
        namespace: &Name,
        subscribe: Subscribe,
    ) -> Result<(SubscriptionHandle, SubscriptionInfo), TopicRefusal> {
        let space = self.space(namespace)?;
        let interest = Interest::new(&subscribe.filters);
        if interest.is_some() && subscribe.group.is_some() {
            return Err(TopicRefusal::EventsInGroup);
        }
        let watch = interest.as_ref().map(|interest| self.watch(namespace, interest)).transpose()?;
        let id = subscribe.id.clone();
        let (key, waker, info) = space.with(|state, now| {
            let key = state.shard.subscribe(subscribe, now)?;
            // A paused subscription that begins again wants no earlier events.
            state.events_from.remove(&id);
            let waker = state.attach(key, None);
            Ok((key, waker, state.shard.subscription(key, now)?))
        })?;
        if let (Some(interest), Some(watch)) = (interest, watch) {
            feed::start(watch, interest, &space, key, &waker);
        }
        log::subscribed(namespace, &id, &info.client, &info.filters);
        Ok((SubscriptionHandle::new(id, space, key, waker), info))
    }

    /// Resumes a paused subscription, or takes it over from its current stream.
    pub fn resume(
        &self,
        namespace: &Name,
        resume: &Resume,
    ) -> Result<(SubscriptionHandle, Resumed), TopicRefusal> {
        let space = self.space(namespace)?;
        let (waker, mut resumed, interest) = space.with(|state, now| {
            let known = state.shard.find(&resume.id);
            let known_filters =
                known.and_then(|key| state.shard.subscription(key, now).ok()).map(|info| info.filters);
            let filters = if resume.filters.is_empty() {
                known_filters.unwrap_or_default()
            } else {
                resume.filters.clone()
            };
            let live = known.filter(|key| state.reader(*key).is_some());
            if let Some(key) = live {
                // What the other stream has taken and not sent must count as missed.
                state.pause(key, Ended::TakenOver, now)?;
            }
            let mut resumed = state.shard.resume(
                &without_events(resume, &filters, known.is_some()),
                now,
                &mut state.wake,
            )?;
            resumed.took_over = live.is_some();
            let remembered = state.events_from.remove(&resume.id);
            let single_counts = single_counts(&resumed.filters, known.is_some());
            let interest = Interest::new(&resumed.filters)
                .map(|interest| interest.resume(resume, single_counts, remembered));
            let from = interest.as_ref().and_then(|interest| interest.from);
            Ok((state.attach(resumed.key, from), resumed, interest))
        })?;
        let subscription =
            SubscriptionHandle::new(resume.id.clone(), Arc::clone(&space), resumed.key, Arc::clone(&waker));
        log::resumed(namespace, resume, &resumed);
        if let Some(interest) = interest {
            // The number of missed events is known only after they are read.
            resumed.missed = None;
            resumed.replay_started |= interest.replay;
            // If this is refused, dropping the subscription pauses it again.
            let watch = self.watch(namespace, &interest)?;
            feed::start(watch, interest, &space, resumed.key, &waker);
        }
        Ok((subscription, resumed))
    }

    /// The act of resuming this subscription with its own filters, which may include events.
    pub fn resume_act(&self, namespace: &str, id: &SubscriptionId) -> TopicAct {
        let filters = self.known_space(namespace).and_then(|space| {
            space.with(|state, now| {
                let key = state.shard.find(id)?;
                state.shard.subscription(key, now).ok().map(|info| info.filters)
            })
        });
        TopicAct::subscribe_to(filters.unwrap_or_default().iter().map(TopicFilter::as_str))
    }

    /// A subscriber has read these topics up to these numbers: they need not be sent again.
    pub fn acknowledge(
        &self,
        namespace: &str,
        id: &SubscriptionId,
        read: &[(Arc<str>, Sequence)],
    ) -> Result<(), TopicRefusal> {
        let space = self.known_space(namespace).ok_or(TopicRefusal::UnknownSubscription)?;
        space.with(|state, _| {
            let key = state.shard.find(id).ok_or(TopicRefusal::UnknownSubscription)?;
            state.acknowledge(key, read)
        })
    }

    /// Ends a subscription, with or without a stream.
    pub fn unsubscribe(&self, namespace: &str, id: &SubscriptionId) -> Result<(), TopicRefusal> {
        let space = self.known_space(namespace).ok_or(TopicRefusal::UnknownSubscription)?;
        space.with(|state, now| {
            let key = state.shard.find(id).ok_or(TopicRefusal::UnknownSubscription)?;
            state.shard.unsubscribe(key, now, &mut state.wake)?;
            state.events_from.remove(id);
            state.end_stream(key, Ended::Unsubscribed);
            Ok(())
        })
    }

    /// Pauses a subscription on request; its stream ends. Returns how long the subscription is kept.
    pub fn pause(&self, namespace: &str, id: &SubscriptionId) -> Result<std::time::Duration, TopicRefusal> {
        let space = self.known_space(namespace).ok_or(TopicRefusal::UnknownSubscription)?;
        let until: Timestamp = space.with(|state, now| {
            let key = state.shard.find(id).ok_or(TopicRefusal::UnknownSubscription)?;
            state.pause(key, Ended::Paused, now)
        })?;
        Ok(until.since(self.now()))
    }
}
