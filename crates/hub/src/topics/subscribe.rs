//! Subscribing, coming back, and leaving.

use std::sync::Arc;

use tenure_engine::Name;
use tenure_topics::{Refusal, Resume, Resumed, Subscribe, SubscriptionId, SubscriptionInfo, Timestamp};

use super::subscription::{Ended, Subscription};
use super::{Topics, now};

impl Topics {
    /// Begins a subscription. What is taken from it first are the retained values, if it asked for them.
    pub fn subscribe(
        &self,
        namespace: &Name,
        subscribe: Subscribe,
    ) -> Result<(Subscription, SubscriptionInfo), Refusal> {
        let space = self.space(namespace)?;
        let id = subscribe.id.clone();
        let (key, bell, info) = space.with(|state, now| {
            let key = state.shard.subscribe(subscribe, now)?;
            let bell = state.attach(key);
            Ok((key, bell, state.shard.subscription(key, now)?))
        })?;
        Ok((Subscription::new(id, space, key, bell), info))
    }

    /// Goes on with a subscription that was paused, or takes it over from the stream that has it.
    pub fn resume(&self, namespace: &Name, resume: &Resume) -> Result<(Subscription, Resumed), Refusal> {
        let space = self.space(namespace)?;
        let (bell, resumed) = space.with(|state, now| {
            let live = state.shard.find(&resume.id).filter(|key| state.reader(*key).is_some());
            if let Some(key) = live {
                // So that what the other stream has taken and not sent counts as missed.
                state.pause(key, Ended::TakenOver, now)?;
            }
            let mut resumed = state.shard.resume(resume, now, &mut state.wake)?;
            resumed.took_over = live.is_some();
            Ok((state.attach(resumed.key), resumed))
        })?;
        Ok((Subscription::new(resume.id.clone(), Arc::clone(&space), resumed.key, bell), resumed))
    }

    /// Ends a subscription, whether a stream has it or not.
    pub fn unsubscribe(&self, namespace: &str, id: &SubscriptionId) -> Result<(), Refusal> {
        let space = self.known_space(namespace).ok_or(Refusal::UnknownSubscription)?;
        space.with(|state, now| {
            let key = state.shard.find(id).ok_or(Refusal::UnknownSubscription)?;
            state.shard.unsubscribe(key, now, &mut state.wake)?;
            state.end_stream(key, Ended::Unsubscribed);
            Ok(())
        })
    }

    /// Pauses a subscription on purpose; its stream ends. Returns for how long it is kept.
    pub fn pause(&self, namespace: &str, id: &SubscriptionId) -> Result<std::time::Duration, Refusal> {
        let space = self.known_space(namespace).ok_or(Refusal::UnknownSubscription)?;
        let until: Timestamp = space.with(|state, now| {
            let key = state.shard.find(id).ok_or(Refusal::UnknownSubscription)?;
            state.pause(key, Ended::Paused, now)
        })?;
        Ok(until.since(now()))
    }
}
